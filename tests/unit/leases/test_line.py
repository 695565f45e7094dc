"""Rules of the line: who is served, and that nobody who came later ever makes anybody wait. No files, no processes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_researchenv.leases.line import Amount, Line, Occupied, Ticket


DEVICES = tuple("ABCDEFGH")


def everybody(_ticket: Ticket) -> bool:
    """Nobody is dead."""
    return True


def ticket(
    name: str, devices: int = 0, *, among: tuple[str, ...] = DEVICES, amounts: Mapping[str, Amount] | None = None
) -> Ticket:
    """A ticket that was not drawn yet."""
    return Ticket(name, 0, name, "somebody", "something", devices, among, amounts or {}, 0.0, 1e9)


def line(*tickets: Ticket, occupied: tuple[str, ...] = (), living: Callable[[Ticket], bool] = everybody) -> Line:
    """A line that these tickets joined one after another."""
    made = Line(occupied={uuid: Occupied("a stranger", 100.0) for uuid in occupied})
    for one in tickets:
        made = made.joined(one).settled(now=1.0, living=living)
    return made


def held(made: Line) -> dict[str, str]:
    """Who was served, and with what."""
    return {one.id: "".join(one.held) for one in made.tickets if one.served is not None}


def test_whoever_can_be_served_is_served_at_once() -> None:
    """Each gets devices of his own, the preferred ones first."""
    assert held(line(ticket("a", 1), ticket("b", 2), ticket("c", 1, among=("H", "G")))) == {
        "a": "A",
        "b": "BC",
        "c": "H",
    }


def test_all_or_nothing() -> None:
    """Who cannot have everything has nothing, and so nobody holds what another waits for while he waits himself."""
    made = line(ticket("a", 6), ticket("b", 4))

    assert held(made) == {"a": "ABCDEF"}
    assert held(made.without("a").settled(now=2.0, living=everybody)) == {"b": "ABCD"}


def test_many_small_ones_do_not_starve_a_large_one() -> None:
    """Once eight devices are wanted, those that fall idle are kept for them, however many want one."""
    made = line(*(ticket(f"small {number}", 1) for number in range(8)), ticket("large", 8))
    for number in range(7):
        made = made.joined(ticket(f"late {number}", 1)).without(f"small {number}").settled(now=2.0, living=everybody)
        assert set(held(made)) == {f"small {left}" for left in range(number + 1, 8)}

    assert held(made.without("small 7").settled(now=3.0, living=everybody)) == {"large": "ABCDEFGH"}


def test_what_the_first_cannot_use_is_offered_to_those_behind() -> None:
    """Other devices, other amounts, and what is there beyond what the first needs."""
    busy = ticket("busy", 1, amounts={"slots": Amount(1, 1)})
    first = ticket("first", 2, amounts={"slots": Amount(1, 1)})

    made = line(busy, first, ticket("devices alone", 5), ticket("too many", 1))

    assert held(made) == {"busy": "A", "devices alone": "DEFGH"}
    assert held(made.without("busy").settled(now=2.0, living=everybody))["first"] in {"AB", "BC"}


def test_amounts_are_counted() -> None:
    """Bytes of disk or slots: as much as there is, as each one has it."""
    disk = ticket("a", amounts={"disk": Amount(60, 100)})

    assert held(line(disk, ticket("b", amounts={"disk": Amount(50, 100)}))) == {"a": ""}
    assert held(line(disk, ticket("b", amounts={"disk": Amount(40, 100)}))) == {"a": "", "b": ""}


def test_the_dead_leave_the_line() -> None:
    """Those who hold and those who wait; who comes next is served."""
    made = line(ticket("dead holder", 8), ticket("dead waiter", 8), ticket("next", 2))

    left = made.settled(now=2.0, living=lambda one: not one.id.startswith("dead"))

    assert held(left) == {"next": "AB"}
    assert len(left.tickets) == 1


def test_what_strangers_use_is_not_given() -> None:
    """Nor is anything kept for those whom only strangers keep waiting; after a while it is tried again."""
    made = line(ticket("all", 8), ticket("some", 7), occupied=("A",))

    assert held(made) == {"some": "BCDEFGH"}
    assert held(made.without("some").settled(now=101.0, living=everybody)) == {"all": "ABCDEFGH"}


def test_a_refused_lease_keeps_its_place() -> None:
    """Who was given an occupied device goes before those who came later, and gets others."""
    made = line(ticket("first", 2, among=("A", "B", "C")), ticket("second", 2, among=("A", "B", "C")))

    made = made.refused("first", {"A": Occupied("process 7", 50.0)}).settled(now=2.0, living=everybody)

    assert held(made) == {"first": "BC"}


def test_nothing_new_is_the_same_line() -> None:
    """Then nothing has to be written."""
    made = line(ticket("a", 8), ticket("b", 1))

    assert made.settled(now=9.0, living=everybody) is made


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("join"), st.integers(0, 8), st.integers(1, 255), st.integers(0, 3)),
        st.tuples(st.just("end"), st.integers(0, 20), st.just(0), st.just(0)),
        st.tuples(st.just("stranger"), st.integers(0, 7), st.just(0), st.just(0)),
    ),
    max_size=40,
)


@given(STEPS)
def test_no_device_is_held_twice_and_nobody_is_delayed_by_who_came_later(
    steps: list[tuple[str, int, int, int]],
) -> None:
    """Whatever comes and goes.

    Nobody is delayed: without all who came later, the same tickets would be served at each step.
    """
    made, number = Line(), 0
    for kind, value, mask, slots in steps:
        if kind == "join":
            among = tuple(device for bit, device in enumerate(DEVICES) if mask & 1 << bit)
            amounts = {"slots": Amount(slots, 3)} if slots else {}
            made = made.joined(ticket(f"{number}", min(value, len(among)), among=among, amounts=amounts))
            number += 1
        elif kind == "end" and made.tickets:
            made = made.without(made.tickets[value % len(made.tickets)].id)
        elif kind == "stranger":
            made = made.looked(DEVICES, {DEVICES[value]: Occupied("x", 100.0)})
        before, made = made, made.settled(now=1.0, living=everybody)

        holders = Counter(uuid for one in made.tickets for uuid in one.held)
        assert not [uuid for uuid, count in holders.items() if count > 1]
        assert sum(one.amounts["slots"].wanted for one in made.tickets if one.served and one.amounts) <= 3
        for place, one in enumerate(before.tickets):
            alone = Line(before.tickets[: place + 1], before.occupied)
            later = {uuid for other in before.tickets[place + 1 :] for uuid in other.held}
            if one.served is None and not later & set(one.among) and not one.amounts:
                mine = alone.settled(now=1.0, living=everybody).find(one.id)
                assert (mine and mine.held) == made.tickets[place].held


@pytest.mark.parametrize("count", [5000])
def test_thousands_of_dead_cost_no_more_than_one_look(count: int) -> None:
    """Who comes after them is served by it."""
    made = Line(tuple(ticket(f"dead {number}", 8) for number in range(count)), next_number=count)

    served = made.joined(ticket("alive", 8)).settled(now=1.0, living=lambda one: one.id == "alive")

    assert held(served) == {"alive": "ABCDEFGH"}
