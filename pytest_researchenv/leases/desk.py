"""Where leases are asked for, waited for and given back.

Whoever changes the line serves everybody who can be, and takes out who died; so it does not matter who looks. While one
waits, nothing is held: not the lock of the line, and no device. Whether a stranger uses a device is asked once it was
served, outside the lock, since the answer takes a second; a device that is used goes back, and is kept in mind for a
while, and the ticket keeps its place.
"""

from __future__ import annotations

import logging
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import final

from pytest_researchenv.errors import LeaseError
from pytest_researchenv.leases.choice import PATIENCE_S
from pytest_researchenv.leases.line import Amount, Line, Occupied, Ticket
from pytest_researchenv.leases.record import Record
from pytest_researchenv.leases.telling import account, wait_in_words
from pytest_researchenv.sandbox.labels import LIFETIME_S, Owner, alive


__all__ = ["Desk", "Lease", "Wanted", "holds_nothing", "since_start"]

_log = logging.getLogger(__name__)

#: Between two looks at the line, in seconds: the first in line looks most often, and who has waited long, less often.
_SHORTEST_S, _LONGEST_S, _SHARE = 0.01, 0.25, 0.001

#: How often the first in line looks whether all others are alive, in seconds; those behind, more rarely.
_SIGHT_S = 0.2

#: How long a device that a stranger uses is left alone before somebody looks again, in seconds. Who waits for it looks
#: before that time is over, so that no others are kept back for it in vain.
_OCCUPIED_S, _AGAIN_S = 60.0, 50.0

#: How often a changed reason for waiting is told, in seconds.
_TELL_S = 10.0

#: Tickets and leases of this process that are in use.
_OPEN: set[str] = set()

_THREAD = threading.local()


def since_start() -> float:
    """Seconds since the host's start, the same in all its processes, whatever happens to its clock."""
    # Elsewhere than on Linux the monotonic clock is the whole machine's, too.
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


def holds_nothing(what: str) -> None:
    """Make sure that this thread holds no lease before it waits for something that its holder may wait with.

    Raises:
        LeaseError: it does, which is a defect: two such threads can wait for each other for ever.
    """
    process, purpose = getattr(_THREAD, "holding", (0, ""))
    # A child that was forked meanwhile holds nothing.
    if process == os.getpid():
        raise LeaseError(f"{purpose} holds a lease and would wait for {what}, maybe for ever; please report it")


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is asked for, all or nothing.

    Attributes:
        purpose: what for, in words: others see it while they wait.
        devices: how many devices.
        among: uuids that will do, the preferred ones first.
        amounts: what else, by name.
    """

    purpose: str
    devices: int = 0
    among: tuple[str, ...] = ()
    amounts: Mapping[str, Amount] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Lease:
    """What is held until the end of the block, or until it is released.

    Attributes:
        devices: uuids.
        number: its place in the line.
        asked: when it was asked for, in seconds since the host's start.
        served: when it was had, likewise.
        release: gives all of it back now; calling it twice is no error.
    """

    devices: tuple[str, ...]
    number: int
    asked: float
    served: float
    release: Callable[[], None]


def _nobody(devices: tuple[str, ...]) -> Mapping[str, str]:
    del devices
    return {}


@final
class Desk:
    """Gives leases to the threads of this process, in one line with all others of this host.

    Args:
        folder: where the line lies.
        occupied: tells who uses devices without a lease, in words, by uuid.
        patience_s: how long a lease is waited for, in seconds.
    """

    def __init__(
        self,
        folder: Path,
        *,
        occupied: Callable[[tuple[str, ...]], Mapping[str, str]] = _nobody,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self._record = Record(folder)
        self._occupied = occupied
        self._patience_s = patience_s

    @contextmanager
    def lease(self, wanted: Wanted, *, say: Callable[[str], object] = lambda _: None) -> Iterator[Lease]:
        """Wait until all that is wanted can be had, and hold it until the end of the block.

        A child that is forked in the block holds nothing, and gives nothing back.

        Args:
            wanted: what is asked for.
            say: told what is waited for, whenever that changes.

        Raises:
            LeaseError: it can never be had, or not in time, or the line cannot be used.
        """
        _possible(wanted)
        holds_nothing("another lease")
        ticket, holder = uuid.uuid4().hex, os.getpid()

        def release() -> None:
            if os.getpid() == holder and ticket in _OPEN:
                _THREAD.holding = (0, "")
                self._give_back(ticket)

        # Before it is in the line: whatever comes between, it leaves it.
        _OPEN.add(ticket)
        try:
            served = self._await(ticket, wanted, say)
            _THREAD.holding = (holder, wanted.purpose)
            yield Lease(served.held, served.number, served.asked, served.served or served.asked, release)
        finally:
            release()

    def line(self) -> Line:
        """Everybody who waits or holds.

        Raises:
            LeaseError: the line cannot be used.
        """
        return self._settle()

    # --- changing the line --------------------------------------------------------------------------------

    def _settle(self, change: Callable[[Line], Line] = lambda line: line) -> Line:
        def settled(line: Line) -> Line:
            # Once the lock was had: what is written later is later.
            now = since_start()
            living = partial(_living, now=now, own=_process(os.getpid()))
            return change(line).settled(now=now, living=living)

        return self._record.change(settled)

    def _draw(self, ticket: str, wanted: Wanted) -> Line:
        now = since_start()
        drawn = Ticket(
            id=ticket,
            number=0,
            process=_process(os.getpid()),
            user=account(os.getuid()),
            purpose=wanted.purpose,
            devices=wanted.devices,
            among=wanted.among,
            amounts=wanted.amounts,
            asked=now,
            until=now + self._patience_s + LIFETIME_S,
        )
        return self._settle(lambda line: line.joined(drawn))

    def _give_back(self, ticket: str) -> None:
        # Not in use any more, even where that cannot be written down: this process's next change tells it, or its end.
        _OPEN.discard(ticket)
        try:
            self._settle(lambda line: line.without(ticket) if line.find(ticket) else line)
        except LeaseError as error:
            _log.warning("a lease that is over could not be given back yet: %s", error)

    # --- waiting ------------------------------------------------------------------------------------------

    def _await(self, ticket: str, wanted: Wanted, say: Callable[[str], object]) -> Ticket:
        began = since_start()
        line = self._draw(ticket, wanted)
        told, tell, look = "", began, began + _SIGHT_S
        while True:
            mine = line.find(ticket)
            if mine is None:
                # Somebody removed the folder: what is left is to stand in line anew; not for ever, if they go on.
                _not_longer(began, self._patience_s, "being taken out of the line")
                time.sleep(_SHORTEST_S)
                line = self._draw(ticket, wanted)
                continue
            if mine.served is not None:
                strange = self._looked(mine.held)
                if not strange:
                    return mine
                line = self._settle(partial(_refused, ticket=ticket, strange=strange))
                continue
            now = since_start()
            words = wait_in_words(line, mine)
            if words != told and now >= tell:
                say(words)
                told, tell = words, now + _TELL_S
            _not_longer(began, self._patience_s, words)
            ahead = len(line.ahead(mine))
            if now >= look:
                self._look(line, mine)
                look = now + _SIGHT_S * (1 + ahead / 2)
            time.sleep(min(_LONGEST_S, max(_SHORTEST_S, _SHARE * (now - began)) * (1 + ahead)))
            line = self._record.read()

    def _looked(self, devices: tuple[str, ...]) -> dict[str, Occupied]:
        """See which of some devices strangers use."""
        found = self._occupied(devices) if devices else {}
        until = since_start() + _OCCUPIED_S
        return {uuid: Occupied(reason, until) for uuid, reason in found.items() if uuid in devices}

    def _look(self, line: Line, mine: Ticket) -> None:
        """Take the dead out of the line, and look again at devices that strangers used."""
        now, own = since_start(), _process(os.getpid())
        soon = now + _OCCUPIED_S - _AGAIN_S
        due = tuple(uuid for uuid, seen in line.occupied.items() if seen.until < soon and uuid in mine.among)
        # One of those who wait is enough.
        if due and not any(set(due) & set(one.among) for one in line.ahead(mine)):
            strange = self._looked(due)
            self._settle(lambda found: found.looked(due, strange))
            return
        dead = any(not _living(ticket, now=now, own=own) for ticket in line.tickets)
        if dead or any(seen.until <= now for seen in line.occupied.values()):
            self._settle()


def _not_longer(began: float, patience_s: float, words: str) -> None:
    """Give up what has been waited for too long.

    Raises:
        LeaseError: it has.
    """
    waited = since_start() - began
    if waited > patience_s:
        raise LeaseError(f"gave up after {waited:.0f} s of {words} (--researchenv-lease-timeout)")


def _refused(line: Line, *, ticket: str, strange: Mapping[str, Occupied]) -> Line:
    return line.refused(ticket, strange)


def _living(ticket: Ticket, *, now: float, own: str) -> bool:
    if ticket.process == own:
        return ticket.id in _OPEN
    living = alive(ticket.process)
    # A process in another container of this host cannot be seen: it is taken to live as long as it can be at work.
    return now < ticket.until if living is None else living


@lru_cache(maxsize=2)
def _process(pid: int) -> str:
    """This process, as `Owner.process`: a child that was forked has another id."""
    del pid
    return Owner.current("").process


def _possible(wanted: Wanted) -> None:
    """Refuse what could only be waited for in vain.

    Raises:
        LeaseError: there is less altogether than what is wanted.
    """
    if wanted.devices > len(set(wanted.among)):
        raise LeaseError(
            f"{wanted.purpose} wants {wanted.devices} devices, and there are {len(set(wanted.among))} it may use"
        )
    for name, amount in wanted.amounts.items():
        if amount.wanted > amount.there:
            raise LeaseError(f"{wanted.purpose} wants {amount.wanted} of {name}, and there are {amount.there}")
