"""Whether an address names something that is refused everywhere, in whatever spelling. Pure.

Runs in the sidecar, under any Python from 3.11 on, with the standard library alone.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from urllib.parse import unquote


__all__ = ["BY_NUMBER", "OVER_ENCODED", "decoded", "named", "plain"]

#: What is said of a repository that is asked for by its number.
BY_NUMBER = "a repository by its number"

#: What is said of an address that no program writes.
OVER_ENCODED = "an address that is encoded over and over"

#: Programs encode once, and a proxy within a proxy's address once more each.
_ROUNDS = 8

#: GitHub serves a repository under its number as well, in which no name stands.
_NUMBERED = re.compile(r"api\.github\.com\.?(:\d+)?/.*?repositories/[/.\s+-]*\d")


def named(address: str, pieces: Iterable[str]) -> str:
    """What of some names an address holds: one of them, `BY_NUMBER` or `OVER_ENCODED`; empty for nothing.

    Capitals, encodings, the separators of package names (PEP 503), the signs with which Go writes capitals, look-alike
    letters of Unicode, and characters that nobody sees make no difference.

    Args:
        address: host, path and query, or any other words.
        pieces: the names; with none, nothing is found.
    """
    wanted = [piece for piece in pieces if piece]
    if not wanted:
        return ""
    clear = decoded(address)
    if clear is None:
        return OVER_ENCODED
    if _NUMBERED.match(clear):
        return BY_NUMBER
    text = plain(clear)
    return next((piece for piece in wanted if plain(piece) in text), "")


def decoded(text: str) -> str | None:
    """Return a text without percent-encoding, capitals and look-alikes; None where it is encoded over and over."""
    for _ in range(_ROUNDS):
        once = unquote(text)
        if once == text:
            # A long s and full-width letters become those that they stand for.
            return unicodedata.normalize("NFKC", text).casefold()
        text = once
    return None


def plain(text: str) -> str:
    """Return a text without what nobody sees, and with all separators alike."""
    seen = "".join(one for one in text if one.isprintable() and one not in "!\\")
    return re.sub(r"[-_.]+", "-", seen)
