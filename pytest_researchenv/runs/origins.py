"""Where an attempt was made, when it came from elsewhere and did not get the same place here.

Its records, and the label of its image, name the attempt as it was when it was made, and stay so: they are sealed. So
what it was is recorded beside them, and both are told.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import TypeAdapter, ValidationError

from pytest_researchenv._sources import STRICT
from pytest_researchenv.model import EnvironmentKey


__all__ = ["ORIGIN_FILE", "Origin", "origin_of", "origin_record"]

ORIGIN_FILE = "imported.json"


@dataclass(frozen=True, slots=True)
class Origin:
    """Which attempt an imported one was where it was made.

    Attributes:
        key: its run, agent, repository and number there.
        schema: version of this record's schema.
    """

    __pydantic_config__: ClassVar = STRICT

    key: EnvironmentKey
    schema: Literal[1] = 1


_ORIGIN = TypeAdapter(Origin)


def origin_of(folder: Path, key: EnvironmentKey) -> EnvironmentKey:
    """Return which attempt this was where it was made: the same, unless a readable record says another.

    Args:
        folder: the attempt's.
        key: which attempt it is by where it lies.
    """
    try:
        return _ORIGIN.validate_json((folder / ORIGIN_FILE).read_bytes()).key
    except (OSError, ValidationError):
        return key


def origin_record(key: EnvironmentKey) -> bytes:
    """Return the record of an attempt that gets another place."""
    return _ORIGIN.dump_json(Origin(key), indent=2)
