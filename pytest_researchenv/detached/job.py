"""What a process needs to know that is to look after an attempt, and how it is started."""

from __future__ import annotations

import contextlib
import os
import pickle
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import final

from pytest_researchenv.agents.profiles import Profile
from pytest_researchenv.detached.record import LOG, save_keeper
from pytest_researchenv.errors import InfrastructureError
from pytest_researchenv.leases.choice import SharingSettings
from pytest_researchenv.model import Repository
from pytest_researchenv.settings import Settings
from pytest_researchenv.store import Attempt


__all__ = ["PROVIDER", "EngineChoice", "Job", "Starter"]

#: With this exit code a keeper says that the provider of the agent's model failed (`EX_TEMPFAIL`).
PROVIDER = 75

_PACKAGE = Path(__file__).resolve().parents[1]


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """How the container engine is made ready.

    Attributes:
        image: registry reference of the base image; empty for the default.
        accelerator: `auto`, `cuda` or `cpu`.
        sharing: which devices may be used, and how they are shared.
        package_cache_bytes: what a package cache may keep; 0 for no cache.
    """

    image: str
    accelerator: str
    sharing: SharingSettings
    package_cache_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Job:
    """One attempt, for the process that is to look after it.

    Attributes:
        settings: what the user chose.
        engine: likewise, of the container engine.
        profiles: every agent's profile.
        agent: name of the agent.
        repository: what it works at.
        attempt: number of the attempt.
    """

    settings: Settings
    engine: EngineChoice
    profiles: Mapping[str, Profile]
    agent: str
    repository: Repository
    attempt: int


@final
@dataclass(frozen=True, slots=True)
class Starter:
    """Starts processes that look after attempts.

    Attributes:
        settings: what the user chose.
        engine: likewise, of the container engine.
        profiles: every agent's profile.
    """

    settings: Settings
    engine: EngineChoice
    profiles: Mapping[str, Profile]

    def __call__(self, agent: str, repository: Repository, attempt: Attempt) -> subprocess.Popen[bytes]:
        """Start one. It is recorded before it does anything, and does nothing where this process dies before.

        It has a session of its own, so that no signal meant for this one reaches it. What it is to do comes through a
        pipe: keys, which it looks for itself, stand neither on a command line nor on a disk.

        Raises:
            InfrastructureError: it cannot be started.
            StoreError: it cannot be recorded.
        """
        job = Job(self.settings, self.engine, self.profiles, agent, repository, attempt.key.attempt)
        paths = filter(None, (str(_PACKAGE.parent), os.environ.get("PYTHONPATH")))
        try:
            with (attempt.folder / LOG).open("ab") as log:
                process = subprocess.Popen(
                    [sys.executable, "-P", "-m", "pytest_researchenv.detached"],
                    stdin=subprocess.PIPE,
                    stdout=log,
                    stderr=log,
                    env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
                    cwd="/",
                    start_new_session=True,
                )
        except OSError as error:
            raise InfrastructureError(f"no process could be started to look after {attempt.key}: {error}") from error
        save_keeper(attempt, process.pid)
        # Where it has died already, whoever waits for it finds out.
        with contextlib.suppress(OSError), process.stdin as pipe:  # type: ignore[union-attr] # It is a pipe.
            pickle.dump(job, pipe)
        return process
