"""Stops asking a provider that fails again and again, for all workers of a session at once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import final

from pytest_researchenv.errors import ProviderError
from pytest_researchenv.gateway.protocol import ModelService
from pytest_researchenv.store import locked, write_whole


__all__ = ["LIMIT", "CircuitBreaker"]

#: How many sessions are remembered beside the own one.
_SESSIONS = 10

#: How many attempts in a row may end in trouble of the same kind before the provider is asked no more.
LIMIT = 3


@final
class CircuitBreaker:
    """Counts attempts that ended in the same trouble in a row, per service.

    What stays until a person does something (a refused key, a quota that is used up) needs no second attempt.

    Args:
        folder: the run's folder; the count lies in it, since workers are processes of their own.
        session: id of the pytest session: the next one asks anew.
    """

    def __init__(self, folder: Path, session: str) -> None:
        self._path = folder / ".provider.json"
        self._session = session

    def check(self, service: ModelService) -> None:
        """Let an attempt begin.

        Raises:
            ProviderError: the provider failed too often.
        """
        if reason := self.reason(service):
            raise ProviderError(reason)

    def reason(self, service: ModelService) -> str:
        """Say why the provider is asked no more; empty while it is."""
        return str(self._counts().get(_name(service), {}).get("open", ""))

    def answered(self, service: ModelService) -> None:
        """Note that an attempt met no trouble."""
        with locked(self._path):
            counts = self._counts()
            if counts.pop(_name(service), None):
                self._save(counts)

    def failed(self, service: ModelService, error: ProviderError) -> None:
        """Note that an attempt ended in trouble."""
        with locked(self._path):
            counts = self._counts()
            before = counts.get(_name(service), {})
            if before.get("open"):
                # Another worker was at work already; the first reason stays.
                return
            row = int(str(before.get("row", 0))) + 1 if before.get("kind") == error.kind else 1
            now: dict[str, object] = {"kind": error.kind, "row": row}
            if error.lasting or row >= LIMIT:
                times = f", {row} attempts in a row" if row > 1 else ""
                now["open"] = f"{service.endpoint} is asked no more in this session{times}: {error.reason}"
            self._save({**counts, _name(service): now})

    def _counts(self) -> dict[str, Mapping[str, object]]:
        return self._sessions().get(self._session, {})

    def _sessions(self) -> dict[str, dict[str, Mapping[str, object]]]:
        try:
            return {str(session): dict(counts) for session, counts in json.loads(self._path.read_bytes()).items()}
        except (OSError, ValueError, AttributeError, TypeError):
            return {}

    def _save(self, counts: Mapping[str, Mapping[str, object]]) -> None:
        # Another session may be at work on the same run; old ones are forgotten.
        others = {session: one for session, one in self._sessions().items() if session != self._session}
        kept = dict(list(others.items())[-_SESSIONS:])
        write_whole(self._path, json.dumps({**kept, self._session: counts}).encode())


def _name(service: ModelService) -> str:
    return f"{service.endpoint} {service.key}"
