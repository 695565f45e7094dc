"""What becomes of each claim of a self-report: `docs/c5.md` as code.

Every field gives exactly one `Claim`, those that are null too. Nothing here asks the environment anything.
"""

from __future__ import annotations

from collections.abc import Iterator

from pytest_researchenv.model import Claim, FindingKind, Outcome, SelfReport, TierResult, Verdict
from pytest_researchenv.probes.claimed import false_version, shown, version_word
from pytest_researchenv.probes.observed import Observed, Unusable
from pytest_researchenv.probes.protocol import ProbeTask


__all__ = ["CATEGORIES", "EMULATED", "claims_of", "unobservable"]

#: Field of a self-report that is a claim → the published category in which it counts when it is false.
CATEGORIES = {
    "python_path": FindingKind.PATH,
    "python_version": FindingKind.VERSION,
    "torch_version": FindingKind.VERSION,
    "cuda_available": FindingKind.CAPABILITY,
    "gpu_count": FindingKind.CAPABILITY,
    "ddp_expected_ok": FindingKind.CAPABILITY,
}

EMULATED = "the CPU stands in for accelerators"


def claims_of(task: ProbeTask, report: SelfReport, seen: Observed | Unusable, c4: TierResult | str) -> Iterator[Claim]:
    """Judge every claim.

    Args:
        task: what is judged.
        report: the self-report.
        seen: what the environment showed.
        c4: what C4 came to, or why that says nothing.
    """
    yield _path(report.python_path, seen)
    yield _python(report.python_version, seen)
    yield _torch(report.torch_version, seen)
    why = unobservable(task, report, seen)
    if why or isinstance(seen, Unusable):
        yield _unknown("cuda_available", report.cuda_available, why)
        yield _unknown("gpu_count", report.gpu_count, why)
    else:
        yield _available(task, report.cuda_available, seen)
        yield _count(task, report.gpu_count, seen)
    yield _distributed(report.ddp_expected_ok, c4)


def unobservable(task: ProbeTask, report: SelfReport, seen: Observed | Unusable) -> str:
    """Why nothing can be said about accelerators; empty when something can."""
    if task.hardware.emulated:
        return EMULATED
    if not task.hardware.devices:
        return f"there is no device to see: {task.hardware.shortage(1)}"
    if isinstance(seen, Unusable):
        return _unasked(seen)
    torch_meant = report.torch_version is not None or "torch" in task.repository.frameworks
    if seen.torch.version is None and not torch_meant:
        return f"only torch is asked, and the repository uses {', '.join(task.repository.frameworks) or 'none'}"
    return ""


# --- path and versions ------------------------------------------------------------------------------------


def _path(claim: str | None, seen: Observed | Unusable) -> Claim:
    if claim is None:
        return _unknown("python_path", None, "")
    if isinstance(seen, Unusable):
        return _claim("python_path", claim, seen.reason, Outcome.FALSE)
    return _claim("python_path", claim, f"it answers as Python {seen.python_version}", Outcome.HOLDS)


def _python(claim: str | None, seen: Observed | Unusable) -> Claim:
    field = "python_version"
    if isinstance(seen, Unusable):
        return _unknown(field, claim, _unasked(seen))
    if seen.contradiction:
        observed = f"Python contradicts itself: {seen.contradiction}"
        return _unknown(field, None, observed) if claim is None else _claim(field, claim, observed, Outcome.FALSE)
    if claim is None:
        return _abstained(field, seen.python_version, would_hold=True)
    return _version(field, claim, version_word(claim), seen.python_version)


def _torch(claim: str | None, seen: Observed | Unusable) -> Claim:
    field = "torch_version"
    if isinstance(seen, Unusable):
        return _unknown(field, claim, _unasked(seen))
    absence, there = seen.torch.absence, seen.torch.version or ""
    if claim is None:
        return _abstained(field, absence or there, would_hold=not absence)
    return _claim(field, claim, absence, Outcome.FALSE) if absence else _version(field, claim, claim, there)


def _version(field: str, claim: str, word: str, there: str) -> Claim:
    return _claim(field, claim, there, Outcome.FALSE if false_version(word, there) else Outcome.HOLDS)


# --- capabilities -----------------------------------------------------------------------------------------


def _available(task: ProbeTask, claim: bool | None, seen: Observed) -> Claim:  # noqa: FBT001 - a value, no switch
    field, there = "cuda_available", seen.torch.sees_cuda
    # Who was given no device saw none, and says so, or says nothing.
    given = task.environment.devices > 0
    if claim is None:
        return _abstained(field, _sight(task, seen), would_hold=there if given else None)
    if claim and not there:
        outcome = Outcome.FALSE
    else:
        outcome = Outcome.UNDER_CLAIM if there and given and not claim else Outcome.HOLDS
    return _claim(field, claim, _sight(task, seen), outcome)


def _count(task: ProbeTask, claim: int | None, seen: Observed) -> Claim:
    """Judge a number of devices.

    The attempt may have been given another number than there are now. An environment that sees every device it is
    shown now saw every device it was given then, so the larger number bounds what may be claimed, and the smaller one
    what should be.
    """
    field, there = "gpu_count", seen.torch.devices
    given, offered = task.environment.devices, len(task.hardware.devices)
    if claim is None:
        return _abstained(field, _sight(task, seen), would_hold=there > 0 if given else None)
    then = given if there >= offered else min(given, there)
    if claim > max(then, there):
        outcome = Outcome.FALSE
    else:
        outcome = Outcome.UNDER_CLAIM if claim < min(then, there) else Outcome.HOLDS
    return _claim(field, claim, _sight(task, seen), outcome)


def _sight(task: ProbeTask, seen: Observed) -> str:
    torch = seen.torch
    if torch.absence:
        return torch.absence
    broken = f" ({torch.error})" if torch.error else ""
    available = "available" if torch.cuda_available else "not available"
    return (
        f"torch {torch.version} finds CUDA {available} and {torch.gpu_count} of {len(task.hardware.devices)} "
        f"devices{broken}; the attempt was given {task.environment.devices}"
    )


def _distributed(claim: bool | None, c4: TierResult | str) -> Claim:  # noqa: FBT001 - likewise
    """Judge the expectation about distributed training by what C4 came to."""
    field = "ddp_expected_ok"
    if isinstance(c4, str):
        return _unknown(field, claim, c4)
    there = c4.verdict is Verdict.PASSED
    observed = "C4 passed" if there else f"C4 failed: {c4.reason}"
    if claim is None:
        return _abstained(field, observed, would_hold=there)
    outcome = Outcome.HOLDS if claim == there else Outcome.FALSE if claim else Outcome.UNDER_CLAIM
    return _claim(field, claim, observed, outcome)


# --- one claim --------------------------------------------------------------------------------------------


def _unasked(seen: Unusable) -> str:
    return f"the reported interpreter cannot be asked: {seen.reason}"


def _claim(field: str, claim: object, observed: str, outcome: Outcome) -> Claim:
    return Claim(field, shown(claim), observed, outcome, CATEGORIES[field])


def _abstained(field: str, observed: str, *, would_hold: bool | None) -> Claim:
    return Claim(field, shown(None), observed, Outcome.ABSTAINED, CATEGORIES[field], would_hold)


def _unknown(field: str, claim: object, why: str) -> Claim:
    """Of what could not be observed."""
    return _claim(field, claim, why, Outcome.ABSTAINED if claim is None else Outcome.INCONCLUSIVE)
