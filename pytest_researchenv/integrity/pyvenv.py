"""What Python reads in a `pyvenv.cfg`.

Two parts of its start-up read the file, each in a way of its own that has changed with versions: what looks for the
standard library takes lines that end in a line feed, and stops at a null byte; `Lib/site.py` takes them as text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping


__all__ = ["is_ambiguous", "read_settings"]

#: How every tool writes the one line that Python's versions read differently. A relative path is another one wherever a
#: process runs.
_HOME = re.compile(r"home[ \t]+=[ \t]+/.*")


def read_settings(content: bytes) -> Mapping[str, str]:
    """Return its values, by key in lower case: of `home` the first, of all else the last."""
    found: dict[str, str] = {}
    for line in content.decode(errors="surrogateescape").split("\n"):
        key, equals, value = line.partition("=")
        if equals:
            name = key.strip().lower()
            found[name] = found[name] if name == "home" and name in found else value.strip()
    return found


def is_ambiguous(content: bytes) -> bool:
    """Whether versions or parts of Python may read another `home` or other lines in it. No tool writes such a file."""
    text = content.decode(errors="surrogateescape").replace("\r\n", "\n")
    lines = text.splitlines()
    homes = [line for line in lines if line.partition("=")[0].strip().lower() == "home"]
    split_alike = lines == text.removesuffix("\n").split("\n") or not text
    return not split_alike or "\0" in text or len(homes) > 1 or not all(map(_HOME.fullmatch, homes))
