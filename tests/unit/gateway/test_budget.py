"""A budget is passed by one answer at most, however many requests come at once."""

from __future__ import annotations

import asyncio
import random

from pytest_researchenv.gateway.inside.budget import Purse, Reservation


def _here() -> bool:
    return False


async def _spend(purse: Purse, bound: float, tokens: int, waits: float) -> bool:
    asked = Reservation(tokens=bound, cost=0.0)
    if await purse.admit(asked, _here) is not None:
        return False
    await asyncio.sleep(waits)
    purse.settle(asked, tokens, 0.0)
    return True


def test_requests_pass_side_by_side_while_they_fit() -> None:
    """With room for all, none waits for another."""

    async def play() -> int:
        purse = Purse(max_tokens=1000)
        asked = [Reservation(100, 0.0) for _ in range(10)]
        async with asyncio.timeout(1):
            passed = [await purse.admit(one, _here) for one in asked]
        return passed.count(None)

    assert asyncio.run(play()) == 10


def test_without_a_budget_only_the_number_at_once_is_limited() -> None:
    """The seventeenth waits for one of the others."""

    async def play() -> tuple[bool, str | None]:
        purse = Purse()
        asked = [Reservation() for _ in range(16)]
        for one in asked:
            assert await purse.admit(one, _here) is None
        late = asyncio.create_task(purse.admit(Reservation(), _here))
        await asyncio.sleep(0.05)
        waited = not late.done()
        purse.settle(asked[0], 1, 1.0)
        return waited, await late

    assert asyncio.run(play()) == (True, None)


def test_the_limit_is_passed_by_one_answer_at_most() -> None:
    """With true and with unknown bounds, in any order: what was used ends below the limit and one answer."""
    choice = random.Random(6)  # noqa: S311 - no secret

    async def play() -> tuple[int, int]:
        limit = choice.randrange(100, 2000)
        purse = Purse(max_tokens=limit)
        sizes = [choice.randrange(1, 400) for _ in range(30)]
        bounds = [choice.choice([float(size), size * 2.0, float("inf")]) for size in sizes]
        work = [_spend(purse, bound, size, choice.random() / 100) for bound, size in zip(bounds, sizes, strict=True)]
        await asyncio.gather(*work)
        return purse.tokens - limit, max(sizes)

    for _ in range(20):
        over, largest = asyncio.run(play())
        assert over < largest


def test_money_and_requests_are_limits_as_well() -> None:
    """Each says its figures once it is reached."""

    async def play() -> list[str | None]:
        purse = Purse(max_requests=2, max_cost=0.5)
        first, second = Reservation(1, 0.1), Reservation(1, 0.1)
        said = [await purse.admit(first, _here), await purse.admit(second, _here)]
        purse.settle(first, 1, 0.1)
        purse.settle(second, 1, 0.6)
        return [*said, await purse.admit(Reservation(1, 0.1), _here)]

    assert asyncio.run(play()) == [None, None, "request limit: 2 of 2 requests, cost limit: $0.7000 of $0.5000"]


def test_who_leaves_while_waiting_is_not_counted() -> None:
    """Its place goes to the next."""

    async def play() -> tuple[str | None, str | None, int]:
        purse = Purse(max_tokens=100)
        first = Reservation()
        await purse.admit(first, _here)
        left = asyncio.create_task(purse.admit(Reservation(), lambda: True))
        last = asyncio.create_task(purse.admit(Reservation(), _here))
        gone = await left
        purse.settle(first, 5, 0.0)
        return gone, await last, purse.requests

    assert asyncio.run(play()) == ("", None, 2)


def test_requests_that_end_in_trouble_do_not_count() -> None:
    """Whoever waits learns only then whether there is one left."""

    async def play() -> tuple[bool, str | None, str | None]:
        purse = Purse(max_requests=1)
        first, second = Reservation(1, 0.0), Reservation(1, 0.0)
        await purse.admit(first, _here)
        late = asyncio.create_task(purse.admit(second, _here))
        await asyncio.sleep(0.05)
        waited = not late.done() and not purse.exhausted
        purse.settle(first, 0, 0.0, counts=False)
        passed = await late
        purse.settle(second, 0, 0.0)
        return waited, passed, await purse.admit(Reservation(), _here)

    assert asyncio.run(play()) == (True, None, "request limit: 1 of 1 requests")
