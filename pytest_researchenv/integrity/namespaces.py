"""Lines of `.pth` files that make namespace packages."""

from __future__ import annotations

import posixpath
import sys

from pytest_researchenv.integrity.layout import Layout
from pytest_researchenv.integrity.protocol import Snapshot
from pytest_researchenv.integrity.pth import namespace


__all__ = ["loads_library", "makes_namespace"]


_MACHINES = ("x86_64", "aarch64")


def makes_namespace(snapshot: Snapshot, layout: Layout, site: str, line: str) -> bool:
    """Whether a line only makes a namespace package that is there, and that is imported by its name anyway.

    One that is not there would be a stand-in. One by the name of a module in another folder of the path, or of the
    standard library, would go before that: the line puts it where all imports look first.

    Args:
        snapshot: the frozen image.
        layout: what its interpreter uses.
        site: the folder of the line's file.
        line: the line.

    Raises:
        SandboxError: the engine refuses to read.
    """
    parts = namespace(line)
    if not parts or not snapshot.resolved(posixpath.join(site, *parts)) or parts[0] in sys.stdlib_module_names:
        return False
    own = snapshot.resolved(site)
    others = {snapshot.resolved(folder) for folder in (*layout.stdlib, *layout.path)} - {"", own}
    sources = (f"{init}{ending}" for init in ("", "/__init__") for ending in (".py", ".pyc"))
    endings = (*sources, *_compiled(layout))
    return not any(snapshot.link(f"{folder}/{parts[0]}{ending}") for folder in others for ending in endings)


def loads_library(snapshot: Snapshot, layout: Layout, site: str, line: str) -> bool:
    """Whether a line that makes a namespace package, whosever it is, loads a compiled module by that name instead.

    To make a module of what is found loads it where it is compiled; sources are not run.

    Raises:
        SandboxError: the engine refuses to read.
    """
    place = posixpath.join(site, *namespace(line))
    return bool(namespace(line)) and any(snapshot.link(f"{place}{ending}") for ending in _compiled(layout))


def _compiled(layout: Layout) -> tuple[str, ...]:
    """Endings of compiled modules and packages, after a module's name."""
    version = layout.version.replace(".", "")
    builds = [
        f".cpython-{version}{flags}-{machine}-linux-gnu" for flags in ("", "d", "t", "td") for machine in _MACHINES
    ]
    return tuple(f"{init}{build}.so" for init in ("", "/__init__") for build in (*builds, ".abi3", ".abi3t", ""))
