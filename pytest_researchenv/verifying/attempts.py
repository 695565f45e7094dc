"""The attempts of a finished run, each verified."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from pytest_researchenv._place import nothing_built, run_folder
from pytest_researchenv.errors import ConfigurationError, StoreError
from pytest_researchenv.model import Environment, EnvironmentKey, Examination, Tier, TierResult
from pytest_researchenv.provenance import BOUND
from pytest_researchenv.runs.folders import attempt_folders
from pytest_researchenv.runs.origins import origin_of
from pytest_researchenv.sandbox.protocol import Image, Sandbox
from pytest_researchenv.store import Attempt
from pytest_researchenv.verifying.records import Records, read_records
from pytest_researchenv.verifying.rejudging import Again, Rejudged, Rejudging


__all__ = ["Chosen", "Verified", "attempts_of", "run_digest", "verified"]

_LABEL = "researchenv.attempt"
_NO_ENGINE = "no container engine answers, so no image was looked for"


@dataclass(frozen=True, slots=True)
class Chosen:
    """What is verified; where nothing is named, everything.

    Attributes:
        agents: names of agents.
        repositories: keys of repositories, or their short names.
        tiers: what was judged.
    """

    agents: Collection[str] = ()
    repositories: Collection[str] = ()
    tiers: Collection[Tier | Examination] = ()

    def holds(self, key: EnvironmentKey) -> bool:
        """Whether an attempt is among it."""
        names = (key.repository, key.repository.rpartition("/")[2])
        return (not self.agents or key.agent in self.agents) and (
            not self.repositories or any(name in self.repositories for name in names)
        )


@dataclass(frozen=True, slots=True)
class Verified:
    """What came of verifying one attempt.

    Attributes:
        key: the attempt.
        folder: its folder.
        altered: one sentence for each thing that is not as it was written.
        remarks: what is missing, and says nothing against the records.
        verdicts: what became of each verdict that was judged again.
        seals: name of each record → its seal.
    """

    key: EnvironmentKey
    folder: Path
    altered: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    verdicts: tuple[Rejudged, ...] = ()
    seals: Mapping[str, str] = field(default_factory=dict)

    @property
    def holds(self) -> bool:
        """Whether nothing was altered and no verdict flipped."""
        return not self.altered and not any(one.again is Again.FLIPPED for one in self.verdicts)


def attempts_of(results: Path, run: str, chosen: Chosen) -> list[Attempt]:
    """Return the chosen attempts of a run.

    Raises:
        ConfigurationError: there is no such run, or none of them is in it.
        StoreError: a folder cannot be listed.
    """
    folder = run_folder(results, run)
    every = list(attempt_folders(folder, unreadable=_refuse))
    if not every:
        raise nothing_built(folder)
    found = [Attempt(key, path) for key, path in every if chosen.holds(key)]
    if not found:
        raise ConfigurationError(f"no attempt in {folder} is one of those that were chosen")
    return found


def _refuse(path: Path, error: OSError) -> NoReturn:
    raise StoreError(f"cannot list {path}: {error}") from error


def verified(
    attempts: Iterable[Attempt], chosen: Chosen, *, sandbox: Sandbox | None, rejudging: Rejudging | None
) -> Iterator[Verified]:
    """Verify attempts one by one.

    Args:
        attempts: those to verify.
        chosen: which of their verdicts are judged again.
        sandbox: where their images are; None: they are not looked for.
        rejudging: judges again; None: nothing is.

    Raises:
        StoreError: a record cannot be read.
        SandboxError: the container engine fails.
    """
    for attempt in attempts:
        if not attempt.finished and not any(attempt.folder.glob("*-[0-9]*.json")):
            why = attempt.error() or "it was never finished"
            yield Verified(attempt.key, attempt.folder, remarks=(f"there is no environment: {why}",))
            continue
        records = read_records(attempt.folder, attempt.key)
        environment = records.environment
        if environment is None:
            yield Verified(attempt.key, attempt.folder, records.altered, seals=records.seals)
            continue
        image = sandbox.find_image(environment.image) if sandbox else None
        altered = _image_problems(sandbox, environment, image) if sandbox and image else ()
        remarks = tuple(_missing(sandbox, environment, image)) if sandbox else (_NO_ENGINE,)
        if (origin := origin_of(attempt.folder, attempt.key)) != attempt.key:
            remarks = (f"it was imported, and is {origin} where it was made", *remarks)
        verdicts: tuple[Rejudged, ...] = ()
        if rejudging:
            stored = _newest(records, chosen)
            verdicts = tuple(rejudging.judge(attempt.folder, environment, stored, image_gone=image is None))
        yield Verified(attempt.key, attempt.folder, (*records.altered, *altered), remarks, verdicts, records.seals)


def run_digest(attempts: Iterable[Verified]) -> str:
    """Return what the seals of all records come to: SHA-256 over attempts, names and seals, in hexadecimal."""
    seals = {str(one.key): dict(one.seals) for one in attempts}
    return hashlib.sha256(json.dumps(seals, sort_keys=True).encode()).hexdigest()


def _newest(records: Records, chosen: Chosen) -> list[TierResult]:
    """What counts of each tier, the audit first, since the tiers rest on it."""
    order = (*Examination, *Tier)
    return [
        records.results[subject][-1]
        for subject in order
        if subject in records.results and (not chosen.tiers or subject in chosen.tiers)
    ]


def _image_problems(sandbox: Sandbox, environment: Environment, image: Image) -> tuple[str, ...]:
    """Where the frozen image is not the one that the attempt left."""
    problems = []
    if image.id != environment.image:
        problems.append(f"environment.json names its image by {environment.image!r}, which is no id of one")
    if (label := image.labels.get(_LABEL, "")) != str(environment.key):
        problems.append(f"the frozen image is that of {label or 'no attempt'}")
    for name, file in BOUND.items():
        if image.labels.get(name, "") != environment.records.get(file, ""):
            problems.append(f"the frozen image was made beside another {file}")
    base = sandbox.find_image(environment.base_image)
    if base and image.layers[: len(base.layers)] != base.layers:
        problems.append(f"the frozen image did not grow from the base image {environment.base_image}")
    return tuple(problems)


def _missing(sandbox: Sandbox, environment: Environment, image: Image | None) -> Iterator[str]:
    if image is None:
        yield f"the frozen image is gone: {environment.image}"
    if not sandbox.image_exists(environment.base_image):
        yield f"the base image is gone: {environment.base_image}"
