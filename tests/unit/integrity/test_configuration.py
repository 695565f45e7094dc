"""Configuration that has OpenSSL load code of nobody's is taken out. No Docker."""

from __future__ import annotations

import pytest

from pytest_researchenv.integrity.configuration import configuration
from pytest_researchenv.integrity.protocol import Signs
from pytest_researchenv.model import Sign
from pytest_researchenv.sandbox.fake import Link
from tests.unit.integrity.images import DEBIAN, VENV, Nodes, opened_image


CNF = "/etc/ssl/openssl.cnf"
PLAIN = "openssl_conf = all\n[all]\nproviders = them\n[them]\ndefault = usual\n[usual]\nactivate = 1\n"
LEGACY = "/usr/lib/x86_64-linux-gnu/ossl-modules/legacy.so"


def signs(nodes: Nodes, base: Nodes | None = None) -> Signs:
    """What is seen of an image with a virtual environment."""
    with opened_image({**VENV, **nodes}, base={**DEBIAN, **(base or {})}, python="/opt/venv/bin/python") as found:
        return configuration(*found)


@pytest.mark.parametrize(
    "line",
    [
        "module = /opt/evil.so",
        "  dynamic_path=/opt/evil.so",
        "SO_PATH = /opt/evil.so",
        "other::module = /opt/evil.so",
        ".include /opt/more.cnf",
        ".include = /opt/more.cnf",
        "module = ../evil.so",
        "\rmod\\\nule = /opt/evil.so",
        "a!b::module = /opt/evil.so",
    ],
)
@pytest.mark.parametrize("path", [CNF, "/usr/local/ssl/openssl.cnf", "/opt/venv/ssl/openssl.cnf"])
def test_a_library_of_nobodys(line: str, path: str) -> None:
    """The base image's configuration is in its place, or none."""
    seen = signs({path: f"{PLAIN}[evil]\n{line}\n", "/opt/evil.so": "x", "/opt/more.cnf": ""})

    assert [(finding.kind, finding.field) for finding in seen.findings] == [(Sign.HOOK, path)]
    assert seen.blanked == {path: ""}
    assert signs({CNF: f"{line}\n"}, {CNF: PLAIN}).blanked == {CNF: PLAIN}


@pytest.mark.parametrize(
    "text",
    [
        "[all]\nother = it\n[it]\npath = /opt/evil.so\n",
        "[all]\n/opt/evil.so = it\n",
        "[all]\nproviders = them\n[them]\n/opt/evil.so = it\n[it]\nactivate = 1\n",
        "[all]\nproviders = them\n[them]\nmine = it\n[it]\nidentity = /opt/evil.so\nactivate = 1\n",
        "[all]\nproviders = them\n[them]\nmine = it\n[it]\nmodule = evil\nactivate = 1\n",
        "[all]\nproviders = $ENV::X\n",
        "[all]\nengines = them\n[them]\n1./opt/evil = it\n[it]\ninit = 1\n",
        "[all]\nengines = them\n[them]\nmine = it\n[it]\nengine_id = ../../evil\n",
        "[al\\l]\nproviders = them\n",
    ],
)
@pytest.mark.parametrize("program", ["openssl_conf", "nodejs_conf"])
def test_a_library_that_no_key_for_it_names(text: str, program: str) -> None:
    """Modules of configuration, providers and engines are loaded by their names, too, and by other keys."""
    seen = signs({CNF: f"{program} = all\n{text}", "/opt/evil.so": "x"})

    assert [(finding.kind, finding.field) for finding in seen.findings] == [(Sign.HOOK, CNF)]


def test_a_mark_at_the_start_is_none_of_the_first_line() -> None:
    """OpenSSL leaves it out."""
    assert signs({CNF: "\ufeff.include /opt/more.cnf\n", "/opt/more.cnf": ""}).findings


@pytest.mark.parametrize(
    "nodes",
    [
        {},
        {CNF: "openssl_conf = all\n[all]\nssl_conf = ssl\n[ssl]\nsystem_default = tls\n[tls]\nMinProtocol = TLSv1\n"},
        {CNF: "HOME = .\n[CA_default]\ndir = ./demoCA # where\nserial = $dir/serial\n[req]\ndn = dn\\\n_of_all\n"},
        {CNF: "openssl_conf = all\r\n[ all ]\r\noid_section = ids\r\nproviders=them\r\n[them]\r\nlegacy = x\r\n"},
        {CNF: f".include {LEGACY}\n"},
        {CNF: PLAIN},
        {CNF: f"{PLAIN}# module = /opt/evil.so\nmodulus = 1\n"},
        {CNF: f"{PLAIN}module = {LEGACY}\n"},
        {CNF: Link("/opt/gone")},
    ],
)
def test_what_people_configure(nodes: Nodes) -> None:
    """Providers that the system has, and all that loads nothing."""
    assert signs(nodes, {LEGACY: "x"}) == Signs()


def test_the_base_images_own_is_no_sign() -> None:
    """Whatever it loads."""
    assert signs({}, {CNF: "module = /opt/vendor.so\n"}) == Signs()


def test_a_link_is_looked_at_where_it_leads() -> None:
    """Debian has one. One that only a process can follow is no configuration."""
    seen = signs({"/usr/lib/ssl/openssl.cnf": Link(CNF), CNF: "module = /opt/evil.so\n"})

    assert list(seen.blanked) == [CNF]
    assert list(signs({CNF: Link("/proc/self/root/opt/x.cnf")}).blanked) == [CNF]


def test_blanks_cost_nothing() -> None:
    """However many there are: a pattern that tries each end of them would take hours."""
    assert signs({CNF: f"{PLAIN}module = {LEGACY}{' ' * 2_000_000}x\n"}, {LEGACY: "x"}).findings
    assert signs({CNF: f"{PLAIN}module = {LEGACY}{' ' * 2_000_000}\n"}, {LEGACY: "x"}) == Signs()
