"""Whether an address names something that is refused, in every spelling that a server could understand."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from pytest_researchenv.gateway.inside.names import BY_NUMBER, OVER_ENCODED, named


OWN = ("pytest-researchenv", "researchenvbench")


@pytest.mark.parametrize(
    "address",
    [
        "pypi.org/simple/pytest-researchenv/",
        "pypi.org/simple/pytest_researchenv/",
        "pypi.org/simple/pytest.researchenv/",
        "pypi.org/simple/PyTest-ResearchEnv",
        "pypi.org/simple//pytest__researchenv//",
        "pypi.org/simple/x/../pytest-researchenv/",
        "pypi.org/simple/./%70ytest%2dresearchenv/",
        "pypi.org/simple/pytest%252dresearchenv/",
        "pypi.org/simple/pytest-re\u017fearchenv/",
        "pypi.org/simple/pytest-re%C5%BFearchenv/",
        "pypi.org/simple/\uff50ytest-researchenv/",
        "pypi.org/simple/pytest-research\u00adenv/",
        "pypi.org/simple/pytest-research%00env/",
        "pypi.org/pypi/pytest-researchenv/json",
        "pypi.org/rss/project/pytest-researchenv/releases.xml",
        "files.pythonhosted.org/packages/ab/cd/ef/pytest_researchenv-0.1.0-py3-none-any.whl",
        "files.pythonhosted.org/packages/ab/cd/ef/pytest_researchenv-0.1.0-py3-none-any.whl.metadata",
        "files.pythonhosted.org/packages/ab/cd/ef/pytest_researchenv-0.1.0.tar.gz",
        "conda.anaconda.org/conda-forge/noarch/pytest-researchenv-0.1.0-pyhd8ed1ab_0.conda",
        "github.com/lab/pytest-researchenv",
        "github.com/lab/pytest-researchenv.git/info/refs?service=git-upload-pack",
        "github.com/lab/pytest-researchenv.git/git-upload-pack",
        "github.com/lab/Pytest-Researchenv/archive/refs/heads/main.tar.gz",
        "raw.githubusercontent.com/lab/pytest-researchenv/main/suites/quickstart/kvpress/oracle.sh",
        "codeload.github.com/lab/pytest-researchenv/tar.gz/main",
        "api.github.com/repos/lab/pytest-researchenv/tarball",
        "gitlab.com/api/v4/projects/lab%2Fpytest-researchenv/repository/archive",
        "mirror.example/https://github.com/lab/pytest-researchenv",
        "mirror.example/https%3A%2F%2Fgithub.com%2Flab%2Fpytest%2Dresearchenv",
        "huggingface.co/datasets/lab/ResearchEnvBench/resolve/main/x.sh",
        "hub.example/models?search=researchenvbench",
        "proxy.golang.org/github.com/!lab/!research!env!bench/@v/v0.0.0.zip",
        "pytest-researchenv.readthedocs.io/",
        "pytest-researchenv.example:8443/",
    ],
)
def test_our_names_are_found_in_every_spelling(address: str) -> None:
    """Whatever a registry, a Git host, a mirror or a server would take for the name."""
    assert named(address, OWN) in OWN


@pytest.mark.parametrize("times", range(9))
def test_encoding_more_often_hides_nothing(times: int) -> None:
    """An address that is encoded more often than any program does is refused for that."""
    text = "pytest-researchenv".replace("-", "%2d")
    for _ in range(times):
        text = quote(text, safe="")

    assert named(f"pypi.org/simple/{text}/", OWN) in {*OWN, OVER_ENCODED}


@pytest.mark.parametrize(
    "address",
    [
        "pypi.org/simple/pytest/",
        "pypi.org/simple/",
        "pypi.org/simple/researchenv/",
        "pypi.org/simple/pytest-research-env/",
        "pypi.org/simple/pytestresearchenv/",
        "github.com/pytest-dev/pytest",
        "pypi.org/simple/pytest/researchenv/",
        "hub.example/search?q=pytest+researchenv",
        "a.example/%E4%BD%A0%E5%A5%BD/%FF%FE?x=%",
        "",
    ],
)
def test_other_names_are_not_ours(address: str) -> None:
    """Words of the name alone, and names that registries tell from it, are not refused."""
    assert named(address, OWN) == ""


@pytest.mark.parametrize(
    ("address", "by_number"),
    [
        ("api.github.com/repositories/123", True),
        ("api.github.com./repositories/123/tarball", True),
        ("api.github.com/repositories/./123", True),
        ("api.github.com/repositories//%31/contents", True),
        ("api.github.com/./repositories/%2e/1", True),
        ("API.GITHUB.COM:443/repositories/1", True),
        ("api.github.com/repositories?since=1", False),
        ("api.github.com/repos/a/b", False),
        ("api.github.com/search/repositories?q=torch", False),
        ("gitlab.com/api/v4/projects/1/packages/pypi/simple", False),
    ],
)
def test_repositories_by_number_are_told(address: str, by_number: bool) -> None:  # noqa: FBT001 - a parameter
    """Also where a server removes what means nothing in a path."""
    assert (named(address, OWN) == BY_NUMBER) is by_number


def test_without_names_nothing_is_refused() -> None:
    """Not even what is encoded over and over, or asked for by a number."""
    assert named("api.github.com/repositories/1", ()) == ""
    assert named("pypi.org/" + "%25" * 50, ("",)) == ""


def test_a_hostile_address_takes_no_time() -> None:
    """64 KB of percent signs, and letters that stand for many."""
    assert named("a.example/" + "%25" * 20_000 + "\ufdfa" * 20_000, OWN) in {"", OVER_ENCODED}
