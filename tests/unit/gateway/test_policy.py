"""What passes a gateway, and the words in which it refuses."""

from __future__ import annotations

import json

import pytest

from pytest_researchenv.gateway.inside.headers import answer_headers, request_headers
from pytest_researchenv.gateway.inside.meter import Problem
from pytest_researchenv.gateway.inside.policy import (
    Allowlist,
    Refusal,
    bypassed,
    classify,
    public_address,
    route,
    token_matches,
    troubled,
)
from pytest_researchenv.gateway.protocol import Outcome


NO_CREDIT = (
    "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade or purchase "
    "credits."
)

MESSAGES, RESPONSES, CHAT = "anthropic-messages", "openai-responses", "openai-chat"


@pytest.mark.parametrize(
    ("api", "method", "path", "purpose"),
    [
        (MESSAGES, "POST", "/p/v1/messages", "generate"),
        (MESSAGES, "POST", "/p/v1/messages/count_tokens", "count"),
        (MESSAGES, "GET", "/p/v1/models", "models"),
        (MESSAGES, "GET", "/p/api/hello", "hello"),
        (RESPONSES, "POST", "/p/responses", "generate"),
        (CHAT, "POST", "/p/chat/completions", "generate"),
        (CHAT, "GET", "/p/models", "models"),
        (MESSAGES, "GET", "/p/v1/messages", None),
        (MESSAGES, "POST", "/v1/messages", None),
        (MESSAGES, "POST", "/p/v1/messages/", None),
        (MESSAGES, "POST", "/p//v1/messages", None),
        (MESSAGES, "POST", "/p/v1/messages/batches", None),
        (MESSAGES, "POST", "/p/v1/%6dessages", None),
        (RESPONSES, "GET", "/p/responses/resp_1", None),
        (RESPONSES, "POST", "/p/chat/completions", None),
        (CHAT, "POST", "/p/responses", None),
        (CHAT, "POST", "/p/embeddings", None),
    ],
)
def test_a_path_is_for_one_thing_or_for_nothing(api: str, method: str, path: str, purpose: str | None) -> None:
    """Paths are compared as they stand: nothing is decoded or folded."""
    found = route(api, "/p", method, path)

    assert (found.purpose if found else None) == purpose


@pytest.mark.parametrize(
    ("key", "authorization", "fits"),
    [
        ("token", "", True),
        ("", "Bearer token", True),
        ("", "bearer  token", True),
        ("other", "Bearer token", True),
        ("", "Basic token", False),
        ("", "token", False),
        ("tokens", "", False),
        ("", "", False),
        ("tök\udcffen", "", False),
    ],
)
def test_the_token_is_taken_in_either_header(key: str, authorization: str, fits: bool) -> None:  # noqa: FBT001 - a parameter
    """As the providers take their keys."""
    assert token_matches("token", key, authorization) is fits


@pytest.mark.parametrize(
    ("status", "problem", "outcome"),
    [
        (200, None, Outcome.ANSWERED),
        (401, None, Outcome.AUTHENTICATION),
        (403, Problem("permission_error", "no"), Outcome.AUTHENTICATION),
        (403, Problem("403", "your input was flagged"), Outcome.REJECTED),
        (403, None, Outcome.REJECTED),
        (402, Problem("", "Insufficient Balance"), Outcome.QUOTA),
        (402, Problem("", "This request requires more credits, or fewer max_tokens."), Outcome.REJECTED),
        (402, None, Outcome.REJECTED),
        (400, Problem("invalid_request_error", NO_CREDIT), Outcome.QUOTA),
        (200, Problem("invalid_request_error", NO_CREDIT), Outcome.QUOTA),
        (429, Problem("insufficient_quota", "You exceeded"), Outcome.QUOTA),
        (429, Problem("rate_limit_error", ""), Outcome.RATE_LIMITED),
        (503, None, Outcome.OVERLOADED),
        (529, Problem("overloaded_error", ""), Outcome.OVERLOADED),
        (500, Problem("api_error", ""), Outcome.SERVER_ERROR),
        (500, Problem("overloaded_error", ""), Outcome.OVERLOADED),
        (504, None, Outcome.SERVER_ERROR),
        (400, Problem("invalid_request_error", "no"), Outcome.REJECTED),
        (404, None, Outcome.REJECTED),
        (413, None, Outcome.REJECTED),
        (422, None, Outcome.REJECTED),
        (200, Problem("overloaded_error", ""), Outcome.OVERLOADED),
        (200, Problem("rate_limit_exceeded", ""), Outcome.RATE_LIMITED),
        (200, Problem("context_length_exceeded", ""), Outcome.REJECTED),
    ],
)
def test_an_error_has_one_name(status: int, problem: Problem | None, outcome: Outcome) -> None:
    """By status where it tells enough, and by the service's own word where it does not."""
    assert Outcome(classify(status, problem)) is outcome


@pytest.mark.parametrize(
    "said",
    [
        f"messages.0.role: not '{NO_CREDIT}'",
        "Your credit balance is too low: Extra inputs are not permitted",
        f"{NO_CREDIT}: Extra inputs are not permitted",
    ],
)
@pytest.mark.parametrize("status", [200, 400, 402])
def test_an_agent_cannot_put_words_into_a_services_mouth(said: str, status: int) -> None:
    """What an agent sent is quoted in refusals: only a whole message that the service has for this counts."""
    assert Outcome(classify(status, Problem("invalid_request_error", said))) is Outcome.REJECTED


@pytest.mark.parametrize("outcome", list(Outcome))
def test_both_sides_mean_the_same_by_trouble(outcome: Outcome) -> None:
    """The sidecar has no access to the package's own names."""
    assert troubled(outcome.value) is outcome.provider_trouble


def test_a_used_up_budget_looks_like_an_account_without_money() -> None:
    """At these errors the tools end at once."""
    claude, openai = Refusal.used_up(MESSAGES, "5 of 5 requests"), Refusal.used_up(CHAT, "5 of 5 requests")

    assert claude.status == 400
    assert json.loads(claude.body)["error"]["type"] == "invalid_request_error"
    assert json.loads(claude.body)["error"]["message"].startswith("Your credit balance is too low")
    assert openai.status == 429
    assert json.loads(openai.body)["error"]["code"] == "insufficient_quota"
    assert all("5 of 5 requests" in one.message for one in (claude, openai))


@pytest.mark.parametrize(
    ("url", "permitted"),
    [
        (("https", "pypi.org", 443), True),
        (("http", "pypi.org", 80), True),
        (("https", "PyPI.org.", 443), True),
        (("https", "pypi.org", 8443), False),
        (("http", "pypi.org", 443), False),
        (("https", "evil-pypi.org", 443), False),
        (("https", "pypi.org.evil.net", 443), False),
        (("https", "a.example.org", 443), True),
        (("https", "a.b.example.org", 443), True),
        (("https", "example.org", 443), False),
        (("https", "notexample.org", 443), False),
        (("http", "mirror.lab", 3141), True),
        (("http", "mirror.lab", 80), False),
        (("https", "151.101.0.223", 443), False),
        (("http", "10.0.0.5", 8080), True),
        (("http", "::1", 80), True),
        (("http", "[::1]", 80), True),
    ],
)
def test_hosts_are_matched_whole(url: tuple[str, str, int], permitted: bool) -> None:  # noqa: FBT001 - a parameter
    """A star stands for at least one label, a port is the scheme's unless it is named, an address is only itself."""
    allow = ("pypi.org", "*.example.org", "mirror.lab:3141", "10.0.0.5:8080", "[::1]")

    assert Allowlist(allow, ()).permits(*url) is permitted


def test_a_star_matches_no_address() -> None:
    """`*.0.223` is no network."""
    assert not Allowlist(("*.0.223",), ()).permits("https", "151.101.0.223", 443)


@pytest.mark.parametrize(
    ("host", "path"),
    [
        ("pypi.org", "/simple/pytest-researchenv/"),
        ("pypi.org", "/simple/Pytest_ResearchEnv/"),
        ("pypi.org", "/simple/pytest.researchenv/"),
        ("pypi.org", "/simple/pytest%2Dresearchenv/"),
        ("pypi.org", "/simple/pytest%252dresearchenv/"),
        ("files.pythonhosted.org", "/packages/ab/cd/pytest_researchenv-0.1.0-py3-none-any.whl"),
        ("pytest-researchenv.example.org", "/"),
        ("github.com", "/lab/pytest--researchenv"),
    ],
)
def test_a_denied_name_is_found_in_every_spelling(host: str, path: str) -> None:
    """Encoded once or twice, in capitals, with other separators."""
    assert Allowlist((), ("pytest-researchenv",)).denied(host, path) == "pytest-researchenv"


@pytest.mark.parametrize(
    ("url", "denied"),
    [
        ("api.github.com/repositories/123", True),
        ("api.github.com/repositories/123/contents", True),
        ("API.github.com:443//repositories/%3123/git/blobs/a", True),
        ("api.github.com/repositories?since=1", False),
        ("api.github.com/repos/a/b", False),
        ("example.org/repositories/123", False),
    ],
)
def test_repositories_by_number_are_denied(url: str, denied: bool) -> None:  # noqa: FBT001 - a parameter
    """GitHub serves them without their names."""
    host, slash, path = url.partition("/")

    assert bool(Allowlist((), ("pytest-researchenv",)).denied(host, slash + path)) is denied


def test_other_names_are_not_denied() -> None:
    """An empty piece denies nothing."""
    assert not Allowlist((), ("pytest-researchenv", "")).denied("pypi.org", "/simple/pytest/")


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("151.101.0.223", True),
        ("2a04:4e42::223", True),
        ("127.0.0.1", False),
        ("10.1.2.3", False),
        ("172.17.0.1", False),
        ("192.168.0.1", False),
        ("169.254.169.254", False),
        ("100.64.0.1", False),
        ("0.0.0.0", False),  # noqa: S104 - an address like others
        ("224.0.0.1", False),
        ("::1", False),
        ("fe80::1%eth0", False),
        ("fd00::1", False),
        ("::ffff:10.0.0.1", False),
        ("64:ff9b::a00:1", False),
        ("2002:0a00:0001::", False),
        ("no address", False),
    ],
)
def test_private_addresses_are_known_in_every_disguise(address: str, public: bool) -> None:  # noqa: FBT001 - a parameter
    """Also inside addresses of the next generation."""
    assert public_address(address) is public


@pytest.mark.parametrize(
    ("host", "direct", "yes"),
    [
        ("a.lab", (".lab",), True),
        ("a.lab", ("lab",), True),
        ("a.lab", ("*.lab",), True),
        ("a.lab", ("*",), True),
        ("a.lab", ("a.lab:8080",), True),
        ("slab", ("lab",), False),
        ("a.lab", ("", "b.lab"), False),
    ],
)
def test_no_proxy_means_what_tools_mean_by_it(host: str, direct: tuple[str, ...], yes: bool) -> None:  # noqa: FBT001 - a parameter
    """Domains with what is below them."""
    assert bypassed(host, direct) is yes


def test_only_known_headers_go_on() -> None:
    """Logins and whatever could make the service refuse its own key stay behind."""
    kept = dict(
        request_headers(
            [
                (b"X-API-Key", b"token"),
                (b"Authorization", b"Bearer token"),
                (b"Cookie", b"a=b"),
                (b"OpenAI-Project", b"p"),
                (b"Accept-Encoding", b"br"),
                (b"Content-Type", b"text/plain"),
                (b"User-Agent", b"codex/1 (linux; x86_64)"),
                (b"X-Stainless-Lang", b"js"),
                (b"Anthropic-Beta", b"oauth-2025, fine-1, context-1m-2025"),
                (b"anthropic-version", b"2023-06-01\x80"),
            ]
        )
    )

    assert kept == {
        b"user-agent": b"codex/1 (linux; x86_64)",
        b"x-stainless-lang": b"js",
        b"anthropic-beta": b"fine-1",
        b"content-type": b"application/json",
        b"accept-encoding": b"identity",
    }


@pytest.mark.parametrize("name", [b"a" * 201, b"<script>", b"() { :;}; x", b"sqlmap' or 1=1"])
def test_strange_names_of_tools_stay_behind(name: bytes) -> None:
    """A firewall in front of the service could refuse them."""
    assert b"user-agent" not in dict(request_headers([(b"User-Agent", name)]))


def test_answers_tell_nothing_about_the_account() -> None:
    """Cookies and the account's names are dropped, and the key is taken out of every value."""
    back = answer_headers(
        [(b"Set-Cookie", b"a=b"), (b"OpenAI-Organization", b"lab"), (b"Retry-After", b"3"), (b"X", b"key 123")],
        lambda text: text.replace("123", "***"),
    )

    assert back == [(b"Retry-After", b"3"), (b"X", b"key ***")]
