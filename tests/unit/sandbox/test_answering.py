"""Waiting for an engine that does not answer: for a while, once, and in words."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import cast

import pytest
from docker import DockerClient
from docker.errors import APIError
from requests.exceptions import ConnectionError as NoConnection

from pytest_researchenv.errors import DaemonUnavailableError
from pytest_researchenv.sandbox.answering import Answering


class Engine:
    """One that is away for so many questions."""

    def __init__(self, away: int) -> None:
        self.away = away
        self.asked = 0
        self.api = SimpleNamespace(base_url="unix:///engine.sock", timeout=300)

    def ping(self) -> bool:
        """Answer, or fail in one of the two ways in which docker-py does."""
        self.asked += 1
        if self.asked <= self.away:
            raise NoConnection("refused") if self.asked % 2 else APIError("starting")
        return True

    def client(self) -> DockerClient:
        """As the package takes it."""
        return cast("DockerClient", self)


def test_one_that_comes_back_is_waited_for() -> None:
    """Which is said once; one that answers costs one question, and says nothing."""
    engine, said = Engine(away=3), list[str]()
    answering = Answering(engine.client(), patience_s=20, poll_s=0.01)

    answering(said.append)
    answering(said.append)

    assert said == ["waiting for the container engine, which does not answer"]
    assert engine.asked == 5
    assert engine.api.timeout == 300


def test_one_that_stays_away_is_an_error_and_waited_for_once() -> None:
    """A run of hundreds of tests must not wait a minute for each; once it is back, it is waited for again."""
    engine = Engine(away=10**6)
    answering = Answering(engine.client(), patience_s=0.3, poll_s=0.01)
    with pytest.raises(DaemonUnavailableError, match=r"unix:///engine\.sock does not answer any more.*rerun=infra"):
        answering(lambda _: None)

    began = time.monotonic()
    with pytest.raises(DaemonUnavailableError):
        answering(lambda _: None)
    assert time.monotonic() - began < 0.2

    engine.away = 0
    answering(pytest.fail)
    engine.away = engine.asked + 3
    answering(lambda _: None)
