"""What the observer (`inside/observer.py`) wrote down in the processes of a probe.

Records are read from outside, but the environment under test wrote them: sizes are capped, every field is checked, and
what is not from this launch does not count.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

from pytest_researchenv.probes.evidence import OutputFile, Outputs


__all__ = ["Record", "Records", "collective_misses", "independent_misses", "read_records"]

#: A record has some hundred bytes, and 8 for each rank.
_MAX_BYTES = 1024**2
#: Calls of the script's own that prove no work together.
_PREPARING = frozenset({"new_group"})
_SHOWN = 8


@dataclass(frozen=True, slots=True)
class Record:
    """One observed process.

    Attributes:
        pid: its process id in the container.
        hostname: its host name.
        rank: its rank in its process group, else what its launcher told it; None when it has none.
        world_size: size of the process group that it joined; 0 when it joined none.
        backend: the group's backend.
        token: random, known to this process alone until it is exchanged.
        gathered: the token of each rank, as this process received it over the group.
        calls: collective, point-to-point call or parallel constructor of the script's own → how often.
        allocated: index of a device as the process sees it → most bytes that torch allocated on it.
        torch: whether torch, and no other framework, had opened a device, so that `allocated` says something.
        problem: what went wrong with the exchange.
    """

    pid: int
    hostname: str
    rank: int | None
    world_size: int
    backend: str
    token: str
    gathered: tuple[str, ...]
    calls: Mapping[str, int]
    allocated: Mapping[str, int]
    torch: bool
    problem: str

    @property
    def name(self) -> str:
        """How a sentence calls it."""
        return f"rank {self.rank} (process {self.pid})"


@dataclass(frozen=True, slots=True)
class Records:
    """All observed processes of a launch.

    Attributes:
        all: sorted by rank and process; those without a rank first.
        problem: what was passed over, and why; empty when nothing was.
    """

    all: tuple[Record, ...] = ()
    problem: str = ""

    @property
    def ranks(self) -> tuple[Record, ...]:
        """The processes that have a rank."""
        return tuple(record for record in self.all if record.rank is not None)

    @property
    def used_torch(self) -> bool:
        """Whether torch's account of device memory was seen, and nobody else's is missing."""
        return any(record.torch for record in self.all)

    @property
    def allocated(self) -> int | None:
        """Bytes that torch allocated on devices, peaks summed over processes; None when nothing was observed."""
        return sum(sum(record.allocated.values()) for record in self.all) if self.all else None


def read_records(outputs: Outputs, nonce: str) -> Records:
    """Read the records of one launch.

    Args:
        outputs: the observer's folder.
        nonce: what a record of this launch holds.
    """
    found, passed_over = [], []
    for path, file in outputs.files.items():
        if not path.endswith(".json"):
            continue
        try:
            found.append(_record(_content(file), nonce))
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            passed_over.append(f"{path.rpartition('/')[2]} is no record of the observer's ({error})")
    found.sort(key=lambda record: (-1 if record.rank is None else record.rank, record.pid))
    return Records(tuple(found), "; ".join(passed_over[:_SHOWN]) or outputs.problem)


def collective_misses(records: Records, nproc: int) -> list[str]:
    """Say what is missing before ranks can be said to have worked together; empty when nothing is.

    Args:
        records: what was observed.
        nproc: how many ranks there must be.
    """
    # A parent or a child of a rank has its RANK in the environment, too, and joins no group.
    joined = {record.rank for record in records.ranks if record.world_size}
    kept = tuple(record for record in records.all if record.world_size or record.rank not in joined)
    records = replace(records, all=kept)
    ranks = records.ranks
    missing = _rank_misses(records, nproc)
    for record in ranks:
        if not record.world_size:
            missing.append(f"{record.name} joined no process group")
        elif record.world_size != nproc:
            missing.append(f"{record.name} is in a process group of {record.world_size}, not {nproc}")
        elif record.problem:
            missing.append(f"{record.name}: {record.problem}")
        elif not record.gathered:
            missing.append(f"{record.name} exchanged nothing with the other ranks")
    if not missing:
        # All ranks are there once, and sorted.
        tokens = tuple(record.token for record in ranks)
        strangers = [record.name for record in ranks if record.gathered != tokens]
        missing += [f"{name} received other values than the ranks sent" for name in strangers]
    if not any(_worked(record) for record in ranks):
        missing.append("no rank made a collective call or a parallel model")
    return missing


def independent_misses(records: Records, nproc: int) -> list[str]:
    """Say what is missing before separate ranks can be said to have run; empty when nothing is.

    Args:
        records: what was observed.
        nproc: how many ranks there must be, at least.
    """
    return _rank_misses(records, nproc, more=True)


def _rank_misses(records: Records, nproc: int, *, more: bool = False) -> list[str]:
    ranks = records.ranks
    missing = []
    for rank in sorted({record.rank for record in ranks if record.rank is not None}):
        same = [record for record in ranks if record.rank == rank]
        if len(same) > 1:
            missing.append(f"{len(same)} processes say that they are rank {rank}")
    if len(ranks) < nproc or (len(ranks) > nproc and not more):
        observed = f"of {len(records.all)} observed processes" if records.all else "and no process was observed"
        missing.append(f"{nproc} ranks must have run, and {len(ranks)} did, {observed}")
    if missing and records.problem:
        missing.append(records.problem)
    return missing


def _worked(record: Record) -> bool:
    return any(count > 0 and name not in _PREPARING for name, count in record.calls.items())


def _content(file: OutputFile) -> object:
    if file.content is None or file.size > _MAX_BYTES:
        raise ValueError(f"{file.size} bytes")
    return json.loads(file.content)


def _record(raw: object, nonce: str) -> Record:
    if not isinstance(raw, dict):
        raise TypeError("no JSON object")
    if raw["nonce"] != nonce:
        raise ValueError("not of this launch")
    rank = raw["rank"]
    return Record(
        pid=_number(raw["pid"]),
        hostname=_text(raw["hostname"]),
        rank=None if rank is None else _number(rank),
        world_size=_number(raw["world_size"]),
        backend=_text(raw["backend"]),
        token=_text(raw["token"]),
        gathered=tuple(_text(token) for token in _list(raw["gathered"])),
        calls=_counts(raw["calls"]),
        allocated=_counts(raw["allocated"]),
        torch=raw["torch"] is True,
        problem=_text(raw["problem"]),
    )


def _number(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise TypeError(f"{value!r:.40} is no number")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.40} is no text")
    return value


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise TypeError(f"{value!r:.40} is no list")
    return value


def _counts(value: object) -> dict[str, int]:
    if not isinstance(value, dict):
        raise TypeError(f"{value!r:.40} is no object")
    return {_text(name): _number(count) for name, count in value.items()}
