"""A folder with a small suite, and pytest run there on real containers: all is real but the probes and the audit.

Each probe runs one short command in a container of the frozen image. What agents and probes do is written down, so
that a test can tell when to strike, and what was done twice.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from junitparser.xunit2 import JUnitXml


__all__ = ["DEADLINE_S", "FaultPlace"]

ROOT = Path(__file__).parents[3]

#: Nothing that a test waits for takes longer, in seconds, on a busy machine either.
DEADLINE_S = 300

CONFTEST = """
import os
import time

import pytest_researchenv.harness
import pytest_researchenv.options
import pytest_researchenv.probes.table
import pytest_researchenv.sandbox.daemon
from pytest_researchenv.agents.protocol import Needs
from pytest_researchenv.agents.script import ScriptAgent
from pytest_researchenv.gateway.protocol import Reach
from pytest_researchenv.model import Audit, Examination, Cause, Tier, TierResult, Verdict
from pytest_researchenv.sandbox.protocol import ContainerSpec

AGENT = os.environ.get("AGENT", "sleep 1")
PROBE = os.environ.get("PROBE", "sleep 1")
if "ANSWER_S" in os.environ:
    pytest_researchenv.sandbox.daemon._ANSWER_S = int(os.environ["ANSWER_S"])
if "JUMP_S" in os.environ:
    # The clock of the wall jumps in this process, again and again; the monotonic one cannot.
    real, jump = time.time, float(os.environ["JUMP_S"])
    time.time = lambda: real() + (jump if int(real()) % 2 else 0.0)


def note(*words):
    with open("done.log", "a") as file:
        file.write(" ".join(map(str, words)) + f" {os.getpid()}\\n")


class NotingAgent:
    def __init__(self, name):
        reach = Reach.ALLOWLIST if os.environ.get("GATEWAY") else Reach.OPEN
        script = AGENT + "\\nreport /usr/bin/python3 system \\"\\"\\n"
        self._agent = ScriptAgent(name, lambda _: script, needs=Needs(prompted=False, reach=reach))

    def __getattr__(self, name):
        return getattr(self._agent, name)

    def inputs(self, repository):
        # However long it works in one session or another.
        return {"agent": "v1"}

    def work(self, task):
        note("building", task.repository.slug)
        return self._agent.work(task)


class QuickProbe:
    def __init__(self, tier):
        self.tier = tier

    def judge(self, task):
        slug = task.repository.slug
        note("probing", slug, self.tier)
        with task.sandbox.opened(ContainerSpec(task.environment.image, argv=("sh", "-c", PROBE))) as container:
            done = container.run(timeout_s=60, on_output=task.log)
        note("probed", slug, self.tier)
        if done.ok:
            return TierResult(self.tier, Verdict.PASSED)
        return TierResult(self.tier, Verdict.FAILED, Cause.EXIT_CODE, done.how)


def audit(task, changes, *, checks, cache):
    return Audit(TierResult(Examination.INTEGRITY, Verdict.PASSED))


pytest_researchenv.options.find_agent = lambda name, profiles: NotingAgent(name)
pytest_researchenv.harness.audit = audit
pytest_researchenv.probes.table.PROBES = {tier: QuickProbe(tier) for tier in Tier}
"""

MODULE = """
from pytest_researchenv import check

def test_c1_cpu_execution(c1):
    check(c1)
"""


def _hear_ctrl_c() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)


class FaultPlace:
    """The folder, and sessions in it."""

    def __init__(self, folder: Path, *, docker_host: str = "", repositories: tuple[str, ...] = ("one", "two")) -> None:
        self.folder = folder
        self.repositories = repositories
        self._host = docker_host
        suite = folder / "mine"
        for name in repositories:
            (suite / name).mkdir(parents=True)
            (suite / name / "repo.toml").write_text(
                f'name = "owner/{name}"\n[source]\npath = "."\n[tiers.C1]\n'
                'argv = ["{python}", "run.py"]\nevidence = { output = ["done"] }\n'
            )
            (suite / name / "run.py").write_text("print('done')\n")
        (suite / "suite.toml").write_text('name = "mine"\ndescription = "for a test"\n')
        (suite / "test_pyramid.py").write_text(MODULE)
        (folder / "conftest.py").write_text(CONFTEST)

    @property
    def results(self) -> Path:
        """The results folder."""
        return self.folder / "researchenv-results"

    @contextmanager
    def session(self, *arguments: str, **variables: str) -> Iterator[subprocess.Popen[str]]:
        """Start a session in a process group of its own; whatever is left of it in the end is killed."""
        command = [sys.executable, "-m", "pytest", "-c", "/dev/null", "--rootdir=.", "-p", "no:cacheprovider"]
        fixed = ["--import-mode=importlib", "mine", "--researchenv-agent=noop", "--researchenv-accelerator=cpu"]
        files = ["--researchenv-junit=out.xml", "--researchenv-disk-floor=0.1", "--researchenv-run=mine"]
        path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH", ""))))
        environment = {**os.environ, "PYTHONPATH": path, "RESEARCHENV_CACHE": str(self.folder / "cache"), **variables}
        if self._host:
            environment["DOCKER_HOST"] = self._host
        with subprocess.Popen(
            [*command, *fixed, *files, *arguments],
            cwd=self.folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            # Where these tests run in the background of a shell, Ctrl-C is ignored, and that is inherited.
            preexec_fn=_hear_ctrl_c,  # noqa: PLW1509 - it only sets how a signal is taken
        ) as process:
            try:
                yield process
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)

    def run(self, *arguments: str, **variables: str) -> tuple[int, str]:
        """Run a session to its end; return its exit code and what it printed."""
        with self.session(*arguments, **variables) as process:
            printed, _ = process.communicate(timeout=DEADLINE_S)
            return process.returncode, printed

    def await_line(self, line: str, process: subprocess.Popen[str]) -> int:
        """Wait until an agent or a probe has written a line; return the id of the process that did."""
        return int(
            self.await_(lambda: next((one for one in self.lines() if one.startswith(line)), ""), process).split()[-1]
        )

    @staticmethod
    def await_(condition: Callable[[], str], process: subprocess.Popen[str]) -> str:
        """Wait until there is something."""
        deadline = time.monotonic() + DEADLINE_S
        while not (found := condition()):
            assert process.poll() is None, process.communicate()[0]
            assert time.monotonic() < deadline
            time.sleep(0.02)
        return found

    def lines(self) -> list[str]:
        """What was written down, with process ids, oldest first."""
        path = self.folder / "done.log"
        return path.read_text().splitlines() if path.exists() else []

    def done(self) -> Counter[str]:
        """How often each thing was done; then forgets it."""
        lines = [line.rpartition(" ")[0] for line in self.lines()]
        (self.folder / "done.log").unlink(missing_ok=True)
        return Counter(lines)

    def outcomes(self) -> dict[str, str]:
        """Repository → outcome of its test, as the JUnit file says."""
        cases = [case for suite in JUnitXml.fromfile(str(self.folder / "out.xml")) for case in suite]
        return {
            case.name.partition("-")[2].rstrip("]"): str(case.result[0]._tag) if case.result else "passed"
            for case in cases
        }

    def records(self) -> dict[str, str]:
        """Every record that is stored → its content."""
        return {
            str(path.relative_to(self.results)): path.read_text() for path in self.results.rglob("attempt-*/*.json")
        }

    def images(self) -> list[str]:
        """Frozen images that the records name, sorted."""
        return sorted(json.loads(path.read_text())["image"] for path in self.results.rglob("environment.json"))
