"""Takes secrets, and what is no text, out of records before they are stored: only out of what is not ours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import TypeVar, cast

from pytest_researchenv.model import Audit, Environment, SelfReport, TierResult
from pytest_researchenv.research.result import ResearchResult


__all__ = ["clean_audit", "clean_environment", "clean_research", "clean_result"]

_V = TypeVar("_V")


def clean_result(result: TierResult, clean: Callable[[str], str]) -> TierResult:
    """Clean what was observed, and nothing of ours: a password `pass` must not change the word `passed`."""
    return replace(
        result,
        reason=clean(result.reason),
        decisive=clean(result.decisive),
        evidence={clean(name): _value(value, clean) for name, value in result.evidence.items()},
        findings=tuple(
            replace(
                finding, field=clean(finding.field), claimed=clean(finding.claimed), observed=clean(finding.observed)
            )
            for finding in result.findings
        ),
        claims=tuple(
            replace(claim, claimed=clean(claim.claimed), observed=clean(claim.observed)) for claim in result.claims
        ),
    )


def clean_research(result: ResearchResult, clean: Callable[[str], str]) -> ResearchResult:
    """Clean what an evaluation and the agent said."""
    return replace(
        result,
        reason=clean(result.reason),
        method=clean(result.method),
        findings=tuple(replace(one, check=clean(one.check), what=clean(one.what)) for one in result.findings),
    )


def clean_audit(audit: Audit, clean: Callable[[str], str]) -> Audit:
    """Clean what an audit observed."""
    # Paths as keys are what the probes put things at: they stay as they are.
    return replace(
        audit,
        result=clean_result(audit.result, clean),
        modules={name: clean(why) for name, why in audit.modules.items()},
        interpreter=clean(audit.interpreter),
    )


def clean_environment(environment: Environment, clean: Callable[[str], str]) -> Environment:
    """Clean what the agent said, and what was told of its work."""
    report = environment.report
    if report is not None:
        values = {field.name: _value(getattr(report, field.name), clean) for field in fields(report)}
        report = SelfReport(**values)
    return replace(
        environment,
        report=report,
        report_problem=clean(environment.report_problem),
        ended=clean(environment.ended),
        refused=tuple(map(clean, environment.refused)),
        notes=tuple(map(clean, environment.notes)),
    )


def _value(value: _V, clean: Callable[[str], str]) -> _V:
    if isinstance(value, str):
        return cast("_V", clean(value))
    if isinstance(value, list):
        return cast("_V", [_value(item, clean) for item in value])
    return value
