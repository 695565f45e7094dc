"""A suite whose environments are built and judged in no time: the real harness and store, over a fake engine."""

from __future__ import annotations

from pathlib import Path


__all__ = ["NAMES", "TIERS", "stored", "write_suite"]

NAMES = ("first", "long", "third")
TIERS = ("C0", "C1", "C3")

_CONFTEST = f"""
import os
import sys
import tempfile
import time
from pathlib import Path

import pytest

sys.path.append({str(Path(__file__).parent / "unit")!r})
from lab import FakeAgent, FakeProbe, Lab

from pytest_researchenv.engine import Engine
from pytest_researchenv.fixtures import HARNESS, harness_of
from pytest_researchenv.harness import Harness
from pytest_researchenv.model import Tier
from pytest_researchenv.sandbox.protocol import Mount

class Agent(FakeAgent):
    # Long enough for another worker to come.
    def work(self, task):
        time.sleep(0.3)
        return super().work(task)

class Probe(FakeProbe):
    def judge(self, task):
        once = Path(os.environ.get("DIES_ONCE", os.devnull))
        if os.environ.get("DIES") == f"{{task.environment.key.repository}} {{self.tier}}" and not once.is_file():
            if "DIES_ONCE" in os.environ:
                once.touch()
            os._exit(3)
        task.log(f"CUDA_VISIBLE_DEVICES={{os.environ.get('CUDA_VISIBLE_DEVICES')}}\\n".encode())
        return super().judge(task)

@pytest.hookimpl(trylast=True)
def pytest_configure(config):
    lab = Lab(Path(tempfile.mkdtemp(dir=config.rootpath)))
    # Workers share the store, but not the memory that holds the images.
    lab.sandbox.image_exists = lambda image: True
    engine = Engine(lab.sandbox, lab.base, lab.key, (), {{}}, Mount("tools", "/researchenv/tools"))
    config.stash[HARNESS] = Harness(
        harness_of(config)._settings,
        engine=lambda: engine,
        probes={{tier: Probe(tier) for tier in Tier}},
        agents=lambda name: Agent(name=name),
        checks=(),
    )
"""
_PYRAMID = "from pytest_researchenv import check\n" + "".join(
    f"def test_{tier.lower()}_x({tier.lower()}):\n    check({tier.lower()})\n" for tier in TIERS
)
_RUN = 'argv = ["{python}", "run.py"]\nevidence = { output = ["done"] }\n'


def write_suite(folder: Path) -> None:
    """Write a suite of three repositories with three tiers each, `mine`, and what fakes all else."""
    suite = folder / "mine"
    suite.mkdir()
    (suite / "suite.toml").write_text('name = "mine"\n')
    (suite / "test_pyramid.py").write_text(_PYRAMID)
    tiers = "".join(f"[tiers.{tier}]\n{_RUN if tier != 'C0' else ''}" for tier in TIERS)
    for name in NAMES:
        (suite / name).mkdir()
        (suite / name / "repo.toml").write_text(f'name = "owner/{name}"\n[source]\npath = "."\n{tiers}')
        (suite / name / "run.py").write_text("print('done')\n")
    (folder / "conftest.py").write_text(_CONFTEST)


def stored(folder: Path) -> dict[str, list[str]]:
    """What is stored of each attempt of the agent `oracle`: `long/attempt-001` → the names of its results."""
    attempts = (folder / "researchenv-results/default/oracle/mine").glob("*/attempt-*")
    return {f"{path.parent.name}/{path.name}": sorted(one.stem for one in path.glob("C*.json")) for path in attempts}
