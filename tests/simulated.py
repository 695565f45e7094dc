"""Suites whose environments are built and judged in no time; pytest runs there in processes of its own.

All is real but Docker, agents and probes. What the stand-ins do is written down, so that a test can tell what was done
twice.
"""

from __future__ import annotations

import copy
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from junitparser.junitparser import Result
from junitparser.xunit2 import JUnitXml, TestCase


__all__ = ["NAMES", "REPOSITORIES", "ROOT", "TESTS", "TIERS", "Workplace", "stored", "write_suite"]

ROOT = Path(__file__).parents[1]
DEADLINE_S = 120

#: Repositories and tiers of the suite that `write_suite` writes.
NAMES = ("first", "long", "third")
TIERS = ("C0", "C1", "C3")

#: Those of a workplace; those called so fail, break, and are not applicable in C1.
REPOSITORIES = ("fine", "failing", "broken", "absent", "other", "another")

_CONFTEST = '''
import dataclasses
import os
import time
from pathlib import Path

import pytest_researchenv.harness
import pytest_researchenv.options
import pytest_researchenv.probes.table
import pytest_researchenv.sandbox.ready
from pytest_researchenv.agents.protocol import REPORT_PATH, Needs, Telemetry
from pytest_researchenv.engine import Engine
from pytest_researchenv.errors import SandboxError
from pytest_researchenv.model import Audit, Cause, Examination, Tier, TierResult, Verdict
from pytest_researchenv.sandbox.fake import FakeSandbox
from pytest_researchenv.sandbox.protocol import Mount

PAUSE_S = float(os.environ.get("PAUSE_S", "0"))
BROKEN = not os.environ.get("MENDED")


def note(*words):
    with open("done.log", "a") as file:
        file.write(" ".join(map(str, words)) + f" {os.getpid()}\\n")


class FakeAgent:
    """Reports at once."""

    free = True
    needs = Needs(prompted=False)

    def __init__(self, name):
        self.name = name

    def inputs(self, repository):
        return {"agent": "v1"}

    def work(self, task):
        note("built", self.name)
        time.sleep(WORK_S)
        task.container.exec(["report"], timeout_s=task.timeout_s)
        return Telemetry(ended="exited with code 0", numbers={"wall_s": 1.0})

    def trajectory(self, transcript):
        return None


class FakeProbe:
    """Gives the verdict that the repository's name says."""

    def __init__(self, tier):
        self.tier = tier

    def judge(self, task):
        slug = task.repository.slug
        note("probed", task.environment.key.agent, slug, self.tier)
        time.sleep(PAUSE_S)
        once = Path(os.environ.get("DIES_ONCE", os.devnull))
        if os.environ.get("DIES") == f"{task.environment.key.repository} {self.tier}" and not once.is_file():
            if "DIES_ONCE" in os.environ:
                once.touch()
            os._exit(3)
        task.log(f"CUDA_VISIBLE_DEVICES={os.environ.get('CUDA_VISIBLE_DEVICES')}\\n".encode())
        task.log(b"probing\\x00\\xff " + slug.encode() + b"\\n")
        if slug == "broken" and BROKEN:
            raise SandboxError("the engine went away")
        if slug == "failing" and self.tier is Tier.C1 and BROKEN:
            return TierResult(self.tier, Verdict.FAILED, Cause.EXIT_CODE, "exited with code 1", "boom \\x1b[2J")
        return TierResult(self.tier, Verdict.PASSED, evidence={"odd": "a]]b\\nc"})


class KeptSandbox(FakeSandbox):
    """Images outlive the process, as Docker's do."""

    def image_exists(self, image):
        return True


def report(files, argv, environment):
    files.write(REPORT_PATH, b'{"python_path": "/usr/bin/python3"}')
    return 0, b"reported\\n"


def engine(run, *, image, accelerator, say, sharing, context="", package_cache_bytes=0):
    sandbox = KeptSandbox()
    base = sandbox.add_image("base", {"/researchenv/.keep": b"", "/workspace/.keep": b""})
    sandbox.program(["report"], report)
    return Engine(sandbox, base, "base", (), {}, Mount("tools", "/researchenv/tools"), version="Fake 1")


def audit(task, changes, *, checks, cache):
    note("audited", task.environment.key.agent, task.repository.slug)
    return Audit(TierResult(Examination.INTEGRITY, Verdict.PASSED))


pytest_researchenv.sandbox.ready.docker_engine = engine
pytest_researchenv.options.find_agent = lambda name, profiles: FakeAgent(name)
pytest_researchenv.harness.audit = audit
pytest_researchenv.probes.table.PROBES = {tier: FakeProbe(tier) for tier in Tier}
'''

_MODULE = """
from pytest_researchenv import check

def test_c0_static_imports(c0):
    print("said by the test")
    check(c0)

def test_c1_cpu_execution(c1):
    check(c1)

def test_integrity(integrity):
    check(integrity)
"""

_PYRAMID = "from pytest_researchenv import check\n" + "".join(
    f"def test_{tier.lower()}_x({tier.lower()}):\n    check({tier.lower()})\n" for tier in TIERS
)

_RUN = 'argv = ["{python}", "run.py"]\nevidence = { output = ["done"] }\n'

#: How many tests of a workplace there are for each agent.
TESTS = 3 * len(REPOSITORIES)


def write_suite(folder: Path) -> None:
    """Write a suite of three repositories with three tiers each, `mine`, and what fakes all else."""
    tiers = "".join(f"[tiers.{tier}]\n{_RUN if tier != 'C0' else ''}" for tier in TIERS)
    # Each environment takes long enough for another worker to come.
    _write(folder, dict.fromkeys(NAMES, tiers), _PYRAMID, work_s=0.3)


def stored(folder: Path) -> dict[str, list[str]]:
    """What is stored of each attempt of the agent `oracle`: `long/attempt-001` → the names of its results."""
    attempts = (folder / "researchenv-results/default/oracle/mine").glob("*/attempt-*")
    return {f"{path.parent.name}/{path.name}": sorted(one.stem for one in path.glob("C*.json")) for path in attempts}


def _write(folder: Path, repositories: Mapping[str, str], module: str, *, work_s: float = 0.0) -> None:
    """Write the suite `mine`: name of each repository → its tables of tiers, and the test module."""
    suite = folder / "mine"
    for name, tiers in repositories.items():
        (suite / name).mkdir(parents=True)
        (suite / name / "repo.toml").write_text(f'name = "owner/{name}"\n[source]\npath = "."\n{tiers}')
        (suite / name / "run.py").write_text("print('done')\n")
    (suite / "suite.toml").write_text('name = "mine"\ndescription = "for a test"\n')
    (suite / "test_pyramid.py").write_text(module)
    (folder / "conftest.py").write_text(f"{_CONFTEST}\nWORK_S = {work_s}\n")


class Workplace:
    """The folder, and what was run there."""

    def __init__(self, folder: Path, *, pause_s: float = 0.0) -> None:
        self.folder = folder
        self.pause_s = pause_s
        absent = 'supported = false\nskip_reason = "needs a robot"\n'
        tiers = {name: f"[tiers.C0]\n[tiers.C1]\n{absent if name == 'absent' else _RUN}" for name in REPOSITORIES}
        _write(folder, tiers, _MODULE)

    def copied(self, folder: Path) -> Workplace:
        """The same in another folder, with all that was run here."""
        shutil.copytree(self.folder, folder, symlinks=True, dirs_exist_ok=True)
        there = copy.copy(self)
        there.folder = folder
        return there

    def command(self, *arguments: str, agents: tuple[str, ...] = ("fake",)) -> list[str]:
        """The command line of a session that keeps both reports."""
        chosen = [f"--researchenv-agent={agent}" for agent in agents]
        fixed = ["-c", "/dev/null", "--rootdir=.", "-p", "no:cacheprovider", "--import-mode=importlib"]
        files = ["--researchenv-junit=out/junit.xml", "--researchenv-ctrf=out/ctrf.json"]
        return [sys.executable, "-m", "pytest", *fixed, "mine", *chosen, *files, *arguments]

    def environment(self, **extra: str) -> dict[str, str]:
        """The environment of a session."""
        path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH", ""))))
        cache = str(self.folder / "cache")
        return {**os.environ, "PYTHONPATH": path, "PAUSE_S": str(self.pause_s), "RESEARCHENV_CACHE": cache, **extra}

    def run(self, *arguments: str, agents: tuple[str, ...] = ("fake",), **extra: str) -> tuple[int, str]:
        """Run a session to its end; return its exit code and what it printed."""
        done = subprocess.run(
            self.command(*arguments, agents=agents),
            cwd=self.folder,
            check=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=DEADLINE_S,
            env=self.environment(**extra),
        )
        return done.returncode, done.stdout

    @property
    def junit(self) -> Path:
        """Where the JUnit XML is."""
        return self.folder / "out/junit.xml"

    @property
    def ctrf(self) -> Path:
        """Where the CTRF JSON is."""
        return self.folder / "out/ctrf.json"

    def cases(self) -> dict[str, TestCase]:
        """Name of each test in the XML → what it says; every name stands there once."""
        found = [case for suite in JUnitXml.fromfile(str(self.junit)) for case in suite]
        names = [case.name for case in found]
        assert len(names) == len(set(names))
        return dict(zip(names, found, strict=True))

    def outcomes(self) -> dict[str, str]:
        """Name of each test in the XML → its outcome."""
        return {name: _tag(case.result[0]) if case.result else "passed" for name, case in self.cases().items()}

    def manifests(self, run: str = "default") -> list[dict[str, object]]:
        """The records of a run's sessions, oldest first."""
        paths = sorted((self.folder / "researchenv-results" / run).glob("manifest-*.json"))
        return [json.loads(path.read_text()) for path in paths]

    def done(self) -> list[str]:
        """What agents and probes did, without process ids, oldest first; then forgets it."""
        path = self.folder / "done.log"
        lines = path.read_text().splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return [line.rpartition(" ")[0] for line in lines]


def _tag(element: Result) -> str:
    return str(element._tag)
