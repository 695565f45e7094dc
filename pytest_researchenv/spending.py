"""What a run has spent, and may still spend, counted together for all workers and sessions of it."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import final

from pytest_researchenv.errors import InfrastructureError
from pytest_researchenv.sandbox.labels import LIFETIME_S, Owner, alive
from pytest_researchenv.store import locked, write_whole


__all__ = ["Allowance", "Spending"]

#: How often a wait for other attempts' money looks again, in seconds.
_POLL_S = 2.0

#: Less than this, in US dollars, is not worth an attempt: below the price of one short answer.
_LEAST_USD = 0.000_001


@dataclass(frozen=True, slots=True)
class _Entry:
    """One attempt's money.

    Attributes:
        session: who began it.
        process: `Owner.process` of who works on it.
        host: `Owner.host` of who works on it.
        until: when nobody can be at work on it any more, in seconds since the epoch.
        reserved: what it may spend, in US dollars; 0 once it has ended.
        spent: what it spent, in US dollars; 0 until it has ended.
    """

    session: str
    process: str
    host: str
    until: float
    reserved: float
    spent: float


@final
class Spending:
    """Money of one run.

    Args:
        folder: the run's folder.
        session: id of the pytest session.
        limit_usd: what the run may spend at most; None for no limit.
        whole_run: whether what earlier sessions spent counts, too: it does where a run was named.
    """

    def __init__(self, folder: Path, session: str, *, limit_usd: float | None, whole_run: bool) -> None:
        self._path = folder / ".spending.json"
        self._session = session
        self._limit = limit_usd
        self._whole = whole_run
        self._owner = Owner.current("")

    @contextmanager
    def allowance(self, wanted: float | None, *, say: Callable[[str], object]) -> Iterator[Allowance]:
        """Set money aside for one attempt; what it did not spend is free again at the end of the block.

        Waits while other attempts of the run hold what is left.

        Args:
            wanted: most that the attempt may spend, in US dollars; None for no limit of its own.
            say: told when it waits.

        Raises:
            InfrastructureError: nothing is left.
        """
        entry = uuid.uuid4().hex
        allowed = self._reserve(entry, wanted, say)
        allowance = Allowance(allowed)
        try:
            yield allowance
        finally:
            with locked(self._path):
                self._save({**self._entries(), entry: self._entry(0.0, allowance.spent_usd)})

    def _reserve(self, name: str, wanted: float | None, say: Callable[[str], object]) -> float | None:
        while True:
            with locked(self._path):
                entries = self._entries()
                spent, held = self._sums(entries)
                left = None if self._limit is None else self._limit - spent - held
                if left is None or left > _LEAST_USD:
                    allowed = min((value for value in (left, wanted) if value is not None), default=None)
                    self._save({**entries, name: self._entry(allowed or 0.0, 0.0)})
                    return allowed
            if held <= _LEAST_USD:
                raise InfrastructureError(
                    f"the run has spent ${spent:.4f} of the ${self._limit:.2f} that --researchenv-max-cost allows: "
                    "give more to go on"
                )
            say(f"waiting for money that other attempts hold (${held:.2f})")
            time.sleep(_POLL_S)

    def _sums(self, entries: dict[str, _Entry]) -> tuple[float, float]:
        """What was spent, and what is held by attempts at work. Who died may have spent all that he held."""
        counted = [entry for entry in entries.values() if self._whole or entry.session == self._session]
        living = [entry for entry in counted if entry.reserved and self._at_work(entry)]
        lost = sum(entry.reserved for entry in counted) - sum(entry.reserved for entry in living)
        return sum(entry.spent for entry in counted) + lost, sum(entry.reserved for entry in living)

    def _entry(self, reserved: float, spent: float) -> _Entry:
        until = time.time() + LIFETIME_S
        return _Entry(self._session, self._owner.process, self._owner.host, until, reserved, spent)

    def _at_work(self, entry: _Entry) -> bool:
        """Whether an attempt's process may still live; of other hosts' that cannot be told before its time is over."""
        living = alive(entry.process) if entry.host == self._owner.host else None
        return time.time() < entry.until if living is None else living

    @property
    def spent_usd(self) -> float:
        """What this session's attempts have spent, failed ones and those at work included, as far as it is known."""
        with locked(self._path):
            return sum(entry.spent for entry in self._entries().values() if entry.session == self._session)

    def _entries(self) -> dict[str, _Entry]:
        if not self._path.exists():
            return {}
        try:
            return {name: _Entry(**values) for name, values in json.loads(self._path.read_bytes()).items()}
        except (OSError, ValueError, TypeError, AttributeError) as error:
            # Money that was spent must not be forgotten in silence.
            raise InfrastructureError(
                f"{self._path} does not hold what was written there: {error}; remove it to count from nothing"
            ) from error

    def _save(self, entries: dict[str, _Entry]) -> None:
        write_whole(self._path, json.dumps({name: asdict(entry) for name, entry in entries.items()}).encode())


@dataclass(slots=True)
class Allowance:
    """Money for one attempt.

    Attributes:
        limit_usd: what it may spend, in US dollars; None for no limit.
        spent_usd: what it has spent; the attempt writes it here before the block ends.
    """

    limit_usd: float | None
    spent_usd: float = 0.0
