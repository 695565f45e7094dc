"""What is wrong with a record that cannot be read, in words."""

from __future__ import annotations

from pydantic import ValidationError


__all__ = ["what_is_wrong"]


def what_is_wrong(error: ValidationError) -> str:
    """Say the first thing that is wrong with a record: where, and what. Of another version's, that it is one."""
    every = error.errors(include_url=False)
    version = next((one for one in every if one["loc"] == ("schema",) and one["type"] == "literal_error"), None)
    if version:
        known = version["ctx"]["expected"]
        return f"is of another version, {version['input']!r}; this one reads {known}: use the one that wrote it"
    first = every[0]
    where = ".".join(map(str, first["loc"]))
    return f"does not hold what was written there: {f'{where}: ' * bool(where)}{first['msg']}"
