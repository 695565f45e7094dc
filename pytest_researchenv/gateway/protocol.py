"""The values that cross the border between agents, the harness and the gateway, and the seam to a gateway.

Plain dataclasses: importing this module imports nothing heavy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from pytest_researchenv.secrets import Secret


__all__ = [
    "Api",
    "Auth",
    "Blocking",
    "Budget",
    "Call",
    "EgressRequest",
    "Gateway",
    "GatewayAddress",
    "GatewayRequest",
    "Ledger",
    "ModelService",
    "Outcome",
    "Price",
    "Reach",
    "Trouble",
    "Usage",
]


class Api(StrEnum):
    """Protocols in which models are served."""

    MESSAGES = "anthropic-messages"
    RESPONSES = "openai-responses"
    CHAT = "openai-chat"


class Auth(StrEnum):
    """In which header a service takes its key."""

    API_KEY = "x-api-key"
    BEARER = "bearer"


class Reach(StrEnum):
    """What an agent's container may reach beside its model."""

    OPEN = "open"
    ALLOWLIST = "allowlist"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class ModelService:
    """Where a model answers.

    Attributes:
        api: the protocol it is served in.
        endpoint: base URL as the provider's own tools take it: `https://api.anthropic.com`, `https://api.openai.com/v1`.
        auth: in which header it takes its key.
        key: name of the secret, as its environment variable is called: `ANTHROPIC_API_KEY`.
        model: the model that the agent is.
        also: other models that the tool may ask, such as a small one for titles.
    """

    api: Api
    endpoint: str
    auth: Auth
    key: str
    model: str
    also: tuple[str, ...] = ()

    @property
    def models(self) -> tuple[str, ...]:
        """Every model that may be asked."""
        return (self.model, *self.also)


@dataclass(frozen=True, slots=True)
class Budget:
    """What an attempt may use at most; None for no limit.

    Attributes:
        max_cost_usd: money, in US dollars.
        max_tokens: tokens, input (cached ones, too) and output together.
        max_requests: requests to the model.
    """

    max_cost_usd: float | None = None
    max_tokens: int | None = None
    max_requests: int | None = None


@dataclass(frozen=True, slots=True)
class Price:
    """What a model's tokens cost, in US dollars per million.

    Attributes:
        tokens_in: input that was not cached.
        tokens_out: output, reasoning included.
        cache_read: input that was read from a cache; None: as `tokens_in`.
        cache_write: input that was written to a cache; None: as `tokens_in`.
        cache_write_long: input that was written to a cache for an hour; None: as `cache_write`.
    """

    tokens_in: float
    tokens_out: float
    cache_read: float | None = None
    cache_write: float | None = None
    cache_write_long: float | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens as the service reported them. The input is the sum of the first three.

    Attributes:
        tokens_in: input that was neither read from nor written to a cache.
        cache_read: input that was read from a cache.
        cache_write: input that was written to a cache.
        tokens_out: output, reasoning included.
        reasoning: output that was reasoning, where the service tells.
    """

    tokens_in: int = 0
    cache_read: int = 0
    cache_write: int = 0
    tokens_out: int = 0
    reasoning: int = 0

    @property
    def total(self) -> int:
        """Input and output together."""
        return self.tokens_in + self.cache_read + self.cache_write + self.tokens_out


class Outcome(StrEnum):
    """What became of a request to the model."""

    ANSWERED = "answered"
    #: Refused by the gateway: a budget is used up.
    BUDGET = "budget used up"
    #: Refused by the gateway: no or a wrong token, another model, another path.
    DENIED = "denied"
    #: Refused by the service for what was asked (400, 404, 413, 422): the agent's own doing.
    REJECTED = "rejected"
    #: The agent's tool closed the connection before the answer was complete.
    ABANDONED = "given up"
    # The rest is trouble of the provider, or on the way to it.
    AUTHENTICATION = "authentication failure"
    QUOTA = "quota used up"
    RATE_LIMITED = "rate limit"
    OVERLOADED = "overloaded"
    SERVER_ERROR = "server error"
    NETWORK = "network failure"
    CUT = "answer cut off"
    MALFORMED = "malformed answer"
    #: Refused as `REJECTED`, the gateway's own question as well, and never answered before: no such model or endpoint.
    UNSERVED = "not served"

    @property
    def provider_trouble(self) -> bool:
        """Whether it is nobody's fault who builds environments."""
        own = {Outcome.ANSWERED, Outcome.BUDGET, Outcome.DENIED, Outcome.REJECTED, Outcome.ABANDONED}
        return self not in own

    @property
    def lasting(self) -> bool:
        """Whether it stays until a person does something; see `Trouble.lasting`, too."""
        return self in {Outcome.AUTHENTICATION, Outcome.QUOTA}


@dataclass(frozen=True, slots=True)
class Call:
    """One request to the model, once it is over.

    Attributes:
        at: seconds since the epoch when it came.
        path: path without query.
        model: as the request names it; empty where it names none.
        outcome: what became of it.
        status: HTTP status that the service answered; None where it did not.
        latency_s: seconds from the request to the end of the answer.
        usage: tokens; zeros where nothing was reported.
        complete: whether the service reported all of its usage; else `usage` is a lower bound.
        cost_usd: what its usage cost; None where the model has no known price.
        charged_usd: what it took from the budget: its cost, or the most that it can have cost where its usage was not
            told in full.
        message: what the service said when it refused, one line, at most 300 characters; without any secret. `control`
            for a question of the gateway's own.
    """

    at: float
    path: str
    model: str
    outcome: Outcome
    status: int | None
    latency_s: float
    usage: Usage = field(default_factory=Usage)
    complete: bool = True
    cost_usd: float | None = None
    charged_usd: float = 0.0
    message: str = ""


@dataclass(frozen=True, slots=True)
class EgressRequest:
    """One request to the outside that went through the gateway, or was refused by it.

    Attributes:
        at: seconds since the epoch when it came.
        method: `GET`, …; `CONNECT` for a tunnel that was refused before anything was asked in it.
        host: host name, with `:port` where it is not the scheme's own.
        path: path without query; empty for a refused tunnel.
        allowed: whether it was let through.
        status: HTTP status of the answer; None where there was none.
        bytes_up: bytes of the request's body.
        bytes_down: bytes of the answer's body that were passed on.
        reason: why it was refused, or its answer not passed on to its end; empty where it was let through.
    """

    at: float
    method: str
    host: str
    path: str
    allowed: bool
    status: int | None = None
    bytes_up: int = 0
    bytes_down: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Trouble:
    """Trouble with the provider at the end of an agent's work.

    Attributes:
        outcome: its kind.
        status: HTTP status, where there was one.
        message: what the service said, one line.
        times: how many requests in a row ended like this, or in other trouble.
    """

    outcome: Outcome
    status: int | None
    message: str
    times: int

    @property
    def lasting(self) -> bool:
        """Whether it stays until a person does something: a model that is gone (404, 410, 451) does not come back."""
        gone = self.outcome is Outcome.UNSERVED and self.status in {404, 410, 451}
        return self.outcome.lasting or gone

    def __str__(self) -> str:
        status = f" (HTTP {self.status})" if self.status else ""
        said = f": {self.message}" if self.message else ""
        return f"{self.outcome}{status}{said}"


class Ledger(Protocol):
    """What a gateway has seen so far. Safe to be read from any thread."""

    @property
    def calls(self) -> tuple[Call, ...]:
        """Every request to the model that is over, in the order they ended."""

    @property
    def egress(self) -> tuple[EgressRequest, ...]:
        """Every request to the outside, in the order they came."""

    @property
    def usage(self) -> Usage:
        """Tokens of all calls."""

    @property
    def cost_usd(self) -> float | None:
        """Cost of all calls; None when a call that used tokens has no known price."""

    @property
    def charged_usd(self) -> float:
        """What all calls took from the budget, in US dollars."""

    @property
    def exhausted(self) -> str:
        """Which budget is used up, in words with the figures; empty while none is."""

    @property
    def last_activity(self) -> float:
        """When a request came or ended, or an answer's bytes passed last, on this host's monotonic clock."""

    @property
    def silent_s(self) -> float:
        """How long the service has sent nothing although requests are on their way, in seconds; 0 while none is.

        Requests whose client does not take what is there for it are not counted: the service may have more to say.
        """

    def lines(self) -> Iterator[bytes]:
        """Every call and request to the outside as a line of JSON each, in the order they ended."""

    @property
    def failure(self) -> str:
        """Why the gateway itself no longer works, in words; empty while it does."""

    @property
    def trouble(self) -> Trouble | None:
        """Trouble that the newest calls ended in, no call having been answered since; None where the last one was.

        A service that has sent nothing for minutes, although it is asked, is in trouble, too. Refusals by the gateway,
        requests that were rejected or given up, and answers that are not read neither make nor end trouble: an agent
        can cause them. Refusals that would make lasting trouble, or come before anything was answered, count only after
        the service has refused a question of the gateway's own; where it answers that, the call `control` is on record.
        """


@dataclass(frozen=True, slots=True)
class Blocking:
    """What may not be reached, on whatever host and in whatever spelling.

    Attributes:
        urls: addresses without scheme; what begins with one is blocked, on hosts below its host and inside other
            addresses, too.
        patterns: shell patterns that an address (host, path and query) may not match.
        search_until: last day, as `2024-12-31`, that answers of a search may be from, where the search takes a date;
            empty for no limit.
    """

    urls: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    search_until: str = ""


@dataclass(frozen=True, slots=True)
class GatewayAddress:
    """How an agent's tool reaches its model through the gateway.

    Attributes:
        url: takes the place of `ModelService.endpoint`: same path, no slash at its end.
        token: takes the place of the key; worth nothing once the attempt has ended.
    """

    url: str
    token: str


@dataclass(frozen=True, slots=True)
class GatewayRequest:
    """What a gateway is to do for one attempt.

    Attributes:
        service: the model behind it; None where the agent needs none.
        key: the service's real key; None where it takes none.
        budget: what the attempt may use.
        prices: model → price.
        reach: what the agent's container may reach beside the model.
        allow: with `Reach.ALLOWLIST`, hosts that may be reached: `pypi.org`, `*.example.org` (all below it), `*` (every
            name, no bare address), with `:port` for another port than the scheme's own.
        deny: pieces of URLs that are refused whatever the host: our own distribution's and repository's names.
        blocking: with `Reach.ALLOWLIST`, what may not be reached although its host may; None for nothing.
        canaries: with `Reach.ALLOWLIST`, texts that must not come in: an answer that holds one is not passed on.
        on_host: whether the agent's tool runs on the host of pytest.
        lifetime_s: after how many seconds it refuses everything and ends, so that nothing is spent once nobody looks
            after it any more; None: never.
        labels: labels of all that is made for it.
        package_network: with `Reach.ALLOWLIST`, the private network in which a package cache answers, which `allow`
            has to name; empty for none.
    """

    service: ModelService | None = None
    key: Secret | None = None
    budget: Budget = field(default_factory=Budget)
    prices: Mapping[str, Price] = field(default_factory=dict)
    reach: Reach = Reach.OPEN
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    blocking: Blocking | None = None
    canaries: tuple[str, ...] = ()
    on_host: bool = False
    lifetime_s: float | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    package_network: str = ""


class Gateway(Protocol):
    """A gateway at work, for one attempt."""

    @property
    def network(self) -> str:
        """The private network that the agent's container must join to reach it."""

    @property
    def address(self) -> GatewayAddress | None:
        """How the tool reaches its model; None where the agent needs none."""

    @property
    def environment(self) -> Mapping[str, str]:
        """Variables with which the agent's processes find their way out (proxies); they win over the host's own."""

    @property
    def authority(self) -> bytes:
        """Certificate (PEM) of the authority that signs what passes through; empty where nothing is looked into."""

    @property
    def ledger(self) -> Ledger:
        """What it has seen so far."""
