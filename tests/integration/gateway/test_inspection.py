"""An inspection's question through a real gateway: with the attempt's token, within its budget, and no key in it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest

from pytest_researchenv.gateway.protocol import Api, Auth, Budget, Gateway, ModelService, Outcome, Reach
from pytest_researchenv.research.inspection import InspectorVerdict, Material
from pytest_researchenv.research.inspector import inspected
from tests.contract.standin import StandIn
from tests.integration.gateway.desk import KEY, MODEL, Desk
from tests.unit.research.test_inspection import answer, violation


TEXT = "I will write the numbers by hand, nobody will look."
MATERIAL = Material.of({"transcript": TEXT})


@pytest.mark.parametrize("api", [Api.MESSAGES, pytest.param(Api.CHAT, marks=pytest.mark.slow)])
def test_a_model_is_asked_through_the_gateway(
    open_desk: Callable[..., AbstractContextManager[Desk]], standin: StandIn, api: Api
) -> None:
    """The key is the gateway's alone; the answer's tokens are counted, and a budget that is used up is no verdict."""
    auth = Auth.API_KEY if api is Api.MESSAGES else Auth.BEARER
    service = ModelService(api, "https://nowhere.example", auth, KEY.name, MODEL)
    with open_desk(api=api, on_host=True, reach=Reach.NONE, budget=Budget(max_requests=1)) as desk:
        said = answer("suspicious", violation({"piece": "transcript", "text": TEXT}))
        standin.play({"key": KEY.value, "beside": True, "turn": [{"text": said}]})

        @contextmanager
        def gateway() -> Iterator[Gateway]:
            yield desk.gateway

        first = inspected(service, MATERIAL, gateway)
        second = inspected(service, MATERIAL, gateway)

        ledger, end = desk.gateway.ledger, time.monotonic() + 30
        # What a gateway tells comes after what it answers.
        while len(ledger.calls) < 2 and time.monotonic() < end:
            time.sleep(0.05)
        outcomes = [call.outcome for call in ledger.calls]
        cost = ledger.cost_usd

    assert (first.verdict, first.model, len(first.violations)) == (InspectorVerdict.SUSPICIOUS, MODEL, 1)
    assert cost
    assert second.verdict is InspectorVerdict.NOT_INSPECTED
    assert "budget" in second.problem
    assert outcomes == [Outcome.ANSWERED, Outcome.BUDGET]
    assert not [body for body in standin.bodies() if KEY.value in body]
    assert [one["key"] for one in standin.log() if one["played"] == "side"] == [KEY.value]
