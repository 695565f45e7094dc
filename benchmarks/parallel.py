"""How much of so many workers is used, and what the controller needs.

**Simulated**: pytest with workers, the real harness, store and scheduling, over a fake engine whose agents wait (as
agents wait for their models) and whose probes take no time. The ideal is that all workers always wait: the speed-up is
the time of all agents together over the wall time, from the first environment begun to the last one judged, and over
that of the whole process, whose start is the interpreter's and pytest's.

**Real**: so many containers at once, each created, started, waited in, stopped, frozen and removed.

**Memory**: the peak of the controller's process after so many results, simulated with agents that do not wait.

    python -m benchmarks.parallel [--workers N]... [--seconds S] [--rounds N] [--containers N]... [--results N]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.sessions import PYTEST
from pytest_researchenv.sandbox.daemon import connect
from pytest_researchenv.sandbox.docker import DockerSandbox
from pytest_researchenv.sandbox.images import ensure_base_image
from pytest_researchenv.sandbox.labels import Owner
from pytest_researchenv.sandbox.protocol import ContainerSpec


_TIERS = ("C0", "C1", "C2", "C3", "C4", "C5")

_CONFTEST = f"""
import json
import os
import resource
import sys
import tempfile
import time
from pathlib import Path

import pytest

sys.path.append({str(Path(__file__).parents[1] / "tests" / "unit")!r})
from lab import FakeAgent, FakeProbe, Lab

from pytest_researchenv.engine import Engine
from pytest_researchenv.fixtures import HARNESS, harness_of
from pytest_researchenv.harness import Harness
from pytest_researchenv.model import Tier
from pytest_researchenv.sandbox.protocol import Mount

class Agent(FakeAgent):
    def work(self, task):
        began = time.time()
        time.sleep(float(os.environ["BENCHMARK_SECONDS"]))
        done = super().work(task)
        with open("worked.jsonl", "a") as file:
            print(json.dumps([began, time.time()]), file=file, flush=True)
        return done

@pytest.hookimpl(trylast=True)
def pytest_configure(config):
    lab = Lab(Path(tempfile.mkdtemp(dir=config.rootpath)))
    # Workers share the store, but not the memory that holds the images.
    lab.sandbox.image_exists = lambda image: True
    engine = Engine(lab.sandbox, lab.base, lab.key, (), {{}}, Mount("tools", "/researchenv/tools"))
    config.stash[HARNESS] = Harness(
        harness_of(config)._settings,
        engine=lambda: engine,
        probes={{tier: FakeProbe(tier) for tier in Tier}},
        agents=lambda name: Agent(name=name),
        checks=(),
    )

@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session):
    if not hasattr(session.config, "workerinput"):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        Path("controller.json").write_text(json.dumps({{"peak_kib": peak, "ended": time.time()}}))
"""
_LAUNCHED = 'argv = ["{python}", "run.py"]\nevidence.output = ["done"]\n'


def _write_suite(folder: Path, count: int) -> None:
    suite = folder / "made-up"
    suite.mkdir()
    (suite / "suite.toml").write_text('name = "made-up"\n')
    tests = (f"def test_{tier.lower()}({tier.lower()}):\n    check({tier.lower()})\n" for tier in _TIERS)
    (suite / "test_pyramid.py").write_text("from pytest_researchenv import check\n" + "".join(tests))
    kinds = {"C1": _LAUNCHED, "C3": _LAUNCHED, "C4": _LAUNCHED + 'evidence.parallel = "independent"\n'}
    tiers = "".join(f"[tiers.{tier}]\n{kinds.get(tier, '')}" for tier in _TIERS)
    for number in range(count):
        repository = suite / f"made-{number}"
        repository.mkdir()
        (repository / "repo.toml").write_text(f'name = "made/made-{number}"\n[source]\npath = "."\n{tiers}')
        (repository / "run.py").write_text("print('done')\n")


def simulated(workers: int, environments: int, seconds: float) -> None:
    """Judge made-up environments with so many workers, and print what came of it."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        _write_suite(folder, environments)
        (folder / "conftest.py").write_text(_CONFTEST)
        command = [*PYTEST, "-q", "-c", os.devnull, "--rootdir=."]
        began = time.time()
        done = subprocess.run(
            [*command, "made-up", "--researchenv-agent=oracle", f"-n{workers}"],
            check=False,
            cwd=folder,
            capture_output=True,
            text=True,
            env=os.environ | {"BENCHMARK_SECONDS": str(seconds)},
        )
        whole = time.time() - began
        if done.returncode:
            raise RuntimeError(f"pytest ended with code {done.returncode}:\n{done.stdout}{done.stderr}")
        worked = [json.loads(line) for line in (folder / "worked.jsonl").read_text().splitlines()]
        controller = json.loads((folder / "controller.json").read_text())
    waited = sum(last - first for first, last in worked)
    steady = controller["ended"] - min(first for first, _ in worked)
    results = environments * len(_TIERS)
    print(
        f"{workers:3} workers, {environments:4} agents of {seconds:.0f} s, {results} results: {whole:.1f} s in all, "
        f"{whole - steady:5.1f} s until the first agent; speed-up {waited / steady:5.1f} "
        f"({waited / steady / workers:.2f} of ideal; with the start {waited / whole / workers:.2f}); "
        f"controller {controller['peak_kib'] / 1024:.0f} MiB",
        flush=True,
    )


def real(containers: int, seconds: float) -> None:
    """Have so many containers wait at once, and print what came of it."""
    owner = Owner.current("benchmark")
    with contextlib.closing(connect()) as client:
        image = ensure_base_image(client, owner=owner, say=print).image

    def live(number: int) -> str:
        with contextlib.closing(connect()) as own:
            sandbox = DockerSandbox(own, owner)
            with sandbox.opened(ContainerSpec(image=image)) as container:
                container.start()
                container.exec(["sleep", str(seconds)], timeout_s=seconds + 600)
                container.stop()
                return container.freeze(f"researchenv-benchmark:{number}", labels={})

    began = time.perf_counter()
    with ThreadPoolExecutor(containers) as pool:
        images = list(pool.map(live, range(containers)))
    took = time.perf_counter() - began
    with contextlib.closing(connect()) as client:
        for frozen in images:
            DockerSandbox(client, owner).remove_image(frozen)
    print(
        f"{containers:3} containers that wait {seconds:.0f} s: {took:6.1f} s; "
        f"speed-up {containers * seconds / took:4.1f} ({seconds / took:.2f} of ideal)",
        flush=True,
    )


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=sys.modules[__name__].__doc__)
    parser.add_argument("--workers", type=int, nargs="*", default=[2, 8, 32])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--rounds", type=int, default=2, help="agents of each worker")
    parser.add_argument("--containers", type=int, nargs="*", default=[2, 4, 8])
    parser.add_argument("--results", type=int, default=6000)
    arguments = parser.parse_args()
    for workers in arguments.workers:
        simulated(workers, workers * arguments.rounds, arguments.seconds)
    for containers in arguments.containers:
        real(containers, arguments.seconds)
    if arguments.results:
        simulated(4, arguments.results // len(_TIERS), 0.0)


if __name__ == "__main__":
    main()
