"""What an attempt's folder holds, and where it is not what was written there. Nothing here needs a container engine."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from pytest_researchenv._adapters import AUDITS, ENVIRONMENTS, RESEARCH_RESULTS, RESULTS
from pytest_researchenv._records import what_is_wrong
from pytest_researchenv.errors import StoreError
from pytest_researchenv.integrity.believing import believed
from pytest_researchenv.model import (
    NO_SELF_REPORT,
    UNFREEZABLE,
    Audit,
    Cause,
    Environment,
    EnvironmentKey,
    Examination,
    Outcome,
    Tier,
    TierResult,
    Verdict,
    judged_named,
)
from pytest_researchenv.packedlogs import log_place
from pytest_researchenv.probes.claimed import shown
from pytest_researchenv.provenance import digest_of, seal_of
from pytest_researchenv.research.result import ResearchCause, ResearchResult
from pytest_researchenv.runs.folders import RESEARCH, RESULT
from pytest_researchenv.runs.origins import origin_of
from pytest_researchenv.selfreport import parse_report


__all__ = ["Records", "read_records"]

_T = TypeVar("_T")

#: What is recorded before the environment is, by the store and by nobody else.
_RECORDED = (
    *("attempt.json", "changes.jsonl.gz", "prompt.md", "report.json", "requests.jsonl", "trajectory.json"),
    "transcript.log",
)


@dataclass(frozen=True, slots=True)
class Records:
    """What an attempt's folder holds.

    Attributes:
        environment: what is judged; None where its record cannot be read.
        results: what was judged → what it came to each time, oldest first, where it can be read.
        altered: one sentence for each thing that is not as it was written.
        seals: name of each record → its seal.
    """

    environment: Environment | None
    results: Mapping[Tier | Examination, tuple[TierResult, ...]]
    altered: tuple[str, ...]
    seals: Mapping[str, str]


class _AlteredError(Exception):
    """A record cannot be read; the message says why."""


def read_records(folder: Path, key: EnvironmentKey) -> Records:
    """Read what an attempt's folder holds, and compare all of it that says something of the rest.

    Args:
        folder: the attempt's.
        key: which attempt it is, by where it lies.

    Raises:
        StoreError: a file cannot be read.
    """
    altered: list[str] = []
    seals: dict[str, str] = {}

    def read(name: str, adapter: TypeAdapter[_T], seal: Callable[[_T], str]) -> _T | None:
        try:
            record, expected = _sealed(folder / name, adapter)
        except _AlteredError as error:
            altered.append(f"{name} {error}")
            return None
        seals[name] = seal(record)
        if seals[name] != expected:
            altered.append(f"{name} does not have the seal that its content has: it was edited")
        return record

    environment = read("environment.json", ENVIRONMENTS, lambda record: record.seal)
    if environment:
        altered += _environment_problems(folder, origin_of(folder, key), environment)
    results: dict[Tier | Examination, list[TierResult]] = {}
    for name, subject in _result_files(folder):
        if isinstance(subject, Tier):
            result = read(name, RESULTS, lambda record: record.seal)
        else:
            audit = read(name, AUDITS, lambda record: record.result.seal)
            result = audit.result if audit else None
        if result:
            results.setdefault(subject, []).append(result)
            altered += [f"{name}: {problem}" for problem in _result_problems(folder, name, subject, result)]
            altered += [f"{name}: {problem}" for problem in _origin_problems(result, environment)]
    for name, subtask in _research_files(folder):
        if research := read(name, RESEARCH_RESULTS, lambda record: record.seal):
            altered += [f"{name}: {problem}" for problem in _research_problems(folder, name, subtask, research)]
            altered += [f"{name}: {problem}" for problem in _image_problems(research, environment)]
    altered += _unbelieved(results)
    altered += _gaps(folder)
    return Records(environment, {name: tuple(every) for name, every in results.items()}, tuple(altered), seals)


def _sealed(path: Path, adapter: TypeAdapter[_T]) -> tuple[_T, str]:
    """Return a record, and the seal that its content should have."""
    try:
        raw = path.read_bytes()
    except FileNotFoundError as error:
        raise _AlteredError("is gone") from error
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error}") from error
    try:
        record = adapter.validate_json(raw)
        document = json.loads(raw)
    except ValidationError as error:
        raise _AlteredError(what_is_wrong(error)) from error
    except (ValueError, RecursionError) as error:
        raise _AlteredError(f"does not hold what was written there: {str(error).splitlines()[0]}") from error
    return record, seal_of(document)


def _result_files(folder: Path) -> Iterator[tuple[str, Tier | Examination]]:
    """Name of each result's record, and what it judged, in order."""
    found = [match for path in folder.iterdir() if (match := RESULT.fullmatch(path.name)) and match[3] == "json"]
    for match in sorted(found, key=lambda match: (match[1], int(match[2]))):
        yield match[0], judged_named(match[1])


def _research_files(folder: Path) -> Iterator[tuple[str, str]]:
    """Name of each record of a research task's sub-task, and the sub-task, in order."""
    found = [match for path in folder.iterdir() if (match := RESEARCH.fullmatch(path.name)) and match[3] == "json"]
    for match in sorted(found, key=lambda match: (match[1], int(match[2]))):
        yield match[0], match[1]


def _research_problems(folder: Path, name: str, subtask: str, result: ResearchResult) -> Iterator[str]:
    if result.subtask != subtask:
        yield f"it says that {result.subtask} was judged"
    yield from _log_problems(folder, name, result)
    if (result.verdict is Verdict.PASSED) is not (result.cause is ResearchCause.NONE):
        yield f"it says {result.verdict}, and why it did not pass: {result.cause}"
    above = bool(result.deciding and result.deciding.above and not result.findings)
    if (result.verdict is Verdict.PASSED) is not above:
        yield f"it says {result.verdict}, and its scores and findings say otherwise"
    if result.completed is not bool(result.deciding and not result.findings):
        yield f"it says that it was {'' if result.completed else 'not '}completed, and its scores say otherwise"


def _unbelieved(results: Mapping[Tier | Examination, Sequence[TierResult]]) -> Iterator[str]:
    """Passes of which the audit that stood then says that they cannot be believed."""
    for result in (one for tier in Tier for one in results.get(tier, ())):
        audits = [
            one
            for one in results.get(Examination.INTEGRITY, ())
            if one.verdict is not Verdict.ERROR and one.created <= result.created and one.basis == result.audit
        ]
        if audits and believed(result, Audit(audits[-1])).verdict is not result.verdict:
            name = result.log.removesuffix(".log")
            yield f"{name}.json: it {result.verdict}, which nobody can believe who reads {audits[-1].log}"


def _gaps(folder: Path) -> Iterator[str]:
    """Numbers that were given and are gone: one that was killed leaves its log."""
    numbers: dict[str, set[int]] = {}
    for path in folder.iterdir():
        if match := RESULT.fullmatch(path.name):
            numbers.setdefault(match[1], set()).add(int(match[2]))
    for subject, given in sorted(numbers.items()):
        for number in sorted(set(range(1, max(given))) - given):
            yield f"{subject}-{number:03d} is gone, record and log"


# --- the environment --------------------------------------------------------------------------------------


def _environment_problems(folder: Path, key: EnvironmentKey, environment: Environment) -> Iterator[str]:
    if environment.key != key:
        yield f"environment.json is of another attempt, {environment.key}"
    for name, digest in environment.records.items():
        # A name is no path.
        found = digest_of(folder / name) if name == Path(name).name else ""
        if found != digest:
            yield f"{name} is not what was recorded: {'it has changed' if found else 'it is gone'}"
    for name in _RECORDED:
        if name not in environment.records and log_place(folder / name).exists():
            yield f"{name} was added after the environment was recorded"
    yield from _report_problems(folder / "report.json", environment)


def _report_problems(path: Path, environment: Environment) -> Iterator[str]:
    """Where the self-report that is judged is not what the agent's file says."""
    if environment.report is None and environment.report_problem.startswith(UNFREEZABLE):
        return
    try:
        raw = path.read_bytes()
    except OSError:
        raw = b""
    intake = parse_report(raw) if raw else None
    report = intake.report if intake else None
    # Values are cleaned one by one and the file as a whole: what was taken out may look different.
    if report != environment.report and b"[redacted " not in raw:
        yield "environment.json holds another self-report than report.json"
    if environment.report and environment.report_problem:
        yield "environment.json holds both a self-report and why there is none"
    if not environment.report and not environment.report_problem:
        yield f"environment.json holds neither a self-report nor a reason, such as: {NO_SELF_REPORT}"


# --- results ----------------------------------------------------------------------------------------------


def _result_problems(folder: Path, name: str, subject: Tier | Examination, result: TierResult) -> Iterator[str]:
    if result.tier is not subject:
        yield f"it says that {result.tier} was judged"
    yield from _log_problems(folder, name, result)
    if (result.verdict is Verdict.PASSED) is not (result.cause is Cause.NONE):
        yield f"it says {result.verdict}, and why it did not pass: {result.cause}"
    yield from _finding_problems(subject, result)


def _log_problems(folder: Path, name: str, result: TierResult | ResearchResult) -> Iterator[str]:
    log = f"{name.removesuffix('.json')}.log"
    if result.log != log:
        yield f"its log is {log}, and it names {result.log!r}"
    elif (found := digest_of(folder / log)) != result.log_digest:
        yield f"{log} is not the log that was written: {'it has changed' if found else 'it is gone'}"


def _finding_problems(subject: Tier | Examination, result: TierResult) -> Iterator[str]:
    """Where verdict, findings and claims contradict one another."""
    guilty = {Tier.C5: Cause.FALSE_CLAIMS, Examination.INTEGRITY: Cause.TAMPERED}.get(subject)
    if guilty is None:
        if result.findings or result.claims:
            yield f"findings and claims are no part of {subject}"
        return
    if bool(result.findings) is not (result.cause is guilty):
        yield f"it has {len(result.findings)} findings, and its cause is: {result.cause}"
    if result.claims:
        false = {(claim.category, claim.field) for claim in result.claims if claim.outcome is Outcome.FALSE}
        found = {(finding.kind, finding.field) for finding in result.findings}
        for kind, field in sorted(false ^ found):
            says = "a false claim without a finding" if (kind, field) in false else "a finding without a false claim"
            yield f"{field} ({kind}) is {says}"


def _image_problems(result: TierResult | ResearchResult, environment: Environment | None) -> Iterator[str]:
    if environment is None:
        return
    if result.snapshot != environment.image:
        yield f"it judged another image, {result.snapshot or '(none)'}, than the environment's, {environment.image}"
    if result.base_image != environment.base_image:
        yield f"it names another base image, {result.base_image or '(none)'}, than the environment's"


def _origin_problems(result: TierResult, environment: Environment | None) -> Iterator[str]:
    if environment is None:
        return
    yield from _image_problems(result, environment)
    for claim in result.claims:
        # Of a report without a field of that name nothing was claimed.
        wrote = shown(getattr(environment.report, claim.field, None))
        if claim.claimed != wrote and "[redacted " not in claim.claimed + wrote:
            yield f"it judged {claim.field} as {claim.claimed}, and the self-report says {wrote}"
