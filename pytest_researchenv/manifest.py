"""What a session was: one record for each, which no other session touches.

    <results>/<run>/manifest-<session>.json

One without an end is of a session that goes on, or was killed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal


__all__ = ["EngineFacts", "GitState", "Host", "Manifest"]


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """A process has made the container engine ready.

    Attributes:
        engine: name and version of the container engine.
        base_image: id of the image that agents start from.
        accelerator: what C2 to C4 run on.
        devices: product name of each accelerator.
        driver: version of the accelerators' driver.
        cuda: highest CUDA version that the driver supports.
        reason: why there are no accelerators.
        worker: the process; empty where there is one.
    """

    engine: str
    base_image: str
    accelerator: str
    devices: tuple[str, ...]
    driver: str
    cuda: str
    reason: str
    worker: str = ""
    kind: Literal["engine"] = "engine"
    schema: Literal[1] = 1


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
