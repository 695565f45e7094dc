"""One request to the outside: what it may ask for, and whether its answer may come in. Pure, without the proxy.

Runs in the sidecar, under any Python from 3.11 on, with the standard library alone.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from .search import BodySearch


__all__ = ["OWN_NAME", "OWN_TEXT", "WHOLE_BYTES", "Passage", "in_parts", "readable"]

#: Why requests are refused that belong to nobody's work: the harness knows them by these words.
OWN_NAME = "it belongs to the benchmark itself"
OWN_TEXT = "its answer holds text of the benchmark itself"

#: Answers up to this size are looked at before any of it is passed on. Our recipes and probes have some kilobytes.
WHOLE_BYTES = 1024 * 1024

#: How answers may be compressed: what can be unpacked in steps, so that no answer can fill the memory.
_CODINGS = {"gzip", "x-gzip", "deflate", "identity"}

#: Sources, which nobody needs in parts: a part may lack what they are known by.
_SOURCES = (".py", ".sh", ".toml", ".md")


@dataclass(slots=True)
class Passage:
    """One request to the outside.

    Attributes:
        method: `GET`, …
        host: its host, with the port where that is not the usual one.
        path: without query.
        at: seconds since the epoch when it came.
        up: bytes of its body.
        down: bytes of the answer's body that were passed on.
        cut: why its answer was not passed on to its end; empty while it is.
    """

    method: str
    host: str
    path: str
    at: float = field(default_factory=time.time)
    up: int = 0
    down: int = 0
    cut: str = ""
    _search: BodySearch | None = None

    @property
    def address(self) -> tuple[str, str]:
        """Where it goes to."""
        return self.host, self.path

    def answer_begins(self, canaries: Iterable[str], length: int | None) -> bool:
        """An answer begins.

        Args:
            canaries: texts that must not come in.
            length: of its body, where that is told.

        Returns:
            Whether all of it is to be looked at before any of it is passed on.
        """
        self._search = BodySearch(canaries, length=length)
        return length is not None and length <= WHOLE_BYTES

    def passes(self, chunk: bytes) -> bool:
        """Whether a piece of the answer may be passed on: nothing was found in it, nor before it."""
        if not self.cut and self._search is not None and self._found(self._search, chunk):
            self.cut = f"{OWN_TEXT} ({self._search.found.partition(' canary')[0]})"
        if not self.cut:
            self.down += len(chunk)
        return not self.cut

    def _found(self, search: BodySearch, chunk: bytes) -> bool:
        try:
            return search.feed(chunk)
        except Exception:  # noqa: BLE001 - the boundary: whatever a host sends, an honest download must come to its end
            self._search = None
            return False


def readable(codings: str) -> str:
    """Of a client's Accept-Encoding, what can be looked into."""
    asked = (coding.strip() for coding in codings.lower().split(","))
    return ", ".join(one for one in asked if one.partition(";")[0].strip() in _CODINGS) or "identity"


def in_parts(path: str) -> bool:
    """Whether something may be asked for in parts, as large files are when their download broke off."""
    return not path.partition("?")[0].lower().endswith(_SOURCES)
