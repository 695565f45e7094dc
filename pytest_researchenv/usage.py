"""What an attempt used, as figures and as words, from what its gateway saw."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_researchenv.agents.trajectory import FinalMetrics
from pytest_researchenv.gateway.protocol import Ledger, Outcome


__all__ = ["cost_notes", "final_metrics", "refused", "usage_numbers"]

#: How many refused requests are listed with the environment; all are in the attempt's requests.jsonl.
_LISTED = 20


def usage_numbers(ledger: Ledger) -> Mapping[str, float]:
    """Return name → number: tokens, requests, seconds of waiting for the model, and US dollars where they are known."""
    usage, calls = ledger.usage, ledger.calls
    numbers: dict[str, float] = {
        "tokens_in": usage.tokens_in + usage.cache_read + usage.cache_write,
        "tokens_cached": usage.cache_read,
        "tokens_cache_written": usage.cache_write,
        "tokens_out": usage.tokens_out,
        "tokens_reasoning": usage.reasoning,
        "requests": len(calls),
        "requests_troubled": sum(call.outcome.provider_trouble for call in calls),
        "requests_rate_limited": sum(call.outcome is Outcome.RATE_LIMITED for call in calls),
        "model_s": round(sum(call.latency_s for call in calls), 3),
        "requests_refused": sum(not request.allowed for request in ledger.egress),
    }
    if ledger.cost_usd is not None:
        numbers["cost_usd"] = round(ledger.cost_usd, 6)
    return numbers


def cost_notes(ledger: Ledger) -> tuple[str, ...]:
    """Say what the figures do not tell: models without a price, answers whose usage was not reported in full."""
    notes = []
    unpriced = sorted({call.model for call in ledger.calls if call.usage.total and call.cost_usd is None})
    if unpriced:
        notes.append(f"cost unknown: no price for {', '.join(unpriced)}; give one with --researchenv-prices")
    if partial := sum(not call.complete for call in ledger.calls):
        notes.append(f"tokens are a lower bound: {partial} answers ended before their usage was told")
    return tuple(notes)


def refused(ledger: Ledger) -> tuple[str, ...]:
    """Return the requests to the outside that were refused, as `GET host/path`, each once, in order."""
    found = dict.fromkeys(
        f"{request.method} {request.host}{request.path}" for request in ledger.egress if not request.allowed
    )
    listed = tuple(found)[:_LISTED]
    more = len(found) - len(listed)
    return (*listed, f"and {more} more") if more else listed


def final_metrics(ledger: Ledger, steps: int) -> FinalMetrics:
    """Return a trajectory's totals: the gateway's own count, which is the same for every tool."""
    usage = ledger.usage
    return FinalMetrics(
        total_prompt_tokens=usage.tokens_in + usage.cache_read + usage.cache_write,
        total_completion_tokens=usage.tokens_out,
        total_cached_tokens=usage.cache_read,
        total_cost_usd=ledger.cost_usd,
        total_steps=steps,
    )
