"""The add-on for the model's port: tokens, paths, models and budgets; the key; and what each answer used."""

from __future__ import annotations

import asyncio
import time
from dataclasses import asdict, replace
from typing import Any

from mitmproxy import http  # type: ignore[import-not-found,unused-ignore]
from mitmproxy.connection import ConnectionState  # type: ignore[import-not-found,unused-ignore]

from .budget import Purse, Reservation
from .connections import Connections
from .control import Control, Finding
from .demand import BODY_BYTES, Demand, DemandError, read_demand
from .events import Reporter
from .headers import answer_headers, request_headers
from .meter import Meter, priced
from .policy import VERSIONS, Refusal, Route, classify, route, token_matches, troubled
from .settings import ModelSettings
from .visit import Visit, charge, complete, said, worst


__all__ = ["ModelGateway"]

#: Refusals of its own that are reported: an agent could ask for more without end, and fill the harness's memory.
_REFUSALS = 1000

#: Bytes of an error that is not in the provider's shape, for its message.
_HEAD_BYTES = 300

#: Bytes of bodies that wait for their turn or are being sent: 16 of the longest contexts are half of it.
_HELD_BYTES = 128 * 1024 * 1024

#: How long a request's body may take to come, in seconds.
_ARRIVAL_S = 60.0

#: How long what came of a question of its own holds, in seconds: a refusal, and an answer.
_CONTROL_S = 60.0
_ANSWERED_S = 5.0

_LASTING = ("authentication failure", "quota used up")


class ModelGateway:
    """Stands between the agent and its model.

    Args:
        settings: what it is to do.
        reporter: where it tells what it saw.
        connections: the proxy's connections.
        control: asks the service a question of the gateway's own.
    """

    def __init__(self, settings: ModelSettings, reporter: Reporter, connections: Connections, control: Control) -> None:
        self._settings = settings
        self._reporter = reporter
        self._connections = connections
        self._control = control
        self._visits: dict[str, Visit] = {}
        budget = settings.budget
        self._purse = Purse(budget.max_requests, budget.max_tokens, budget.max_cost_usd)
        self._told = False
        self._refused = 0
        self._held = 0
        #: Models that have ever answered.
        self._served: set[str] = set()
        #: Model → what came of the last question about it, and when.
        self._findings: dict[str, tuple[Finding, float]] = {}
        self._asking = asyncio.Lock()

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
        visit = self._visits[flow.id] = Visit(flow, path, route(api, self._settings.prefix, request.method, path))
        length = request.headers.get("content-length", "0")
        if flow.error:
            # Malformed, or CONNECT: the proxy refuses it by itself.
            self._finish(flow, "denied", message=str(flow.error.msg))
        elif request.http_version not in VERSIONS:
            # A service would refuse it as its own trouble.
            self._refuse(flow, Refusal.of(api, 400, f"{request.http_version} is not available here"))
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
        if visit is None:
            return
        visit.arrived = True
        if visit.route is None or flow.response is not None:
            return
        if self._connections.shed():
            self._finish(flow, "denied", message="the gateway is out of memory")
            flow.kill()
            return
        try:
            await self._decide(flow, visit, visit.route)
        except Exception:
            # mitmproxy would log it and send the request on as it came.
            flow.response, visit.own = self._broken(), True
            self._let_go(visit)
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
        self._reporter.heard()
        self._let_go(visit)
        flow.request.raw_content = b""
        visit.meter = Meter(self._settings.api)
        visit.scrubber = self._reporter.scrubber()
        coding = flow.response.headers.get("content-encoding", "").strip().lower()
        visit.encoded = coding not in {"", "identity"}
        fields = answer_headers(flow.response.headers.fields, self._reporter.clean)
        flow.response.headers = http.Headers(fields)
        # A refusal is passed on once it is known what it is: the tool may end at it.
        visit.whole = visit.encoded or flow.response.status_code >= 300  # noqa: PLR2004 - redirects and errors
        if visit.whole:
            return

        def pass_on(chunk: bytes) -> list[bytes]:
            return self._pass_on(visit, chunk)

        flow.response.stream = pass_on

    async def response(self, flow: Any) -> None:  # noqa: ANN401 - likewise
        """An answer is complete."""
        visit = self._visits.get(flow.id)
        if visit is None:
            return
        if visit.own:
            self._visits.pop(flow.id)
            return
        visit.answered = True
        status, meter = int(flow.response.status_code), visit.meter
        if meter is None:
            self._finish(flow, "malformed answer", status=status, message="it could not be read")
            return
        if visit.whole and not visit.encoded:
            content = b"".join([*self._pass_on(visit, flow.response.raw_content or b""), *self._pass_on(visit, b"")])
            flow.response.raw_content = content
        elif not meter.ended:
            # Nothing was streamed: an answer without a body.
            meter.close()
        if visit.encoded:
            # What is in it could be the key.
            body = Refusal.of(self._settings.api, 502, said(visit)).body
            flow.response = http.Response.make(502, body, {"Content-Type": "application/json"})
        outcome = await self._confirmed(visit, _outcome(visit, meter, status))
        self._finish(flow, outcome, status=status, message="" if outcome == "answered" else said(visit))

    async def error(self, flow: Any) -> None:  # noqa: ANN401 - likewise
        """A request or its answer broke off."""
        visit = self._visits.get(flow.id)
        if visit is None:
            return
        if visit.own:
            self._visits.pop(flow.id)
            return
        visit.answered = True
        status = int(flow.response.status_code) if flow.response is not None else None
        stalled = self._stalled(visit)
        message = f"silent for {time.monotonic() - visit.last:.0f} s" if stalled else str(flow.error.msg)
        if visit.fate is not None:
            outcome, message = visit.fate
        elif not visit.arrived:
            outcome = "denied"
        elif visit.complete and status is not None and status < 400:  # noqa: PLR2004 - errors
            # Only the end of the connection is missing.
            outcome, message = "answered", ""
        elif not flow.client_conn.state & ConnectionState.CAN_READ and not stalled:
            outcome, message = "given up", "the agent's tool closed the connection"
        elif status is not None and status >= 400:  # noqa: PLR2004 - errors
            outcome = await self._confirmed(visit, classify(status, None))
        else:
            outcome = "network failure" if status is None else "answer cut off"
        self._finish(flow, outcome, status=status, message=message)

    def watch(self) -> None:
        """End what one side has been silent on for too long; to be called several times a second."""
        now = time.monotonic()
        for visit in list(self._visits.values()):
            client = visit.flow.client_conn
            if not visit.arrived:
                if now - visit.begin > _ARRIVAL_S:
                    visit.fate = ("denied", f"its body did not come within {_ARRIVAL_S:.0f} s")
                    self._connections.drop(client)
            elif visit.forwarded and not visit.answered:
                self._watch_client(visit, self._connections.unsent(client), now)
                if not visit.silent and now - visit.last > self._settings.silence_s:
                    visit.silent = True
                    self._connections.cut_upstream(client)

    # --- Steps ----------------------------------------------------------------------------------------------

    def _watch_client(self, visit: Visit, waiting: int, now: float) -> None:
        """Tell a client that does not read from a service that does not send, and hang up on it in the end."""
        before = visit.unread
        takes = visit.takes(waiting, now)
        if visit.unread != before:
            self._reporter.send("unread" if visit.unread else "read", id=visit.flow.id)
        if not takes and visit.fate is None and now - visit.moved > self._settings.unread_s:
            visit.fate = ("given up", f"the agent's tool did not read its answer for {now - visit.moved:.0f} s")
            self._connections.drop(visit.flow.client_conn)

    async def _confirmed(self, visit: Visit, outcome: str) -> str:
        """What a refusal is, once the gateway itself has asked: an agent's request may be why it was refused."""
        unserved = outcome == "rejected" and visit.model not in self._served
        if not visit.generates or not (outcome in _LASTING or unserved):
            return outcome
        found = (await self._find(visit.model)).outcome
        if found == "answered":
            return "rejected"
        if outcome in _LASTING:
            # Asked a while ago, it may have been refused for the other reason.
            return outcome if found in {*_LASTING, "rejected", "network failure"} else found
        return {"rejected": "not served", "network failure": "rejected"}.get(found, found)

    async def _find(self, model: str) -> Finding:
        """Ask the service a question of the gateway's own, or say what came of the last one."""
        async with self._asking:
            found, at = self._findings.get(model, (None, 0.0))
            age = time.monotonic() - at
            # An answer says little about a refusal that came after it.
            if found is not None and age < (_ANSWERED_S if found.outcome == "answered" else _CONTROL_S):
                return found
            visit = Visit(None, "", demand=Demand(model, b"", 0, 0), forwarded=True)
            found = await asyncio.to_thread(self._control, model)
            self._findings[model] = found, time.monotonic()
            if found.outcome == "answered":
                self._served.add(model)
                visit.path = found.path
                visit.meter = Meter(self._settings.api, found.tokens, found.counted)
                price = self._settings.price(model)
                cost = priced(found.tokens, price) if price else 0.0
                self._purse.spend(found.tokens.total, cost)
                self._record(visit, found.outcome, status=found.status, message="control", charged=cost)
            return found

    async def _decide(self, flow: Any, visit: Visit, to: Route) -> None:  # noqa: ANN401 - likewise
        """Answer a request, refuse it, or let it through once its budget allows."""
        if not to.upstream:
            self._answer(flow, visit, 200, self._settings.listing if to.purpose == "models" else b'{"ok":true}')
            return
        api = self._settings.api
        try:
            demand = self._read(flow, visit)
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
            self._reporter.send("asked", id=flow.id, streamed=demand.streamed)
            self._forward(flow, demand)
            visit.demand = replace(demand, body=b"")

    def _read(self, flow: Any, visit: Visit) -> Demand:  # noqa: ANN401 - likewise
        """Read a body, and keep what is sent on alone."""
        content, flow.request.raw_content = flow.request.raw_content or b"", b""
        if self._held > _HELD_BYTES:
            raise DemandError(413, "the gateway has too many large requests: send fewer at once")
        encoding = flow.request.headers.get("content-encoding", "")
        hosted = self._settings.hosted_tools
        demand = visit.demand = read_demand(self._settings.api, content, encoding, hosted_tools=hosted)
        visit.size = visit.held = len(demand.body)
        self._held += visit.held
        return demand

    def _let_go(self, visit: Visit) -> None:
        """The body is needed no longer."""
        self._held -= visit.held
        visit.held = 0

    def _stalled(self, visit: Visit) -> bool:
        """Whether the service's silence is why a request broke off, whoever closed the connection."""
        waited = time.monotonic() - visit.last
        streamed = visit.forwarded and visit.demand is not None and visit.demand.streamed
        return visit.silent or (streamed and waited >= self._settings.stall_s)

    async def _admit(self, flow: Any, visit: Visit, demand: Demand) -> str | None:  # noqa: ANN401 - likewise
        price = self._settings.price(demand.model)
        asked = Reservation()
        if demand.max_in is not None and demand.max_out is not None:
            asked = Reservation(demand.max_in + demand.max_out, worst(price, demand.max_in, demand.max_out))
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
        if request.http_version == "HTTP/1.0":
            # It awaits the end of the connection, and the service the end of nothing.
            fields.append((b"connection", b"close"))
        request.http_version = "HTTP/1.1"
        request.headers = http.Headers(fields)
        request.raw_content = demand.body
        request.trailers = None
        request.path = f"{path}?beta=true" if "beta=true" in query.split("&") else path
        request.authority = ""
        if settings.via is not None:
            flow.server_conn.via = settings.via

    def _pass_on(self, visit: Visit, chunk: bytes) -> list[bytes]:
        assert visit.meter is not None  # noqa: S101 - set before the first piece
        assert visit.scrubber is not None  # noqa: S101 - likewise
        if chunk:
            visit.last = time.monotonic()
            self._reporter.heard()
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

    def _answer(self, flow: Any, visit: Visit, status: int, body: bytes) -> None:  # noqa: ANN401 - likewise
        visit.own = True
        self._let_go(visit)
        if visit.demand is not None:
            visit.demand = replace(visit.demand, body=b"")
        flow.response = http.Response.make(status, body, {"Content-Type": "application/json"})

    def _finish(self, flow: Any, outcome: str, *, status: int | None = None, message: str = "") -> None:  # noqa: ANN401 - likewise
        visit = self._visits.pop(flow.id)
        self._let_go(visit)
        self._settle(visit, outcome, status=status, message=message)
        if visit.forwarded:
            self._reporter.send("over", id=flow.id)

    def _settle(self, visit: Visit, outcome: str, *, status: int | None, message: str) -> None:
        """Count a request that is over."""
        if visit.route is not None and visit.route.purpose == "count" and outcome != "denied":
            return
        if outcome == "answered":
            self._served.add(visit.model)
        charged = 0.0
        if visit.reserved is not None:
            used, charged = charge(visit, outcome, status, self._settings.price(visit.model))
            self._purse.settle(visit.reserved, used, charged, counts=not troubled(outcome))
        self._record(visit, outcome, status=status, message=message, charged=charged)
        if self._purse.exhausted and self._purse.idle:
            self._tell_exhausted()

    def _record(self, visit: Visit, outcome: str, *, status: int | None, message: str, charged: float = 0.0) -> None:
        self._refused += outcome in {"denied", "budget used up"}
        if self._refused > _REFUSALS and outcome in {"denied", "budget used up"}:
            return
        tokens = visit.tokens
        price = self._settings.price(visit.model)
        usage = asdict(tokens)
        usage.pop("cache_write_long")
        self._reporter.send(
            "call",
            at=visit.at,
            path=self._reporter.text(visit.path, 200),
            model=self._reporter.text(visit.model, 100),
            outcome=outcome,
            status=status,
            latency_s=round(time.monotonic() - visit.begin, 4),
            usage=usage,
            complete=complete(visit, status),
            charged_usd=round(charged, 9),
            cost_usd=priced(tokens, price) if price else (None if tokens.total else 0.0),
            message=self._reporter.message(message),
        )

    def _tell_exhausted(self) -> None:
        if not self._told:
            self._told = True
            self._reporter.send("exhausted", reason=self._purse.exhausted)


def _mine(flow: Any) -> bool:  # noqa: ANN401 - mitmproxy is not installed where types are checked
    return str(flow.client_conn.proxy_mode.type_name) == "reverse"


def _outcome(visit: Visit, meter: Meter, status: int) -> str:
    """The value of `Outcome` for an answer that is complete."""
    if 300 <= status < 400:  # noqa: PLR2004 - redirects
        return "server error"
    if meter.problem or status >= 400:  # noqa: PLR2004 - errors
        return classify(status, meter.problem)
    if meter.malformed or visit.encoded:
        return "malformed answer"
    return "answered" if meter.ended else "answer cut off"
