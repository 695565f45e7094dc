"""What may not be reached although its host may: addresses and patterns, in whatever spelling. Pure.

Runs in the sidecar, under any Python from 3.11 on, with the standard library alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from fnmatch import translate
from posixpath import normpath
from urllib.parse import parse_qsl

from .names import decoded, plain


__all__ = ["BLOCKED", "Blocking"]

#: Why a request is refused that names something blocked: the harness knows it by these words. What it was is not said.
BLOCKED = "it is blocked for this task"

#: A host with a port, or with the dot at its end that means the same host.
_PORT = re.compile(r"(?<=[a-z0-9])\.?:\d{1,5}(?=[/?#]|$)")
_DOT = re.compile(r"(?<=[a-z0-9])\.(?=[/?#]|$)")

#: What leads from one address into another one that stands in it.
_INNER = re.compile(r"https?:/+")


@dataclass(frozen=True, slots=True)
class _Address:
    """A blocked address: a host, a path that begins so, and parameters that have to be there."""

    begins: re.Pattern[str]
    parameters: frozenset[tuple[str, str]]

    @classmethod
    def of(cls, url: str) -> _Address:
        """Read one as tasks write it, without scheme."""
        text = _same(decoded(url) or url)
        place, _, query = text.partition("?")
        # On a host below it as well, but not on one that only ends alike.
        return cls(re.compile(rf"(?<![a-z0-9-]){re.escape(place.rstrip('/'))}"), frozenset(parse_qsl(query)))

    def found(self, text: str) -> bool:
        """Whether a text, as `_same` leaves it, holds it."""
        found = self.begins.search(text)
        if found is None:
            return False
        given = {one for part in re.split(r"[?#]", text[found.end() :])[1:] for one in parse_qsl(part)}
        return self.parameters <= given


@dataclass(frozen=True, slots=True)
class Blocking:
    """What is blocked.

    Attributes:
        urls: addresses without scheme.
        patterns: shell patterns of host, path and query.
    """

    urls: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    _addresses: tuple[tuple[str, _Address], ...] = field(init=False, repr=False, default=())
    _forms: tuple[tuple[str, re.Pattern[str], re.Pattern[str]], ...] = field(init=False, repr=False, default=())

    def __post_init__(self) -> None:
        object.__setattr__(self, "_addresses", tuple((url, _Address.of(url)) for url in self.urls if url))
        forms = ((pattern, pattern.casefold()) for pattern in self.patterns if pattern)
        patterns = tuple(
            (pattern, re.compile(translate(small)), re.compile(translate(plain(small)))) for pattern, small in forms
        )
        object.__setattr__(self, "_forms", patterns)

    def names(self, address: str) -> str:
        """Return which of its entries an address names; empty for none.

        Capitals, encodings, ports, the dot at a host's end, `//`, `.` and `..` in paths, the order of parameters and
        addresses within the address make no difference.

        Args:
            address: host, path and query.
        """
        if not (self._addresses or self._forms):
            return ""
        clear = decoded(address)
        if clear is None:
            return "an address that is encoded over and over"
        texts = {_same(clear), _ports_gone(clear)}
        for url, wanted in self._addresses:
            if any(wanted.found(text) for text in texts):
                return url
        # Where a space stands for a separator, and where none does.
        shapes = {shape for text in texts for shape in (text, text.replace("+", " "))}
        for pattern, as_written, as_plain in self._forms:
            if any(as_written.match(shape) or as_plain.match(plain(shape)) for shape in shapes):
                return pattern
        return ""

    def held(self, value: str) -> str:
        """Return which of the addresses another text holds, such as the value of a header; empty for none."""
        clear = decoded(value)
        text = _same(clear) if clear is not None else ""
        return next((url for url, wanted in self._addresses if wanted.found(text)), "")


def _ports_gone(text: str) -> str:
    return _DOT.sub("", _PORT.sub("", text))


def _same(text: str) -> str:
    """Return an address as all that lead to the same place are written; those in it likewise."""
    return " ".join(_one(part) for part in _INNER.split(_ports_gone(text)))


def _one(address: str) -> str:
    place, mark, query = address.partition("?")
    host, slash, path = place.partition("/")
    # Parameters of a path's part change nothing in most servers.
    path = re.sub(r";[^/]*", "", path)
    return f"{host}{slash}{normpath('/' + path).lstrip('/') if path else ''}{mark}{query}"
