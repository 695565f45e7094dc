"""What verifying a run came to, for people and for programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pytest_researchenv.model import TierResult
from pytest_researchenv.probes.lookup import printable
from pytest_researchenv.verifying.attempts import Verified, run_digest
from pytest_researchenv.verifying.rejudging import Again, Rejudged


__all__ = ["verification_document", "verification_lines", "verification_summary"]

#: How many characters of a line are shown.
_MOST = 4000


def verification_lines(one: Verified) -> Iterator[str]:
    """Return what is printed of one attempt."""
    yield str(one.key)
    for sentence in one.altered:
        yield f"  altered: {printable(sentence, _MOST)}"
    for remark in one.remarks:
        yield f"  note: {printable(remark, _MOST)}"
    for verdict in one.verdicts:
        yield f"  {verdict.again}: {verdict.stored.tier} {verdict.stored.verdict}{_why(verdict)}"
        for remark in verdict.remarks:
            yield f"    note: {printable(remark, _MOST)}"


def verification_summary(every: Sequence[Verified]) -> list[str]:
    """Return the last lines: what all of it comes to."""
    counts = _counts(every)
    judged = f"{counts['verdicts']} verdicts judged again: {counts['same']} same, {counts['flipped']} flipped, "
    return [
        f"{judged}{counts['unverifiable']} cannot be verified",
        f"{counts['attempts']} attempts: {counts['altered']} with altered records",
        f"digest of their records: {run_digest(every)}",
    ]


def verification_document(run: str, every: Sequence[Verified]) -> dict[str, object]:
    """Return the same for programs, to be written as JSON."""
    return {
        "run": run,
        "digest": run_digest(every),
        "counts": _counts(every),
        "attempts": [
            {
                "attempt": str(one.key),
                "folder": str(one.folder),
                "altered": list(one.altered),
                "notes": list(one.remarks),
                "verdicts": [_verdict(verdict) for verdict in one.verdicts],
                "seals": dict(one.seals),
            }
            for one in every
        ],
    }


def _why(verdict: Rejudged) -> str:
    return f": {printable(verdict.why, _MOST)}" if verdict.why else ""


def _counts(every: Sequence[Verified]) -> dict[str, int]:
    verdicts = [verdict.again for one in every for verdict in one.verdicts]
    return {
        "attempts": len(every),
        "altered": sum(bool(one.altered) for one in every),
        "verdicts": len(verdicts),
        "same": verdicts.count(Again.SAME),
        "flipped": verdicts.count(Again.FLIPPED),
        "unverifiable": verdicts.count(Again.UNVERIFIABLE),
    }


def _verdict(verdict: Rejudged) -> dict[str, object]:
    return {
        "tier": str(verdict.stored.tier),
        "again": str(verdict.again),
        "why": verdict.why,
        "notes": list(verdict.remarks),
        "then": _result(verdict.stored),
        "now": _result(verdict.now) if verdict.now else None,
    }


def _result(result: TierResult) -> dict[str, object]:
    return {"verdict": str(result.verdict), "cause": str(result.cause), "reason": result.reason}
