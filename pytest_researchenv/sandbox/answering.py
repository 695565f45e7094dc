"""Waits for an engine that does not answer: one that is being restarted comes back, and nothing was lost by waiting."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, final

from docker.errors import DockerException
from requests.exceptions import RequestException

from pytest_researchenv.errors import DaemonUnavailableError
from pytest_researchenv.sandbox._engine import patience


if TYPE_CHECKING:
    from docker import DockerClient

__all__ = ["Answering"]

#: How long an engine may be away, in seconds: a restart with thousands of containers takes less.
_PATIENCE_S = 60.0
_POLL_S = 0.5

#: How long it may take to say that it is there, in seconds; one that is busy takes longer than one that is not.
_PING_S = 30

#: The same for one that has been waited for in vain, in seconds: every test that is left asks it once.
_AGAIN_S = 5


@final
class Answering:
    """Makes sure that an engine answers before something is begun.

    Args:
        client: the engine.
        patience_s: how long it is waited for, in seconds. Once that was in vain, it is asked and no longer waited for.
        poll_s: between two looks, in seconds.
    """

    def __init__(self, client: DockerClient, *, patience_s: float = _PATIENCE_S, poll_s: float = _POLL_S) -> None:
        self._client = client
        self._patience_s = patience_s
        self._poll_s = poll_s
        self._gone = False

    def __call__(self, say: Callable[[str], object]) -> None:
        """Return once it answers.

        Args:
            say: told when it is waited for.

        Raises:
            DaemonUnavailableError: it does not.
        """
        deadline = time.monotonic() + (0.0 if self._gone else self._patience_s)
        told = False
        while problem := self._problem():
            if time.monotonic() >= deadline:
                self._gone = True
                raise DaemonUnavailableError(
                    f"the container engine at {self._client.api.base_url} does not answer any more: {problem}. "
                    "Start it again, then go on with --researchenv-rerun=infra (`researchenv doctor` says how it is)"
                )
            if not told:
                told = True
                say("waiting for the container engine, which does not answer")
            time.sleep(self._poll_s)
        self._gone = False

    def _problem(self) -> str:
        try:
            with patience(self._client, _AGAIN_S if self._gone else _PING_S):
                self._client.ping()
        except (DockerException, RequestException) as error:
            return str(error)
        return ""
