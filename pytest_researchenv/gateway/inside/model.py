"""The add-on for the model's port: tokens, paths, models and budgets; the key; and what each answer used."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field
from typing import Any

from mitmproxy import http  # type: ignore[import-not-found,unused-ignore]
from mitmproxy.connection import ConnectionState  # type: ignore[import-not-found,unused-ignore]

from .budget import Purse, Reservation
from .connections import Connections
from .demand import BODY_BYTES, Demand, DemandError, read_demand
from .events import Reporter, Scrubber
from .headers import answer_headers, request_headers
from .meter import Meter, Tokens, priced
from .policy import Refusal, Route, classify, route, token_matches
from .settings import ModelSettings


__all__ = ["ModelGateway"]

#: Refusals of its own that are reported: an agent could ask for more without end, and fill the harness's memory.
_REFUSALS = 1000

#: Bytes of an error that is not in the provider's shape, for its message.
_HEAD_BYTES = 300


@dataclass(slots=True)
class _Visit:
    """One request, from its header to the end of its answer."""

    flow: Any
    path: str
    route: Route | None = None
    at: float = field(default_factory=time.time)
    begin: float = field(default_factory=time.monotonic)
    last: float = field(default_factory=time.monotonic)
    demand: Demand | None = None
    reserved: Reservation | None = None
    #: The answer is the gateway's own.
    own: bool = False
    forwarded: bool = False
    #: The service was silent for too long.
    silent: bool = False
    meter: Meter | None = None
    scrubber: Scrubber | None = None
    head: bytes = b""


class ModelGateway:
    """Stands between the agent and its model.

    Args:
        settings: what it is to do.
        reporter: where it tells what it saw.
        connections: the proxy's connections.
    """

    def __init__(self, settings: ModelSettings, reporter: Reporter, connections: Connections) -> None:
        self._settings = settings
        self._reporter = reporter
        self._connections = connections
        self._visits: dict[str, _Visit] = {}
        budget = settings.budget
        self._purse = Purse(budget.max_requests, budget.max_tokens, budget.max_cost_usd)
        self._told = False
        self._refused = 0

    # --- Hooks of the proxy ---------------------------------------------------------------------------------

    def requestheaders(self, flow: Any) -> None:  # noqa: ANN401 - mitmproxy is not installed where types are checked
        """A request begins."""
        if not _mine(flow):
            return
        # Undone at the end: mitmproxy would log an error in here, and let the request pass.
        flow.response = self._broken()
        self._reporter.activity()
        request, api = flow.request, self._settings.api
        path = request.path.partition("?")[0]
        visit = self._visits[flow.id] = _Visit(flow, path, route(api, self._settings.prefix, request.method, path))
        length = request.headers.get("content-length", "0")
        if flow.error:
            # Malformed, or CONNECT: the proxy refuses it by itself.
            self._finish(flow, "denied", message=str(flow.error.msg))
        elif not token_matches(
            self._settings.token, request.headers.get("x-api-key", ""), request.headers.get("authorization", "")
        ):
            self._refuse(flow, Refusal.of(api, 401, "invalid x-api-key or token of this attempt"))
        elif visit.route is None or request.authority:
            self._refuse(flow, Refusal.of(api, 404, f"{request.method} {path[:100]} is not available here"))
        elif not length.isdecimal() or int(length) > BODY_BYTES:
            # Its body would have to be read before it could be answered.
            self._finish(flow, "denied", message=f"the request is larger than {BODY_BYTES} bytes")
            flow.kill()
        else:
            flow.response = None

    async def request(self, flow: Any) -> None:  # noqa: ANN401 - likewise
        """A request's body is there."""
        visit = self._visits.get(flow.id)
        if visit is None or visit.route is None or flow.response is not None:
            return
        try:
            await self._decide(flow, visit, visit.route)
        except Exception:
            # mitmproxy would log it and send the request on as it came.
            flow.response, visit.own = self._broken(), True
            raise

    def server_connect(self, data: Any) -> None:  # noqa: ANN401 - likewise
        """A connection to the service is about to be opened: only for what was let through, whatever went wrong."""
        if data.client.proxy_mode.type_name != "reverse":
            return
        if not any(visit.forwarded and visit.flow.client_conn is data.client for visit in self._visits.values()):
            data.server.error = "nothing was let through"

    def responseheaders(self, flow: Any) -> None:  # noqa: ANN401 - likewise
        """An answer begins."""
        visit = self._visits.get(flow.id)
        if visit is None or visit.own:
            return
        visit.last = time.monotonic()
        self._reporter.activity()
        visit.meter = Meter(self._settings.api, flow.response.headers.get("content-encoding", ""))
        visit.scrubber = self._reporter.scrubber()
        fields = answer_headers(flow.response.headers.fields, self._reporter.clean)
        flow.response.headers = http.Headers(fields)

        def pass_on(chunk: bytes) -> list[bytes]:
            return self._pass_on(visit, chunk)

        flow.response.stream = pass_on

    def response(self, flow: Any) -> None:  # noqa: ANN401 - likewise
        """An answer is complete."""
        visit = self._visits.get(flow.id)
        if visit is None:
            return
        if visit.own:
            self._visits.pop(flow.id)
            return
        if visit.meter is None:
            self._finish(
                flow, "malformed answer", status=int(flow.response.status_code), message="it could not be read"
            )
            return
        status, meter = int(flow.response.status_code), visit.meter
        if not meter.ended:
            # Nothing was streamed: an answer without a body.
            meter.close()
        if 300 <= status < 400:  # noqa: PLR2004 - redirects
            outcome = "server error"
        elif meter.problem or status >= 400:  # noqa: PLR2004 - errors
            outcome = classify(status, meter.problem)
        elif meter.malformed:
            outcome = "malformed answer"
        else:
            outcome = "answered" if meter.ended else "answer cut off"
        self._finish(flow, outcome, status=status, message=_said(visit, meter))

    def error(self, flow: Any) -> None:  # noqa: ANN401 - likewise
        """A request or its answer broke off."""
        visit = self._visits.get(flow.id)
        if visit is None:
            return
        status = int(flow.response.status_code) if flow.response is not None and not visit.own else None
        stalled = self._stalled(visit)
        message = f"silent for {time.monotonic() - visit.last:.0f} s" if stalled else str(flow.error.msg)
        if visit.own:
            self._visits.pop(flow.id)
        elif not flow.client_conn.state & ConnectionState.CAN_READ and not stalled:
            self._finish(flow, "given up", status=status, message="the agent's tool closed the connection")
        elif status is not None and status >= 400:  # noqa: PLR2004 - errors
            self._finish(flow, classify(status, None), status=status, message=message)
        else:
            outcome = "network failure" if status is None else "answer cut off"
            self._finish(flow, outcome, status=status, message=message)

    def watch(self) -> None:
        """End what the service has been silent on for too long; to be called about once a second."""
        now = time.monotonic()
        for visit in list(self._visits.values()):
            if visit.forwarded and not visit.silent and now - visit.last > self._settings.silence_s:
                visit.silent = True
                self._connections.cut_upstream(visit.flow.client_conn)

    # --- Steps ----------------------------------------------------------------------------------------------

    async def _decide(self, flow: Any, visit: _Visit, to: Route) -> None:  # noqa: ANN401 - likewise
        """Answer a request, refuse it, or let it through once its budget allows."""
        if not to.upstream:
            self._answer(flow, visit, 200, self._settings.listing if to.purpose == "models" else b'{"ok":true}')
            return
        api = self._settings.api
        try:
            demand = visit.demand = read_demand(
                api,
                flow.request.raw_content or b"",
                flow.request.headers.get("content-encoding", ""),
                hosted_tools=self._settings.hosted_tools,
            )
        except DemandError as error:
            self._refuse(flow, Refusal.of(api, error.status, str(error)))
            return
        if demand.model not in self._settings.models:
            self._refuse(flow, Refusal.of(api, 404, f"model: {demand.model[:100]} is not available here"))
            return
        if to.purpose == "generate":
            reason = await self._admit(flow, visit, demand)
        else:
            reason = self._purse.exhausted or None
        if reason:
            self._refuse(flow, Refusal.used_up(api, reason), "budget used up")
            self._tell_exhausted()
        elif reason is None:
            visit.last, visit.forwarded = time.monotonic(), True
            self._reporter.send("asked", id=flow.id)
            self._forward(flow, demand)

    def _stalled(self, visit: _Visit) -> bool:
        """Whether the service's silence is why a request broke off, whoever closed the connection."""
        waited = time.monotonic() - visit.last
        streamed = visit.forwarded and visit.demand is not None and visit.demand.streamed
        return visit.silent or (streamed and waited >= self._settings.stall_s)

    async def _admit(self, flow: Any, visit: _Visit, demand: Demand) -> str | None:  # noqa: ANN401 - likewise
        price = self._settings.price(demand.model)
        asked = Reservation()
        if demand.max_in is not None and demand.max_out is not None:
            asked = Reservation(demand.max_in + demand.max_out, _worst(price, demand.max_in, demand.max_out))
        elif price is None:
            asked.cost = 0.0
        reason = await self._purse.admit(asked, lambda: not flow.client_conn.state & ConnectionState.CAN_READ)
        if reason is None:
            visit.reserved = asked
        return reason

    def _forward(self, flow: Any, demand: Demand) -> None:  # noqa: ANN401 - likewise
        request, settings = flow.request, self._settings
        path, _, query = request.path.partition("?")
        fields = request_headers(request.headers.fields)
        fields += [(b"host", settings.authority.encode()), (b"content-length", str(len(demand.body)).encode())]
        if settings.credential is not None:
            fields.append(settings.credential)
        request.headers = http.Headers(fields)
        request.raw_content = demand.body
        request.trailers = None
        request.path = f"{path}?beta=true" if "beta=true" in query.split("&") else path
        request.authority = ""
        if settings.via is not None:
            flow.server_conn.via = settings.via

    def _pass_on(self, visit: _Visit, chunk: bytes) -> list[bytes]:
        assert visit.meter is not None  # noqa: S101 - set before the first piece
        assert visit.scrubber is not None  # noqa: S101 - likewise
        if chunk:
            visit.last = time.monotonic()
            self._reporter.activity()
            if len(visit.head) < _HEAD_BYTES:
                visit.head += chunk[:_HEAD_BYTES]
        try:
            visit.meter.feed(chunk)
            if not chunk:
                visit.meter.close()
        except Exception as error:  # noqa: BLE001 - whatever a service sends, the answer must come to its end
            visit.meter.malformed = f"it could not be read: {error}"
        out = visit.scrubber.feed(chunk) if chunk else visit.scrubber.close()
        # An empty piece would end a chunked answer.
        return [out] if out else []

    def _broken(self) -> Any:  # noqa: ANN401 - likewise
        """What a request is answered with when looking at it failed."""
        body = Refusal.of(self._settings.api, 502, "the gateway could not read this request").body
        return http.Response.make(502, body, {"Content-Type": "application/json"})

    def _refuse(self, flow: Any, refusal: Refusal, outcome: str = "denied") -> None:  # noqa: ANN401 - likewise
        visit = self._visits[flow.id]
        self._answer(flow, visit, refusal.status, refusal.body)
        self._record(visit, outcome, status=None, message=refusal.message)

    def _answer(self, flow: Any, visit: _Visit, status: int, body: bytes) -> None:  # noqa: ANN401 - likewise
        visit.own = True
        flow.response = http.Response.make(status, body, {"Content-Type": "application/json"})

    def _finish(self, flow: Any, outcome: str, *, status: int | None = None, message: str = "") -> None:  # noqa: ANN401 - likewise
        visit = self._visits.pop(flow.id)
        if visit.forwarded:
            self._reporter.send("over", id=flow.id)
        if visit.route is not None and visit.route.purpose == "count" and outcome != "denied":
            return
        charged = 0.0
        if visit.reserved is not None:
            used, charged = self._charge(visit, outcome, status)
            self._purse.settle(visit.reserved, used, charged)
        self._record(visit, outcome, status=status, message=message, charged=charged)
        if self._purse.exhausted and self._purse.idle:
            self._tell_exhausted()

    def _charge(self, visit: _Visit, outcome: str, status: int | None) -> tuple[int, float]:
        """What a request takes from the budget: what was counted, or else the most that it can have been."""
        demand, meter = visit.demand, visit.meter
        assert demand is not None  # noqa: S101 - it was admitted
        tokens = meter.tokens if meter else Tokens()
        price = self._settings.price(demand.model)
        counted = meter is not None and meter.counted
        refused = outcome == "network failure" or (status is not None and status >= 400)  # noqa: PLR2004 - errors
        if counted or (refused and not visit.silent):
            return tokens.total, priced(tokens, price) if price else 0.0
        if visit.silent and meter is None:
            # It may have worked all the while.
            input_, output = demand.max_in or len(demand.body), demand.max_out or 0
            return input_ + output, _worst(price, input_, output)
        passed = meter.passed if meter else 0
        input_ = tokens.input or demand.max_in or len(demand.body)
        output = max(tokens.tokens_out, passed if demand.max_out is None else min(passed, demand.max_out))
        return input_ + output, _worst(price, input_, output)

    def _record(
        self, visit: _Visit, outcome: str, *, status: int | None, message: str, charged: float = 0.0
    ) -> None:
        self._refused += outcome in {"denied", "budget used up"}
        if self._refused > _REFUSALS and outcome in {"denied", "budget used up"}:
            return
        meter = visit.meter
        tokens = meter.tokens if meter else Tokens()
        model = visit.demand.model if visit.demand else ""
        price = self._settings.price(model)
        usage = asdict(tokens)
        usage.pop("cache_write_long")
        self._reporter.send(
            "call",
            at=visit.at,
            path=visit.path[:200],
            model=model[:100],
            outcome=outcome,
            status=status,
            latency_s=round(time.monotonic() - visit.begin, 4),
            usage=usage,
            complete=_complete(visit, status),
            charged_usd=round(charged, 9),
            cost_usd=priced(tokens, price) if price else (None if tokens.total else 0.0),
            message="" if outcome == "answered" else self._reporter.message(message),
        )

    def _tell_exhausted(self) -> None:
        if not self._told:
            self._told = True
            self._reporter.send("exhausted", reason=self._purse.exhausted)


def _mine(flow: Any) -> bool:  # noqa: ANN401 - mitmproxy is not installed where types are checked
    return str(flow.client_conn.proxy_mode.type_name) == "reverse"


def _worst(price: dict[str, float | None] | None, max_in: int, max_out: int) -> float:
    """The most that so many tokens can cost; 0 where the model has no known price, since no limit could hold then."""
    if price is None:
        return 0.0
    kinds = ("tokens_in", "cache_read", "cache_write", "cache_write_long")
    dearest = max(price.get(kind) or 0.0 for kind in kinds)
    return (max_in * dearest + max_out * (price["tokens_out"] or 0.0)) / 1_000_000


def _complete(visit: _Visit, status: int | None) -> bool:
    """Whether all that the request used was told."""
    if visit.meter is not None and status is not None and status < 400:  # noqa: PLR2004 - errors
        return visit.meter.counted
    # Cut off before an answer came, it may have been worked on; an error of the service used nothing.
    return not visit.forwarded or status is not None


def _said(visit: _Visit, meter: Meter) -> str:
    if meter.problem:
        return ": ".join(filter(None, (meter.problem.type, meter.problem.message)))
    head = visit.head.decode(errors="replace")
    return f"{meter.malformed}: {head}" if meter.malformed else head
