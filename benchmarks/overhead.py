"""What an environment costs beside the agent's work and the probes': start, copy, freeze, containers, records.

A made-up suite of small repositories is judged with the agent `noop`, by the real harness and the real container
engine. What processes in containers took, from their start to their end, is taken off (the agent, each tier's probe,
pyright); what is left is ours and the engine's. The integrity audit, which runs nothing, is told apart. One tier of one
environment is then judged once more, as `pytest -k C3` does, from the start of pytest to the start of the probe.

    python -m benchmarks.overhead [--repositories N] [--again N]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from benchmarks.sessions import PYTEST
from pytest_researchenv.suite import find_suite


#: Loaded into the measured process: adds up, by repository and by what is said to be done, how long that lasts and how
#: long processes in containers took of it.
_OBSERVER = """
import json, os, time
from collections import defaultdict
from functools import wraps
from pathlib import Path

import pytest

from pytest_researchenv.progress import Teller
from pytest_researchenv.sandbox._container import DockerContainer

NOBODY = "", ""
seen = {"wall": defaultdict(float), "work": defaultdict(float), "now": NOBODY, "since": time.time(), "started": {}}

def turn(now):
    seen["wall"][seen["now"]] += time.time() - seen["since"]
    seen["now"], seen["since"] = now, time.time()

def observed(init):
    @wraps(init)
    def made(self, tell=lambda _: None):
        def told(phase):
            turn((phase.repository, phase.name) if phase else NOBODY)
            tell(phase)
        init(self, told)
    return made

def working(method):
    @wraps(method)
    def measured(self, *args, **options):
        completed = method(self, *args, **options)
        seen["work"][seen["now"]] += completed.duration_s
        return completed
    return measured

def booting(method):
    @wraps(method)
    def measured(self):
        seen["started"].setdefault(seen["now"][1], time.time())
        return method(self)
    return measured

Teller.__init__ = observed(Teller.__init__)
DockerContainer.run = working(DockerContainer.run)
DockerContainer.exec = working(DockerContainer.exec)
DockerContainer._boot = booting(DockerContainer._boot)

@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    # What pytest does around a test is the test's, too: reports, records.
    turn((item.callspec.params["researchenv_case"].repository.slug, "around tests"))
    done = yield
    turn(NOBODY)
    return done

def pytest_sessionfinish():
    turn(NOBODY)
    lines = [[*key, wall, seen["work"][key]] for key, wall in seen["wall"].items()]
    Path(os.environ["BENCHMARK_SAID"]).write_text(json.dumps({"lines": lines, "started": seen["started"]}))
"""

_TIERS = """
frameworks = ["torch"]
[source]
path = "."
[tiers.C0]
[tiers.C2]
"""
_LAUNCHED = """
[tiers.{tier}]
argv = ["{{python}}", "run.py", "{{out}}"]
timeout_s = 60
[tiers.{tier}.evidence]
files = [{{ path = "{{out}}/done" }}]
"""

#: What is done once in a session, whatever it holds.
_READY = "making the container engine ready"
_AUDIT = "auditing"


def made(folder: Path, count: int) -> Path:
    """Make a suite of so many repositories, all alike."""
    suite = folder / "made-up"
    suite.mkdir()
    (suite / "suite.toml").write_text('name = "made-up"\n')
    (suite / "test_pyramid.py").write_text((find_suite("quickstart") / "test_pyramid.py").read_text())
    tiers = _TIERS + "".join(_LAUNCHED.format(tier=tier) for tier in ("C1", "C3", "C4"))
    for number in range(count):
        repository = suite / f"made-{number}"
        repository.mkdir()
        described = f'name = "made/made-{number}"{tiers}parallel = "independent"\n[tiers.C5]\n'
        (repository / "repo.toml").write_text(described)
        (repository / "run.py").write_text("import sys\nopen(sys.argv[1] + '/done', 'w').write('done')\n")
    return suite


def judged(folder: Path, suite: Path, *arguments: str) -> tuple[float, Mapping[str, float], list[list[object]]]:
    """Run pytest on it; returns when it was started, when something began, and what took how long."""
    (folder / "observer.py").write_text(_OBSERVER)
    said = folder / "said.json"
    paths = os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))
    command = [*PYTEST, "-q", "-p", "observer", "-c", os.devnull]
    began = time.time()
    done = subprocess.run(
        [*command, f"--rootdir={folder}", str(suite), "--researchenv-agent=noop", *arguments],
        check=False,
        cwd=folder,
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": paths, "BENCHMARK_SAID": str(said)},
    )
    if done.returncode not in (0, 1) or "error" in done.stdout.splitlines()[-1]:
        raise RuntimeError(f"pytest ended with code {done.returncode}:\n{done.stdout}{done.stderr}")
    told = json.loads(said.read_text())
    return began, told["started"], told["lines"]


def _share_of(phase: str) -> str:
    """Say what a phase is part of."""
    if phase in (_READY, _AUDIT, "around tests"):
        return phase
    tier = next((tier for tier in ("C0", "C1", "C2", "C3", "C4", "C5") if phase.endswith(f" {tier}")), "")
    return f"tier {tier}" if tier else f"build: {phase}"


def table(lines: list[list[object]]) -> None:
    """Print what each part of an environment costs, and all of it."""
    costs: dict[str, dict[str, float]] = {}
    works: dict[str, dict[str, float]] = {}
    for repository, phase, wall, work in lines:
        if repository:
            part = _share_of(str(phase))
            own, others = costs.setdefault(str(repository), {}), works.setdefault(str(repository), {})
            own[part] = own.get(part, 0.0) + float(str(wall)) - float(str(work))
            others[part] = others.get(part, 0.0) + float(str(work))
    parts = sorted({part for own in costs.values() for part in own})
    print(f"{'median of ' + str(len(costs)) + ' environments':48}{'ours':>8}{'theirs':>10}")
    for part in parts:
        ours = statistics.median(own.get(part, 0.0) for own in costs.values())
        theirs = statistics.median(own.get(part, 0.0) for own in works.values())
        print(f"{part:48}{ours:6.2f} s{theirs:8.2f} s")
    fixed = {name: sum(own.values()) - own.get(_READY, 0.0) for name, own in costs.items()}
    audits = [own.get(_AUDIT, 0.0) for own in costs.values()]
    tiers = [own[part] for own in costs.values() for part in own if part.startswith("tier ")]
    print(f"an environment, in all                          {statistics.median(fixed.values()):6.2f} s")
    apart = statistics.median(fixed[name] - own.get(_AUDIT, 0.0) for name, own in costs.items())
    print(f"an environment, its audit apart                 {apart:6.2f} s")
    print(f"its audit                                       {statistics.median(audits):6.2f} s")
    print(f"a tier                                          {statistics.median(tiers):6.2f} s")
    ready = max(own.get(_READY, 0.0) for own in costs.values())
    print(f"once in a session: the engine made ready        {ready:6.2f} s")


def main() -> None:
    """Judge, print, and judge one tier again."""
    parser = argparse.ArgumentParser(description=sys.modules[__name__].__doc__)
    parser.add_argument("--repositories", type=int, default=5)
    parser.add_argument("--again", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        suite = made(folder, arguments.repositories)
        # What the machine lacks is made by a session before the measured one.
        judged(folder, suite, "--researchenv-results=before", "-k", "c0 and made-0")
        _, _, lines = judged(folder, suite, "--researchenv-results=results")
        table(lines)
        waits = []
        for _ in range(arguments.again):
            began, started, _ = judged(folder, suite, "--researchenv-results=results", "-k", "c3 and made-1")
            waits.append(started["probing C3"] - began)
        print(f"-k C3 again, until the probe starts             {statistics.median(waits):6.2f} s")


if __name__ == "__main__":
    main()
