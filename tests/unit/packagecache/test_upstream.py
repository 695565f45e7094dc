"""Rules of where the package cache gets packages from, and of what containers are told in its place."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from pytest_researchenv.errors import ConfigurationError
from pytest_researchenv.gateway.protocol import GatewayRequest, Reach
from pytest_researchenv.packagecache.protocol import HOST, INDEX_URL, NAME, with_packages
from pytest_researchenv.packagecache.upstream import Upstream, replaced
from pytest_researchenv.sandbox._hostconfig import HostConfiguration
from pytest_researchenv.sandbox.hostsettings import carry


PRIVATE = "https://user:word@index.example/simple"


def host(**settings: Mapping[str, str]) -> HostConfiguration:
    """A host's settings, of which only some are given."""
    parts = ("pip", "uv", "npm", "proxies", "certificates")
    return HostConfiguration(**{part: settings.get(part, {}) for part in parts})


def test_the_hosts_own_index_is_behind_the_cache() -> None:
    """Index, further indexes and proxy are those of the host's pip; what no container reaches is left out."""
    pip = {"index-url": PRIVATE, "extra-index-url": "https://two.example/simple/ file:///wheels http://127.0.0.1/x"}
    found = Upstream.of(host(pip=pip, proxies={"https_proxy": "http://proxy:3128"}))
    said = json.loads(found.document(7))["environment"]
    assert said["PROXPI_INDEX_URL"] == f"{PRIVATE}/"
    assert said["PROXPI_EXTRA_INDEX_URLS"] == "https://two.example/simple/"
    assert (said["https_proxy"], said["PROXPI_CACHE_SIZE"]) == ("http://proxy:3128", "7")


def test_pypi_is_behind_it_where_the_host_says_nothing() -> None:
    """As for pip itself."""
    assert Upstream.of(host()).index == "https://pypi.org/simple/"


@pytest.mark.parametrize(
    "pip",
    [
        {"index-url": "http://localhost:3141/simple"},
        {"index-url": "file:///simple"},
        {"no-index": "true"},
        {"no-index": "Y"},
    ],
)
def test_an_index_that_no_container_reaches_has_no_cache(pip: Mapping[str, str]) -> None:
    """The reason names the index."""
    with pytest.raises(ConfigurationError, match="index"):
        Upstream.of(host(pip=pip))


def test_hosts_that_pip_trusts_are_told_whatever_their_spelling() -> None:
    """Letters' case says nothing, no port means every port, and what is no host is left out."""
    found = Upstream.of(host(pip={"trusted-host": "Index.Example two.example:8443 ::1 [::2]:1 three:x"}))
    assert found.trusted == (("index.example", None), ("two.example", 8443), ("::1", None), ("::2", 1))
    assert json.loads(found.document(0))["trusted"][:2] == [["index.example", None], ["two.example", 8443]]


@pytest.mark.parametrize("said", ["false", "No", "0", "off"])
def test_a_switch_that_is_off_is_off(said: str) -> None:
    """A host whose pip says `no-index = false` has an index."""
    assert Upstream.of(host(pip={"no-index": said, "index-url": PRIVATE})).index == f"{PRIVATE}/"


def test_its_secrets_stand_in_no_message() -> None:
    """Neither what it prints as nor a refusal holds a password."""
    assert "word" not in repr(Upstream.of(host(pip={"index-url": PRIVATE})))
    with pytest.raises(ConfigurationError) as raised:
        Upstream.of(host(pip={"index-url": "http://user:word@localhost/simple"}))
    assert "word" not in str(raised.value)


def test_pips_own_certificates_are_taken(tmp_path: Path) -> None:
    """The authorities that pip trusts are trusted by the cache; a file that cannot be read is as none."""
    bundle = tmp_path / "ca.pem"
    bundle.write_text("authority")
    found = Upstream.of(host(certificates={"SSL_CERT_FILE": str(tmp_path / "none"), "PIP_CERT": str(bundle)}))
    assert found.authorities == "authority"
    assert not Upstream.of(host(certificates={"PIP_CERT": str(tmp_path / "none")})).authorities


def test_a_cache_is_shared_by_those_with_the_same_settings_alone() -> None:
    """Other credentials, another cache: what a private index gave to one is nobody else's."""
    one, other = host(pip={"index-url": PRIVATE}), host(pip={"index-url": PRIVATE.replace("word", "other")})
    assert Upstream.of(one).key("here") == Upstream.of(one).key("here")
    assert Upstream.of(one).key("here") != Upstream.of(other).key("here")


def test_caches_for_the_same_indexes_are_known_without_their_secrets() -> None:
    """Other credentials or proxies, the same indexes; another path, one index more or another host, other ones."""
    told = Upstream.of(host(pip={"index-url": PRIVATE})).index_key("here")
    same = Upstream.of(host(pip={"index-url": PRIVATE.replace("word", "other")}, proxies={"https_proxy": "http://p:1"}))
    assert same.index_key("here") == told
    further = {"extra-index-url": "https://two.example/"}
    for pip in ({"index-url": PRIVATE + "/b"}, {"index-url": PRIVATE, **further}):
        assert Upstream.of(host(pip=pip)).index_key("here") != told
    assert same.index_key("there") != told


def test_hosts_that_share_an_engine_share_no_cache() -> None:
    """A user's number says nothing on another host, and the lock of a cache is a file of one host."""
    found = Upstream.of(host(pip={"index-url": PRIVATE}))
    assert found.key("here") != found.key("there")


def test_containers_are_told_of_the_cache_in_the_place_of_the_indexes() -> None:
    """The host's indexes, with their credentials, and pip's proxy for them are not told; all else stays."""
    settings = {
        "PIP_INDEX_URL": PRIVATE,
        "PIP_EXTRA_INDEX_URL": PRIVATE,
        "UV_INDEX": PRIVATE,
        "PIP_PROXY": "http://p:1",
    }
    told = replaced({**settings, "PIP_CERT": "/ca", "no_proxy": "lab"}, uv_own=frozenset(), proxied=False)
    assert told == {
        "PIP_INDEX_URL": INDEX_URL,
        "UV_INDEX_URL": INDEX_URL,
        "PIP_TRUSTED_HOST": NAME,
        "PIP_CERT": "/ca",
        "no_proxy": f"lab,{NAME}",
        "NO_PROXY": NAME,
    }


def test_where_all_goes_through_a_proxy_the_cache_does() -> None:
    """Otherwise what an agent gets would be on no record."""
    assert not {name for name in replaced({}, uv_own=frozenset(), proxied=True) if "proxy" in name.lower()}


def test_indexes_of_uv_alone_stay() -> None:
    """The cache asks what pip is set to: what is set for uv alone it does not have."""
    own = Upstream.of(host(uv={"UV_DEFAULT_INDEX": PRIVATE})).uv_own
    told = replaced({"UV_DEFAULT_INDEX": PRIVATE}, uv_own=own, proxied=False)
    assert (told["UV_DEFAULT_INDEX"], "UV_INDEX_URL" in told) == (PRIVATE, False)


def test_what_uv_has_of_pips_indexes_is_replaced_beside_its_own() -> None:
    """An index of uv's own keeps none of pip's, with its password, in a container."""
    pip = {"index-url": PRIVATE, "extra-index-url": PRIVATE}
    both = host(pip=pip, uv={"UV_INDEX": "https://own.example/simple"})
    told = replaced(carry(both, ()).environment, uv_own=Upstream.of(both).uv_own, proxied=False)
    assert (told["UV_INDEX"], told["UV_INDEX_URL"]) == ("https://own.example/simple", INDEX_URL)
    assert "word" not in str(told)


class _There:
    network = "researchenv-packages-key"


@pytest.mark.parametrize("reach", Reach)
def test_only_an_allowlists_gateway_reaches_the_cache(reach: Reach) -> None:
    """With an open network containers ask it themselves, and with none nothing may."""
    asked = with_packages(GatewayRequest(reach=reach), _There())  # type: ignore[arg-type] # Nothing else is looked at.
    listed = reach is Reach.ALLOWLIST
    assert (HOST in asked.allow, bool(asked.package_network)) == (listed, listed)
