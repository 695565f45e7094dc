"""Which files of a run are exported: all that is recorded, and nothing that is only held while work goes on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from filelock import FileLock, Timeout

from pytest_researchenv.archiving.index import FOLDER as ARCHIVES
from pytest_researchenv.detached.record import going_on
from pytest_researchenv.errors import StoreError
from pytest_researchenv.packedlogs import plain_name
from pytest_researchenv.runs.folders import RESEARCH, RESULT, attempt_folders
from pytest_researchenv.sharing.contents import is_run_file
from pytest_researchenv.store import Attempt


__all__ = ["Collected", "attempt_files", "collect_run"]


@dataclass(frozen=True, slots=True)
class Collected:
    """What of a run can be exported now.

    Attributes:
        files: path in the export → the file.
        attempts: the attempts among it.
        left_out: what is being worked on, one sentence each.
    """

    files: dict[str, Path] = field(default_factory=dict)
    attempts: list[Attempt] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)


def collect_run(folder: Path) -> Collected:
    """Find what a run's folder holds.

    Raises:
        ConfigurationError: there is no such run.
        StoreError: a folder cannot be listed.
    """
    found = Collected()
    for key, path in attempt_folders(folder, unreadable=_refuse):
        attempt = Attempt(key, path)
        begun = not attempt.finished and not (path / "error.txt").exists()
        if begun and (going_on(attempt) or _held(path.parent, ".lock*")):
            found.left_out.append(f"{key} is being built")
            continue
        found.attempts.append(attempt)
        found.files.update(attempt_files(attempt, folder))
    found.files.update(
        {name: path for path in sorted(folder.iterdir()) if is_run_file(name := f"run/{path.name}") and path.is_file()}
    )
    return found


def attempt_files(attempt: Attempt, run: Path) -> Iterator[tuple[str, Path]]:
    """Yield the files of an attempt: path in the export, and the file.

    Args:
        attempt: whose.
        run: the run's folder.

    Raises:
        StoreError: its folder cannot be listed, or holds a name that no export can.
    """
    try:
        # What was archived is to go on from on this host.
        files = sorted(path for path in attempt.folder.iterdir() if path.name[0] != "." and path.name != ARCHIVES)
    except OSError as error:
        _refuse(attempt.folder, error)
    names = {path.name for path in files}
    for path in files:
        # Who was killed while a log was packed left both; the plain one counts.
        if path.name != plain_name(path.name) and plain_name(path.name) in names:
            continue
        if _is_being_written(path, names):
            continue
        name = f"run/{path.relative_to(run).as_posix()}"
        if not path.is_file() or path.is_symlink() or not is_run_file(name):
            raise StoreError(f"{path} is nothing that an attempt holds: take it away, and export again")
        yield name, path


def _is_being_written(path: Path, names: set[str]) -> bool:
    """Whether it is the log of a probe that goes on: one that was killed leaves a log without a record, too."""
    if not (RESULT.fullmatch(path.name) or RESEARCH.fullmatch(path.name)):
        return False
    subject, _, rest = path.name.rpartition("-")
    number = rest.partition(".")[0]
    return f"{subject}-{number}.json" not in names and _held(path.parent, f".{subject}.lock")


def _held(folder: Path, pattern: str) -> bool:
    for path in folder.glob(pattern):
        lock = FileLock(path, mode=0o666)
        try:
            with lock.acquire(blocking=False):
                pass
        except Timeout:
            return True
        # Of results that can only be read, nobody holds a lock.
        except OSError:
            continue
    return False


def _refuse(path: Path, error: OSError) -> NoReturn:
    raise StoreError(f"cannot list {path}: {error}") from error
