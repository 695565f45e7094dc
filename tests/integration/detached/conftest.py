"""A suite with one small research task, whose oracle is the agent of these tests, run by a pytest of their own."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_researchenv.detached.record import going_on, keeper_of, work_of
from pytest_researchenv.errors import StoreError
from pytest_researchenv.model import Environment
from pytest_researchenv.store import Attempt, Store


if TYPE_CHECKING:
    from docker import DockerClient


_TASK = """
name = "waiting"
area = "patience"
goal = "Wait."

[source]
path = "code"

[withheld]
method = "Endurance"
paper = "On Endurance"
address = "https://papers.test/endurance"
public_since = "2020-01-01"

[budget]
hours = 0.05
dollars = 1.0

[hardware]
gpus = 0

[evaluation]
reads = "result.txt"
writes = "nothing"
command = ["true"]

[blocked]
search_until = "2019-12-31"
urls = ["papers.test/endurance"]
patterns = []

[data.long-times]
source = "https://data.test/times"
fetch = "download"

[measures.seconds]
meaning = "How long."
better = "higher"
range = [0.0, inf]

[origins.here]
source = "a guess"
confidence = "measured"

[subtasks.wait]
setting = "once"
data = []
score = "time"

[subtasks.wait.scores.time]
measure = "seconds"
best = ["nap"]
baselines = { nap = 1.0 }
baselines_from = "here"
withheld = 2.0
withheld_from = "here"
"""

_TEST = '''
"""What comes of the work."""

from pytest_researchenv.research.workplace import workplace_of


def test_work(researchenv_harness, researchenv_research_case):
    case = researchenv_research_case
    attempt, environment = researchenv_harness.environments.get(case.agent, workplace_of(case.task), trial=case.trial)
    print("attempt", attempt.key.attempt, environment.ended)
'''


@dataclass
class Bench:
    """Runs pytest on the suite, and looks at what comes of it."""

    folder: Path
    client: DockerClient
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def script(self, text: str) -> None:
        """Say what the agent does."""
        (self.folder / "lab/waiting/oracle.sh").write_text(text)

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start pytest, in a session of its own."""
        argv = [
            sys.executable,
            "-m",
            "pytest",
            "-c",
            "/dev/null",
            "--rootdir",
            str(self.folder),
            "-p",
            "no:cacheprovider",
        ]
        argv += ["--researchenv-suite", str(self.folder / "lab"), "--researchenv-agent=oracle", "-s", *arguments]
        log = (self.folder / "out.txt").open("ab")
        with log:
            process = subprocess.Popen(
                argv, cwd=self.folder, env=dict(os.environ), stdout=log, stderr=log, start_new_session=True
            )
        self.started.append(process)
        return process

    def run(self, *arguments: str) -> str:
        """Run pytest to its end; what it printed."""
        before = len(self.text)
        self.start(*arguments).wait(300)
        return self.text[before:]

    @property
    def text(self) -> str:
        """All that was printed so far."""
        path = self.folder / "out.txt"
        return path.read_text(errors="replace") if path.exists() else ""

    def attempts(self) -> list[Attempt]:
        """Every attempt, oldest first."""
        return Store(self.folder / "researchenv-results", "default").attempts("oracle", "lab/waiting")

    def await_work(self, number: int = 1, *, seconds: float = 240) -> Attempt:
        """Wait until the agent of an attempt has begun to work."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            found = self.attempts()
            if len(found) >= number and work_of(found[number - 1].folder):
                return found[number - 1]
            time.sleep(0.2)
        raise AssertionError(f"nothing has begun: {self.text}")

    def await_end(self, attempt: Attempt, *, seconds: float = 240) -> Environment:
        """Wait until an attempt has left an environment."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if environment := attempt.environment():
                return environment
            assert not attempt.error(), attempt.error()
            time.sleep(0.2)
        raise AssertionError(f"no end: {self.text}")

    def labelled(self, attempt: Attempt) -> Sequence[str]:
        """Names of an attempt's containers."""
        found = self.client.containers.list(all=True, filters={"label": f"researchenv.attempt={attempt.key}"})
        return [str(container.name) for container in found]

    def clean(self) -> None:
        """End what was started, by its id, and remove what was frozen."""
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.wait()
        for attempt in self.attempts():
            with contextlib.suppress(StoreError):
                keeper = keeper_of(attempt.folder)
                if keeper and going_on(attempt):
                    os.kill(keeper.pid, signal.SIGKILL)
            for name in self.labelled(attempt):
                self.client.containers.get(name).remove(force=True)
        for record in self.folder.rglob("environment.json"):
            with contextlib.suppress(Exception):
                self.client.images.remove(json.loads(record.read_text())["image"], force=True)


@pytest.fixture
def bench(tmp_path: Path, docker_client: DockerClient) -> Iterator[Bench]:
    """A bench, cleared at the end."""
    place = tmp_path / "lab/waiting"
    (place / "code").mkdir(parents=True)
    (place / "code/README.md").write_text("Wait.\n")
    (place / "task.toml").write_text(_TASK)
    (tmp_path / "lab/suite.toml").write_text('name = "lab"\n')
    (tmp_path / "lab/test_work.py").write_text(_TEST)
    bench = Bench(tmp_path, docker_client)
    try:
        yield bench
    finally:
        bench.clean()
