"""A report's folder: written beside its place, and put there when it is whole."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from pytest_researchenv.errors import ConfigurationError
from pytest_researchenv.model import Repository
from pytest_researchenv.report.html.badge import write_badges
from pytest_researchenv.report.html.crew import meanwhile
from pytest_researchenv.report.html.of_attempt import attempt_page
from pytest_researchenv.report.html.of_runs import run_page
from pytest_researchenv.report.html.places import INDEX, Places
from pytest_researchenv.report.html.plots import write_plots
from pytest_researchenv.report.html.reasons import Reasons, reasons_of
from pytest_researchenv.report.html.rendering import render_environment, render_run
from pytest_researchenv.runs.values import AttemptRecord, Run


__all__ = ["write_report"]

#: What tells a folder that was written here, and may be replaced, from any other.
_MARK = ".researchenv-report"


def write_report(
    runs: Sequence[Run], *, descriptions: Mapping[str, Repository], version: str, folder: Path
) -> tuple[Path, ...]:
    """Write a report; returns the page of what was run, and the files of its figures.

    Args:
        runs: what was read.
        descriptions: key → what is known of a repository.
        version: of this package.
        folder: where to; a report that lies there is replaced.

    Raises:
        ConfigurationError: something else lies there, or it cannot be written.
    """
    places = Places(len(runs) > 1)
    reasons = reasons_of(runs)
    with _new(folder) as new:
        pages = tuple(
            partial(_write_attempt, attempt, run.folder.parent, new, places=places, reasons=reasons, version=version)
            for run in runs
            for attempt in run.attempts
        )
        with meanwhile(pages):
            page = run_page(runs, descriptions=descriptions, reasons=reasons, version=version)
            (new / INDEX).write_text(render_run(page), "utf-8")
            plots = *write_plots(page, new), *write_badges(page, new)
    return (folder / INDEX, *(folder / path.relative_to(new) for path in plots))


def _write_attempt(
    attempt: AttemptRecord, results: Path, folder: Path, *, places: Places, reasons: Reasons, version: str
) -> None:
    path = folder / places.environment(attempt.key)
    path.parent.mkdir(parents=True, exist_ok=True)
    shown = attempt_page(attempt, results=results, places=places, reasons=reasons, version=version)
    path.write_text(render_environment(shown), "utf-8")


@contextmanager
def _new(folder: Path) -> Iterator[Path]:
    """Yield an empty folder that takes the place of another one in the end."""
    if folder.exists() and not (folder.is_dir() and ((folder / _MARK).exists() or not any(folder.iterdir()))):
        raise ConfigurationError(f"{folder} is there, and no report: name another place with --output")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        new = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    except OSError as error:
        raise ConfigurationError(f"{folder} cannot be written: {error}; name another place with --output") from error
    try:
        yield new
        (new / _MARK).touch()
        # As every folder that is made: mkdtemp makes one for its owner alone.
        new.chmod(0o777 & ~_umask())
        if folder.exists():
            shutil.rmtree(folder)
        new.rename(folder)
    except OSError as error:
        raise ConfigurationError(f"{folder} cannot be written: {error}; name another place with --output") from error
    finally:
        shutil.rmtree(new, ignore_errors=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
