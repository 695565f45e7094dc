"""Stops asking a provider that fails again and again, for all workers of a session at once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import final

from pytest_researchenv.errors import ProviderError
from pytest_researchenv.gateway.protocol import ModelService, Trouble
from pytest_researchenv.store import locked, write_whole


__all__ = ["LIMIT", "CircuitBreaker"]

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

    def failed(self, service: ModelService, trouble: Trouble) -> None:
        """Note that an attempt ended in trouble."""
        with locked(self._path):
            counts = self._counts()
            before = counts.get(_name(service), {})
            row = int(str(before.get("row", 0))) + 1 if before.get("kind") == str(trouble.outcome) else 1
            now: dict[str, object] = {"kind": str(trouble.outcome), "row": row}
            if trouble.outcome.lasting or row >= LIMIT:
                times = f", {row} attempts in a row" if row > 1 else ""
                now["open"] = f"{service.endpoint} is asked no more in this session{times}: {trouble}"
            self._save({**counts, _name(service): now})

    def _counts(self) -> dict[str, Mapping[str, object]]:
        try:
            found = json.loads(self._path.read_bytes())
            return dict(found["services"]) if found["session"] == self._session else {}
        except (OSError, ValueError, KeyError, TypeError):
            return {}

    def _save(self, counts: Mapping[str, Mapping[str, object]]) -> None:
        write_whole(self._path, json.dumps({"session": self._session, "services": counts}).encode())


def _name(service: ModelService) -> str:
    return f"{service.endpoint} {service.key}"
