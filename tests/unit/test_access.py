"""What agents reach their models and the outside with: keys, prices, limits, hosts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_researchenv.access import Access, shown
from pytest_researchenv.agents.protocol import Needs
from pytest_researchenv.engine import Engine
from pytest_researchenv.errors import ConfigurationError
from pytest_researchenv.gateway.hosts import USUAL_HOSTS, hosts_in
from pytest_researchenv.gateway.protocol import Api, Auth, Budget, ModelService, Reach
from pytest_researchenv.integrity.canaries import OWN_NAMES, canaries_of
from pytest_researchenv.model import PathSource, Repository
from pytest_researchenv.sandbox.fake import FakeSandbox
from pytest_researchenv.sandbox.protocol import Mount
from pytest_researchenv.settings import AgentSettings


SERVICE = ModelService(Api.MESSAGES, "https://models.example", Auth.API_KEY, "EXAMPLE_KEY", "claude-sonnet-4-5")
UNPRICED = replace(SERVICE, model="nobody-knows")
KEYS = {"EXAMPLE_KEY": "sk-something-long"}


def access(settings: AgentSettings | None = None, environ: dict[str, str] | None = None) -> Access:
    """Access with some settings and variables."""
    return Access(settings or AgentSettings(), KEYS if environ is None else environ)


def engine(environment: dict[str, str] | None = None) -> Engine:
    """An engine whose host has some settings."""
    return Engine(FakeSandbox(), "base", "", (), environment or {}, Mount("tools", "/tools"))


def test_a_missing_key_is_told_with_every_place(tmp_path: Path) -> None:
    """Before work starts the user hears which key is missing, and where it was looked for."""
    problem = access(AgentSettings(folders=(tmp_path,)), {}).problem(Needs(service=SERVICE))

    assert "EXAMPLE_KEY" in problem
    assert str(tmp_path / ".env") in problem
    assert "keyring" in problem


def test_a_limit_that_could_not_hold_is_refused() -> None:
    """Cost cannot be limited where there is no price: neither by a profile nor for the run."""
    needs = Needs(service=UNPRICED)

    assert access().problem(needs) == ""
    assert "nobody-knows has no known price" in access().problem(replace(needs, budget=Budget(max_cost_usd=1.0)))
    assert "no known price" in access(AgentSettings(max_cost_usd=1.0)).problem(needs)


def test_prices_of_the_users_own_lift_that(tmp_path: Path) -> None:
    """A price in the user's file makes a limit hold."""
    prices = tmp_path / "prices.toml"
    prices.write_text('["nobody-knows"]\ntokens_in = 1.0\ntokens_out = 2.0\n')
    settings = AgentSettings(prices=prices, max_cost_usd=1.0)

    assert access(settings).problem(Needs(service=UNPRICED)) == ""


def test_nothing_stands_before_agents_that_need_nothing() -> None:
    """Scripts on an open network have no gateway; with an allowlist, they have."""
    assert access().request(Needs(prompted=False), engine(), max_cost_usd=None, labels={}) is None
    assert access().request(Needs(reach=Reach.ALLOWLIST), engine(), max_cost_usd=None, labels={}) is not None


def test_the_allowlist_is_the_usual_hosts_the_labs_and_the_users() -> None:
    """Hosts of the host's own package settings may be reached, its proxies' not; other networks have no list."""
    host = engine({"PIP_INDEX_URL": "https://mirror.lab.example:8443/simple", "https_proxy": "http://proxy.lab:3128"})
    needs = access(AgentSettings(allow=("data.example",))).needs(Needs(service=SERVICE, reach=Reach.ALLOWLIST))

    request = access().request(needs, host, max_cost_usd=2.0, labels={"researchenv.attempt": "x"})

    assert request is not None
    assert set(request.allow) == {*USUAL_HOSTS, "mirror.lab.example:8443", "data.example"}
    assert request.deny == OWN_NAMES
    assert request.canaries == tuple(canaries_of())
    assert request.budget == Budget(max_cost_usd=2.0)
    assert request.key is not None
    assert "sk-something" not in repr(request)
    open_ = access().request(Needs(service=SERVICE), host, max_cost_usd=None, labels={})
    assert open_ is not None
    assert open_.allow == ()


def test_what_must_not_come_in_is_known_by_the_repositorys_suite_too(tmp_path: Path) -> None:
    """A user's own suite has its own canary."""
    (tmp_path / "suite.toml").write_text('name = "mine"\ncanary = "mine canary 1234567890"\n')
    repository = Repository("one", PathSource("."), folder=str(tmp_path / "one"))
    needs = Needs(reach=Reach.ALLOWLIST)

    request = access().request(needs, engine(), max_cost_usd=None, labels={}, repository=repository)

    assert request is not None
    assert set(request.canaries) == {*canaries_of(), "mine canary 1234567890"}


def test_options_decide_for_agents_that_are_told_what_to_do_alone() -> None:
    """The network option does not change what recipes reach."""
    strict = access(AgentSettings(reach=Reach.NONE))

    assert strict.needs(Needs(service=SERVICE)).reach is Reach.NONE
    assert strict.needs(Needs(prompted=False)).reach is Reach.OPEN


def test_a_request_without_key_is_refused() -> None:
    """No attempt begins without what it needs."""
    with pytest.raises(ConfigurationError, match="EXAMPLE_KEY"):
        access(environ={}).request(Needs(service=SERVICE), engine(), max_cost_usd=None, labels={})


def test_a_budget_in_words() -> None:
    """What is recorded with an environment names each limit."""
    assert shown(Budget(2.5, 1000, 10)) == "$2.5, tokens 1000, requests 10"
    assert shown(Budget()) == "no limit"


@pytest.mark.parametrize(
    ("value", "hosts"),
    [
        ("https://user:secret@a.example/simple", ("a.example",)),
        ("http://a.example:80/ https://a.example:8443/x", ("a.example", "a.example:8443")),
        ("file:///wheels", ()),
        ("https://[::1", ()),
        ("name=https://b.example/simple", ("b.example",)),
    ],
)
def test_hosts_of_settings(value: str, hosts: tuple[str, ...]) -> None:
    """Addresses in settings become hosts, without user and password, with a port that is not the usual one."""
    assert hosts_in({"UV_INDEX": value}) == hosts
    assert hosts_in({"HTTPS_PROXY": value}) == ()
