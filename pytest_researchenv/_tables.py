"""Tables that come with this package."""

from __future__ import annotations

from importlib import resources
from typing import TypeVar

import tomli
from pydantic import TypeAdapter


__all__ = ["shipped_table"]

_T = TypeVar("_T")


def shipped_table(kind: type[_T], module: str, name: str) -> _T:
    """Read a TOML file that lies beside a module into a value.

    Args:
        kind: of the value.
        module: the package that has the file.
        name: the file's.
    """
    text = resources.files(module).joinpath(name).read_text("utf-8")
    return TypeAdapter(kind).validate_python(tomli.loads(text), strict=False)
