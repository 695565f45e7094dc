"""Runs, attempts and results on disk.

    <results>/<run>/
        manifest-*.json      what each session was: see `manifest`
        journal-*.jsonl      what happened in it: see `recording.journal`
        activity-*.jsonl     what each of its processes is doing: see `recording.activity`
    <results>/<run>/<agent>/<suite>/<repository>/attempt-001/
        attempt.json         which session began it
        environment.json     written once the environment is frozen
        evicted.json         that its frozen image was removed, where it was
        error.txt            instead: what broke, when the infrastructure did
        report.json          the self-report, byte for byte
        prompt.md            what the agent was told, if it was told in words
        transcript.log       what the agent printed
        trajectory.json      the same, step by step, where it can be told apart
        changes.jsonl.gz     what differs from the base image: kind and path, one a line
        requests.jsonl       what was asked of the model and of the outside, where a gateway stood between
        C0-001.json, .log    one pair per time the tier was probed; the highest number counts
        integrity-001.json   what the audit found, likewise
        research-NAME-001.json   what a sub-task of a research task came to, likewise
        inspection-NAME-001.json   what a model said of that, where one was asked

Logs that are complete, and requests, may be packed (`packedlogs`): `transcript.log.gz`.

Every file is written whole or not at all, the moment its content is known. Nothing is overwritten. This is the one
place where bytes enter a results folder, and so the one where secrets are taken out of them.
"""

from __future__ import annotations

import errno
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import final

from pytest_researchenv._attempt import Attempt, load_environment, nothing_secret, record_start, research_stem
from pytest_researchenv._wholefiles import lock_file, locked, write_whole
from pytest_researchenv.errors import StoreError
from pytest_researchenv.model import AttemptStart, EnvironmentKey
from pytest_researchenv.redaction import Redactor
from pytest_researchenv.runs.folders import ATTEMPT


__all__ = ["Attempt", "Store", "load_environment", "locked", "research_stem", "write_whole"]


@final
class Store:
    """The attempts and results of one run.

    Args:
        root: the results folder.
        run: name of the run.
        redactor: see `Attempt.redactor`.
    """

    __slots__ = ("_redactor", "root", "run")

    def __init__(self, root: Path, run: str, *, redactor: Callable[[], Redactor] = nothing_secret) -> None:
        self.root = root
        self.run = run
        self._redactor = redactor

    @property
    def folder(self) -> Path:
        """The run's folder."""
        return self.root / self.run

    def attempts(self, agent: str, repository: str) -> list[Attempt]:
        """All attempts of an agent at a repository (`Repository.key`), oldest first."""
        folder = self._folder(agent, repository)
        numbers = [int(found[1]) for path in folder.glob("attempt-*") if (found := ATTEMPT.fullmatch(path.name))]
        return [self._attempt(agent, repository, number) for number in sorted(numbers)]

    def attempt(self, agent: str, repository: str, number: int) -> Attempt:
        """The attempt of a number, whether there is one or not."""
        return self._attempt(agent, repository, number)

    def latest(self, agent: str, repository: str) -> Attempt | None:
        """The newest attempt."""
        attempts = self.attempts(agent, repository)
        return attempts[-1] if attempts else None

    def begin(self, agent: str, repository: str, session: str, *, trial: int = 1, goes_on: int = 0) -> Attempt:
        """Make the folder of the next attempt. Call it under the trial's `lock`.

        Args:
            agent: name of the agent.
            repository: key of the repository.
            session: id of the pytest session.
            trial: which of the attempts that were asked for.
            goes_on: number of the attempt whose work it continues; 0 where it begins.
        """
        folder = self._folder(agent, repository)
        start = AttemptStart(session, datetime.now(UTC).isoformat(timespec="seconds"), trial, goes_on)
        # Named once it says what it is: another trial's may be made at the same time, and is none of this one's.
        made = folder / f".{uuid.uuid4().hex}"
        try:
            made.mkdir(parents=True)
            record_start(made, start)
            return self._named(made, agent, repository)
        except OSError as error:
            raise StoreError(
                f"the results folder cannot be written: {error}; choose another with --researchenv-results"
            ) from error

    def _named(self, made: Path, agent: str, repository: str) -> Attempt:
        while True:
            latest = self.latest(agent, repository)
            attempt = self._attempt(agent, repository, latest.key.attempt + 1 if latest else 1)
            try:
                made.rename(attempt.folder)
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
            else:
                return attempt

    @contextmanager
    def lock(self, agent: str, repository: str, *, trial: int = 1) -> Iterator[None]:
        """Keep others from beginning an attempt of this agent at this repository, as the same trial."""
        with lock_file(self._folder(agent, repository) / (".lock" if trial == 1 else f".lock-{trial}")):
            yield

    def _folder(self, agent: str, repository: str) -> Path:
        return self.folder / agent / repository

    def _attempt(self, agent: str, repository: str, number: int) -> Attempt:
        key = EnvironmentKey(self.run, agent, repository, number)
        return Attempt(key, self._folder(agent, repository) / f"attempt-{number:03d}", self._redactor)
