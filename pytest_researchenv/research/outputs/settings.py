"""Settings as `yaml.dump` writes them: one key and one plain or quoted value a line."""

from __future__ import annotations

import re

from pytest_researchenv.research.outputs.files import UnreadableError


__all__ = ["read_settings"]

_LONGEST_LINE = 10_000
_MAX_KEYS = 1000
_ENTRY = re.compile(r"([A-Za-z_]\w{0,99}):(?: (.*))?")
_DOUBLE = re.compile(r'"([^"\\]*)"')
_SINGLE = re.compile(r"'((?:[^']|'')*)'")


def read_settings(text: str) -> dict[str, str]:
    """The values of the keys at the top level that have one plain or quoted text, as texts.

    What YAML has besides (lists, mappings, blocks, anchors, aliases, tags) is no value here: such a key is left out.
    That needs no YAML library, and there is nothing in it that could be built or run.

    Raises:
        UnreadableError: a line is none of these, a key is there twice, or there are too many.
    """
    values: dict[str, str] = {}
    seen: set[str] = set()
    for number, line in enumerate(text.splitlines(), 1):
        # Indented lines and items belong to the key above, whose value is none that is read.
        if not line.strip() or line.startswith((" ", "#", "- ", "---")):
            continue
        entry = _ENTRY.fullmatch(line) if len(line) <= _LONGEST_LINE else None
        if entry is None:
            raise UnreadableError(f"line {number} is no `key: value`")
        key = entry[1]
        if key in seen:
            raise UnreadableError(f"line {number} has the key {key} again")
        seen.add(key)
        if len(seen) > _MAX_KEYS:
            raise UnreadableError(f"has more than {_MAX_KEYS} keys")
        value = _value(entry[2] or "")
        if value is not None:
            values[key] = value
    return values


def _value(text: str) -> str | None:
    text = text.strip()
    if quoted := _SINGLE.fullmatch(text):
        return quoted[1].replace("''", "'")
    if quoted := _DOUBLE.fullmatch(text):
        return quoted[1]
    text = re.sub(r"(?:^|\s)#.*", "", text).rstrip()
    # A plain value that another line continues cannot be told from a whole one; no path or name is long enough.
    return None if not text or text[0] in "\"'[{&*!|>%@`" else text
