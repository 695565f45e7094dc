"""What somebody waits for, in words."""

from __future__ import annotations

import pwd

from pytest_researchenv.leases.line import Line, Ticket


__all__ = ["account", "ticket_in_words", "wait_in_words"]

#: How many holders are named, and how long a foreign word may be.
_NAMED, _LENGTH = 3, 60


def account(uid: int) -> str:
    """The name of an account, or its number where it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"


def wait_in_words(line: Line, ticket: Ticket) -> str:
    """Say what a ticket waits for: who is before it, who holds what it wants, and what strangers use."""
    ahead = len(line.ahead(ticket))
    told = [f"{ahead} before it" if ahead else "first in line"]
    holders = [one for one in line.tickets if one.served is not None and _in_the_way(one, ticket)]
    if holders:
        more = len(holders) - _NAMED
        told.append("held by " + "; ".join(map(_holder, holders[:_NAMED])) + (f"; and {more} more" if more > 0 else ""))
    strange = [f"{uuid} ({seen.reason})" for uuid, seen in line.occupied.items() if uuid in ticket.among]
    if strange:
        told.append(f"used by others: {', '.join(map(_printable, strange))}")
    return f"waiting for {_wanted(ticket)}: {', '.join(told)}"


def ticket_in_words(ticket: Ticket, *, now: float) -> str:
    """Say who holds or waits for what, and for how long, in seconds."""
    whose = f"{_printable(ticket.user)}'s {_printable(ticket.purpose)}"
    if ticket.served is None:
        return f"{whose} has waited {now - ticket.asked:.0f} s for {_wanted(ticket)}"
    held = ", ".join(map(_printable, ticket.held)) or _wanted(ticket)
    return f"{whose} has had {held} for {now - ticket.served:.0f} s"


def _wanted(ticket: Ticket) -> str:
    wanted = [f"{ticket.devices} device{'' if ticket.devices == 1 else 's'}"] if ticket.devices else []
    wanted += [f"{amount.wanted} of {amount.there} {_printable(name)}" for name, amount in ticket.amounts.items()]
    return " and ".join(wanted)


def _in_the_way(holder: Ticket, ticket: Ticket) -> bool:
    return bool(set(holder.held) & set(ticket.among)) or bool(holder.amounts.keys() & ticket.amounts.keys())


def _holder(ticket: Ticket) -> str:
    count = f" ({len(ticket.held)})" if ticket.held else ""
    return f"{_printable(ticket.user)}'s {_printable(ticket.purpose)}{count}"


def _printable(text: str) -> str:
    """Another account's words, which may hold anything."""
    cut = text if len(text) <= _LENGTH else f"{text[:_LENGTH]}…"
    return "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in cut)
