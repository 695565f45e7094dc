"""What a gateway lets through, and how it says no. Pure: knows nothing of the proxy.

Runs in the sidecar, under any Python from 3.11 on, with the standard library alone.
"""

from __future__ import annotations

import hmac
import ipaddress
import json
import re
from dataclasses import dataclass

from .meter import Problem
from .names import named


__all__ = [
    "VERSIONS",
    "Allowlist",
    "Refusal",
    "Route",
    "bypassed",
    "classify",
    "public_address",
    "route",
    "split_host",
    "token_matches",
    "troubled",
]

#: Of HTTP, that requests may name.
VERSIONS = ("HTTP/1.0", "HTTP/1.1")

MESSAGES = "anthropic-messages"

#: Default ports of the schemes, which patterns leave out.
_PORTS = {"http": 80, "https": 443}

#: In answers that are a success by their status, and in errors whose status says too little.
_KINDS = {
    "authentication_error": "authentication failure",
    "permission_error": "authentication failure",
    "invalid_api_key": "authentication failure",
    "billing_error": "quota used up",
    "insufficient_quota": "quota used up",
    "billing_hard_limit_reached": "quota used up",
    # Z.ai's number for an account without money.
    "1113": "quota used up",
    "rate_limit_error": "rate limit",
    "rate_limit_exceeded": "rate limit",
    "overloaded_error": "overloaded",
    "server_is_overloaded": "overloaded",
    "slow_down": "overloaded",
    "api_error": "server error",
    "server_error": "server error",
    "internal_error": "server error",
    "internal_server_error": "server error",
    "timeout_error": "server error",
}

#: By status; of the rest, 5xx are server errors and everything else was refused for what was asked.
_STATUSES = {
    401: "authentication failure",
    407: "network failure",
    408: "network failure",
    429: "rate limit",
    503: "overloaded",
    529: "overloaded",
}

#: How services say that an account has no money left where their type says too little: Anthropic with 400, DeepSeek and
#: OpenRouter with 402. The whole message: what an agent sent is quoted in others.
_NO_CREDIT = re.compile(
    r"your credit balance is too low to access the (anthropic|claude) api\.?"
    r"( please go to plans (&|and) billing to upgrade or purchase credits\.?)?"
    r"|insufficient balance\.?"
    r"|insufficient credits\.?( add more using https://openrouter\.ai/settings/credits\.?)?",
    re.IGNORECASE,
)

_ERRORS = {
    400: ("invalid_request_error", "invalid_request_error", None),
    401: ("authentication_error", "invalid_request_error", "invalid_api_key"),
    404: ("not_found_error", "invalid_request_error", "model_not_found"),
    413: ("request_too_large", "invalid_request_error", None),
    415: ("invalid_request_error", "invalid_request_error", None),
    429: ("rate_limit_error", "insufficient_quota", "insufficient_quota"),
    502: ("api_error", "server_error", None),
    504: ("timeout_error", "server_error", None),
}


@dataclass(frozen=True, slots=True)
class Refusal:
    """An answer of the gateway itself.

    Attributes:
        status: HTTP status.
        body: JSON in the shape of the provider's own errors.
        message: what it says.
    """

    status: int
    body: bytes
    message: str

    @classmethod
    def of(cls, api: str, status: int, message: str) -> Refusal:
        """An error as the provider would send it."""
        anthropic, openai, code = _ERRORS.get(status, ("api_error", "server_error", None))
        said: dict[str, object]
        if api == MESSAGES:
            said = {"type": "error", "error": {"type": anthropic, "message": message}}
        else:
            said = {"error": {"message": message, "type": openai, "param": None, "code": code}}
        return cls(status, json.dumps(said).encode(), message)

    @classmethod
    def used_up(cls, api: str, reason: str) -> Refusal:
        """The error at which tools give up at once, instead of trying again and again (tried)."""
        if api == MESSAGES:
            # The beginning is what Claude Code looks for.
            return cls.of(api, 400, f"Your credit balance is too low: this attempt's budget is used up ({reason}).")
        return cls.of(api, 429, f"You exceeded your current quota: this attempt's budget is used up ({reason}).")


@dataclass(frozen=True, slots=True)
class Route:
    """What a path of the model's API is for.

    Attributes:
        purpose: `generate`, `count`, `models` or `hello`.
    """

    purpose: str

    @property
    def upstream(self) -> bool:
        """Whether the service is asked; the rest the gateway answers."""
        return self.purpose in {"generate", "count"}


def route(api: str, prefix: str, method: str, path: str) -> Route | None:
    """What a request is for; None for everything that is not allowed. `path` is taken as it stands, without query."""
    if api == MESSAGES:
        table = {
            ("POST", f"{prefix}/v1/messages"): "generate",
            ("POST", f"{prefix}/v1/messages/count_tokens"): "count",
            ("GET", f"{prefix}/v1/models"): "models",
            ("GET", f"{prefix}/api/hello"): "hello",
        }
    else:
        own = "responses" if api == "openai-responses" else "chat/completions"
        table = {
            ("POST", f"{prefix}/{own}"): "generate",
            ("GET", f"{prefix}/models"): "models",
        }
    purpose = table.get((method, path))
    return Route(purpose) if purpose else None


def token_matches(token: str, api_key: str, authorization: str) -> bool:
    """Whether a request carries the attempt's token, in either header."""
    kind, _, bearer = authorization.partition(" ")
    candidates = (api_key, bearer.strip() if kind.lower() == "bearer" else "")
    # Both are always compared, and in constant time.
    return any([hmac.compare_digest(token.encode(), one.encode(errors="replace")) for one in candidates])  # noqa: C419


def classify(status: int, problem: Problem | None) -> str:
    """The value of `Outcome` for a finished answer, from its status and the error that it reports."""
    if problem is None and status < 400:  # noqa: PLR2004 - the first status of an error
        return "answered"
    kind, message = (problem.type, problem.message) if problem else ("", "")
    named = _KINDS.get(kind, "")
    if named == "quota used up" or (status in {200, 400, 402, 429} and _NO_CREDIT.fullmatch(message.strip())):
        return "quota used up"
    if status < 400:  # noqa: PLR2004 - likewise
        return named or "rejected"
    # A firewall or a moderation answers 403, too: to what an agent sent.
    if named == "overloaded" or (status == 403 and named == "authentication failure"):  # noqa: PLR2004 - likewise
        return named
    return _STATUSES.get(status) or ("server error" if status >= 500 else "rejected")  # noqa: PLR2004 - likewise


def troubled(outcome: str) -> bool:
    """Whether an outcome is trouble of the provider, as `Outcome.provider_trouble`."""
    return outcome not in {"answered", "budget used up", "denied", "rejected", "given up"}


def public_address(address: str) -> bool:
    """Whether an IP address lies in the public internet, and not on this host, its networks or a cloud's services."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(parsed, ipaddress.IPv6Address):
        # Addresses that mean an IPv4 one.
        inner = parsed.ipv4_mapped or parsed.sixtofour or (parsed.teredo[1] if parsed.teredo else None)
        if inner is None and parsed in ipaddress.ip_network("64:ff9b::/96"):
            inner = ipaddress.IPv4Address(int(parsed) & 0xFFFFFFFF)
        if inner is not None:
            parsed = inner
    return parsed.is_global and not parsed.is_multicast and not parsed.is_reserved


@dataclass(frozen=True, slots=True)
class Allowlist:
    """Where requests may go.

    Attributes:
        allow: patterns of hosts, as in `GatewayRequest.allow`.
        deny: pieces of host and path that are refused everywhere.
    """

    allow: tuple[str, ...]
    deny: tuple[str, ...]

    def permits(self, scheme: str, host: str, port: int) -> bool:
        """Whether the host may be asked; an IP address only where a pattern is that address."""
        name = host.lower().rstrip(".").strip("[]")
        return any(_matches(pattern, scheme, name, port) for pattern in self.allow)

    def permits_tunnel(self, host: str, port: int) -> bool:
        """Whether a tunnel may be opened, in which nothing has been asked yet."""
        return self.permits("https", host, port) or self.permits("http", host, port)

    def denied(self, host: str, path: str) -> str:
        """What is refused in a URL: a piece of `deny`, or a repository without its name; empty for nothing."""
        return named(f"{host}{path}", self.deny)


def _matches(pattern: str, scheme: str, name: str, port: int) -> bool:
    wanted, wanted_port = split_host(pattern.lower())
    if port != (wanted_port or _PORTS.get(scheme, 0)):
        return False
    if wanted == "*":
        # By its bare address a host could be had that is blocked by its name.
        return "." in name and not _is_address(name)
    if wanted.startswith("*."):
        # An address has no domains above it.
        return name.endswith(wanted[1:]) and len(name) > len(wanted) - 1 and not _is_address(name)
    return name == wanted


def split_host(pattern: str) -> tuple[str, int | None]:
    """Host and port of `host`, `host:8080`, `[::1]:8080` or `::1`."""
    found = re.fullmatch(r"\[(.+)\](?::(\d+))?|([^:]+)(?::(\d+))?", pattern)
    if found is None:
        return pattern, None
    port = found[2] or found[4]
    return (found[1] or found[3]).rstrip("."), int(port) if port else None


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def bypassed(host: str, direct: tuple[str, ...]) -> bool:
    """Whether a host is reached without the proxy, by entries of `no_proxy`: `*`, `host`, `.domain`, perhaps a port."""
    name = host.lower().rstrip(".").strip("[]")
    for entry in direct:
        wanted = split_host(entry.strip().lower().removeprefix("*"))[0].lstrip(".")
        if entry.strip() == "*" or (wanted and (name == wanted or name.endswith(f".{wanted}"))):
            return True
    return False
