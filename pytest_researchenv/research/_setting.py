"""What a research task is made of besides its numbers: values, for `task.py` to hand on."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar

from pytest_researchenv._sources import STRICT


__all__ = [
    "Blocked",
    "Budget",
    "DataSet",
    "Evaluation",
    "Fetch",
    "Hardware",
    "Holds",
    "Install",
    "Need",
    "Removal",
    "TaskSource",
    "Withheld",
]

_DATE = re.compile(r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])")


class Fetch(StrEnum):
    """How a data set comes to the agent."""

    #: It lies in the task's own tree.
    BUNDLED = "bundled"
    #: It is made by a script of the task.
    GENERATED = "generated"
    #: A package holds it, or fetches it by itself.
    PACKAGE = "package"
    #: A file that anyone can download.
    DOWNLOAD = "download"
    #: Terms must be accepted, or an account be had, or files be picked by hand.
    MANUAL = "manual"


class Need(StrEnum):
    """What a sub-task cannot be run without."""

    DATA = "data"
    WEIGHTS = "weights"
    GPU = "gpu"
    SIMULATOR = "simulator"
    NETWORK = "network"


class Holds(StrEnum):
    """Why a file is kept from the agent."""

    WITHHELD = "withheld method"
    HINT = "hint"
    GRADING = "grading"
    BLOCKED = "list of blocked addresses"


@dataclass(frozen=True, slots=True)
class TaskSource:
    """Where the task's tree comes from: a folder of a Git commit, or one on this machine.

    Attributes:
        git: URL of the repository.
        commit: the full hash, 40 hexadecimal digits.
        folder: the task's folder in it; empty for all of it.
        path: instead, a folder: absolute, or relative to the one that holds the `task.toml`.
    """

    __pydantic_config__: ClassVar = STRICT

    git: str = ""
    commit: str = ""
    folder: str = ""
    path: str = ""

    def __post_init__(self) -> None:
        if bool(self.git) == bool(self.path):
            raise ValueError("give git, commit and folder, or path")
        if self.git and not re.fullmatch(r"[0-9a-f]{40}", self.commit):
            raise ValueError(f"commit must be 40 hexadecimal digits, not {self.commit!r}")
        if self.path and (self.commit or self.folder):
            raise ValueError("commit and folder belong to git, and exclude path")
        if self.folder and not _inside(self.folder):
            raise ValueError(f"folder must be a path inside the repository, not {self.folder!r}")


@dataclass(frozen=True, slots=True)
class DataSet:
    """What results are computed on.

    Attributes:
        source: where it is, in words or as an address.
        fetch: how it is had.
        path: where it lies in the task's tree; empty where the task leaves that open.
        size_bytes: of all its files; None where that is not known.
        size: what is said of its size.
        licence: its terms; empty where the task states none.
        sha256: digest of the file that is fetched; empty where none is known.
        notes: what else one should know.
    """

    __pydantic_config__: ClassVar = STRICT

    source: str
    fetch: Fetch
    path: str = ""
    size_bytes: int | None = None
    size: str = ""
    licence: str = ""
    sha256: str = ""
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.sha256 and not re.fullmatch(r"[0-9a-f]{64}", self.sha256):
            raise ValueError(f"sha256 must be 64 hexadecimal digits, not {self.sha256!r}")
        if self.size_bytes is not None and self.size_bytes < 1:
            raise ValueError(f"size_bytes must be positive, not {self.size_bytes}")
        if self.fetch is Fetch.BUNDLED and not (self.path and _inside(self.path)):
            raise ValueError(f"path must say where in the task's tree it is bundled, not {self.path!r}")


@dataclass(frozen=True, slots=True)
class Withheld:
    """The published method that the task's tree was taken from, and that the agent is not to find.

    Attributes:
        method: its name.
        paper: title and venue.
        address: where it is.
        public_since: day from which on it could be found, as `2024-10-21`; the first of the month where that is all
            that is known.
    """

    __pydantic_config__: ClassVar = STRICT

    method: str
    paper: str
    address: str
    public_since: str

    def __post_init__(self) -> None:
        _check_date("public_since", self.public_since)


@dataclass(frozen=True, slots=True)
class Blocked:
    """What the agent may not reach, enforced outside its container.

    Attributes:
        urls: addresses, without scheme; what begins with one is blocked, too.
        patterns: shell patterns that an address may not match.
        search_until: last day that answers of a search may be from.
        published_search_until: that of the published benchmark, where it differs.
    """

    __pydantic_config__: ClassVar = STRICT

    urls: tuple[str, ...]
    patterns: tuple[str, ...]
    search_until: str
    published_search_until: str = ""

    def __post_init__(self) -> None:
        _check_date("search_until", self.search_until)
        if self.published_search_until:
            _check_date("published_search_until", self.published_search_until)


@dataclass(frozen=True, slots=True)
class Install:
    """How the task says that its code is installed.

    Attributes:
        python: the Python that it was written for, where it says so.
        requirements: files of requirements, in the task's tree.
        script: script of the task that installs what these do not.
        notes: versions that are pinned, and those that are left open.
        conflicts: what is known to go wrong.
    """

    __pydantic_config__: ClassVar = STRICT

    python: str = ""
    requirements: tuple[str, ...] = ()
    script: str = ""
    notes: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Evaluation:
    """How results become scores.

    Attributes:
        reads: what is handed in, by the agent, in the published format.
        writes: what the published grader makes of it.
        command: the published grader's; it is read, and not trusted.
        trains: whether the published grader runs training itself, and does not only read what is reported.
        minutes: how long one evaluation takes; None where nobody says.
        limit_minutes: after so long our own evaluation is ended, and what was handed in fails.
        memory_gb: memory of its container.
        first_result_minutes: mean time until the benchmark's own agent had its first valid result.
        unchecked: what the published grader takes without a look.
        flaws: what it gets wrong.
    """

    __pydantic_config__: ClassVar = STRICT

    reads: str
    writes: str
    command: tuple[str, ...]
    trains: bool = False
    minutes: float | None = None
    limit_minutes: float = 30.0
    memory_gb: float = 4.0
    first_result_minutes: float | None = None
    unchecked: tuple[str, ...] = ()
    flaws: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not (0 < self.limit_minutes < float("inf") and 0 < self.memory_gb < float("inf")):
            raise ValueError(
                f"limit_minutes and memory_gb must be positive numbers, not {self.limit_minutes} and {self.memory_gb}"
            )


@dataclass(frozen=True, slots=True)
class Removal:
    """What is not in the agent's copy of the task's tree.

    Attributes:
        path: file or folder.
        holds: why it is kept from the agent.
        parts: names in it, where the rest of the file stays.
        why: more about it.
    """

    __pydantic_config__: ClassVar = STRICT

    path: str
    holds: Holds
    parts: tuple[str, ...] = ()
    why: str = ""

    def __post_init__(self) -> None:
        if not _inside(self.path):
            raise ValueError(f"path must be a path inside the task's tree, not {self.path!r}")


@dataclass(frozen=True, slots=True)
class Hardware:
    """What the work is done on.

    Attributes:
        gpus: how many devices.
        gpu_memory_gb: memory that a device has to have; None where nobody says.
        notes: what is said of it.
    """

    __pydantic_config__: ClassVar = STRICT

    gpus: int = 1
    gpu_memory_gb: float | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Budget:
    """What the agent may spend, if the user says nothing else.

    Attributes:
        hours: of wall time.
        dollars: for models.
        notes: what the published runs spent.
    """

    __pydantic_config__: ClassVar = STRICT

    hours: float
    dollars: float
    notes: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        if not (0 < self.hours < float("inf") and 0 < self.dollars < float("inf")):
            raise ValueError(f"hours and dollars must be positive numbers, not {self.hours} and {self.dollars}")


def _check_date(key: str, text: str) -> None:
    if not _DATE.fullmatch(text):
        raise ValueError(f"{key} must be a day like 2024-12-31, not {text!r}")


def _inside(path: str) -> bool:
    return not path.startswith("/") and ".." not in path.split("/")
