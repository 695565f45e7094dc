"""What an attempt used, as figures and as words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pytest_researchenv.gateway.protocol import Call, EgressRequest, Outcome, Trouble, Usage
from pytest_researchenv.usage import cost_notes, final_metrics, refused, usage_numbers


@dataclass
class FakeLedger:
    """A ledger that tests fill."""

    calls: tuple[Call, ...] = ()
    egress: tuple[EgressRequest, ...] = ()
    cost_usd: float | None = 0.0
    exhausted: str = ""
    failure: str = ""
    silent_s: float = 0.0
    charged_usd: float = 0.0
    last_activity: float = 0.0
    trouble: Trouble | None = None

    @property
    def usage(self) -> Usage:
        """The sum."""
        names = ("tokens_in", "cache_read", "cache_write", "tokens_out", "reasoning")
        return Usage(*(sum(getattr(call.usage, name) for call in self.calls) for name in names))

    def lines(self) -> Iterator[bytes]:
        """Nothing."""
        return iter(())


def call(outcome: Outcome = Outcome.ANSWERED, *, cost: float | None = 0.5, complete: bool = True) -> Call:
    """A call of known size."""
    usage = Usage(100, 1000, 10, 50, 20) if outcome is Outcome.ANSWERED else Usage()
    return Call(0.0, "/v1/messages", "m", outcome, 200, 1.25, usage, complete=complete, cost_usd=cost)


def egress(host: str, *, allowed: bool = False) -> EgressRequest:
    """A request to the outside."""
    return EgressRequest(0.0, "GET", host, "/x", allowed=allowed)


def test_figures_are_the_gateways() -> None:
    """Input is everything that was sent, cached or not; trouble and rate limits are counted apart."""
    ledger = FakeLedger((call(), call(), call(Outcome.RATE_LIMITED), call(Outcome.DENIED)), cost_usd=1.0)

    assert usage_numbers(ledger) == {
        "tokens_in": 2220,
        "tokens_cached": 2000,
        "tokens_cache_written": 20,
        "tokens_out": 100,
        "tokens_reasoning": 40,
        "requests": 4,
        "requests_troubled": 1,
        "requests_rate_limited": 1,
        "model_s": 5.0,
        "requests_refused": 0,
        "cost_usd": 1.0,
    }


def test_an_unknown_cost_is_no_number() -> None:
    """Where a model has no price there is no figure for the cost, and a note says for which model."""
    ledger = FakeLedger((call(cost=None),), cost_usd=None)

    assert "cost_usd" not in usage_numbers(ledger)
    assert cost_notes(ledger) == ("cost unknown: no price for m; give one with --researchenv-prices",)


def test_answers_that_ended_early_make_a_lower_bound() -> None:
    """Tokens of an answer that was cut off are not all known, and people are told."""
    assert cost_notes(FakeLedger((call(), call(complete=False)))) == (
        "tokens are a lower bound: 1 answers ended before their usage was told",
    )
    assert cost_notes(FakeLedger((call(),))) == ()


def test_refused_requests_are_listed_once_and_not_without_end() -> None:
    """Each refused address is named once, in order; a flood of them is cut and counted."""
    few = FakeLedger(egress=(egress("b.example"), egress("a.example", allowed=True), egress("b.example")))
    many = FakeLedger(egress=tuple(egress(f"h{number}.example") for number in range(100)))

    assert refused(few) == ("GET b.example/x",)
    assert len(refused(many)) == 21
    assert refused(many)[-1] == "and 80 more"


def test_a_trajectorys_totals_are_the_gateways() -> None:
    """The format's totals come from one place for all tools."""
    totals = final_metrics(FakeLedger((call(),), cost_usd=0.5), 7)

    assert (totals.total_prompt_tokens, totals.total_completion_tokens, totals.total_cached_tokens) == (1110, 50, 1000)
    assert (totals.total_cost_usd, totals.total_steps) == (0.5, 7)
