"""Rules of what is told of requests to the outside."""

from __future__ import annotations

import pytest

from pytest_researchenv.gateway.inside import told
from pytest_researchenv.gateway.inside.told import Told


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as a test can make."""
    for name, count in {"_REQUESTS": 3, "_OWN": 2, "_HOSTS": 2}.items():
        monkeypatch.setattr(told, name, count)


def test_after_many_requests_each_host_is_told_once() -> None:
    """Whoever sends any number of requests hides none that something came from, and fills nobody's memory."""
    made = Told()

    assert all(made.admits("a", allowed=True, own=False) for _ in range(3))
    assert [made.admits(host, allowed=True, own=False) for host in "aabbcd"] == [True, False, True, *[False] * 3]


def test_what_was_refused_is_not_told_after_many() -> None:
    """Nothing came from there."""
    made = Told()
    for _ in range(3):
        made.admits("a", allowed=False, own=False)

    assert not made.admits("b", allowed=False, own=False)
    assert made.admits("b", allowed=True, own=False)


def test_what_is_the_benchmarks_own_is_counted_apart() -> None:
    """It does not drown in others, and is bounded as well."""
    made = Told()
    for _ in range(5):
        made.admits("a", allowed=True, own=False)

    assert [made.admits("a", allowed=False, own=True) for _ in range(3)] == [True, True, False]
