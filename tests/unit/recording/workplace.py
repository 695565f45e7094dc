"""A folder with a suite, and pytest run there in processes of its own: all is real but Docker, agents and probes.

What the stand-ins do is written down, so that a test can tell what was done twice.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from junitparser.junitparser import Result
from junitparser.xunit2 import JUnitXml, TestCase


__all__ = ["REPOSITORIES", "ROOT", "TESTS", "Workplace"]

ROOT = Path(__file__).parents[3]
DEADLINE_S = 120

#: Names of the repositories; those called so fail, break, and are not applicable in C1.
REPOSITORIES = ("fine", "failing", "broken", "absent", "other", "another")

CONFTEST = '''
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


def engine(run, *, image, accelerator, say, sharing, context=""):
    sandbox = KeptSandbox()
    base = sandbox.add_image("base", {"/researchenv/.keep": b"", "/workspace/.keep": b""})
    sandbox.program(["report"], report)
    return Engine(sandbox, base, "base", (), {}, Mount("tools", "/researchenv/tools"), version="Fake 1")


def audit(task, changes, *, checks):
    note("audited", task.environment.key.agent, task.repository.slug)
    return Audit(TierResult(Examination.INTEGRITY, Verdict.PASSED))


pytest_researchenv.sandbox.ready.docker_engine = engine
pytest_researchenv.options.find_agent = lambda name, profiles: FakeAgent(name)
pytest_researchenv.harness.audit = audit
pytest_researchenv.probes.table.PROBES = {tier: FakeProbe(tier) for tier in Tier}
'''

MODULE = """
from pytest_researchenv import check

def test_c0_static_imports(c0):
    print("said by the test")
    check(c0)

def test_c1_cpu_execution(c1):
    check(c1)

def test_integrity(integrity):
    check(integrity)
"""

_RUNS = 'argv = ["{python}", "run.py"]\nevidence = { output = ["done"] }\n'

#: How many tests there are for each agent.
TESTS = 3 * len(REPOSITORIES)


class Workplace:
    """The folder, and what was run there."""

    def __init__(self, folder: Path, *, pause_s: float = 0.0) -> None:
        self.folder = folder
        self.pause_s = pause_s
        suite = folder / "mine"
        for name in REPOSITORIES:
            (suite / name).mkdir(parents=True)
            applies = 'supported = false\nskip_reason = "needs a robot"\n' if name == "absent" else _RUNS
            (suite / name / "repo.toml").write_text(
                f'name = "owner/{name}"\n[source]\npath = "."\n[tiers.C0]\n[tiers.C1]\n{applies}'
            )
            (suite / name / "run.py").write_text("print('done')\n")
        (suite / "suite.toml").write_text('name = "mine"\ndescription = "for a test"\n')
        (suite / "test_pyramid.py").write_text(MODULE)
        (folder / "conftest.py").write_text(CONFTEST)

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
