"""What a request takes from the budget, and whether its client reads."""

from __future__ import annotations

import time

import pytest

from pytest_researchenv.gateway.inside.demand import Demand
from pytest_researchenv.gateway.inside.meter import Meter, Tokens
from pytest_researchenv.gateway.inside.visit import Visit, charge, complete


CHAT = "openai-chat"
PRICE: dict[str, float | None] = {"tokens_in": 1.0, "tokens_out": 10.0}


def visit(max_out: int | None, meter: Meter | None = None) -> Visit:
    """A request that was sent on."""
    return Visit(None, "/", demand=Demand("m", b"", 500, max_out), size=400, forwarded=True, meter=meter)


@pytest.mark.parametrize("meter", [None, Meter(CHAT, Tokens(), passed=30)])
@pytest.mark.parametrize(("max_out", "most"), [(20_000, 20_000), (None, 32_000)])
def test_who_leaves_before_the_usage_pays_the_most(meter: Meter | None, max_out: int | None, most: int) -> None:
    """What was thought is not seen: neither the purse nor the record may tell less."""
    one, status = visit(max_out, meter), 200 if meter else None

    tokens, cost = charge(one, "given up", status, PRICE)

    assert tokens == 500 + most
    assert cost == pytest.approx((500 + most * 10) / 1e6)
    assert not complete(one, status)


def test_what_is_told_is_what_is_paid() -> None:
    """The bound is for what is not told; refusals cost nothing."""
    told = visit(20_000, Meter(CHAT, Tokens(10, tokens_out=5), counted=True))

    tokens, cost = charge(told, "given up", 200, PRICE)

    assert tokens == 15
    assert cost == pytest.approx(60 / 1e6)
    assert charge(visit(20_000, Meter(CHAT)), "rejected", 400, PRICE) == (0, 0.0)
    assert charge(visit(20_000), "network failure", None, PRICE) == (0, 0.0)


def test_the_services_clock_stands_still_while_its_client_does_not_read() -> None:
    """A client that reads slowly moves; one that reads nothing does not, whatever comes in."""
    meter = Meter(CHAT)
    one, begin = visit(None, meter), time.monotonic()
    meter.passed = 1000

    assert not one.takes(900, begin + 10)
    assert (one.last, one.moved) == (begin + 10, begin + 10)
    meter.passed = 2000
    assert not one.takes(1950, begin + 20)
    assert (one.last, one.moved) == (begin + 20, begin + 10)
    assert not one.takes(1800, begin + 30)
    assert one.moved == begin + 30
    assert one.takes(0, begin + 40)
    assert (one.unread, one.last) == (False, begin + 30)
