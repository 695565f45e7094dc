"""What a gateway is to do: read from the one JSON document on its stdin."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from .blocking import Blocking
from .policy import Allowlist


__all__ = ["Budget", "EgressSettings", "ModelSettings", "Settings", "Via"]

#: A proxy of the host: scheme, and host and port. As mitmproxy has it.
Via = tuple[str, tuple[str, int]]

_PORTS = {"http": 80, "https": 443}

_UNREAD_S = 60.0


@dataclass(frozen=True, slots=True)
class Budget:
    """As `Budget` of the package's protocol."""

    max_requests: int | None = None
    max_tokens: int | None = None
    max_cost_usd: float | None = None


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """What the model's port does.

    Attributes:
        api: value of `Api`.
        endpoint: the service's base URL.
        bearer: whether it takes its key as `Authorization: Bearer`, and not as `x-api-key`.
        key: the real key; empty where it takes none.
        token: what the agent shows instead.
        models: which models may be asked; the first is the agent's own.
        prices: model → prices per million tokens, as `Price` has them.
        budget: limits.
        silence_s: how long the service may send nothing before its answer counts as lost, in seconds.
        hosted_tools: whether the service may run tools of its own, such as a web search.
        via: proxy on the way to the service.
    """

    api: str
    endpoint: str
    bearer: bool
    key: str = field(repr=False)
    token: str = field(repr=False)
    models: tuple[str, ...]
    prices: dict[str, dict[str, float | None]]
    budget: Budget
    silence_s: float
    hosted_tools: bool = False
    via: Via | None = None

    @property
    def stall_s(self) -> float:
        """After how long a silence in a stream it is the service's fault that the tool gives up, in seconds.

        Services send signs of life in their streams. An answer in one piece may take long, and an agent could ask for
        one just to give it up.
        """
        return self.silence_s / 5

    @property
    def unread_s(self) -> float:
        """How long a tool may take nothing of an answer that is there for it, in seconds."""
        return min(self.silence_s, _UNREAD_S)

    @property
    def prefix(self) -> str:
        """Path of the endpoint, without a slash at its end."""
        return urlsplit(self.endpoint).path.rstrip("/")

    @property
    def authority(self) -> str:
        """Host and port, as the Host header has them."""
        return urlsplit(self.endpoint).netloc.rpartition("@")[2]

    @property
    def origin(self) -> str:
        """Scheme, host and port, for mitmproxy's reverse mode."""
        parts = urlsplit(self.endpoint)
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
        return f"{parts.scheme}://{host}:{parts.port or _PORTS[parts.scheme]}"

    @property
    def credential(self) -> tuple[bytes, bytes] | None:
        """The header with the key; None where the service takes none."""
        if not self.key:
            return None
        return (b"authorization", f"Bearer {self.key}".encode()) if self.bearer else (b"x-api-key", self.key.encode())

    def price(self, model: str) -> dict[str, float | None] | None:
        """Prices of a model that may be asked; None where they are not known."""
        return self.prices.get(model)

    @property
    def listing(self) -> bytes:
        """The provider's list of models, with those that may be asked."""
        if self.api == "anthropic-messages":
            made = "2025-01-01T00:00:00Z"
            data = [{"type": "model", "id": one, "display_name": one, "created_at": made} for one in self.models]
            ends = {"first_id": self.models[0], "last_id": self.models[-1]}
            return json.dumps({"data": data, "has_more": False, **ends}).encode()
        entries = [{"id": one, "object": "model", "created": 0, "owned_by": "gateway"} for one in self.models]
        return json.dumps({"object": "list", "data": entries}).encode()


@dataclass(frozen=True, slots=True)
class EgressSettings:
    """What the port for the outside does.

    Attributes:
        targets: where requests may go.
        private: hosts that may have private addresses.
        via: proxy on the way out.
        direct: hosts that are reached without it; `*` for all.
        credential: value of Proxy-Authorization for it; empty for none.
        canaries: texts by which answers are known that must not come in.
        blocking: what may not be reached although its host may.
        search_until: day that searches are limited to; empty for no limit.
    """

    targets: Allowlist
    private: Allowlist
    via: Via | None = None
    direct: tuple[str, ...] = ()
    credential: str = field(default="", repr=False)
    canaries: tuple[str, ...] = ()
    blocking: Blocking = field(default_factory=Blocking)
    search_until: str = ""


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything.

    Attributes:
        model: None where the agent needs no model.
        egress: None where nothing goes out through the gateway.
        alias: name of this container in the private network, on whose address it listens.
        published: whether the model's port is for the engine's host, too, so that it listens on all addresses.
        lifetime_s: after how long it ends by itself, in seconds; None: never.
        ports: of the model and of the outside.
        ca_bundle: certificates of authorities (PEM) that are trusted beside the usual ones.
        credential: value of Proxy-Authorization for the host's proxy; empty for none.
    """

    model: ModelSettings | None
    egress: EgressSettings | None
    alias: str
    ports: tuple[int, int]
    ca_bundle: str
    credential: str = field(default="", repr=False)
    published: bool = False
    lifetime_s: float | None = None

    @classmethod
    def read(cls, document: bytes) -> Settings:
        """Read the document; what writes it is `sidecar.py`."""
        given: dict[str, Any] = json.loads(document)
        model, egress = given.get("model"), given.get("egress")
        return cls(
            model=_model(model) if model else None,
            egress=_egress(egress, given["credential"]) if egress else None,
            alias=given["alias"],
            ports=(given["ports"][0], given["ports"][1]),
            ca_bundle=given["ca_bundle"],
            credential=given["credential"],
            published=given["published"],
            lifetime_s=given["lifetime_s"],
        )


def _model(given: dict[str, Any]) -> ModelSettings:
    return ModelSettings(
        **{
            **given,
            "models": tuple(given["models"]),
            "budget": Budget(**given["budget"]),
            "via": _via(given["via"]),
        }
    )


def _egress(given: dict[str, Any], credential: str) -> EgressSettings:
    return EgressSettings(
        credential=credential,
        targets=Allowlist(tuple(given["allow"]), tuple(given["deny"])),
        private=Allowlist(tuple(given["private"]), ()),
        via=_via(given["via"]),
        direct=tuple(given["direct"]),
        canaries=tuple(given["canaries"]),
        blocking=Blocking(tuple(given["blocked"]["urls"]), tuple(given["blocked"]["patterns"])),
        search_until=given["blocked"]["search_until"],
    )


def _via(given: list[Any] | None) -> Via | None:
    return (given[0], (given[1], given[2])) if given else None
