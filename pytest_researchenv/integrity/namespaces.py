"""Lines of `.pth` files that make namespace packages."""

from __future__ import annotations

import posixpath
import sys

from pytest_researchenv.integrity.layout import Layout
from pytest_researchenv.integrity.modulefiles import is_native
from pytest_researchenv.integrity.protocol import Snapshot
from pytest_researchenv.integrity.pth import namespace


__all__ = ["loads_library", "makes_namespace"]

#: What stands for a module or a package without being compiled, after its name.
_PLAIN = tuple(f"{init}{ending}" for init in ("", "/__init__") for ending in (".py", ".pyc"))


def makes_namespace(snapshot: Snapshot, layout: Layout, site: str, line: str) -> bool:
    """Whether a line only makes a namespace package that is there, and that is imported by its name anyway.

    One that is not there, or that is in a folder which is not on the path, would be a stand-in. One by the name of a
    module in another folder of the path, or of the standard library, would go before that: the line puts it where all
    imports look first.

    Args:
        snapshot: the frozen image.
        layout: what its interpreter uses.
        site: the folder of the line's file.
        line: the line.

    Raises:
        SandboxError: the engine refuses to read.
    """
    found = namespace(line)
    if found is None or found.parts[0] in sys.stdlib_module_names or not (found.root or site).startswith("/"):
        return False
    own = snapshot.resolved(found.root or site)
    folders = {snapshot.resolved(folder) for folder in (*layout.stdlib, *layout.path, site)} - {""}
    if own not in folders or not snapshot.resolved(posixpath.join(own, *found.parts)):
        return False
    return not any(_is_module(snapshot, layout, folder, found.parts[0]) for folder in folders - {own})


def loads_library(snapshot: Snapshot, layout: Layout, site: str, line: str) -> bool:
    """Whether a line that makes a namespace package, whosever it is, loads a compiled module by that name instead.

    To make a module of what is found loads it where it is compiled; sources are not run.

    Raises:
        SandboxError: the engine refuses to read.
    """
    found = namespace(line)
    if found is None:
        return False
    *above, name = found.parts
    return _is_compiled(snapshot, layout, posixpath.join(found.root or site, *above), name)


def _is_module(snapshot: Snapshot, layout: Layout, folder: str, name: str) -> bool:
    is_plain = any(snapshot.link(f"{folder}/{name}{ending}") for ending in _PLAIN)
    return is_plain or _is_compiled(snapshot, layout, folder, name)


def _is_compiled(snapshot: Snapshot, layout: Layout, folder: str, name: str) -> bool:
    """Whether an agent left a compiled module of a name in a folder, or a package of that name that is compiled."""
    real, package = snapshot.resolved(folder), snapshot.resolved(posixpath.join(folder, name))
    places = [(place, stem) for place, stem in ((real, name), (package, "__init__")) if place]
    return any(
        kind != "D" and posixpath.dirname(path) == place and is_native(posixpath.basename(path), stem, layout.version)
        for place, stem in places
        for path, kind in snapshot.touched(place).items()
    )
