"""The tables of `docs/c5.md` as values, and a world for each observation in them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pytest_researchenv.errors import SandboxError
from pytest_researchenv.hardware import CPU_ONLY, Accelerator, Hardware
from pytest_researchenv.model import Cause, Tier, TierResult, Verdict
from pytest_researchenv.sandbox.fake import Folder
from tests.unit.probes.claimworld import PYTHON, SITE, World, audited, on_devices, torch


__all__ = ["CLAIMS", "NULL", "OBSERVATIONS", "PAGE", "WORLDS", "Row", "members", "rows", "sight", "table"]

PAGE = (Path(__file__).parents[3] / "docs" / "c5.md").read_text()

NULL = "null"

#: Field → the claims that are tried, as JSON. The number of devices is 2; the attempt's may be 8.
CLAIMS = {
    field: (NULL, *map(json.dumps, values))
    for field, values in {
        "python_path": (PYTHON,),
        "python_version": ("3.11.2", "3.11", "3", "Python 3.11.2", "3.11.1", "3.12.0", "latest", ""),
        "torch_version": ("2.13.0+cu128", "2.13.0", "2.13", "2.13.0+cpu", "2.12.1", "2.14.0", "latest", ""),
        "cuda_available": (True, False),
        "gpu_count": (0, 1, 2, 3, 8, 9),
        "ddp_expected_ok": (True, False),
    }.items()
}


# --- the page ---------------------------------------------------------------------------------------------


def table(heading: str) -> list[dict[str, str]]:
    """The first table below a heading: column → cell, row by row."""
    lines = iter(PAGE.partition(f"\n{heading}\n")[2].splitlines())
    columns: list[str] = []
    found = []
    for line in lines:
        if not line.startswith("|"):
            if columns:
                break
            continue
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if not columns:
            columns = cells
        elif not set(line) <= set("|- "):
            found.append(dict(zip(columns, cells, strict=True)))
    assert found, heading
    return found


def _group_table() -> dict[str, str]:
    below = PAGE.partition("Groups of observations, for short:\n")[2]
    lines = [line for line in below.partition("\n## ")[0].splitlines() if line.startswith("| *")]
    return {name.strip(" *"): cell.strip() for _, name, cell, _ in (line.split("|") for line in lines)}


#: Observation → its words.
OBSERVATIONS = {row["observation"]: row["words"].strip("`") for row in table("## Observations")}
_GROUPS = _group_table()


def members(cell: str) -> list[str]:
    """The observations that a cell names, groups expanded."""
    found = []
    for item in cell.split(";"):
        named, _, without = item.strip().partition(" without ")
        left_out = set(_named(without)) if without else set()
        found += [name for name in _named(named) if name not in left_out]
    return found


def _named(name: str) -> Iterator[str]:
    name = name.strip()
    if name.startswith("*"):
        yield from members(_GROUPS[name.strip("*")])
    else:
        assert name in OBSERVATIONS, name
        yield name


@dataclass(frozen=True)
class Row:
    """One row of a truth table.

    Attributes:
        field: what is claimed.
        number: which row of its table, from 1.
        claims: as JSON.
        observations: their names.
        outcome: of the claim.
        would_hold: of a claim that is not made; None when that is not known.
        published: whether most published validators count it; None when that cannot be told.
        wording: with placeholders.
    """

    field: str
    number: int
    claims: tuple[str, ...]
    observations: tuple[str, ...]
    outcome: str
    would_hold: bool | None
    published: bool | None
    wording: str

    def __str__(self) -> str:
        return f"{self.field}-{self.number}"


def rows(field: str) -> list[Row]:
    """The truth table of a field."""
    return [_row(field, number, cells) for number, cells in enumerate(table(f"### {field}"), 1)]


def _row(field: str, number: int, cells: Mapping[str, str]) -> Row:
    claimed = cells["claimed"]
    if claimed == "any but `null`":
        claims = tuple(claim for claim in CLAIMS[field] if claim != NULL)
    else:
        claims = tuple(claim.strip().strip("`") for claim in claimed.split(";"))
    assert set(claims) <= set(CLAIMS[field]), claimed
    return Row(
        field,
        number,
        claims,
        tuple(members(cells["observed"])),
        cells["outcome"],
        {"yes": True, "no": False, "unknown": None, "": None}[cells["would hold"]],
        {"counts": True, "no": False, "-": None}[cells["published"]],
        cells["wording"].strip("`"),
    )


# --- the worlds -------------------------------------------------------------------------------------------

_MISSING = torch(torch_version=None, error="ModuleNotFoundError: No module named 'torch'", file="")
_NO_DEVICE = Hardware(Accelerator.CUDA, reason="no driver")


def _c4(verdict: Verdict, reason: str = "", *, emulated: bool = False) -> TierResult:
    return TierResult(Tier.C4, verdict, Cause.NONE, reason, emulated=emulated)


_FAILED = _c4(Verdict.FAILED, "the ranks never met")
_AWAY = "the engine went away"

#: Observation → a world in which it is so.
WORLDS: dict[str, Callable[[], World]] = {
    "no path": lambda: on_devices(2),
    "no file": lambda: on_devices(2, files={}),
    "a folder": lambda: on_devices(2, files={f"{PYTHON}/inside": Folder()}),
    "unreadable": lambda: on_devices(2, unreadable=True),
    "unstartable": lambda: on_devices(2, startless="exec format error"),
    "denied": lambda: on_devices(2, prints="permission denied", code=126),
    "silent": lambda: on_devices(2, prints=""),
    "hangs": lambda: on_devices(2, hangs=True),
    "garbled": lambda: on_devices(2, prints="{first} 42\nbye"),
    "no genuine Python": lambda: on_devices(2, audit=audited(interpreter="it is a shell script")),
    "Python answers twice": lambda: on_devices(2, answers=(2, 1)),
    "another pyvenv.cfg": lambda: on_devices(2, files={PYTHON: b"ELF", "/opt/venv/pyvenv.cfg": b"version = 3.12.1\n"}),
    "another library": lambda: on_devices(2, files={PYTHON: b"ELF", "/opt/venv/lib/python3.9": Folder()}),
    "torch missing": lambda: on_devices(2, torch=_MISSING),
    "torch ends Python": lambda: on_devices(2, torch=None, code=139),
    "torch garbled": lambda: on_devices(2, torch={"torch_version": 2}),
    "no genuine torch": lambda: on_devices(2, audit=audited(torch="no distribution has it")),
    "torch answers twice": lambda: on_devices(2, answers=(1, 2)),
    "torch of another release": lambda: on_devices(
        2,
        torch=torch(2, records=[f"{SITE}/torch-2.5.1.dist-info"]),
        files={PYTHON: b"ELF", f"{SITE}/torch-2.5.1.dist-info/METADATA": b"Name: torch\nVersion: 2.5.1\n"},
    ),
    "too many devices": lambda: on_devices(8),
    "sees 2, given 2": lambda: on_devices(2),
    "sees 1, given 2": lambda: on_devices(1),
    "sees none, given 2": lambda: on_devices(0),
    "sees 2, given 8": lambda: on_devices(2, given=8),
    "sees none, given 8": lambda: on_devices(0, given=8),
    "sees 2, given 1": lambda: on_devices(2, given=1),
    "sees 2, given none": lambda: on_devices(2, given=0),
    "sees none, given none": lambda: on_devices(0, given=0),
    "driver too old": lambda: on_devices(2, torch=torch(2, cuda_available=False)),
    "CUDA broken": lambda: on_devices(0, torch=torch(0, error="RuntimeError: CUDA error: unknown")),
    "no device": lambda: on_devices(0, hardware=_NO_DEVICE),
    "no device, one found": lambda: on_devices(1, hardware=_NO_DEVICE),
    "emulated": lambda: on_devices(0, hardware=CPU_ONLY),
    "emulated, torch missing": lambda: on_devices(0, hardware=CPU_ONLY, torch=_MISSING),
    "emulated, one found": lambda: on_devices(1, hardware=CPU_ONLY),
    "emulated, C4 failed": lambda: on_devices(0, hardware=CPU_ONLY, c4=_FAILED),
    "jax alone": lambda: on_devices(2, torch=_MISSING, frameworks=("jax",)),
    "no framework": lambda: on_devices(2, torch=_MISSING, frameworks=()),
    "C4 passed": lambda: on_devices(2, c4=_c4(Verdict.PASSED)),
    "C4 failed": lambda: on_devices(2, c4=_FAILED),
    "one device, C4 failed": lambda: on_devices(1, c4=_FAILED),
    "C4 skipped": lambda: on_devices(2, c4=_c4(Verdict.SKIPPED, "1 device found, 2 needed")),
    "C4 error": lambda: on_devices(2, c4=_c4(Verdict.ERROR, _AWAY)),
    "C4 refused": lambda: on_devices(2, c4=SandboxError(_AWAY)),
    "C4 emulated": lambda: on_devices(2, c4=replace(_FAILED, emulated=True)),
}


def sight(world: World) -> str:
    """What is said of a torch that sees what the world's does."""
    seen = world.torch or {}
    available = "available" if seen["cuda_available"] else "not available"
    broken = f" ({seen['error']})" if seen["error"] else ""
    return (
        f"torch {seen['torch_version']} finds CUDA {available} and {seen['gpu_count']} of 2 devices{broken}; "
        f"the attempt was given {world.given}"
    )
