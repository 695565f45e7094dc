"""The page of an environment, from what was recorded of its attempt."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

from pytest_researchenv.diagnosis import Diagnosis
from pytest_researchenv.model import Cause, Environment, SelfReport, Sign, Tier, TierResult, Verdict
from pytest_researchenv.report.html.behaviour import behaviour_part
from pytest_researchenv.report.html.environment_view import ClaimRow, DiagnosisPart, EnvironmentPage, SignRow, TierPart
from pytest_researchenv.report.html.places import Places
from pytest_researchenv.report.html.reasons import Reasons
from pytest_researchenv.report.html.text import cut, read_excerpt
from pytest_researchenv.report.html.words import amount, duration, size
from pytest_researchenv.report.html.work import read_work
from pytest_researchenv.runs.values import SUBJECTS, AttemptRecord, Subject


__all__ = ["attempt_page"]

#: How much of one value, and how many items of a list are shown; the record has all.
_VALUE, _ITEMS = 1500, 60

#: Where commands look for results when nothing is said.
_RESULTS = Path("researchenv-results")

_TELEMETRY = {
    "wall_s": ("time", duration),
    "model_s": ("waiting for the model", duration),
    "requests": ("requests", amount),
    "tokens_in": ("tokens in", amount),
    "tokens_cached": ("cached", amount),
    "tokens_out": ("tokens out", amount),
    "cost_usd": ("cost", "${:,.4f}".format),
    "added_image_bytes": ("added to the image", size),
}


def attempt_page(
    attempt: AttemptRecord, *, results: Path, places: Places, reasons: Reasons, version: str
) -> EnvironmentPage:
    """Return the page of an environment; reads excerpts of its logs, and its trajectory.

    Args:
        attempt: what was recorded.
        results: the results folder, which commands name.
        places: where pages lie.
        reasons: why tiers did not pass.
        version: of this package.
    """
    environment = attempt.environment
    return EnvironmentPage(
        title=attempt.key.repository,
        agent=attempt.key.agent,
        attempt=f"attempt {attempt.key.attempt} of run {attempt.key.run}",
        home=places.home(attempt.key),
        facts=tuple(_facts(environment)) if environment else (),
        notes=(*(environment.notes if environment else ()), *map(str, attempt.damage)),
        error=attempt.error or ("" if environment else "it was never finished"),
        tiers=tuple(_tier(attempt, subject, reasons) for subject in SUBJECTS),
        claims=tuple(_claims(environment.report if environment else None, attempt.results.get(Tier.C5))),
        report_problem=environment.report_problem if environment else "",
        prompt=read_excerpt(attempt.folder / "prompt.md"),
        work=read_work(attempt.folder / "trajectory.json"),
        transcript=read_excerpt(attempt.folder / "transcript.log"),
        refused=environment.refused if environment else (),
        behaviour=behaviour_part(attempt),
        commands=tuple(_commands(attempt, results)),
        version=version,
    )


def _facts(environment: Environment) -> Iterator[tuple[str, str]]:
    yield "ended", environment.ended
    for name, (words, show) in _TELEMETRY.items():
        if name in environment.telemetry:
            yield words, show(environment.telemetry[name])
    yield "devices given", str(environment.devices)
    yield "frozen", environment.created
    yield "image", environment.image
    yield "base image", environment.base_image
    if environment.changed:
        yield "tracked files that differ", _value(list(environment.changed))


# --- what was judged --------------------------------------------------------------------------------------


def _tier(attempt: AttemptRecord, subject: Subject, reasons: Reasons) -> TierPart:
    result = attempt.results.get(subject)
    if result is None:
        return TierPart(str(subject), subject.heading)
    return TierPart(
        name=str(subject),
        title=subject.heading,
        verdict=str(result.verdict),
        cause="" if result.cause is Cause.NONE else str(result.cause),
        reason=result.reason,
        decisive=result.decisive if result.decisive != result.reason else "",
        emulated=result.emulated,
        facts=tuple(_circumstances(result)),
        evidence=tuple((name, _value(value)) for name, value in result.evidence.items()),
        signs=tuple(
            SignRow(str(finding.kind), finding.field, finding.claimed, finding.observed)
            for finding in result.findings
            if isinstance(finding.kind, Sign)
        ),
        log=read_excerpt(attempt.folder / result.log) if _plain_name(result.log) else None,
        log_name=result.log,
        times=attempt.times.get(subject, 1),
        diagnosis=_diagnosis(reasons.get((attempt.key, subject))) if isinstance(subject, Tier) else None,
    )


def _diagnosis(found: Diagnosis | None) -> DiagnosisPart | None:
    if found is None:
        return None
    return DiagnosisPart(str(found.category), found.category.meaning, str(found.confidence), found.line, found.next)


def _circumstances(result: TierResult) -> Iterator[tuple[str, str]]:
    if result.created:
        yield "judged", result.created
    yield "in", duration(result.duration_s)
    if result.accelerator:
        yield "on", result.accelerator
    if result.harness:
        yield "by", result.harness[:24]


def _plain_name(name: str) -> bool:
    """Whether it is a file of the attempt's own folder: records can be edited."""
    return bool(name) and "/" not in name and "\0" not in name and name not in {".", ".."}


def _value(value: object) -> str:
    if isinstance(value, list):
        more = f", and {len(value) - _ITEMS} more" if len(value) > _ITEMS else ""
        return cut(", ".join(map(str, value[:_ITEMS])), _VALUE) + more if value else "none"
    return cut(value if isinstance(value, str) else json.dumps(value), _VALUE)


def _claims(report: SelfReport | None, c5: TierResult | None) -> Iterator[ClaimRow]:
    """Every field that was reported, with what became of it."""
    judged = {claim.field: claim for claim in c5.claims} if c5 else {}
    told = {one.name: getattr(report, one.name) for one in fields(SelfReport)} if report else {}
    for name in dict.fromkeys((*told, *judged)):
        if name in judged:
            claim = judged[name]
            yield ClaimRow(name, claim.claimed, _observed(claim.observed, claim.would_hold), str(claim.outcome))
        else:
            yield ClaimRow(name, cut(json.dumps(told[name], ensure_ascii=False), _VALUE))


def _observed(words: str, would_hold: bool | None) -> str:  # noqa: FBT001 - as a claim has it
    if would_hold is None:
        return words
    return f"{words}; the claim would {'' if would_hold else 'not '}have held"


# --- see it again -----------------------------------------------------------------------------------------


def _commands(attempt: AttemptRecord, results: Path) -> Iterator[tuple[str, str]]:
    key = attempt.key
    where = "" if results == _RESULTS else _option("--results", str(results))
    name = key.repository.rpartition("/")[2]
    if attempt.environment:
        yield "A shell in a copy of the environment", f"researchenv shell {shlex.quote(str(attempt.folder))}"
        verify = f"researchenv verify {shlex.quote(key.run)}{where}{_option('--agent', key.agent)}"
        yield "Judge it again, and compare", f"{verify}{_option('--repository', name)}"
    failed = [
        str(tier) for tier, one in attempt.results.items() if isinstance(tier, Tier) and one.verdict is Verdict.FAILED
    ]
    suite = key.repository.rpartition("/")[0]
    chosen = f"{name} and ({' or '.join(failed)})" if failed and len(failed) < len(Tier) else name
    run = "" if key.run == "default" else f" --researchenv-run={shlex.quote(key.run)}"
    place = "" if not where else f" --researchenv-results={shlex.quote(str(results))}"
    who = f"--researchenv-suite={shlex.quote(suite)} --researchenv-agent={shlex.quote(key.agent)}"
    what = "Probe what failed once more, in the newest attempt" if failed else "Probe the newest attempt once more"
    yield what, f"pytest {who}{run}{place} -k {shlex.quote(chosen)}"


def _option(name: str, value: str) -> str:
    return f" {name} {shlex.quote(value)}"
