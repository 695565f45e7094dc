"""Bring what was unpacked into a results folder: each attempt at once, none over another, nothing twice."""

from __future__ import annotations

import contextlib
import errno
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path, PurePosixPath

from pytest_researchenv.errors import StoreError
from pytest_researchenv.model import EnvironmentKey
from pytest_researchenv.packedlogs import log_place
from pytest_researchenv.provenance import digest_of, records_in
from pytest_researchenv.runs.folders import ATTEMPT
from pytest_researchenv.runs.origins import ORIGIN_FILE, origin_of, origin_record
from pytest_researchenv.sharing.packing import put_new
from pytest_researchenv.spending import merge_spending
from pytest_researchenv.store import Attempt, write_whole


__all__ = ["Came", "Merged", "merge_attempts", "merge_sessions"]


#: What is known of a session only in its end.
_AT_THE_END = {"ended", "exit_status", "suites", "tests", "outcomes", "engines", "seal"}


class Came(StrEnum):
    """What became of an attempt, or of a session's record."""

    NEW = "imported"
    MORE = "completed"
    SAME = "already there"
    CONFLICT = "conflict"


@dataclass(frozen=True, slots=True)
class Merged:
    """What became of one attempt, or of a session's record.

    Attributes:
        what: the attempt as it is called here, or the file.
        came: what became of it.
        why: of a conflict, what differs; else what people should know.
        folder: of an attempt, its folder here.
    """

    what: str
    came: Came
    why: str = ""
    folder: Path | None = None


@dataclass(frozen=True, slots=True)
class _Coming:
    """An attempt that was unpacked, and where it belongs.

    Attributes:
        folder: where it lies now.
        key: which attempt it is to be.
        origin: which attempt it was where it was made.
        parent: folder of the attempts of its agent at its repository.
    """

    folder: Path
    key: EnvironmentKey
    origin: EnvironmentKey
    parent: Path


def merge_attempts(
    unpacked: Path, attempts: Sequence[PurePosixPath], *, run: Path, made_as: str, renumber: bool
) -> Iterator[Merged]:
    """Put attempts where they belong, one after the other.

    Args:
        unpacked: the folder that stands for their run's.
        attempts: folders of the attempts, relative to it.
        run: the run's folder here.
        made_as: name of their run where they come from.
        renumber: whether an attempt gets the next number where its own is another attempt's here.

    Raises:
        StoreError: something cannot be read or written.
    """
    for place in attempts:
        agent, *repository, name = place.parts
        number = int(name.rpartition("-")[2])
        there = EnvironmentKey(made_as, agent, "/".join(repository), number)
        here = EnvironmentKey(run.name, agent, there.repository, number)
        folder = unpacked / place
        coming = _Coming(folder, here, origin_of(folder, there), run.joinpath(agent, *repository))
        try:
            yield _merge(coming, renumber=renumber)
        except OSError as error:
            raise StoreError(f"cannot import {here}: {error}") from error


def _merge(coming: _Coming, *, renumber: bool) -> Merged:
    coming.parent.mkdir(parents=True, exist_ok=True)
    while True:
        others = _attempts(coming)
        if same := next((path for number, path in others.items() if _is_the_same(coming, path, number)), None):
            return _complete(coming, same)
        number = coming.key.attempt
        if number in others and not renumber:
            return Merged(str(coming.key), Came.CONFLICT, _another(coming, others[number]), others[number])
        if number in others:
            number = max(others) + 1
        if placed := _place(coming, number):
            return placed
        # Somebody else has taken the number meanwhile.


def _attempts(coming: _Coming) -> dict[int, Path]:
    found = ((ATTEMPT.fullmatch(path.name), path) for path in coming.parent.iterdir())
    return dict(sorted((int(name[1]), path) for name, path in found if name))


def _is_the_same(coming: _Coming, there: Path, number: int) -> bool:
    """Whether an attempt that is there is the very one: made in the same place, by the same session."""
    key = EnvironmentKey(coming.key.run, coming.key.agent, coming.key.repository, number)
    known = origin_of(there, key)
    made = (one / "attempt.json" for one in (there, coming.folder))
    return known == coming.origin and len({digest_of(path) for path in made}) == 1


def _another(coming: _Coming, there: Path) -> str:
    return (
        f"{there} is another attempt, of session {_session(there)}; this one is of session {_session(coming.folder)}: "
        "import it into a run of its own by --run, or as a further attempt by --renumber"
    )


def _session(folder: Path) -> str:
    return Attempt(EnvironmentKey("", "", "", 1), folder).session or "(unknown)"


def _place(coming: _Coming, number: int) -> Merged | None:
    """Give an attempt its folder, in one step; None where there is one already."""
    key = EnvironmentKey(coming.key.run, coming.key.agent, coming.key.repository, number)
    target = coming.parent / f"attempt-{number:03d}"
    (coming.folder / ORIGIN_FILE).unlink(missing_ok=True)
    if key != coming.origin:
        write_whole(coming.folder / ORIGIN_FILE, origin_record(coming.origin))
    # What comes in is on the disk before it is there; of what is here already, nothing need be written.
    for path in coming.folder.iterdir():
        _sync(path)
    try:
        coming.folder.rename(target)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        return None
    _sync(coming.parent)
    return Merged(str(key), Came.NEW, "" if key == coming.origin else f"it was {coming.origin}", target)


def _complete(coming: _Coming, there: Path) -> Merged:
    """Add verdicts that an attempt lacks which is there; nothing of it where any file differs."""
    ours, theirs = (records_in(folder, but=ORIGIN_FILE) for folder in (there, coming.folder))
    key = f"{coming.key.run}/{coming.key.agent}/{coming.key.repository}/{there.name}"
    differing = sorted(name for name in ours.keys() & theirs.keys() if ours[name] != theirs[name])
    if differing:
        why = f"{', '.join(differing)} in {there} {'is' if len(differing) == 1 else 'are'} not what comes in"
        return Merged(key, Came.CONFLICT, f"{why}; nothing of this attempt was imported", there)
    missing = sorted(theirs.keys() - ours.keys(), key=lambda name: (name.endswith(".json"), name))
    # A record last, so that its log is there, and that of the environment after all that it names.
    missing.sort(key=lambda name: (name.endswith(".json"), name == "environment.json"))
    for name in missing:
        source = log_place(coming.folder / name)
        _add(source, there / source.name)
    return Merged(key, Came.MORE if missing else Came.SAME, ", ".join(missing), there)


def _add(source: Path, target: Path) -> None:
    """Put a file where none is, in one step."""
    _sync(source)
    # Who put one there meanwhile brought the same, or the next import tells.
    with contextlib.suppress(FileExistsError):
        put_new(source, target)
    _sync(target.parent)


def merge_sessions(unpacked: Path, run: Path) -> Iterator[Merged]:
    """Bring the records of sessions into a run's folder: of one that went on since, the longer counts.

    Raises:
        StoreError: something cannot be read or written.
        InfrastructureError: what was spent cannot be read.
    """
    try:
        for path in sorted(unpacked.iterdir()):
            if path.name == ".spending.json":
                merge_spending(run, path)
            elif path.is_file():
                yield _session_file(path, run / path.name)
    except OSError as error:
        raise StoreError(f"cannot import into {run}: {error}") from error


def _session_file(source: Path, target: Path) -> Merged:
    if not target.exists():
        _add(source, target)
        return Merged(target.name, Came.NEW)
    ours, theirs = target.read_bytes(), source.read_bytes()
    if _goes_on(theirs, ours):
        return Merged(target.name, Came.SAME)
    if _goes_on(ours, theirs):
        write_whole(target, theirs)
        return Merged(target.name, Came.MORE)
    return Merged(target.name, Came.CONFLICT, f"{target} is not what comes in; it stays as it is")


def _goes_on(earlier: bytes, later: bytes) -> bool:
    """Whether one record is the other, or what became of it: a journal that went on, a manifest with its end."""
    if later.startswith(earlier):
        return True
    try:
        begun, ended = ({**json.loads(raw)} for raw in (earlier, later))
    except (ValueError, TypeError, RecursionError):
        return False
    said = {name for name in begun.keys() | ended.keys() if begun.get(name) != ended.get(name)}
    return begun.get("ended") == "" and said <= _AT_THE_END


def _sync(path: Path) -> None:
    """Have a file, or a folder's list of names, written to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
