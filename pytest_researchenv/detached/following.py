"""Waits for a run that goes on by itself, and tells what it is doing."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Callable
from typing import final

from pytest_researchenv.detached.job import PROVIDER
from pytest_researchenv.detached.record import ACTIVITY, LOG, going_on, keeper_of, request_stop
from pytest_researchenv.errors import InfrastructureError, ProviderError, StoreError
from pytest_researchenv.model import Environment
from pytest_researchenv.progress import Say
from pytest_researchenv.recording.activity import Working, read_activity
from pytest_researchenv.store import Attempt
from pytest_researchenv.watching.tailing import NewLines


__all__ = ["follow"]

#: How often it is looked at, in seconds.
_POLL_S = 0.5


def follow(
    attempt: Attempt,
    *,
    say: Say,
    process: subprocess.Popen[bytes] | None = None,
    stop_with: bool = False,
    gone: Callable[[str], str] = lambda message: message,
) -> Environment:
    """Wait for the end of an attempt that another process looks after; return what it left behind.

    Args:
        attempt: the attempt.
        say: told what that process is doing, and that it is another's.
        process: the process, where it is a child of this one.
        stop_with: whether an interrupt ends the attempt's work, too; else it goes on.
        gone: given why the process is gone without a result, returns that with what can be done.

    Raises:
        ProviderError: the provider of the agent's model failed.
        InfrastructureError: something else broke, or the process died.
    """
    relay = _Relay(attempt, say)
    while going_on(attempt) if process is None else process.poll() is None:
        relay.look()
        try:
            time.sleep(_POLL_S)
        except KeyboardInterrupt:
            if not stop_with:
                raise
            # Once more, and this process ends without it.
            request_stop(attempt)
            stop_with = False
    if environment := attempt.environment():
        return environment
    if message := attempt.error():
        if process is not None and process.returncode == PROVIDER:
            raise ProviderError(message)
        raise InfrastructureError(f"{attempt.key} could not be built: {message}")
    message = gone(_died(attempt))
    with contextlib.suppress(StoreError):
        attempt.save_error(message)
    raise InfrastructureError(f"{attempt.key} could not be built: {message}")


def _died(attempt: Attempt) -> str:
    keeper = keeper_of(attempt.folder)
    pid = f" {keeper.pid}" if keeper else ""
    return f"the process{pid} that looked after it died; its last words, if any, are in {attempt.folder / LOG}"


@final
class _Relay:
    """Tells the phases of another process as this one's."""

    def __init__(self, attempt: Attempt, say: Say) -> None:
        self._lines = NewLines(attempt.folder / ACTIVITY)
        self._say = say
        keeper = keeper_of(attempt.folder)
        self._who = f"process {keeper.pid}" if keeper else "another process"

    def look(self) -> None:
        """Tell the newest phase, where there is a new one."""
        said = [line for line in map(read_activity, self._lines.read()) if isinstance(line, Working) and line.name]
        if said:
            newest = said[-1]
            left = None if newest.limit_s is None else max(0.0, newest.limit_s - (time.time() - newest.at))
            self._say(f"{newest.name} ({self._who})", limit_s=left)
