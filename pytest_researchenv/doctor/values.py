"""What is looked at, what is asked for, and what is found."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from pytest_researchenv.disk.room import gib


__all__ = ["Asked", "Check", "Finding", "State", "gib"]


class State(StrEnum):
    """How things are."""

    OK = "ok"
    #: A run works, but not as well as it could, or not all of it.
    WARNING = "warning"
    #: A run does not work.
    PROBLEM = "problem"
    #: It was not looked at, or is not needed.
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found of one thing.

    Attributes:
        name: the thing.
        state: how it is.
        value: what there is, in words.
        fix: what to do, in words; empty where nothing is.
    """

    name: str
    state: State
    value: str
    fix: str = ""


@dataclass(frozen=True, slots=True)
class Check:
    """One look.

    Attributes:
        name: what is looked at.
        look: does it; may raise a `ResearchEnvError`, which is a problem.
        deadline_s: how long it may take.
    """

    name: str
    look: Callable[[], tuple[Finding, ...]]
    deadline_s: float


@dataclass(frozen=True, slots=True)
class Asked:
    """What a run is to be: the doctor looks whether it can be that.

    Attributes:
        results: the results folder.
        cache: folder for pinned source trees.
        agents: names of the agents that were chosen; none: whatever there is.
        agents_files: TOML files with further profiles.
        prices: TOML file with prices of models.
        accelerator: `auto`, `cuda` or `cpu`.
        image: registry reference of the base image; empty for the default.
        folder: where pytest will be started.
        environ: the environment.
    """

    results: Path
    cache: Path
    agents: tuple[str, ...] = ()
    agents_files: tuple[Path, ...] = ()
    prices: Path | None = None
    accelerator: str = "auto"
    image: str = ""
    folder: Path = field(default_factory=Path.cwd)
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
