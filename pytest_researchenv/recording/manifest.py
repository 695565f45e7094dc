"""How a session's manifest comes about: it is written before the first test, and once more in the end."""

from __future__ import annotations

import json
import os
import platform
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from pytest_researchenv._gitcommand import read_git
from pytest_researchenv._records import what_is_wrong
from pytest_researchenv.errors import SourceError, StoreError
from pytest_researchenv.manifest import EngineFacts, GitState, Host, Manifest
from pytest_researchenv.provenance import harness_identity, seal_of
from pytest_researchenv.recording.entry import plain
from pytest_researchenv.recording.journal import Collected, Finished, Journal
from pytest_researchenv.sandbox.labels import Owner
from pytest_researchenv.store import write_whole


__all__ = ["begun", "ended", "git_state", "load_manifest", "save_manifest", "sessions_in", "without_secrets"]

_PREFIX, _SUFFIX = "manifest-", ".json"

#: Names of options and variables whose values are nobody's business.
_SECRET_NAME = re.compile(r"(?i)key|token|secret|passw|credential")


_MANIFEST = TypeAdapter(Manifest)


def begun(
    *,
    session: str,
    run: str,
    command: Sequence[str],
    agents: Sequence[str],
    distributions: Iterable[str],
    folder: Path,
) -> Manifest:
    """Return what is known of a session that begins.

    Args:
        session: its id.
        run: name of the run.
        command: the command line, without secrets.
        agents: names of the chosen agents.
        distributions: those whose versions matter.
        folder: where pytest was started.
    """
    return Manifest(
        session=session,
        run=run,
        command=tuple(map(plain, command)),
        started=_now(),
        agents=tuple(agents),
        harness=harness_identity(),
        python=platform.python_version(),
        versions={name: version(name) for name in sorted(set(distributions))},
        host=Host(
            id=Owner.current(run).host,
            system=f"{platform.system()} {platform.release()}",
            machine=platform.machine(),
            cpus=os.cpu_count() or 0,
            memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        ),
        git=git_state(folder),
    )


def ended(manifest: Manifest, journal: Journal, *, exit_status: int) -> Manifest:
    """Return what is known of a session in the end.

    Raises:
        StoreError: its journal cannot be read.
    """
    lines = list(journal.lines())
    collected = [line for line in lines if isinstance(line, Collected)]
    newest = {line.entry.test: line.entry.outcome for line in lines if isinstance(line, Finished)}
    return replace(
        manifest,
        ended=_now(),
        exit_status=exit_status,
        suites={name: digest for line in collected for name, digest in line.suites.items()},
        tests=max((line.tests for line in collected), default=0),
        outcomes=dict(sorted(Counter(map(str, newest.values())).items())),
        engines=tuple(line for line in lines if isinstance(line, EngineFacts)),
    )


def save_manifest(folder: Path, manifest: Manifest) -> Path:
    """Write a session's record into the run's folder, and return where it is.

    Raises:
        StoreError: it cannot be written.
    """
    path = folder / f"{_PREFIX}{manifest.session}{_SUFFIX}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error}; choose another folder with --researchenv-results") from error
    sealed = replace(manifest, seal=seal_of(json.loads(_MANIFEST.dump_json(manifest))))
    write_whole(path, _MANIFEST.dump_json(sealed, indent=2))
    return path


def sessions_in(folder: Path) -> list[str]:
    """Return the ids of the sessions of a run that left a record, oldest first; none where there is no run."""
    names = sorted(path.name for path in folder.glob(f"{_PREFIX}*{_SUFFIX}"))
    return [name.removeprefix(_PREFIX).removesuffix(_SUFFIX) for name in names]


def load_manifest(folder: Path, session: str) -> Manifest:
    """Return the record of a session.

    Raises:
        StoreError: it cannot be read, or does not hold what was written there.
    """
    path = folder / f"{_PREFIX}{session}{_SUFFIX}"
    try:
        return _MANIFEST.validate_json(path.read_bytes())
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error.strerror}") from error
    except ValidationError as error:
        raise StoreError(f"{path} {what_is_wrong(error)}; restore it, or name another session") from error


def git_state(folder: Path) -> GitState | None:
    """Return the state of the repository that a folder is in; None where it is in none, or Git cannot tell."""
    try:
        commit = read_git(folder, "rev-parse", "--verify", "HEAD").decode().strip()
        changed = read_git(folder, "--no-optional-locks", "status", "--porcelain", "-z", "--no-renames").count(b"\0")
    except SourceError:
        return None
    return GitState(commit, changed)


def without_secrets(command: Sequence[str], redact: Callable[[str], str]) -> list[str]:
    """Return a command line without what `redact` knows, and without values whose names say that they are secret."""
    cleaned: list[str] = []
    hidden = False
    for argument in map(redact, command):
        name, equals, _ = argument.rpartition("=")
        if hidden and not argument.startswith("-"):
            cleaned.append("[redacted]")
        elif equals and _SECRET_NAME.search(name):
            cleaned.append(f"{name}=[redacted]")
        else:
            cleaned.append(argument)
        hidden = not equals and argument.startswith("--") and bool(_SECRET_NAME.search(argument))
    return cleaned


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
