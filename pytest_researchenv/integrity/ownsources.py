"""The repository's tracked sources, as far as what is installed was built from them."""

from __future__ import annotations

import hashlib
import posixpath
import re
from collections.abc import Iterable
from functools import cached_property
from typing import final

from pytest_researchenv.probes.protocol import Tree


__all__ = ["OwnSources", "by_name", "ends"]

#: Where setuptools lays links to the modules of a project that is installed editable in its strict mode.
_LINKS = re.compile(r"build/__editable__\.[^/]+/")
#: What builds write into sources that say their version. An annotation is run as all other code is.
_VERSION = re.compile(
    rb"[ \t]*_*(?:version|VERSION)\w*[ \t]*(?::[ \t]*(?:\w+\.)?(?:str|Final(?:\[str\])?)[ \t]*)?"
    rb"=[ \t]*[\"'][\w.+!-]*[\"'][ \t]*(?:#.*)?"
)
#: Names of modules that Python prefers to a source, or takes where there is none.
_COMPILED = re.compile(r"[^.]+(?:\.abi3|\.cpython-[^.]+)?\.so|[^.]+\.pyc", re.DOTALL)
#: Bytes of a tracked source that is compared.
_MOST_BYTES = 4 * 1024**2


@final
class OwnSources:
    """Tracked sources, to be found by the names that they are installed by.

    Args:
        tree: the repository's pinned tree.
    """

    def __init__(self, tree: Tree) -> None:
        self._tree = tree

    def like(self, name: str) -> list[str]:
        """Tracked paths that an installed file may come from, by its path in a site folder."""
        own = _LINKS.sub("", name)
        return [path for path in self._by_name.get(posixpath.basename(name), ()) if ends(path, own)]

    def has(self, name: str, digest: str) -> bool | None:
        """Whether one of them has a SHA-256, in hexadecimal; None where none of them can be read."""
        known = self._contents(name)
        return any(hashlib.sha256(content).hexdigest() == digest for content in known) if known else None

    def differs_in_version(self, name: str, content: bytes) -> bool:
        """Whether a source differs from one of them in nothing but what it says of its version."""
        return _without_version(content) in map(_without_version, self._contents(name))

    def preferred(self, name: str) -> str:
        """As what source one of them is installed, in whose place Python takes an installed file; empty when in none.

        Args:
            name: of the file in its site folder; that a build compiles it is not asked.
        """
        folder, file = posixpath.split(name)
        if _COMPILED.fullmatch(file):
            source = posixpath.join(folder, f"{file.partition('.')[0]}.py")
            return source if self.like(source) else ""
        is_package = file == "__init__.py" and not self.like(name)
        return f"{folder}.py" if is_package and self.like(f"{folder}.py") else ""

    @cached_property
    def _by_name(self) -> dict[str, list[str]]:
        return by_name(self._tree.files)

    def _contents(self, name: str) -> list[bytes]:
        files = (self._tree.root / path for path in self.like(name))
        plain = (file for file in files if file.is_file() and not file.is_symlink())
        return [file.read_bytes() for file in plain if file.stat().st_size <= _MOST_BYTES]


def _without_version(content: bytes) -> list[bytes]:
    return [line for line in content.splitlines() if not _VERSION.fullmatch(line)]


def by_name(paths: Iterable[str]) -> dict[str, list[str]]:
    """Paths by their last part."""
    found: dict[str, list[str]] = {}
    for path in paths:
        found.setdefault(posixpath.basename(path), []).append(path)
    return found


def ends(path: str, name: str) -> bool:
    """Whether a path in sources may be that of an installed file."""
    return f"/{path}".endswith(f"/{name}")
