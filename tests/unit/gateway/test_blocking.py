"""What is blocked for a task is blocked in every spelling, and nothing else is."""

from __future__ import annotations

import pytest

from pytest_researchenv.gateway.inside.blocking import Blocking
from pytest_researchenv.gateway.inside.policy import Allowlist
from pytest_researchenv.gateway.inside.searches import limited
from pytest_researchenv.research.suite import load_research_suite
from pytest_researchenv.research.task import Task
from pytest_researchenv.suite import find_suite


BLOCKING = Blocking(
    ("papers.test/abs/2501.13198", "forum.test/forum?id=5U1rlpX68A", "code.test/Some-Lab"),
    ("*2501.13198*", "*scalable*low-rank*adaptation*", "*lab.pages.test*"),
)


@pytest.mark.parametrize(
    "address",
    [
        "papers.test/abs/2501.13198",
        "papers.test/abs/2501.13198v2?x=1",
        "PAPERS.test/ABS/2501.13198",
        "papers.test:8443/abs/2501.13198",
        "papers.test./abs/2501.13198",
        "papers.test.:443/abs/2501.13198",
        "export.papers.test/abs/2501.13198",
        "papers.test//abs///2501.13198",
        "papers.test/./abs/x/../2501.13198",
        "papers.test/%61bs/2501%2E13198",
        "papers.test/%2561bs/2501%252E13198",
        "papers.test/\uff41bs/2501.13198",
        "archive.test/web/2025/https://papers.test/abs/2501.13198",
        "archive.test/fetch?url=https%3A%2F%2Fcode.test%2Fsome-lab%2Fx",
        "archive.test/fetch?url=http://code.test:80/./some-lab",
        "code.test/some-lab/method/archive/main.zip",
        "code.test/other/../some-lab/x",
        "forum.test/forum?noteId=1&id=5u1rlpx68a",
        "forum.test/forum?id=5U1rlpX68A#discussion",
        "search.test/?q=Scalable+decoupled+Low_Rank.adaptation",
        "search.test/?q=scalable%20low%2Drank%20adaptation",
        "lab.pages.test",
        "lab.pages.test./",
        "mirror.test/2501.13198.pdf",
        "mirror.test/2501-13198",
        "x.test/" + "%2525252525252525252525",
    ],
)
def test_every_spelling_is_found(address: str) -> None:
    """Case, scheme, port, dot, encoding, sub-domain, doubled slashes, dots, addresses in addresses."""
    assert BLOCKING.names(address)


@pytest.mark.parametrize(
    "address",
    [
        "papers.test/abs/2501.99999",
        "notcode.test/some-lab",
        "forum.test/forum?id=another",
        "forum.test/forum",
        "code.test/other/some-lab-like",
        "code.test/search?q=some-lab",
        "pypi.org/simple/scalable/",
        "pages.test/lab",
        "papers.test/",
    ],
)
def test_everything_else_passes(address: str) -> None:
    """A host that only ends alike, another paper, a parameter that is missing."""
    assert not BLOCKING.names(address)


def test_headers_may_not_name_an_address() -> None:
    """Some servers take an address from a header; patterns are not looked for there, since any word may be in one."""
    assert BLOCKING.held("https://CODE.test/some%2Dlab/method") == "code.test/Some-Lab"
    assert not BLOCKING.held("scalable low-rank adaptation/1.0")


def test_nothing_is_blocked_where_nothing_is_to_be() -> None:
    """Other attempts pay nothing for it."""
    assert not Blocking().names("papers.test/abs/2501.13198")
    assert not Blocking().held("papers.test/abs/2501.13198")


@pytest.mark.parametrize("task", load_research_suite(find_suite("researchgym")).tasks, ids=lambda task: task.name)
def test_what_tasks_block_is_blocked_and_what_work_needs_is_not(task: Task) -> None:
    """Each of a task's own addresses is found, and no registry, hub or host of code is."""
    blocking = Blocking(task.blocked.urls, task.blocked.patterns)
    assert all(blocking.names(url) for url in task.blocked.urls)
    assert blocking.names(task.withheld.address.partition("://")[2])
    usual = [
        "pypi.org/simple/torch/",
        "files.pythonhosted.org/packages/ab/numpy-2.1.1.whl",
        "github.com/pytorch/pytorch",
    ]
    usual += ["huggingface.co/bert-base-uncased/resolve/main/config.json", "arxiv.org/abs/1706.03762"]
    assert not [address for address in usual if blocking.names(address)]


def test_every_name_may_be_reached_and_no_bare_address() -> None:
    """A host that is blocked by its name could be had by its address."""
    anywhere = Allowlist(("*",), ())
    assert anywhere.permits("https", "example.org", 443)
    assert not anywhere.permits("https", "example.org", 8443)
    assert not any(anywhere.permits("https", host, 443) for host in ("1.1.1.1", "[2606:4700::1]", "localhost"))


@pytest.mark.parametrize(
    ("host", "target", "expected"),
    [
        (
            "export.arxiv.org",
            "/api/query?search_query=ti:lora+OR+all:x",
            "/api/query?search_query=%28ti%3Alora+OR+all%3Ax%29+AND+submittedDate%3A%5B190001010000+TO+202412312359%5D",
        ),
        ("export.arxiv.org", "/api/query?id_list=1706.03762", "/api/query?id_list=1706.03762"),
        ("api.openalex.org", "/works?search=x&filter=is_oa:true", "is_oa%3Atrue%2Cto_publication_date%3A2024-12-31"),
        ("api.crossref.org", "/works?query=x&filter=until-pub-date:2030", "filter=until-pub-date%3A2024-12-31"),
        ("api.github.com", "/search/repositories?q=x+created:>2025-01-01", "q=x+created%3A%3C%3D2024-12-31"),
        (
            "api.semanticscholar.org",
            "/graph/v1/paper/search?query=x&publicationDateOrYear=2020:2026",
            "publicationDateOrYear=2020%3A2024-12-31",
        ),
        ("www.ebi.ac.uk", "/europepmc/webservices/rest/search?query=x", "FIRST_PDATE%3A%5B1900-01-01+TO+2024-12-31%5D"),
        ("pypi.org", "/search?q=x", "/search?q=x"),
        ("api.openalex.org", "/authors?search=x", "/authors?search=x"),
    ],
)
def test_searches_that_take_a_date_are_limited(host: str, target: str, expected: str) -> None:
    """Whatever limit the client gave itself; what is no such search stays as it is."""
    assert limited(host, target, "2024-12-31").endswith(expected)
    assert "2026" not in limited(host, target, "2024-12-31")
    assert limited(host, target, "") == target
