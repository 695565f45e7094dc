"""What the user chose for a session."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from pytest_researchenv.disk.keep import ALL, Keep
from pytest_researchenv.disk.room import FLOOR_BYTES
from pytest_researchenv.gateway.protocol import Reach
from pytest_researchenv.rerun import NOTHING, Rerun
from pytest_researchenv.sandbox.protocol import Limits


__all__ = ["DEFAULT_TIMEOUT_S", "AgentSettings", "Archiving", "Extension", "Settings"]

#: Wall time limit of an agent's attempt where neither the user nor its profile gives one: the published benchmark's
#: (arXiv 2603.06739).
DEFAULT_TIMEOUT_S = 3600.0


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """What agents with a model work with, beside their profiles.

    Attributes:
        prompt: file whose template takes the place of the shipped one.
        research_prompt: likewise of the one for research.
        prices: file with prices of models, which win over the shipped ones.
        reach: what agents' containers may reach; None: as their profiles say.
        allow: hosts that may be reached beside the usual ones.
        retries: how often an attempt that ended in the provider's trouble is made again.
        retry_delay_s: seconds before the first of them; each further one waits twice as long.
        max_cost_usd: what the run may spend, in US dollars; None for no limit.
        folders: where a `.env` file may lie, the strongest first.
    """

    prompt: Path | None = None
    research_prompt: Path | None = None
    prices: Path | None = None
    reach: Reach | None = None
    allow: tuple[str, ...] = ()
    retries: int = 2
    retry_delay_s: float = 30.0
    max_cost_usd: float | None = None
    folders: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class Extension:
    """What is added to the budget of a run that is to go on.

    Attributes:
        seconds: of wall time.
        dollars: for models.
    """

    seconds: float
    dollars: float = 0.0


@dataclass(frozen=True, slots=True)
class Archiving:
    """How the work at a research task is archived while it goes on.

    Attributes:
        interval_s: seconds between two archives; 0 for none.
        most_bytes: of all archives of an attempt together.
    """

    interval_s: float = 600.0
    most_bytes: int = 20 * 1024**3


@dataclass(frozen=True, slots=True)
class Settings:
    """What the user chose.

    Attributes:
        results: folder that holds the runs.
        run: name of the run.
        continued: whether stored results of the run stand, and only what is missing is done.
        rebuild: whether a new attempt is made where an environment exists.
        reuse_anyway: whether an environment is used although what shaped it has changed.
        agent_timeout_s: the agent's wall time limit in seconds; None: its profile's, else an hour.
        agent_limits: resources of the agent's container.
        agent_gpus: how many devices an agent is given; None for all that the run may use.
        data: folder with data sets of research tasks; None where there is none.
        extension: what a run that is over goes on with; None: it does not go on.
        archiving: how the work at a research task is archived.
        stop_detached: whether an interrupt ends runs that go on by themselves, too.
        inspector: agent whose model looks at how results of research came about; empty: none does.
        c0_max_missing: share of imports that may be missing, 0 to 1.
        cache: folder for pinned trees.
        session: id of this pytest session, the same on every worker.
        agents: what the chosen agents work with.
        disk_floor_bytes: what is kept free on the engine's disk.
        keep: which frozen images are kept once they were judged.
        rerun: which stored verdicts do not stand, although the run is continued.
    """

    results: Path
    run: str
    continued: bool
    rebuild: bool
    reuse_anyway: bool
    agent_timeout_s: float | None
    agent_limits: Limits
    c0_max_missing: float
    cache: Path
    session: str
    agents: AgentSettings = field(default_factory=AgentSettings)
    rerun: Rerun = NOTHING
    agent_gpus: int | None = None
    data: Path | None = None
    extension: Extension | None = None
    archiving: Archiving = field(default_factory=Archiving)
    stop_detached: bool = False
    disk_floor_bytes: int = FLOOR_BYTES
    keep: Keep = ALL
    inspector: str = ""
