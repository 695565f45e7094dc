"""What an audit means for a tier that passed."""

from __future__ import annotations

from dataclasses import replace

from pytest_researchenv.model import Audit, Cause, Finding, Sign, Tier, TierResult, Verdict


__all__ = ["believed"]

#: Signs that do not matter to a tier: C0 looks for modules from outside and counts stand-ins itself; C5 asks nothing
#: but the interpreter and torch.
_HARMLESS = {
    Tier.C0: frozenset((Sign.STUB, Sign.FRAMEWORK, Sign.DISTRIBUTION)),
    Tier.C5: frozenset((Sign.STUB,)),
}

#: How many findings a reason lists.
_LISTED = 3


def believed(result: TierResult, audit: Audit) -> TierResult:
    """Return a tier's result as it can be believed: in an environment that could forge it, no tier passes.

    What the probe itself came to stays in the evidence, so that counts can be compared with those of harnesses that
    ask no such question. Failures, skips and errors stay what they are.

    Args:
        result: what the probe found.
        audit: what the audit found in the same environment.
    """
    harmless = _HARMLESS.get(result.tier, frozenset()) if isinstance(result.tier, Tier) else frozenset()
    voiding = [finding for finding in audit.voiding if finding.kind not in harmless]
    if result.verdict is not Verdict.PASSED or not voiding:
        return result
    listed = "; ".join(map(_shown, voiding[:_LISTED]))
    more = f"; and {len(voiding) - _LISTED} more" if len(voiding) > _LISTED else ""
    return replace(
        result,
        verdict=Verdict.FAILED,
        cause=Cause.TAMPERED,
        reason=f"it passed, and cannot be believed: {listed}{more}",
        evidence={**result.evidence, "probe_verdict": str(result.verdict), "probe_reason": result.reason},
    )


def _shown(finding: Finding) -> str:
    return f"{finding.kind}: {finding.field}: {finding.observed}"
