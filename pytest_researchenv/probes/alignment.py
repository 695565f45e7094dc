"""What `inside/alignment.py` answers, and what it should have answered.

The answer comes from an environment that an agent made: its size and shape are checked, and nothing in it is trusted
but what carries the nonce and equals a value computed here.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field


__all__ = ["Answer", "cuda_support", "expected", "kernel_support", "read_answer", "without_answer"]

#: Rows and columns of the matrices, as in the script.
_SIZE = 32

#: Longest line that is read. Sixteen devices' values take 150 kB.
_LINE_BYTES = 1024 * 1024

_STAGES = ("import", "look", "compute", "done")

#: From CUDA 11 on, a program built for a later minor version runs on a driver of the same major version.
_MINOR_COMPATIBLE = 11

_ARCHITECTURE = re.compile(r"(sm|compute)_(\d+)(\d)([af]?)")


@dataclass(frozen=True, slots=True)
class Answer:
    """What the script said.

    Attributes:
        stage: the last thing it was about to do: `import`, `look`, `compute` or `done`; empty when it said nothing.
        version: version of the framework.
        built_cuda: CUDA version that the framework was built for; None when for none, or it does not say.
        devices: names of the devices that it sees.
        capabilities: their compute capabilities, as far as it says.
        architectures: what its kernels were compiled for; None when it does not say.
        values: what it computed, one matrix a device.
    """

    stage: str = ""
    version: str = ""
    built_cuda: str | None = None
    devices: tuple[str, ...] = ()
    capabilities: tuple[tuple[int, ...], ...] = ()
    architectures: tuple[str, ...] | None = None
    values: tuple[object, ...] = field(default=(), repr=False)


def read_answer(text: str, nonce: str) -> Answer:
    """Read all lines that carry the nonce; what is in them but has the wrong type counts as not said."""
    said: dict[str, object] = {}
    for line in text.splitlines():
        mark, _, rest = line.partition(" ")
        if mark != nonce or len(rest) > _LINE_BYTES:
            continue
        try:
            # A depth that the parser cannot take is a RecursionError.
            part = json.loads(rest)
        except (ValueError, RecursionError):
            continue
        if isinstance(part, dict):
            said |= part
    stage, built = said.get("stage"), said.get("built_cuda")
    architectures = said.get("architectures")
    return Answer(
        stage=stage if isinstance(stage, str) and stage in _STAGES else "",
        version=str(said.get("version", ""))[:100],
        built_cuda=built if isinstance(built, str) and len(built) < 100 else None,  # noqa: PLR2004 - any bound does
        devices=tuple(str(name)[:200] for name in _list(said.get("devices"))),
        capabilities=tuple(_numbers(one) for one in _list(said.get("capabilities"))),
        architectures=None if architectures is None else tuple(str(one)[:50] for one in _list(architectures)),
        values=tuple(_list(said.get("values"))),
    )


def without_answer(text: str, nonce: str) -> str:
    """The output without the lines of the answer: what is left may say what went wrong."""
    return "\n".join(line for line in text.splitlines() if line.partition(" ")[0] != nonce)


def expected(nonce: str, number: int) -> list[list[int]]:
    """A B + A for a device, in whole numbers; the script says what A and B are."""
    seed = int(nonce, 16) + number
    entries = []
    for _ in range(2 * _SIZE * _SIZE):
        seed = (1103515245 * seed + 12345) % 2**31
        entries.append(seed >> 16 & 15)
    rows = [entries[start : start + _SIZE] for start in range(0, len(entries), _SIZE)]
    a, columns = rows[:_SIZE], list(zip(*rows[_SIZE:], strict=True))
    return [
        [sum(x * y for x, y in zip(row, column, strict=True)) + own for column, own in zip(columns, row, strict=True)]
        for row in a
    ]


def cuda_support(built: str | None, driver: tuple[int, int]) -> str | None:
    """How a driver supports what was built for a CUDA version, in words; empty when not at all, None when unknown.

    Where the answer is "not at all", a compatibility package in the image may still bridge the gap: what was computed
    right on the device is the better witness.
    """
    found = re.match(r"(\d+)\.(\d+)", built or "")
    if not found:
        return None
    version = int(found[1]), int(found[2])
    if version == driver:
        return "same version"
    if version < driver:
        return "backward compatibility"
    if version[0] == driver[0] >= _MINOR_COMPATIBLE:
        return "minor version compatibility"
    return ""


def kernel_support(architectures: tuple[str, ...], capability: tuple[int, int]) -> str:
    """The entry of a list such as `sm_80 compute_90` by which kernels run on a device; empty when none does.

    Machine code (`sm`) runs on its own major version from its own minor version up; intermediate code (`compute`) on
    anything not older. A suffix narrows that: `a` to the very same, `f` to the same major version.
    """
    for entry in architectures:
        found = _ARCHITECTURE.fullmatch(entry)
        if not found:
            continue
        kind, suffix = found[1], found[4]
        target = int(found[2]), int(found[3])
        same_major = target[0] == capability[0] and target[1] <= capability[1]
        if target == capability or (suffix != "a" and same_major):
            return entry
        if kind == "compute" and not suffix and target <= capability:
            return entry
    return ""


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _numbers(value: object) -> tuple[int, ...]:
    return tuple(item for item in _list(value) if isinstance(item, int))
