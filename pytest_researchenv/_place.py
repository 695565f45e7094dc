"""Where runs lie, for every command: the option that names the results folder, and a run's folder by its name."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path

from pytest_researchenv.errors import ConfigurationError


__all__ = ["add_results", "new_run_name", "no_run", "nothing_built", "run_folder"]

#: It becomes a folder, and a part of images' tags.
_NEW = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")

#: Of the runs that are there, so many are named.
_MOST = 20


def add_results(parser: argparse.ArgumentParser) -> None:
    """Declare the option; where it is not given, results are where pytest, too, has them by the environment."""
    default = Path(os.environ.get("RESEARCHENV_RESULTS") or "researchenv-results").expanduser()
    parser.add_argument(
        "--results",
        type=Path,
        default=default,
        metavar="FOLDER",
        help="results folder (default: RESEARCHENV_RESULTS, else researchenv-results)",
    )


def new_run_name(name: str) -> str:
    """Return the name of a run that is made, as it was given.

    Raises:
        ConfigurationError: it cannot be a folder's and an image tag's.
    """
    if not _NEW.fullmatch(name):
        raise ConfigurationError(f"{name!r}: give 1 to 64 letters, digits, '.', '_' and '-', beginning with no sign")
    return name


def run_folder(results: Path, name: str) -> Path:
    """Return the folder of a run, which need not be there.

    Args:
        results: the results folder.
        name: name of the run; where it lies in another folder, the path from the results folder to it.

    Raises:
        ConfigurationError: what was given leads to no folder that a run could have.
    """
    if Path(name).name in {"", ".."} or "\0" in name:
        raise ConfigurationError(f"{name!r} cannot be the name of a run: give one, such as default")
    return results / name


def no_run(folder: Path) -> ConfigurationError:
    """Return the error that says that a run is not there, and which are."""
    there = sorted(_runs(folder.parent))
    near = get_close_matches(folder.name, there, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    known = f" (it has: {', '.join(there[:_MOST])}{', …' if len(there) > _MOST else ''})" if there else ""
    return ConfigurationError(f"there is no run in {folder}{hint}{known}: name it, and its folder by --results")


def nothing_built(folder: Path) -> ConfigurationError:
    """Return the error that says that a run is there, and nothing of it to look at."""
    return ConfigurationError(
        f"the run in {folder} holds no attempt: nothing was built in it yet; `researchenv doctor` says whether this "
        "host can"
    )


def _runs(results: Path) -> Iterator[str]:
    try:
        entries = list(results.iterdir())
    except OSError:
        return
    yield from (entry.name for entry in entries if entry.name[0] != "." and entry.is_dir())
