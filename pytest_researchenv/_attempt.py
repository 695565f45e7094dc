"""One attempt's folder: what is recorded in it, and read back. `store` says what each file is."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar, final

from pydantic import TypeAdapter, ValidationError

from pytest_researchenv._adapters import AUDITS, ENVIRONMENTS, EVICTIONS, INSPECTIONS, RESEARCH_RESULTS, RESULTS, STARTS
from pytest_researchenv._cleaning import clean_audit, clean_environment, clean_research, clean_result
from pytest_researchenv._wholefiles import load_record, lock_file, read_whole, require_record, write_whole
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
    Tier,
    TierResult,
)
from pytest_researchenv.packedlogs import pack_log
from pytest_researchenv.provenance import records_in, seal_of
from pytest_researchenv.redaction import Redactor
from pytest_researchenv.research.inspection import Inspection
from pytest_researchenv.research.result import ResearchResult
from pytest_researchenv.sandbox.protocol import Change


__all__ = ["Attempt", "load_environment", "nothing_secret", "record_start", "research_stem"]

_T = TypeVar("_T")
_START_FILE = "attempt.json"
_CHANGES = "changes.jsonl.gz"
_ENVIRONMENT_FILE = "environment.json"
_EVICTION_FILE = "evicted.json"


def nothing_secret() -> Redactor:
    """What takes nothing out."""
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
    redactor: Callable[[], Redactor] = field(default=nothing_secret, repr=False, compare=False)

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
            return STARTS.validate_json((self.folder / _START_FILE).read_bytes())
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
        return load_record(self.folder / _ENVIRONMENT_FILE, ENVIRONMENTS)

    @property
    def evicted(self) -> bool:
        """Whether its frozen image was removed on purpose."""
        return (self.folder / _EVICTION_FILE).exists()

    def eviction(self) -> Eviction | None:
        """How its frozen image was removed on purpose; None where it was not."""
        return load_record(self.folder / _EVICTION_FILE, EVICTIONS)

    def save_eviction(self, eviction: Eviction) -> None:
        """Record that its frozen image is about to be removed."""
        write_whole(self.folder / _EVICTION_FILE, EVICTIONS.dump_json(eviction, indent=2))

    def forget_eviction(self) -> None:
        """Take the record back: the image could not be removed, or is there again."""
        try:
            (self.folder / _EVICTION_FILE).unlink(missing_ok=True)
        except OSError as error:
            raise StoreError(f"cannot remove {self.folder / _EVICTION_FILE}: {error}") from error

    def error(self) -> str:
        """What broke when the infrastructure did; empty when nothing has."""
        path = self.folder / "error.txt"
        return read_whole(path).decode() if path.exists() else ""

    def save_environment(self, environment: Environment) -> Environment:
        """Record the finished environment, with digests of all that was recorded before; returns it as recorded."""
        kept = clean_environment(environment, self._clean)
        kept = replace(kept, records=records_in(self.folder, but=_ENVIRONMENT_FILE))
        kept = replace(kept, seal=_seal(ENVIRONMENTS, kept))
        write_whole(self.folder / _ENVIRONMENT_FILE, ENVIRONMENTS.dump_json(kept, indent=2))
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
        return [require_record(path, RESULTS) for path in sorted(self.folder.glob(f"{tier}-[0-9]*.json"), key=_number)]

    def audits(self) -> list[Audit]:
        """Every integrity audit, oldest first."""
        paths = sorted(self.folder.glob(f"{Examination.INTEGRITY}-[0-9]*.json"), key=_number)
        return [require_record(path, AUDITS) for path in paths]

    def judged(self, subject: Tier | Examination) -> list[TierResult]:
        """Every result of a tier or of the audit, oldest first."""
        return self.results(subject) if isinstance(subject, Tier) else [audit.result for audit in self.audits()]

    def research(self, subtask: str) -> list[ResearchResult]:
        """Every result of a sub-task, oldest first."""
        paths = sorted(self.folder.glob(f"{research_stem(subtask)}-[0-9]*.json"), key=_number)
        return [require_record(path, RESEARCH_RESULTS) for path in paths]

    def next_log(self, subject: str) -> Path:
        """Where the log of the next look at a tier, the audit, or `research_stem` of a sub-task, goes.

        Call it under the subject's lock.
        """
        last = max(map(_number, self.folder.glob(f"{subject}-[0-9]*.*")), default=0)
        return self.folder / f"{subject}-{last + 1:03d}.log"

    def save_result(self, log: Path, result: TierResult) -> TierResult:
        """Record a result beside its log; returns it as recorded: bytes of names that are no UTF-8 are escaped."""
        kept = clean_result(result, self._clean)
        kept = replace(kept, seal=_seal(RESULTS, kept))
        write_whole(log.with_suffix(".json"), RESULTS.dump_json(kept, indent=2))
        return kept

    def save_research(self, log: Path, result: ResearchResult) -> ResearchResult:
        """Record what a sub-task came to beside its log; returns it as recorded."""
        kept = clean_research(result, self._clean)
        kept = replace(kept, seal=_seal(RESEARCH_RESULTS, kept))
        write_whole(log.with_suffix(".json"), RESEARCH_RESULTS.dump_json(kept, indent=2))
        return kept

    def save_inspection(self, log: Path, inspection: Inspection) -> None:
        """Record what a model said of a sub-task's results, beside what it came to."""
        name = log.with_suffix(".json").name.replace("research-", "inspection-", 1)
        self._write(name, self._clean(INSPECTIONS.dump_json(inspection, indent=2).decode()).encode())

    def inspection(self, log: str) -> Inspection | None:
        """What a model said of the results with this log; None where none was asked."""
        name = Path(log).with_suffix(".json").name.replace("research-", "inspection-", 1)
        return load_record(self.folder / name, INSPECTIONS)

    def save_audit(self, log: Path, audit: Audit) -> Audit:
        """Record an audit beside its log; returns it as recorded."""
        kept = clean_audit(audit, self._clean)
        kept = replace(kept, result=replace(kept.result, seal=_seal(AUDITS, kept)))
        write_whole(log.with_suffix(".json"), AUDITS.dump_json(kept, indent=2))
        return kept

    @contextmanager
    def lock(self, name: str) -> Iterator[None]:
        """Keep others from working on the same thing of this attempt."""
        with lock_file(self.folder / f".{name}.lock"):
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


def record_start(folder: Path, start: AttemptStart) -> None:
    """Record in an attempt's folder what is known when it begins."""
    write_whole(folder / _START_FILE, STARTS.dump_json(start))


def load_environment(folder: Path) -> Environment:
    """Return the environment that an attempt's folder records.

    Raises:
        ConfigurationError: there is none.
    """
    environment = load_record(folder / _ENVIRONMENT_FILE, ENVIRONMENTS)
    if environment is None:
        raise ConfigurationError(
            f"{folder} holds no {_ENVIRONMENT_FILE}; give an attempt's folder: "
            "<results>/<run>/<agent>/<suite>/<repository>/attempt-001"
        )
    return environment


def research_stem(subtask: str) -> str:
    """Return what the names of a sub-task's records begin with."""
    return f"research-{subtask}"


def _seal(adapter: TypeAdapter[_T], record: _T) -> str:
    return seal_of(json.loads(adapter.dump_json(record)))


def _number(path: Path) -> int:
    number = path.name.partition(".")[0].rpartition("-")[2]
    return int(number) if number.isdecimal() else 0
