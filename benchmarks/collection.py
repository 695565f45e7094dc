"""How long pytest takes to know which tests there are: of the 44 shipped repositories, and of a thousand.

Each is collected by a pytest of its own, several times. Two figures of each are printed, in wall time and in processor
time: of collection alone (what pytest says: from the start of its session on), and of the whole process. Beside them is
what loading the plugin costs a run that does not use it.

The thousand are the shipped ones over and over, under other names, in a temporary folder: each with its own files.

    python -m benchmarks.collection [--times N] [--repositories N]
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.sessions import PYTEST
from pytest_researchenv.suite import find_suite


#: Loaded into the measured process: says when collection began and ended, and of how much.
_OBSERVER = """
import json, os, time
from pathlib import Path

def clocks():
    return time.perf_counter(), time.process_time()

def pytest_sessionstart(session):
    session.config.began = clocks()

def pytest_collection_finish(session):
    (wall, cpu), (wall_0, cpu_0) = clocks(), session.config.began
    said = {"tests": len(session.items), "wall": wall - wall_0, "cpu": cpu - cpu_0}
    Path(os.environ["BENCHMARK_SAID"]).write_text(json.dumps(said))
"""

_IMPORT = """
import time, pytest
before = time.process_time()
import pytest_researchenv.plugin
print(1000 * (time.process_time() - before))
"""


def made(folder: Path, count: int) -> Path:
    """Make a suite of so many repositories."""
    shipped = find_suite("researchenvbench")
    suite = folder / "made-up"
    suite.mkdir()
    for file in ("suite.toml", "test_pyramid.py"):
        shutil.copy(shipped / file, suite)
    shutil.copytree(shipped / "_shared", suite / "_shared", ignore=shutil.ignore_patterns("__pycache__"))
    originals = itertools.cycle(sorted(file.parent for file in shipped.glob("*/repo.toml")))
    for number, original in zip(range(count), originals, strict=False):
        copy = suite / f"{original.name}-{number}"
        shutil.copytree(original, copy, ignore=shutil.ignore_patterns("__pycache__"))
        described = copy / "repo.toml"
        renamed, found = re.subn(
            r'^name = "(.*)"', rf'name = "\1-{number}"', described.read_text(), count=1, flags=re.MULTILINE
        )
        if not found:
            raise ValueError(f"{original} does not begin with a name")
        described.write_text(renamed)
    return suite


def collected(folder: Path, *arguments: str) -> dict[str, float]:
    """Collect in a process of its own."""
    (folder / "observer.py").write_text(_OBSERVER)
    said = folder / "said.json"
    command = [*PYTEST, "--collect-only", "-qq", "-p", "observer"]
    paths = os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))
    before, began = os.times(), time.perf_counter()
    subprocess.run(
        [*command, f"--rootdir={folder}", "-c", str(folder / "pytest.ini"), *arguments],
        check=True,
        stdout=subprocess.DEVNULL,
        env=os.environ | {"PYTHONPATH": paths, "BENCHMARK_SAID": str(said)},
    )
    took, after = time.perf_counter() - began, os.times()
    busy = after.children_user + after.children_system - before.children_user - before.children_system
    return json.loads(said.read_text()) | {"process wall": took, "process cpu": busy}


def imported() -> float:
    """Return what importing the plugin costs, in milliseconds of processor time."""
    command = (sys.executable, "-c", _IMPORT)
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main() -> None:
    """Collect, and print a table."""
    parser = argparse.ArgumentParser(description=sys.modules[__name__].__doc__)
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--repositories", type=int, default=1000)
    arguments = parser.parse_args()
    rounds = range(arguments.times)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "pytest.ini").write_text("[pytest]\n")
        own = folder / "test_own.py"
        own.write_text("def test_it():\n    pass\n")
        few, many = find_suite("researchenvbench"), made(folder, arguments.repositories)
        print(f"{'':24}{'tests':>8}{'collection':>22}{'whole process':>22}")
        print(f"{'':24}{'':>8}{'wall':>11}{'processor':>11}{'wall':>11}{'processor':>11}")
        for name, given in (
            ("another's, without us", ("-p", "no:researchenv", str(own))),
            ("another's, with us", (str(own),)),
            ("shipped", (f"--researchenv-suite={few}",)),
            ("made up", (f"--researchenv-suite={many}",)),
        ):
            runs = [collected(folder, *given) for _ in rounds]
            median = {key: statistics.median(run[key] for run in runs) for key in runs[0]}
            figures = "".join(f"{median[key]:9.2f} s" for key in ("wall", "cpu", "process wall", "process cpu"))
            print(f"{name:24}{median['tests']:8.0f}{figures}")
        print(f"importing the plugin: {statistics.median(imported() for _ in rounds):.1f} ms of processor time")


if __name__ == "__main__":
    main()
