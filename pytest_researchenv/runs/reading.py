"""Read runs: the one way from results folders to values.

A run of 1100 attempts with six results each is read in about a second (`benchmarks/reading.py`): one listing of each
attempt's folder, and one pass of pydantic over each record that counts.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar, final

from pydantic import TypeAdapter, ValidationError

from pytest_researchenv._adapters import AUDITS, ENVIRONMENTS, INSPECTIONS, RESEARCH_RESULTS, RESULTS, STARTS
from pytest_researchenv._place import nothing_built, run_folder
from pytest_researchenv._records import what_is_wrong
from pytest_researchenv.errors import InfrastructureError
from pytest_researchenv.manifest import Manifest
from pytest_researchenv.model import Examination, Tier, TierResult, judged_named
from pytest_researchenv.research.inspection import Inspection
from pytest_researchenv.research.result import ResearchResult
from pytest_researchenv.runs.folders import RESEARCH, RESULT, AttemptFolder, attempt_folders
from pytest_researchenv.runs.values import AttemptRecord, Damage, Run, Subject
from pytest_researchenv.spending import spent_in


__all__ = ["read_attempt", "read_run", "read_runs"]

_T = TypeVar("_T")
_MANIFEST = TypeAdapter(Manifest)


def read_runs(results: Path, names: Iterable[str]) -> tuple[Run, ...]:
    """Read several runs.

    Args:
        results: the results folder.
        names: names of the runs.

    Raises:
        ConfigurationError: one of them is not there, or holds no attempt.
    """
    return tuple(read_run(run_folder(results, name)) for name in dict.fromkeys(names))


def read_run(folder: Path) -> Run:
    """Read a run. What cannot be read is named in what is returned, and does not stop the rest.

    Args:
        folder: the run's folder.

    Raises:
        ConfigurationError: it is not there, or holds no attempt.
    """
    damage: list[Damage] = []

    def unreadable(path: Path, error: OSError) -> None:
        damage.append(Damage(path, f"cannot be listed: {error.strerror}"))

    attempts = tuple(map(read_attempt, attempt_folders(folder, unreadable=unreadable)))
    if not attempts and not damage:
        raise nothing_built(folder)
    spent = None
    try:
        spent = spent_in(folder)
    except InfrastructureError as error:
        damage.append(Damage(folder, f"does not say what was spent: {error}"))
    manifests = _manifests(_Files(folder, damage))
    return Run(folder.name, folder, attempts, spent, manifests, tuple(dict.fromkeys(damage)))


def read_attempt(attempt: AttemptFolder) -> AttemptRecord:
    """Read one attempt."""
    files = _Files(attempt.path)
    names = files.names()
    newest = _newest(names)
    results: dict[Subject, TierResult] = {}
    audit = None
    for subject, (number, _) in newest.items():
        name = f"{subject}-{number:03d}.json"
        if isinstance(subject, Tier):
            result = files.read(name, RESULTS)
        else:
            audit = files.read(name, AUDITS)
            result = audit.result if audit else None
        if result:
            results[subject] = result
    research: dict[str, ResearchResult] = {}
    inspections: dict[str, Inspection] = {}
    for subtask, name in _newest_research(names).items():
        if found := files.read(name, RESEARCH_RESULTS):
            research[subtask] = found
        inspection = name.replace("research-", "inspection-", 1)
        if inspection in names and (said := files.read(inspection, INSPECTIONS)):
            inspections[subtask] = said
    start = files.read("attempt.json", STARTS) if "attempt.json" in names else None
    return AttemptRecord(
        key=attempt.key,
        folder=attempt.path,
        session=start.session if start else "",
        environment=files.read("environment.json", ENVIRONMENTS) if "environment.json" in names else None,
        error=files.text("error.txt") if "error.txt" in names else "",
        results=results,
        audit=audit,
        times={subject: times for subject, (_, times) in newest.items()},
        research=research,
        inspections=inspections,
        damage=tuple(files.damage),
        trial=start.trial if start else 1,
    )


def _newest_research(names: Iterable[str]) -> dict[str, str]:
    """Sub-task → name of its newest record."""
    found: dict[str, tuple[int, str]] = {}
    for match in filter(None, map(RESEARCH.fullmatch, sorted(names))):
        if match[3] == "json":
            found[match[1]] = max(found.get(match[1], (0, "")), (int(match[2]), match[0]))
    return {subtask: name for subtask, (_, name) in found.items()}


def _manifests(files: _Files) -> tuple[Manifest, ...]:
    names = (name for name in files.names() if name.startswith("manifest-") and name.endswith(".json"))
    found = filter(None, (files.read(name, _MANIFEST) for name in sorted(names)))
    return tuple(sorted(found, key=lambda manifest: (manifest.started, manifest.session)))


def _newest(names: Iterable[str]) -> dict[Subject, tuple[int, int]]:
    """What was judged → the number of its newest record, and how many there are."""
    found: dict[Subject, tuple[int, int]] = {}
    for match in filter(None, map(RESULT.fullmatch, names)):
        if match[3] == "json":
            subject = judged_named(match[1])
            number, times = found.get(subject, (0, 0))
            found[subject] = max(number, int(match[2])), times + 1
    return {subject: found[subject] for subject in (*Tier, *Examination) if subject in found}


@final
@dataclass(frozen=True, slots=True)
class _Files:
    """The files of one folder; collects which of them are damaged."""

    folder: Path
    damage: list[Damage] = field(default_factory=list)

    def names(self) -> frozenset[str]:
        """Names of all of them."""
        try:
            return frozenset(os.listdir(self.folder))  # noqa: PTH208 - half the time of Path.iterdir
        except OSError as error:
            self._damaged("", f"cannot be listed: {error.strerror}")
            return frozenset()

    def read(self, name: str, adapter: TypeAdapter[_T]) -> _T | None:
        """Return a record, or None where it is damaged."""
        raw = self._bytes(name)
        if raw is None:
            return None
        try:
            return adapter.validate_json(raw)
        except ValidationError as error:
            self._damaged(name, what_is_wrong(error))
            return None

    def text(self, name: str) -> str:
        """Return a file's text."""
        return (self._bytes(name) or b"").decode("utf-8", "backslashreplace")

    def _bytes(self, name: str) -> bytes | None:
        try:
            # There are ten thousand of them: this takes half the time of Path.read_bytes.
            with open(f"{self.folder}/{name}", "rb", buffering=0) as file:  # noqa: PTH123 - see above
                return file.read()
        except OSError as error:
            self._damaged(name, f"cannot be read: {error.strerror}")
            return None

    def _damaged(self, name: str, problem: str) -> None:
        self.damage.append(Damage(self.folder / name, problem))
