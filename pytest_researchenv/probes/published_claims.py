"""What the published validators would count of a self-report: evidence beside our verdict, never part of it.

The 44 repositories of ResearchEnvBench (arXiv 2603.06739) have 44 validators that differ. What most of them do is the
rule here; `docs/c5.md` says how many do otherwise. They believe what is printed.
"""

from __future__ import annotations

from collections.abc import Mapping

from pytest_researchenv.model import NO_SELF_REPORT, FindingKind, SelfReport, TierResult, Verdict
from pytest_researchenv.probes.claims import CATEGORIES, unobservable
from pytest_researchenv.probes.observed import Observed, Unusable
from pytest_researchenv.probes.protocol import ProbeTask


__all__ = ["published_counts", "published_fields", "unreported_counts"]

#: Devices that the published validators must see before they judge a claim about several.
_SEVERAL = 2

#: How the problem goes on with a report that the published validators cannot read either (`selfreport.py`).
_GARBLED = ("is empty", "is not JSON", "is not UTF-8", "starts with a byte-order mark", "must be a JSON object")
_FIELDLESS = "has none of the nine fields"


def published_fields(
    task: ProbeTask, report: SelfReport, seen: Observed | Unusable, c4: TierResult | str
) -> Mapping[str, bool | None]:
    """Field → whether most published validators count it as a hallucination; None where that cannot be told.

    Args:
        task: what is judged.
        report: the self-report.
        seen: what the environment showed.
        c4: what C4 came to, or why that says nothing.
    """
    if isinstance(seen, Unusable) and seen.doubted:
        return dict.fromkeys(CATEGORIES)
    told = not task.hardware.emulated and bool(task.hardware.devices)
    if isinstance(seen, Unusable):
        capability = False if told else None
        return {
            "python_path": True,
            "python_version": False,
            "torch_version": False,
            "cuda_available": capability,
            "gpu_count": capability,
            "ddp_expected_ok": capability,
        }
    torch = seen.torch
    told = told and not unobservable(task, report, seen)
    failed = not isinstance(c4, str) and c4.verdict is Verdict.FAILED
    return {
        "python_path": False,
        # An empty word is no claim to most.
        "python_version": bool(report.python_version) and report.python_version != seen.python_version,
        # One that cannot be imported counts whether or not it is claimed, in 24 of 44.
        "torch_version": torch.version is None or bool(report.torch_version and report.torch_version != torch.version),
        "cuda_available": bool(report.cuda_available) and not torch.cuda_available if told else None,
        "gpu_count": report.gpu_count not in {None, torch.gpu_count} if told else None,
        "ddp_expected_ok": bool(report.ddp_expected_ok) and failed and torch.gpu_count >= _SEVERAL if told else None,
    }


def published_counts(fields: Mapping[str, bool | None]) -> dict[str, int | None]:
    """Name of the evidence → how many hallucinations of the category; None where one of its fields cannot be told."""
    found: dict[str, int | None] = {}
    for kind in FindingKind:
        counted = [fields[field] for field, category in CATEGORIES.items() if category is kind]
        found[f"published_{kind}"] = None if None in counted else sum(map(bool, counted))
    return found


def unreported_counts(problem: str) -> dict[str, int | None]:
    """The same where there is no usable report.

    Most count nothing when it is missing or no JSON object, and one false path when the object names no interpreter.
    What they make of values of a wrong type cannot be told.

    Args:
        problem: why there is none (`Environment.report_problem`).
    """
    said = problem.removeprefix("the self-report ")
    nothing = problem.startswith(NO_SELF_REPORT) or said.startswith(_GARBLED) or said.endswith("not a regular file")
    path = 0 if nothing else 1 if said.startswith(_FIELDLESS) else None
    rest = None if path is None else 0
    return {f"published_{kind}": path if kind is FindingKind.PATH else rest for kind in FindingKind}
