"""Are two results of one environment the same, in all that is counted?"""

from __future__ import annotations

from pytest_researchenv.model import TierResult


__all__ = ["difference"]

#: Evidence that published figures are counted from.
_COUNTED = ("missing", "missing_published", "published_fields", "contradictions", "probe_verdict")


def difference(then: TierResult, now: TierResult) -> str:
    """Say how what is counted differs: verdict, findings, claims, missing imports; empty when it does not.

    Reasons and causes may differ: how long something took, or how far it came, decides nothing.
    """
    if then.verdict is not now.verdict:
        return f"{then.verdict} then ({then.reason}), {now.verdict} now ({now.reason})"
    before, after = _counted(then), _counted(now)
    differing = [
        f"{name}: {_shown(before[name])} then, {_shown(after[name])} now"
        for name in before
        if before[name] != after[name]
    ]
    return f"{then.verdict} as before, but {'; '.join(differing)}" if differing else ""


def _counted(result: TierResult) -> dict[str, list[str]]:
    return {
        "findings": sorted(f"{finding.kind} {finding.field}" for finding in result.findings),
        "claims": sorted(f"{claim.field} {claim.outcome}" for claim in result.claims),
        **{name: _listed(result.evidence.get(name)) for name in _COUNTED},
    }


def _listed(value: object) -> list[str]:
    if value is None:
        return []
    return sorted(map(str, value)) if isinstance(value, list) else [str(value)]


def _shown(values: list[str]) -> str:
    return ", ".join(values) or "none"
