"""Room that builds have set aside on an engine's disk, in one line with all others of this host.

A build waits until what it needs is free beside what is kept free and what others have set aside. It waits only as long
as somebody may free something: then either what is there has to do, or it is an error that says the numbers.
"""

from __future__ import annotations

import logging
import os
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import final

from pytest_researchenv.disk.need import Need
from pytest_researchenv.disk.room import FLOOR_BYTES, EngineDisk, Room, gib
from pytest_researchenv.errors import LeaseError, NoRoomError
from pytest_researchenv.leases.desk import since_start
from pytest_researchenv.leases.line import Amount, Line, Ticket
from pytest_researchenv.leases.record import Record
from pytest_researchenv.leases.telling import account
from pytest_researchenv.sandbox.labels import LIFETIME_S, Owner, alive


__all__ = ["Space"]

_log = logging.getLogger(__name__)

#: Between two looks at the disk, in seconds; and how long one waits for nobody in particular: what has just been judged
#: may be about to be removed.
_POLL_S = 1.0
_SLOW_POLL_S = 30.0
_GRACE_S = 10.0

_BYTES = "bytes"

#: Tickets of this process that are in use.
_OPEN: set[str] = set()


@final
@dataclass(frozen=True, slots=True)
class Space:
    """Room on one engine's disk.

    Attributes:
        disk: the disk.
        folder: where those of this host who build tell one another; None for nobody else.
        floor: bytes that are kept free.
        evicting: whether what was built may be removed once it is judged, so that it is worth waiting for.
        grace_s: how long one waits for nobody in particular, in seconds.
        poll_s: between two looks, in seconds.
    """

    disk: EngineDisk
    folder: Path | None = None
    floor: int = FLOOR_BYTES
    evicting: bool = False
    grace_s: float = _GRACE_S
    poll_s: float = _POLL_S
    _judging: list[str] = field(default_factory=list, repr=False)

    @contextmanager
    def set_aside(self, need: Need, purpose: str, *, say: Callable[[str], object]) -> Iterator[None]:
        """Wait for room, and keep it from other builds until the end of the block.

        Args:
            need: what the build is expected to write.
            purpose: what for, in words: others see it while they wait.
            say: told what is waited for.

        Raises:
            NoRoomError: there is not enough, and nobody at work who may free any.
        """
        if self.folder is None or self.disk.look() is None:
            yield
            return
        record, ticket = Record(self.folder), uuid.uuid4().hex
        before, self._judging[:] = list(self._judging), []
        _OPEN.difference_update(before)
        _OPEN.add(ticket)
        judged = False
        try:
            try:
                self._await(record, _drawn(ticket, need, purpose), need, say)
            except LeaseError as error:
                # No reason not to build: only others do not hear of it.
                _log.warning("builds cannot tell one another what room they need: %s", error)
            yield
            judged = self.evicting
        finally:
            if judged:
                # It needs no more room, and gives back what it has: whoever waits may wait for it.
                self._judging.append(ticket)
            else:
                _OPEN.discard(ticket)
            with suppress(LeaseError):
                record.change(lambda line: _ended(line, ticket, judged=judged))

    def _await(self, record: Record, drawn: Ticket, need: Need, say: Callable[[str], object]) -> None:
        began = since_start()
        record.change(lambda line: _living(line).joined(drawn))
        told = ""
        while True:
            room = self.disk.look()
            line = record.change(lambda line, room=room: self._settled(_living(line), drawn.id, room))  # type: ignore[misc]
            mine = line.find(drawn.id)
            if mine is None:
                # Somebody removed the folder.
                record.change(lambda line: _living(line).joined(drawn))
                continue
            if mine.served is not None:
                return
            others = [one for one in line.tickets if one.id != drawn.id and one.served is not None]
            if not others and since_start() - began >= self.grace_s and not line.ahead(mine) and room is not None:
                if need.known or room.free < self.floor:
                    raise NoRoomError(self._words(need, room))
                # What it needs is a guess: it begins, and ends in an error if there really is not enough.
                record.change(lambda line: _replaced(line, drawn.id, bytes_=need.bytes))
                return
            words = _waiting(need, room, self.floor, others)
            if words != told:
                say(words)
                told = words
            # Where a look takes a container, it is made more rarely.
            time.sleep(self.poll_s if self.disk.glance() else max(self.poll_s, _SLOW_POLL_S))

    def _settled(self, line: Line, ticket: str, room: Room | None) -> Line:
        mine = line.find(ticket)
        if mine is None or mine.served is not None or (line.ahead(mine) and room is not None):
            return line
        held = sum(one.amounts[_BYTES].wanted for one in line.tickets if one.served is not None)
        wanted = mine.amounts[_BYTES].wanted
        if room is not None and room.free - self.floor - held < wanted:
            return line
        return _replaced(line, ticket, bytes_=wanted)

    def _words(self, need: Need, room: Room) -> str:
        about = f"about {gib(need.bytes)}, as {need.like} did" if need.known else "room"
        return (
            f"the build needs {about}, and {gib(room.free)} of {gib(room.total)} are free in {self.disk.place}, of "
            f"which {gib(self.floor)} are kept free (--researchenv-disk-floor); nobody is at work who may free any. "
            "Make room (`researchenv reap`, `docker system df`), have judged environments removed "
            "(--researchenv-keep=failed), or keep less free"
        )


def _drawn(ticket: str, need: Need, purpose: str) -> Ticket:
    now = since_start()
    return Ticket(
        id=ticket,
        number=0,
        process=Owner.current("").process,
        user=account(os.getuid()),
        purpose=purpose,
        devices=0,
        among=(),
        amounts={_BYTES: Amount(need.bytes, need.bytes)},
        asked=now,
        until=now + LIFETIME_S,
    )


def _replaced(line: Line, ticket: str, *, bytes_: int) -> Line:
    """The line in which a ticket is served with so many bytes."""
    now = since_start()
    served = tuple(
        replace(one, served=now, amounts={_BYTES: Amount(bytes_, bytes_)}) if one.id == ticket else one
        for one in line.tickets
    )
    return replace(line, tickets=served)


def _ended(line: Line, ticket: str, *, judged: bool) -> Line:
    """The line once a build is over: it holds nothing any more, and is only waited for while it is judged."""
    if line.find(ticket) is None:
        return line
    return _replaced(line, ticket, bytes_=0) if judged else line.without(ticket)


def _living(line: Line) -> Line:
    """The line without those who have died, or are done in this process."""
    own, now = Owner.current("").process, since_start()

    def lives(ticket: Ticket) -> bool:
        if ticket.process == own:
            return ticket.id in _OPEN
        living = alive(ticket.process)
        return now < ticket.until if living is None else living

    left = tuple(ticket for ticket in line.tickets if lives(ticket))
    return line if left == line.tickets else replace(line, tickets=left)


def _waiting(need: Need, room: Room | None, floor: int, others: list[Ticket]) -> str:
    free = gib(room.free) if room else "an unknown amount"
    held = sum(one.amounts[_BYTES].wanted for one in others)
    whom = f", {gib(held)} set aside by {len(others)} others" if others else ""
    return (
        f"waiting for room on the engine's disk: about {gib(need.bytes)} needed, {free} free, {gib(floor)} kept free"
        + whom
    )
