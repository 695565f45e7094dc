"""What becomes of an attempt that a session has begun: it is waited for, goes on, or is for the user to decide."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol, final

from pytest_researchenv.archiving.index import newest_index
from pytest_researchenv.detached.following import follow
from pytest_researchenv.detached.record import going_on, keeper_of, work_of
from pytest_researchenv.detached.stages import Continuation, continuation_of
from pytest_researchenv.model import Environment, Repository
from pytest_researchenv.progress import Say
from pytest_researchenv.settings import Extension, Settings
from pytest_researchenv.store import Attempt, Store


__all__ = ["Going", "Starting"]


class Starting(Protocol):
    """Starts a process that looks after an attempt."""

    def __call__(self, agent: str, repository: Repository, attempt: Attempt) -> subprocess.Popen[bytes]:
        """Start it."""


@final
@dataclass(frozen=True, slots=True)
class Going:
    """Runs of a session that go on by themselves.

    Attributes:
        settings: what the user chose.
        store: where attempts are.
        say: told what is being done.
    """

    settings: Settings
    store: Store
    say: Say

    def wait(self, attempt: Attempt) -> None:
        """Wait for an attempt that a process of its own looks after, from whatever session; one that died is recorded.

        Raises:
            InfrastructureError: it came to nothing.
        """
        if not (attempt.finished or attempt.error() or keeper_of(attempt.folder) is None):
            self.follow(attempt)

    def follow(self, attempt: Attempt, process: subprocess.Popen[bytes] | None = None) -> Environment:
        """Wait for the end of an attempt; see `following.follow`."""
        return follow(
            attempt,
            say=self.say,
            process=process,
            stop_with=self.settings.stop_detached,
            gone=lambda message: f"{message}. {_what_now(attempt)}",
        )

    def standing(self, attempt: Attempt) -> Attempt:
        """Return the attempt that stands for a run: the last of its stages, but for those that came to nothing."""
        while attempt.session != self.settings.session and attempt.error() and (number := attempt.start.goes_on):
            if newest_index(attempt.folder) is not None:
                break
            attempt = self.store.attempt(attempt.key.agent, attempt.key.repository, number)
        return attempt

    def wanted(self, attempt: Attempt) -> bool:
        """Whether the user wants an attempt of an earlier session to go on, as its next stage.

        Raises:
            ConfigurationError: there is nothing to go on from, or with.
        """
        extension = self.settings.extension
        if extension is None or attempt.session == self.settings.session or work_of(attempt.folder) is None:
            return False
        # Found out before the next stage is begun.
        continuation_of(self.store, attempt, extension)
        return True

    def undecided(self, attempt: Attempt) -> str:
        """Say what the user has to decide; empty where nothing is to be."""
        if self.settings.rebuild and going_on(attempt):
            return f"{attempt.key} is still at work: end it with `researchenv stop {attempt.folder}`, or wait for it"
        if attempt.finished or self.settings.rebuild or self.settings.extension is not None:
            return ""
        if not (message := attempt.error()) or newest_index(attempt.folder) is None:
            return ""
        return f"{attempt.key} ended in an error: {message}\n{_what_now(attempt)}"

    def continuation(self, attempt: Attempt) -> Continuation | None:
        """Return from where an attempt goes on; None where it begins.

        Raises:
            ConfigurationError: there is nothing to go on from, or with.
        """
        start = attempt.start
        if not start.goes_on:
            return None
        before = self.store.attempt(attempt.key.agent, attempt.key.repository, start.goes_on)
        # What the user adds is added once: where a stage of this session is tried again, it has it already.
        extension = self.settings.extension if before.session != self.settings.session else None
        return continuation_of(self.store, before, extension or Extension(0.0))


def _what_now(attempt: Attempt) -> str:
    """What can be done about an attempt whose work was not frozen."""
    index = newest_index(attempt.folder)
    if index is None:
        return "Nothing of its work was archived: begin anew"
    at = datetime.fromtimestamp(index.began, UTC).isoformat(timespec="seconds")
    return (
        f"Its folder was archived last at {at}: go on from there with --researchenv-run={attempt.key.run} "
        "--researchenv-extend=0, which gives what is left of its budget and nothing more, or begin anew with "
        "--researchenv-rebuild"
    )
