"""Runs, attempts and results on disk.

    <results>/<run>/
        manifest-*.json      what each session was: see `manifest`
        journal-*.jsonl      what happened in it: see `recording.journal`
        activity-*.jsonl     what each of its processes is doing: see `recording.activity`
    <results>/<run>/<agent>/<suite>/<repository>/attempt-001/
        attempt.json         which session began it
        environment.json     written once the environment is frozen
        evicted.json         that its frozen image was removed, where it was
        error.txt            instead: what broke, when the infrastructure did
        report.json          the self-report, byte for byte
        prompt.md            what the agent was told, if it was told in words
        transcript.log       what the agent printed
        trajectory.json      the same, step by step, where it can be told apart
        changes.jsonl.gz     what differs from the base image: kind and path, one a line
        requests.jsonl       what was asked of the model and of the outside, where a gateway stood between
        C0-001.json, .log    one pair per time the tier was probed; the highest number counts
        integrity-001.json   what the audit found, likewise
        research-NAME-001.json   what a sub-task of a research task came to, likewise
        inspection-NAME-001.json   what a model said of that, where one was asked

Logs that are complete, and requests, may be packed (`packedlogs`): `transcript.log.gz`.

Every file is written whole or not at all, the moment its content is known. Nothing is overwritten. This is the one
place where bytes enter a results folder, and so the one where secrets are taken out of them.
"""

from __future__ import annotations

import errno
import json
import os
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar, cast, final

from filelock import FileLock
from pydantic import TypeAdapter, ValidationError

from pytest_researchenv._records import what_is_wrong
from pytest_researchenv.errors import ConfigurationError, StoreError
from pytest_researchenv.layerchanges import read_changes, write_changes
from pytest_researchenv.log import capped_log
from pytest_researchenv.model import (
    AttemptStart,
    Audit,
    Environment,
    EnvironmentKey,
    Eviction,
    Examination,
    SelfReport,
    Tier,
    TierResult,
)
from pytest_researchenv.packedlogs import pack_log
from pytest_researchenv.provenance import records_in, seal_of
from pytest_researchenv.redaction import Redactor
from pytest_researchenv.research.inspection import Inspection
from pytest_researchenv.research.result import ResearchResult
from pytest_researchenv.runs.folders import ATTEMPT
from pytest_researchenv.sandbox.protocol import Change


__all__ = ["Attempt", "Store", "load_environment", "locked", "research_stem", "write_whole"]

_T = TypeVar("_T")
_V = TypeVar("_V")
_START = TypeAdapter(AttemptStart)
_ENVIRONMENT = TypeAdapter(Environment)
_EVICTION = TypeAdapter(Eviction)
_RESULT = TypeAdapter(TierResult)
_AUDIT = TypeAdapter(Audit)
_RESEARCH = TypeAdapter(ResearchResult)
_INSPECTION = TypeAdapter(Inspection)
_CHANGES = "changes.jsonl.gz"
_ENVIRONMENT_FILE = "environment.json"
_EVICTION_FILE = "evicted.json"


def _nothing_secret() -> Redactor:
    return Redactor(())


@final
@dataclass(frozen=True, slots=True)
class Attempt:
    """The folder of one attempt.

    Attributes:
        key: what identifies it.
        folder: where it lies.
        redactor: gives what takes secrets out of all that is written; asked each time, since secrets become known late.
    """

    key: EnvironmentKey
    folder: Path
    redactor: Callable[[], Redactor] = field(default=_nothing_secret, repr=False, compare=False)

    @property
    def transcript(self) -> Path:
        """What the agent printed."""
        return self.folder / "transcript.log"

    @property
    def requests(self) -> Path:
        """What went through the agent's gateway, as JSON lines."""
        return self.folder / "requests.jsonl"

    @property
    def start(self) -> AttemptStart:
        """What was known when it began; of no session where the record is damaged."""
        try:
            return _START.validate_json((self.folder / "attempt.json").read_bytes())
        except (OSError, ValidationError):
            return AttemptStart("")

    @property
    def session(self) -> str:
        """Id of the pytest session that began the attempt; empty where the record is damaged."""
        return self.start.session

    @property
    def finished(self) -> bool:
        """Whether an environment was recorded, readable or not."""
        return (self.folder / _ENVIRONMENT_FILE).exists()

    def environment(self) -> Environment | None:
        """The environment it left behind, or None when it is not finished or ended in an error."""
        return _load(self.folder / _ENVIRONMENT_FILE, _ENVIRONMENT)

    @property
    def evicted(self) -> bool:
        """Whether its frozen image was removed on purpose."""
        return (self.folder / _EVICTION_FILE).exists()

    def eviction(self) -> Eviction | None:
        """How its frozen image was removed on purpose; None where it was not."""
        return _load(self.folder / _EVICTION_FILE, _EVICTION)

    def save_eviction(self, eviction: Eviction) -> None:
        """Record that its frozen image is about to be removed."""
        write_whole(self.folder / _EVICTION_FILE, _EVICTION.dump_json(eviction, indent=2))

    def forget_eviction(self) -> None:
        """Take the record back: the image could not be removed, or is there again."""
        try:
            (self.folder / _EVICTION_FILE).unlink(missing_ok=True)
        except OSError as error:
            raise StoreError(f"cannot remove {self.folder / _EVICTION_FILE}: {error}") from error

    def error(self) -> str:
        """What broke when the infrastructure did; empty when nothing has."""
        path = self.folder / "error.txt"
        return _read(path).decode() if path.exists() else ""

    def save_environment(self, environment: Environment) -> Environment:
        """Record the finished environment, with digests of all that was recorded before; returns it as recorded."""
        kept = _clean_environment(environment, self._clean)
        kept = replace(kept, records=records_in(self.folder, but=_ENVIRONMENT_FILE))
        kept = replace(kept, seal=_seal(_ENVIRONMENT, kept))
        write_whole(self.folder / _ENVIRONMENT_FILE, _ENVIRONMENT.dump_json(kept, indent=2))
        self._pack()
        return kept

    def save_report(self, raw: bytes) -> None:
        """Record the self-report as it was found."""
        self._write("report.json", raw)

    def save_error(self, message: str) -> None:
        """Record that the infrastructure broke."""
        self._write("error.txt", message.encode("utf-8", "backslashreplace"))
        self._pack()

    def save_prompt(self, prompt: str) -> None:
        """Record what the agent was told."""
        self._write("prompt.md", prompt.encode("utf-8", "backslashreplace"))

    def save_trajectory(self, text: bytes) -> None:
        """Record what the agent did, step by step."""
        self._write("trajectory.json", text)

    def save_changes(self, changes: Iterable[Change]) -> None:
        """Record what differs from the base image; in memory there is one at a time."""
        write_changes(self.folder / _CHANGES, changes, self.redactor().stream())

    def changes(self) -> Iterator[Change]:
        """What differs from the base image, one after the other.

        Raises:
            UnknownChangesError: it could not be told, for which the agent is to blame.
            StoreError: there is no record, or it is damaged.
        """
        return read_changes(self.folder / _CHANGES)

    @contextmanager
    def log(self, path: Path) -> Iterator[Callable[[bytes], None]]:
        """Open a log of this attempt, which must not exist; yields a function that appends to it.

        Raises:
            StoreError: the log exists already, or cannot be written.
        """
        stream = self.redactor().stream()
        with capped_log(path) as append:
            try:
                yield lambda chunk: append(stream.feed(chunk))
            finally:
                append(stream.end())

    def results(self, tier: Tier) -> list[TierResult]:
        """Every result of a tier, oldest first."""
        return [_require(path, _RESULT) for path in sorted(self.folder.glob(f"{tier}-[0-9]*.json"), key=_number)]

    def audits(self) -> list[Audit]:
        """Every integrity audit, oldest first."""
        paths = sorted(self.folder.glob(f"{Examination.INTEGRITY}-[0-9]*.json"), key=_number)
        return [_require(path, _AUDIT) for path in paths]

    def judged(self, subject: Tier | Examination) -> list[TierResult]:
        """Every result of a tier or of the audit, oldest first."""
        return self.results(subject) if isinstance(subject, Tier) else [audit.result for audit in self.audits()]

    def research(self, subtask: str) -> list[ResearchResult]:
        """Every result of a sub-task, oldest first."""
        paths = sorted(self.folder.glob(f"{research_stem(subtask)}-[0-9]*.json"), key=_number)
        return [_require(path, _RESEARCH) for path in paths]

    def next_log(self, subject: str) -> Path:
        """Where the log of the next look at a tier, the audit, or `research_stem` of a sub-task, goes.

        Call it under the subject's lock.
        """
        last = max(map(_number, self.folder.glob(f"{subject}-[0-9]*.*")), default=0)
        return self.folder / f"{subject}-{last + 1:03d}.log"

    def save_result(self, log: Path, result: TierResult) -> TierResult:
        """Record a result beside its log; returns it as recorded: bytes of names that are no UTF-8 are escaped."""
        kept = _clean_result(result, self._clean)
        kept = replace(kept, seal=_seal(_RESULT, kept))
        write_whole(log.with_suffix(".json"), _RESULT.dump_json(kept, indent=2))
        return kept

    def save_research(self, log: Path, result: ResearchResult) -> ResearchResult:
        """Record what a sub-task came to beside its log; returns it as recorded."""
        kept = _clean_research(result, self._clean)
        kept = replace(kept, seal=_seal(_RESEARCH, kept))
        write_whole(log.with_suffix(".json"), _RESEARCH.dump_json(kept, indent=2))
        return kept

    def save_inspection(self, log: Path, inspection: Inspection) -> None:
        """Record what a model said of a sub-task's results, beside what it came to."""
        name = log.with_suffix(".json").name.replace("research-", "inspection-", 1)
        self._write(name, self._clean(_INSPECTION.dump_json(inspection, indent=2).decode()).encode())

    def inspection(self, log: str) -> Inspection | None:
        """What a model said of the results with this log; None where none was asked."""
        name = Path(log).with_suffix(".json").name.replace("research-", "inspection-", 1)
        return _load(self.folder / name, _INSPECTION)

    def save_audit(self, log: Path, audit: Audit) -> Audit:
        """Record an audit beside its log; returns it as recorded."""
        kept = _clean_audit(audit, self._clean)
        kept = replace(kept, result=replace(kept.result, seal=_seal(_AUDIT, kept)))
        write_whole(log.with_suffix(".json"), _AUDIT.dump_json(kept, indent=2))
        return kept

    @contextmanager
    def lock(self, name: str) -> Iterator[None]:
        """Keep others from working on the same thing of this attempt."""
        with _lock(self.folder / f".{name}.lock"):
            yield

    def _clean(self, text: str) -> str:
        """Escape what is no text, such as bytes of a name that are no UTF-8, and take secrets out."""
        return self.redactor().bytes(text.encode("utf-8", "backslashreplace")).decode("utf-8", "replace")

    def _pack(self) -> None:
        """Pack what was written while the agent was at work, now that nothing is added any more."""
        pack_log(self.transcript)
        pack_log(self.requests)

    def _write(self, name: str, content: bytes) -> None:
        write_whole(self.folder / name, self.redactor().bytes(content))


@final
class Store:
    """The attempts and results of one run.

    Args:
        root: the results folder.
        run: name of the run.
        redactor: see `Attempt.redactor`.
    """

    __slots__ = ("_redactor", "root", "run")

    def __init__(self, root: Path, run: str, *, redactor: Callable[[], Redactor] = _nothing_secret) -> None:
        self.root = root
        self.run = run
        self._redactor = redactor

    @property
    def folder(self) -> Path:
        """The run's folder."""
        return self.root / self.run

    def attempts(self, agent: str, repository: str) -> list[Attempt]:
        """All attempts of an agent at a repository (`Repository.key`), oldest first."""
        folder = self._folder(agent, repository)
        numbers = [int(found[1]) for path in folder.glob("attempt-*") if (found := ATTEMPT.fullmatch(path.name))]
        return [self._attempt(agent, repository, number) for number in sorted(numbers)]

    def attempt(self, agent: str, repository: str, number: int) -> Attempt:
        """The attempt of a number, whether there is one or not."""
        return self._attempt(agent, repository, number)

    def latest(self, agent: str, repository: str) -> Attempt | None:
        """The newest attempt."""
        attempts = self.attempts(agent, repository)
        return attempts[-1] if attempts else None

    def begin(self, agent: str, repository: str, session: str, *, trial: int = 1, goes_on: int = 0) -> Attempt:
        """Make the folder of the next attempt. Call it under the trial's `lock`.

        Args:
            agent: name of the agent.
            repository: key of the repository.
            session: id of the pytest session.
            trial: which of the attempts that were asked for.
            goes_on: number of the attempt whose work it continues; 0 where it begins.
        """
        folder = self._folder(agent, repository)
        start = AttemptStart(session, datetime.now(UTC).isoformat(timespec="seconds"), trial, goes_on)
        # Named once it says what it is: another trial's may be made at the same time, and is none of this one's.
        made = folder / f".{uuid.uuid4().hex}"
        try:
            made.mkdir(parents=True)
            write_whole(made / "attempt.json", _START.dump_json(start))
            return self._named(made, agent, repository)
        except OSError as error:
            raise StoreError(
                f"the results folder cannot be written: {error}; choose another with --researchenv-results"
            ) from error

    def _named(self, made: Path, agent: str, repository: str) -> Attempt:
        while True:
            latest = self.latest(agent, repository)
            attempt = self._attempt(agent, repository, latest.key.attempt + 1 if latest else 1)
            try:
                made.rename(attempt.folder)
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
            else:
                return attempt

    @contextmanager
    def lock(self, agent: str, repository: str, *, trial: int = 1) -> Iterator[None]:
        """Keep others from beginning an attempt of this agent at this repository, as the same trial."""
        with _lock(self._folder(agent, repository) / (".lock" if trial == 1 else f".lock-{trial}")):
            yield

    def _folder(self, agent: str, repository: str) -> Path:
        return self.folder / agent / repository

    def _attempt(self, agent: str, repository: str, number: int) -> Attempt:
        key = EnvironmentKey(self.run, agent, repository, number)
        return Attempt(key, self._folder(agent, repository) / f"attempt-{number:03d}", self._redactor)


def load_environment(folder: Path) -> Environment:
    """Return the environment that an attempt's folder records.

    Raises:
        ConfigurationError: there is none.
    """
    environment = _load(folder / _ENVIRONMENT_FILE, _ENVIRONMENT)
    if environment is None:
        raise ConfigurationError(
            f"{folder} holds no {_ENVIRONMENT_FILE}; give an attempt's folder: "
            "<results>/<run>/<agent>/<suite>/<repository>/attempt-001"
        )
    return environment


def research_stem(subtask: str) -> str:
    """Return what the names of a sub-task's records begin with."""
    return f"research-{subtask}"


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keep others from changing a file of the store that all share.

    Raises:
        StoreError: the folder cannot be written.
    """
    with _lock(path.with_name(f"{path.name}.lock")):
        yield


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    # Only taking the lock may be reported as the store's trouble, not what is done under it.
    lock = FileLock(path, mode=0o666)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except OSError as error:
        raise StoreError(f"cannot lock {path}: {error}; choose another folder with --researchenv-results") from error
    try:
        yield
    finally:
        lock.release()


def _clean_result(result: TierResult, clean: Callable[[str], str]) -> TierResult:
    """Clean what was observed, and nothing of ours: a password `pass` must not change the word `passed`."""
    return replace(
        result,
        reason=clean(result.reason),
        decisive=clean(result.decisive),
        evidence={clean(name): _clean_value(value, clean) for name, value in result.evidence.items()},
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


def _clean_research(result: ResearchResult, clean: Callable[[str], str]) -> ResearchResult:
    return replace(
        result,
        reason=clean(result.reason),
        method=clean(result.method),
        findings=tuple(replace(one, check=clean(one.check), what=clean(one.what)) for one in result.findings),
    )


def _clean_audit(audit: Audit, clean: Callable[[str], str]) -> Audit:
    # Paths as keys are what the probes put things at: they stay as they are.
    return replace(
        audit,
        result=_clean_result(audit.result, clean),
        modules={name: clean(why) for name, why in audit.modules.items()},
        interpreter=clean(audit.interpreter),
    )


def _clean_environment(environment: Environment, clean: Callable[[str], str]) -> Environment:
    report = environment.report
    if report is not None:
        values = {field.name: _clean_value(getattr(report, field.name), clean) for field in fields(report)}
        report = SelfReport(**values)
    return replace(
        environment,
        report=report,
        report_problem=clean(environment.report_problem),
        ended=clean(environment.ended),
        refused=tuple(map(clean, environment.refused)),
        notes=tuple(map(clean, environment.notes)),
    )


def _clean_value(value: _V, clean: Callable[[str], str]) -> _V:
    if isinstance(value, str):
        return cast("_V", clean(value))
    if isinstance(value, list):
        return cast("_V", [_clean_value(item, clean) for item in value])
    return value


def _seal(adapter: TypeAdapter[_T], record: _T) -> str:
    return seal_of(json.loads(adapter.dump_json(record)))


def _number(path: Path) -> int:
    number = path.name.partition(".")[0].rpartition("-")[2]
    return int(number) if number.isdecimal() else 0


def write_whole(path: Path, content: bytes) -> None:
    """Write a file whole or not at all.

    Raises:
        StoreError: it cannot be written.
    """
    # Not by tempfile, whose files only their owner can read: several users may share the results.
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        with temporary.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        # A full disk must not fill up with what did not fit.
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise StoreError(f"cannot write {path}: {error}") from error


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error}") from error


def _load(path: Path, adapter: TypeAdapter[_T]) -> _T | None:
    return _require(path, adapter) if path.exists() else None


def _require(path: Path, adapter: TypeAdapter[_T]) -> _T:
    try:
        return adapter.validate_json(_read(path))
    except ValidationError as error:
        raise StoreError(
            f"{path} {what_is_wrong(error)}; restore the file, or use another --researchenv-run"
        ) from error
