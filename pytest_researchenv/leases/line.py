"""The line of tickets, and who is served: values and rules without a clock, a file or a process.

Tickets are served in the order of their numbers, each with all it wants or with nothing. What is free is set aside for
those in front as far as they could use it, and only what is left is offered to those behind: so they pass only where
they cannot delay anybody, and a ticket for eight devices waits no longer than those before it take.

How long holders stay is not known. That is why a small request does not slip in before a large one that waits for the
last of its devices: each that did would make it wait once more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace


__all__ = ["Amount", "Line", "Occupied", "Ticket"]


@dataclass(frozen=True, slots=True)
class Amount:
    """Some of what there is a number of, such as slots or bytes.

    Attributes:
        wanted: how much is wanted.
        there: how much there is altogether, as the one who asks has it.
    """

    wanted: int
    there: int


@dataclass(frozen=True, slots=True)
class Ticket:
    """A place in the line, and once it was served, a lease.

    Attributes:
        id: what tells it from all others.
        number: its place: lower ones are served first.
        process: who asks, as `labels.Owner.process`.
        user: the account, for people.
        purpose: what for, in words.
        devices: how many devices are wanted.
        among: uuids that will do, the preferred ones first.
        amounts: what else is wanted, by name.
        asked: when it was drawn, in seconds since the host's start.
        until: when nobody can be using it any more, likewise; asked about only where the process cannot be seen.
        served: when it was served, likewise; None while it waits.
        held: uuids that it was served with.
    """

    id: str
    number: int
    process: str
    user: str
    purpose: str
    devices: int
    among: tuple[str, ...]
    amounts: Mapping[str, Amount]
    asked: float
    until: float
    served: float | None = None
    held: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Occupied:
    """A device that somebody uses who holds no lease.

    Attributes:
        reason: what was seen, in words.
        until: when somebody has to look again, in seconds since the host's start.
    """

    reason: str
    until: float


@dataclass(frozen=True, slots=True)
class Line:
    """Everybody who waits or holds.

    Attributes:
        tickets: in the order of their numbers.
        occupied: uuid → who uses it without a lease.
        next_number: the number of the next ticket.
    """

    tickets: tuple[Ticket, ...] = ()
    occupied: Mapping[str, Occupied] = field(default_factory=dict)
    next_number: int = 1

    @property
    def waiting(self) -> tuple[Ticket, ...]:
        """Those who wait, the first in line first."""
        return tuple(ticket for ticket in self.tickets if ticket.served is None)

    @property
    def holders(self) -> dict[str, Ticket]:
        """Device → who holds it."""
        return {uuid: ticket for ticket in self.tickets for uuid in ticket.held}

    def find(self, ticket: str) -> Ticket | None:
        """The ticket with this id."""
        return next((one for one in self.tickets if one.id == ticket), None)

    def ahead(self, ticket: Ticket) -> tuple[Ticket, ...]:
        """Those who wait before a ticket."""
        return tuple(one for one in self.waiting if one.number < ticket.number)

    def joined(self, ticket: Ticket) -> Line:
        """The line with a further ticket at its end, which is given its number."""
        drawn = replace(ticket, number=self.next_number)
        return replace(self, tickets=(*self.tickets, drawn), next_number=self.next_number + 1)

    def without(self, ticket: str) -> Line:
        """The line without a ticket."""
        return replace(self, tickets=tuple(one for one in self.tickets if one.id != ticket))

    def refused(self, ticket: str, occupied: Mapping[str, Occupied]) -> Line:
        """Put a ticket that was served with occupied devices back to its place, and keep in mind which they are."""
        back = tuple(replace(one, served=None, held=()) if one.id == ticket else one for one in self.tickets)
        return replace(self, tickets=back, occupied={**self.occupied, **occupied})

    def looked(self, uuids: tuple[str, ...], occupied: Mapping[str, Occupied]) -> Line:
        """Take what was seen of some devices."""
        others = {uuid: seen for uuid, seen in self.occupied.items() if uuid not in uuids}
        return replace(self, occupied={**others, **occupied})

    def settled(self, *, now: float, living: Callable[[Ticket], bool]) -> Line:
        """The line once the dead have left it and everybody is served who can be.

        Args:
            now: seconds since the host's start.
            living: whether a ticket's process is still there.
        """
        # Without a change it is the same line, so that nothing is written.
        left = tuple(ticket for ticket in self.tickets if living(ticket))
        occupied = {uuid: seen for uuid, seen in self.occupied.items() if seen.until > now}
        served = tuple(_served(left, frozenset(occupied), now))
        if served == self.tickets and occupied == self.occupied:
            return self
        return replace(self, tickets=served, occupied=occupied)


def _served(tickets: tuple[Ticket, ...], occupied: frozenset[str], now: float) -> Iterator[Ticket]:
    gone = {uuid for ticket in tickets for uuid in ticket.held} | occupied
    taken = Counter({name: 0 for ticket in tickets for name in ticket.amounts})
    for ticket in tickets:
        if ticket.served is not None:
            taken.update({name: amount.wanted for name, amount in ticket.amounts.items()})
    for ticket in tickets:
        if ticket.served is not None:
            yield ticket
            continue
        free = [uuid for uuid in ticket.among if uuid not in gone]
        enough = all(taken[name] + amount.wanted <= amount.there for name, amount in ticket.amounts.items())
        # Whom strangers keep from being served, whoever else goes, needs nothing kept for him meanwhile.
        if ticket.devices > len(set(ticket.among) - occupied):
            yield ticket
            continue
        kept = tuple(free[: ticket.devices])
        gone.update(kept)
        taken.update({name: amount.wanted for name, amount in ticket.amounts.items()})
        yield replace(ticket, served=now, held=kept) if enough and len(kept) == ticket.devices else ticket
