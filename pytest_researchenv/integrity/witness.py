"""Who can be asked what was published, and who is asked where nobody can be."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol, TypeAlias

from pytest_researchenv.integrity.published import Unknown


__all__ = ["Nothing", "Published"]

_Hashes: TypeAlias = Mapping[str, str]


class Published(Protocol):
    """What is known of published distributions, as `PublishedRecords` has it."""

    def of(self, name: str, version: str, tags: Collection[str]) -> _Hashes | Unknown:
        """The files of a published wheel: path → SHA-256."""

    def held(self, name: str, version: str, tags: Collection[str], path: str) -> str | Unknown:
        """The SHA-256 of what a published wheel really holds at a path."""

    def sources_of(self, name: str, version: str) -> _Hashes | Unknown:
        """The Python sources in a published source distribution: path → SHA-256."""

    def offered(self, name: str, version: str = "") -> bool | Unknown:
        """Whether anybody publishes anything under a name, or a version of it."""


class Nothing:
    """Knows nothing of what was published, and has nothing to say about it."""

    def of(self, name: str, version: str, tags: Collection[str]) -> _Hashes | Unknown:
        """Nothing."""
        del name, version, tags
        return Unknown("")

    def held(self, name: str, version: str, tags: Collection[str], path: str) -> str | Unknown:
        """Nothing."""
        del name, version, tags, path
        return Unknown("")

    def sources_of(self, name: str, version: str) -> _Hashes | Unknown:
        """Nothing."""
        del name, version
        return Unknown("")

    def offered(self, name: str, version: str = "") -> bool | Unknown:
        """Nothing."""
        del name, version
        return Unknown("")
