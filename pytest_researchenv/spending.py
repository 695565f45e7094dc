"""What a run has spent, and may still spend, counted together for all workers and sessions of it."""

from __future__ import annotations

import json
import math
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import final

from pytest_researchenv.errors import InfrastructureError
from pytest_researchenv.sandbox.labels import LIFETIME_S, Owner, alive
from pytest_researchenv.store import locked, write_whole


__all__ = ["SPENDING_FILE", "Allowance", "Spending", "merge_spending", "spent_in"]

#: Where a run's money is written down, in its folder.
SPENDING_FILE = ".spending.json"

#: How often a wait for other attempts' money looks again, in seconds.
_POLL_S = 2.0

#: Less than this, in US dollars, is not worth an attempt: below the price of one short answer.
_LEAST_USD = 0.000_001


#: Attempts of this process that hold money.
_OPEN: set[str] = set()


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


def spent_in(folder: Path) -> float | None:
    """Return what a run's attempts have spent in US dollars, failed ones included; None where no money was counted.

    Args:
        folder: the run's folder.

    Raises:
        InfrastructureError: what was written down cannot be read.
    """
    path = folder / SPENDING_FILE
    return sum(entry.spent for entry in _entries(path).values()) if path.exists() else None


def merge_spending(folder: Path, other: Path) -> None:
    """Add what the attempts of another part of a run have spent, each of them once however often it is added.

    Args:
        folder: the run's folder.
        other: what was written down elsewhere.

    Raises:
        InfrastructureError: one of the two cannot be read.
    """
    path = folder / SPENDING_FILE
    theirs = _entries(other)
    amounts = [number for entry in theirs.values() for number in (entry.until, entry.reserved, entry.spent)]
    if not all(isinstance(number, int | float) and math.isfinite(number) and number >= 0 for number in amounts):
        raise InfrastructureError(f"{other.name} does not hold what attempts spent")
    with locked(path):
        ours = _entries(path)
        # What one of them has as held, the other may know the end of.
        merged = {**theirs, **{name: entry for name, entry in ours.items() if name not in theirs or not entry.reserved}}
        if merged != ours:
            write_whole(path, _written(merged))


def _written(entries: Mapping[str, _Entry]) -> bytes:
    return json.dumps({name: asdict(entry) for name, entry in entries.items()}).encode()


def _entries(path: Path) -> dict[str, _Entry]:
    if not path.exists():
        return {}
    try:
        return {name: _Entry(**values) for name, values in json.loads(path.read_bytes()).items()}
    except (OSError, ValueError, TypeError, AttributeError) as error:
        # Money that was spent must not be forgotten in silence.
        raise InfrastructureError(
            f"{path} does not hold what was written there: {error}; remove it to count from nothing"
        ) from error


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
        self._path = folder / SPENDING_FILE
        self._session = session
        self._limit = limit_usd
        self._whole = whole_run
        self._owner = Owner.current("")

    @contextmanager
    def allowance(
        self, wanted: float | None, *, most_s: float = LIFETIME_S, say: Callable[[str], object]
    ) -> Iterator[Allowance]:
        """Set money aside for one attempt; what it did not spend is free again at the end of the block.

        Waits while other attempts of the run hold what is left.

        Args:
            wanted: most that the attempt may spend, in US dollars; None for no limit of its own.
            most_s: after so many seconds the attempt is over in any case.
            say: told when it waits.

        Raises:
            InfrastructureError: nothing is left.
        """
        entry = uuid.uuid4().hex
        allowance = Allowance(None)
        _OPEN.add(entry)
        try:
            allowance.limit_usd = self._reserve(entry, wanted, most_s, say)
            yield allowance
        finally:
            # Not held any more, even where it cannot be written down.
            _OPEN.discard(entry)
            with locked(self._path):
                self._save({**self._entries(), entry: self._entry(0.0, allowance.spent_usd, 0.0)})

    def _reserve(self, name: str, wanted: float | None, most_s: float, say: Callable[[str], object]) -> float | None:
        waiting = False
        while True:
            with locked(self._path):
                entries = self._entries()
                spent, held = self._sums(entries)
                left = None if self._limit is None else self._limit - spent - held
                if left is None or left > _LEAST_USD:
                    allowed = min((value for value in (left, wanted) if value is not None), default=None)
                    self._save({**entries, name: self._entry(allowed or 0.0, 0.0, most_s)})
                    return allowed
            if held <= _LEAST_USD:
                raise InfrastructureError(
                    f"the run has spent ${spent:.4f} of the ${self._limit:.4f} that --researchenv-max-cost allows: "
                    "give more to go on"
                )
            if not waiting:
                waiting = True
                say(f"waiting for money that other attempts hold (${held:.2f})")
            time.sleep(_POLL_S)

    def _sums(self, entries: dict[str, _Entry]) -> tuple[float, float]:
        """What was spent, and what is held by attempts at work. Who died may have spent all that he held."""
        counted = {name: entry for name, entry in entries.items() if self._whole or entry.session == self._session}
        held = sum(entry.reserved for name, entry in counted.items() if self._at_work(name, entry))
        lost = sum(entry.reserved for entry in counted.values()) - held
        return sum(entry.spent for entry in counted.values()) + lost, held

    def _entry(self, reserved: float, spent: float, most_s: float) -> _Entry:
        until = time.time() + most_s
        return _Entry(self._session, self._owner.process, self._owner.host, until, reserved, spent)

    def _at_work(self, name: str, entry: _Entry) -> bool:
        """Whether an attempt may still be at work; of other hosts' that cannot be told before its time is over."""
        if entry.process == self._owner.process:
            return name in _OPEN
        living = alive(entry.process) if entry.host == self._owner.host else None
        return time.time() < entry.until if living is None else living

    @property
    def spent_usd(self) -> float:
        """What this session's attempts have spent, failed ones and those at work included, as far as it is known."""
        with locked(self._path):
            return sum(entry.spent for entry in self._entries().values() if entry.session == self._session)

    def _entries(self) -> dict[str, _Entry]:
        return _entries(self._path)

    def _save(self, entries: dict[str, _Entry]) -> None:
        write_whole(self._path, _written(entries))


@dataclass(slots=True)
class Allowance:
    """Money for one attempt.

    Attributes:
        limit_usd: what it may spend, in US dollars; None for no limit.
        spent_usd: what it has spent; the attempt writes it here before the block ends.
    """

    limit_usd: float | None
    spent_usd: float = 0.0
