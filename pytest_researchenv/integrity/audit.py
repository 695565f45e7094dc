"""The integrity audit: is an environment what it seems to be?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from pytest_researchenv.integrity.protocol import Check, Signs, merged
from pytest_researchenv.integrity.snapshot import opened_snapshot
from pytest_researchenv.model import (
    UNFREEZABLE,
    Audit,
    Cause,
    Examination,
    Finding,
    Sign,
    TierResult,
    Verdict,
)
from pytest_researchenv.probes.interpreter import Broken
from pytest_researchenv.probes.launch import attempted
from pytest_researchenv.probes.protocol import ProbeTask
from pytest_researchenv.sandbox.protocol import Change


__all__ = ["audit"]

#: How many findings the reason lists; all of them are recorded.
_LISTED = 5


def audit(
    task: ProbeTask, changes: Callable[[], Iterable[Change]], *, checks: Sequence[Check], cache: Path | None = None
) -> Audit:
    """Audit a frozen environment from outside.

    Args:
        task: what is audited.
        changes: gives what the agent's layer changed, as it was recorded at the freeze.
        checks: what is looked at.
        cache: where what was read of base images is kept for other processes; None: nowhere.

    Raises:
        InfrastructureError: the engine fails on the base image, too.
    """
    environment = task.environment
    if environment.report is None and environment.report_problem.startswith(UNFREEZABLE):
        reason = f"there is nothing to audit: {environment.report_problem}"
        return Audit(TierResult(Examination.INTEGRITY, Verdict.SKIPPED, Cause.NOT_APPLICABLE, reason))
    found = attempted(task, lambda: _looked(task, changes, checks, cache))
    signs = Signs((_unreadable(found.reason),)) if isinstance(found, Broken) else found
    return Audit(
        _result(signs),
        blanked=dict(signs.blanked),
        modules=dict(signs.modules),
        interpreter=signs.interpreter,
    )


def _looked(
    task: ProbeTask, changes: Callable[[], Iterable[Change]], checks: Sequence[Check], cache: Path | None
) -> Signs:
    with opened_snapshot(task, changes, cache) as snapshot:
        signs = merged(check(task, snapshot) for check in checks)
        return merged((signs, Signs(tuple(map(_unreadable, snapshot.problems)))))


def _unreadable(why: str) -> Finding:
    return Finding(Sign.UNREADABLE, "the frozen image", "every file can be read from outside", why)


def _result(signs: Signs) -> TierResult:
    findings = signs.findings
    listed = "; ".join(f"{finding.kind}: {finding.field}: {finding.observed}" for finding in findings[:_LISTED])
    more = f"; and {len(findings) - _LISTED} more" if len(findings) > _LISTED else ""
    counts = {kind: sum(finding.kind is kind for finding in findings) for kind in Sign}
    return TierResult(
        Examination.INTEGRITY,
        Verdict.FAILED if findings else Verdict.PASSED,
        Cause.TAMPERED if findings else Cause.NONE,
        listed + more or "no sign of tampering",
        evidence={
            "signs": [f"{kind}: {count}" for kind, count in counts.items() if count],
            "blanked": sorted(signs.blanked),
            "not_genuine": [f"{name}: {why}" for name, why in sorted(signs.modules.items())],
            "remarks": list(signs.remarks),
        },
        findings=findings,
    )
