"""The seam to a probe."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from pytest_researchenv.hardware import CPU_ONLY, Hardware
from pytest_researchenv.model import Audit, Environment, Repository, Tier, TierResult
from pytest_researchenv.probes.interpreter import Broken
from pytest_researchenv.probes.world import Interpreter
from pytest_researchenv.sandbox.protocol import Mount, Sandbox


__all__ = ["Probe", "ProbeTask", "Tree"]


@dataclass(frozen=True, slots=True)
class Tree:
    """The pinned tree of a repository on the host: data, never executed.

    Attributes:
        root: folder that holds it; its `.git` has one commit with every file.
        files: tracked paths, `/`-separated and relative to `root`, sorted.
        digest: hash of the Git tree.
        submodules: folders whose files came from submodules.
    """

    root: Path
    files: tuple[str, ...]
    digest: str
    submodules: tuple[str, ...] = ()

    @property
    def own(self) -> tuple[str, ...]:
        """The files that are not a submodule's: those are tracked by another repository."""
        elsewhere = tuple(f"{folder}/" for folder in self.submodules)
        return tuple(path for path in self.files if not path.startswith(elsewhere))

    def to_restore(self, changed: tuple[str, ...]) -> tuple[str, ...]:
        """Tracked paths that are put back: those that changed, and those whose names no record can hold."""
        return (*changed, *(path for path in self.files if not _is_utf8(path)))

    def recordable(self, changed: tuple[str, ...]) -> tuple[str, ...]:
        """Leave out paths whose names are not UTF-8: no JSON can hold them."""
        return tuple(path for path in changed if _is_utf8(path))


@dataclass(frozen=True, slots=True)
class ProbeTask:
    """What a probe gets.

    Attributes:
        environment: the environment to judge.
        repository: its repository.
        tree: the pinned tree.
        sandbox: where containers are made.
        tools: the read-only volume with node and pyright (`sandbox/tools.py` has the paths in it).
        log: called with all that the probe's containers print.
        settings: name → value of options that tiers read (`c0_max_missing`).
        hardware: what there is to run on.
        lease: gives so many of the devices, and a slot, until the end of a block; None where nothing is shared.
        assets: the read-only volumes with the tier's assets.
        result_of: gives the result of another tier of the same environment, probing it when there is none.
        audit: what the integrity audit found; None while it is under way, and where nobody asked for one.
        records: the attempt's folder: what the agent printed and asked for; None where there is none.
        interpreters: image and path → what was seen there; every tier asks, and an image stays as it is.
    """

    environment: Environment
    repository: Repository
    tree: Tree
    sandbox: Sandbox
    tools: Mount
    log: Callable[[bytes], object]
    settings: Mapping[str, float]
    hardware: Hardware = CPU_ONLY
    lease: Callable[[int], AbstractContextManager[Hardware]] | None = None
    assets: tuple[Mount, ...] = ()
    result_of: Callable[[Tier], TierResult] | None = None
    audit: Audit | None = None
    records: Path | None = None
    interpreters: MutableMapping[tuple[str, str], Interpreter | Broken] = field(default_factory=dict)

    @contextmanager
    def leased(self, devices: int) -> Iterator[ProbeTask]:
        """Wait for devices and for a slot; in the block, the task's hardware has those devices and no others.

        Ask for the result of another tier, or anything else that waits for others, before the block or after it.

        Raises:
            LeaseError: they could not be had.
        """
        with self.lease(devices) if self.lease else nullcontext(self.hardware.first(devices)) as hardware:
            yield replace(self, hardware=hardware)

    @property
    def devices_then(self) -> int:
        """So many devices as the agent was given, as far as they are there, and one at least: what its claims mean."""
        return min(max(1, self.environment.devices), len(self.hardware.devices))


class Probe(Protocol):
    """Decides one tier. It never touches the agent."""

    @property
    def tier(self) -> Tier:
        """The tier it decides."""

    def judge(self, task: ProbeTask) -> TierResult:
        """Observe and decide.

        Raises:
            InfrastructureError: no verdict is possible, and the environment is not to blame.
        """


def _is_utf8(path: str) -> bool:
    # Bytes that are none come as lone surrogates (PEP 383).
    return not any("\ud800" <= character <= "\udfff" for character in path)
