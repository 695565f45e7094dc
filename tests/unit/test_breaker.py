"""The circuit breaker: a provider that fails again and again is asked no more."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_researchenv.breaker import LIMIT, CircuitBreaker
from pytest_researchenv.errors import ProviderError
from pytest_researchenv.gateway.protocol import Api, Auth, ModelService, Outcome, Trouble


SERVICE = ModelService(Api.MESSAGES, "https://models.example", Auth.API_KEY, "EXAMPLE_KEY", "m")
OTHER = ModelService(Api.MESSAGES, "https://others.example", Auth.API_KEY, "EXAMPLE_KEY", "m")


def trouble(outcome: Outcome, status: int = 500) -> ProviderError:
    """Trouble of a kind."""
    found = Trouble(outcome, status, "sorry", 4)
    return ProviderError("no model", kind=str(outcome), reason=str(found), lasting=found.lasting)


def test_a_refused_key_is_not_tried_again(tmp_path: Path) -> None:
    """What stays until a person does something stops the provider at once, with the cause in the words."""
    breaker = CircuitBreaker(tmp_path, "session")

    breaker.failed(SERVICE, trouble(Outcome.AUTHENTICATION, 401))

    with pytest.raises(ProviderError, match=r"https://models\.example is asked no more.*HTTP 401.*sorry"):
        breaker.check(SERVICE)


def test_passing_trouble_stops_only_after_a_row(tmp_path: Path) -> None:
    """Trouble that may pass stops the provider once as many attempts in a row ended in it."""
    breaker = CircuitBreaker(tmp_path, "session")

    for _ in range(LIMIT - 1):
        breaker.failed(SERVICE, trouble(Outcome.OVERLOADED))
    breaker.check(SERVICE)
    breaker.failed(SERVICE, trouble(Outcome.OVERLOADED))

    with pytest.raises(ProviderError, match=f"{LIMIT} attempts in a row"):
        breaker.check(SERVICE)


@pytest.mark.parametrize("between", ["an answer", "trouble of another kind"])
def test_a_row_is_broken(tmp_path: Path, between: str) -> None:
    """Only trouble of one kind, with nothing between, is a row."""
    breaker = CircuitBreaker(tmp_path, "session")

    for _ in range(LIMIT):
        breaker.failed(SERVICE, trouble(Outcome.OVERLOADED))
        if between == "an answer":
            breaker.answered(SERVICE)
        else:
            breaker.failed(SERVICE, trouble(Outcome.NETWORK))

    breaker.check(SERVICE)
    assert breaker.reason(SERVICE) == ""


def test_workers_share_it_and_the_next_session_does_not(tmp_path: Path) -> None:
    """All workers of a session know what one has met; a new session asks anew."""
    CircuitBreaker(tmp_path, "session").failed(SERVICE, trouble(Outcome.QUOTA, 429))

    assert CircuitBreaker(tmp_path, "session").reason(SERVICE)
    assert not CircuitBreaker(tmp_path, "tomorrow").reason(SERVICE)


def test_sessions_at_once_do_not_disturb_one_another(tmp_path: Path) -> None:
    """What another session of the same run notes leaves a stopped provider stopped."""
    CircuitBreaker(tmp_path, "session").failed(SERVICE, trouble(Outcome.AUTHENTICATION, 401))

    CircuitBreaker(tmp_path, "other").failed(SERVICE, trouble(Outcome.OVERLOADED))

    assert CircuitBreaker(tmp_path, "session").reason(SERVICE)
    assert not CircuitBreaker(tmp_path, "other").reason(SERVICE)


def test_providers_are_counted_apart(tmp_path: Path) -> None:
    """One provider's trouble stops no other."""
    breaker = CircuitBreaker(tmp_path, "session")

    breaker.failed(SERVICE, trouble(Outcome.AUTHENTICATION, 401))

    assert not breaker.reason(OTHER)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"session": "session"}'])
def test_a_damaged_count_is_no_reason_to_stop(tmp_path: Path, content: bytes) -> None:
    """The count only saves time: when it cannot be read, the provider is asked."""
    (tmp_path / ".provider.json").write_bytes(content)
    breaker = CircuitBreaker(tmp_path, "session")

    breaker.check(SERVICE)
    breaker.failed(SERVICE, trouble(Outcome.AUTHENTICATION, 401))

    assert breaker.reason(SERVICE)
