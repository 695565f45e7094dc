"""What a session was: one record for each, which no other session touches.

    <results>/<run>/manifest-<session>.json

It is written before the first test, without an end, and once more in the end. One without an end is of a session that
goes on, or was killed.
"""

from __future__ import annotations

import json
import os
import platform
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter, ValidationError

from pytest_researchenv._git import read_git
from pytest_researchenv.errors import SourceError, StoreError
from pytest_researchenv.provenance import harness_identity, seal_of
from pytest_researchenv.recording.entry import plain
from pytest_researchenv.recording.journal import Collected, EngineFacts, Finished, Journal
from pytest_researchenv.sandbox.labels import Owner
from pytest_researchenv.store import write_whole


__all__ = [
    "GitState",
    "Host",
    "Manifest",
    "begun",
    "ended",
    "git_state",
    "read_manifest",
    "save_manifest",
    "without_secrets",
]

#: Names of options and variables whose values are nobody's business.
_SECRET_NAME = re.compile(r"(?i)key|token|secret|passw|credential")


@dataclass(frozen=True, slots=True)
class Host:
    """The machine that pytest ran on.

    Attributes:
        id: digest of the machine's identity, the same for all its sessions; not its name.
        system: kind and release of the operating system.
        machine: architecture of the processors.
        cpus: how many there are.
        memory_bytes: main memory.
    """

    id: str
    system: str
    machine: str
    cpus: int
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class GitState:
    """The state of the repository that pytest was started in.

    Attributes:
        commit: full hash.
        changed: how many paths differ from it, untracked ones included.
    """

    commit: str
    changed: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a session was.

    Attributes:
        session: its id, which begins with its time.
        run: name of the run.
        command: the command line, without secrets.
        started: UTC, ISO 8601.
        agents: names of the chosen agents.
        harness: version of this package, and a digest of its code.
        python: version of the interpreter.
        versions: distribution → version: what this package needs, and every pytest plugin that was active.
        host: the machine.
        git: the state of the repository that pytest was started in; None where it was in none.
        ended: UTC, ISO 8601; empty while the session goes on, and for ever where it was killed.
        exit_status: pytest's exit code; None likewise.
        suites: name → digest of each suite.
        tests: how many tests were selected.
        outcomes: what tests came to → how many.
        engines: what each process had of the container engine, accelerators included.
        schema: version of this record's schema.
        seal: what tells an edited record: `provenance.seal_of` it.
    """

    session: str
    run: str
    command: tuple[str, ...]
    started: str
    agents: tuple[str, ...]
    harness: str
    python: str
    versions: dict[str, str]
    host: Host
    git: GitState | None
    ended: str = ""
    exit_status: int | None = None
    suites: dict[str, str] = field(default_factory=dict)
    tests: int = 0
    outcomes: dict[str, int] = field(default_factory=dict)
    engines: tuple[EngineFacts, ...] = ()
    schema: Literal[1] = 1
    seal: str = ""


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
    path = folder / f"manifest-{manifest.session}.json"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error}; choose another folder with --researchenv-results") from error
    sealed = replace(manifest, seal=seal_of(json.loads(_MANIFEST.dump_json(manifest))))
    write_whole(path, _MANIFEST.dump_json(sealed, indent=2))
    return path


def read_manifest(path: Path) -> Manifest | None:
    """Return a session's record; None where there is none that can be read."""
    try:
        return _MANIFEST.validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return None


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
