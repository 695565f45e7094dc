"""What apt is configured for, and which of two versions of a Debian package is the later one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass


__all__ = ["Source", "is_later", "sources_in"]

_LINE = re.compile(r"\s*deb\s+(?:\[[^]]*\]\s*)?(\S+)\s+(\S+)((?:[ \t]+[^\s#]+)*)")
_PARTS = re.compile(r"(\D*)(\d*)")


@dataclass(frozen=True, slots=True)
class Source:
    """A repository of packages.

    Attributes:
        uri: where it is.
        suite: which of its releases; of a repository without releases a folder, with a slash at its end.
        components: which parts of that.
    """

    uri: str
    suite: str
    components: tuple[str, ...] = ()


def sources_in(text: str, *, deb822: bool) -> Iterator[Source]:
    """The repositories of binary packages that one of apt's files names.

    Args:
        text: all of it.
        deb822: whether it is one of paragraphs (`.sources`), and not of lines (`.list`).
    """
    if not deb822:
        for line in text.splitlines():
            if (match := _LINE.match(line)) and (match[3] or match[2].endswith("/")):
                yield Source(match[1], match[2], tuple(match[3].split()))
        return
    for paragraph in re.split(r"\n\s*\n", text):
        lines = [line for line in paragraph.splitlines() if not line.startswith("#")]
        # A line that starts with a blank continues the one before it.
        unfolded = re.sub(r"\n[ \t]+", " ", "\n".join(lines))
        fields = {
            key.strip().lower(): value.split() for key, _, value in (x.partition(":") for x in unfolded.split("\n"))
        }
        if "deb" in fields.get("types", []) and fields.get("enabled", ["yes"]) != ["no"]:
            parts = tuple(fields.get("components", []))
            yield from (
                Source(uri, suite, parts) for uri in fields.get("uris", []) for suite in fields.get("suites", [])
            )


def is_later(one: str, other: str) -> bool:
    """Whether a version of a package comes after another, as dpkg orders them."""
    return _key(one) > _key(other)


def _key(version: str) -> tuple[object, ...]:
    epoch, colon, rest = version.partition(":")
    if not colon:
        epoch, rest = "0", version
    upstream, _, revision = rest.rpartition("-") if "-" in rest else (rest, "", "0")
    return int(epoch) if epoch.isdecimal() else 0, _parts(upstream), _parts(revision)


def _parts(text: str) -> tuple[tuple[tuple[int, ...], int], ...]:
    """What is compared one after the other: letters, then a number, and so on."""
    found = [(match[1], match[2]) for match in _PARTS.finditer(text)]
    # The end comes after a tilde and before all else.
    return tuple(((*map(_order, letters), 0), int(number or 0)) for letters, number in found)


def _order(letter: str) -> int:
    if letter == "~":
        return -1
    return ord(letter) if letter.isalpha() else ord(letter) + 0x110000
