"""What the user chose for a session."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pytest_researchenv.sandbox.protocol import Limits


__all__ = ["Settings"]


@dataclass(frozen=True, slots=True)
class Settings:
    """What the user chose.

    Attributes:
        results: folder that holds the runs.
        run: name of the run.
        continued: whether stored results of the run stand, and only what is missing is done.
        rebuild: whether a new attempt is made where an environment exists.
        reuse_anyway: whether an environment is used although what shaped it has changed.
        agent_timeout_s: the agent's wall time limit in seconds.
        agent_limits: resources of the agent's container.
        c0_max_missing: share of imports that may be missing, 0 to 1.
        cache: folder for pinned trees.
        session: id of this pytest session, the same on every worker.
    """

    results: Path
    run: str
    continued: bool
    rebuild: bool
    reuse_anyway: bool
    agent_timeout_s: float
    agent_limits: Limits
    c0_max_missing: float
    cache: Path
    session: str
