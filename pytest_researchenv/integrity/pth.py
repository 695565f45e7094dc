"""What Python reads in `.pth` files, whatever its version: `Lib/site.py` has changed how often enough."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from dataclasses import dataclass


__all__ = ["EASY_INSTALL", "STARTS_SINCE", "NamespaceLine", "moves", "namespace", "paths_only", "split"]

#: The first minor version of Python that reads `.start` files, which name entry points that it runs (PEP 829).
STARTS_SINCE = 15

#: What older versions of setuptools write into `easy-install.pth`, which no RECORD lists: before all paths, and after.
_COUNTS = "import sys; sys.__plen = len(sys.path)"
_MOVES = frozenset(
    (
        (
            "import sys; new=sys.path[sys.__plen:]; del sys.path[sys.__plen:]; p=getattr(sys,'__egginsert',0); "
            "sys.path[p:p]=new; sys.__egginsert = p+len(new)"
        ),
        (
            "import sys; new = sys.path[sys.__plen:]; del sys.path[sys.__plen:]; p = getattr(sys, '__egginsert', 0); "
            "sys.path[p:p] = new; sys.__egginsert = p + len(new)"
        ),
    )
)
EASY_INSTALL = frozenset((_COUNTS, *_MOVES))

#: What ends a line wherever Python reads a text.
_NEWLINE = re.compile(r"\r\n|\r|\n")
#: What setuptools writes for a namespace package, in all its versions: only the package's name and folder differ.
_NAMESPACE = re.compile(
    r"import sys, types, os;"
    r"(?:has_mfs = sys\.version_info > \(3, 5\);)?"
    r"p = os\.path\.join\((?:sys\._getframe\(1\)\.f_locals\['sitedir'\]|'(?P<root>[^'\\]*)'), "
    r"\*(?P<parts>\([\w', ]+\))\);"
    r"(?:importlib = (?:has_mfs and )?__import__\('importlib\.util'\);"
    r"(?:has_mfs and )?__import__\('importlib\.machinery'\);)?"
    r"(?:ie = os\.path\.exists\(os\.path\.join\(p,'__init__\.py'\)\);)?"
    r"m = (?:has_mfs and |not ie and )?sys\.modules\.setdefault\('(?P<name>[\w.]+)', "
    r"(?:importlib\.util\.module_from_spec\(importlib\.machinery\.PathFinder\.find_spec\('(?P=name)', "
    r"\[os\.path\.dirname\(p\)\]\)\)|types\.ModuleType\('(?P=name)'\))\);"
    r"(?:m = m or sys\.modules\.setdefault\('(?P=name)', types\.ModuleType\('(?P=name)'\)\);)?"
    r"mp = \(m or \[\]\) and m\.__dict__\.setdefault\('__path__',\[\]\);"
    r"\(p not in mp\) and mp\.append\(p\)"
    r"(?:;m and setattr\(sys\.modules\['(?P<parent>[\w.]+)'\], '(?P<child>\w+)', m\))?"
)


def moves(text: str) -> bool | None:
    """Whether a file has its folders moved to the front of the path, as easy_install's do.

    None where it moves what it does not add itself: folders of files before it, site folders, the standard library.
    """
    lines = [line for line in text.replace("\r\n", "\n").split("\n") if line]
    if _MOVES.isdisjoint((*lines, *_lines(text))):
        return False
    own = [line for line in lines if _is_run(line)]
    whole = own[:1] == lines[:1] == [_COUNTS] and own[1:] == lines[-1:] and own[1] in _MOVES
    return True if whole and lines == [line for line in _lines(text) if line] else None


@dataclass(frozen=True, slots=True)
class NamespaceLine:
    """What a line says that makes a namespace package.

    Attributes:
        parts: the package's name.
        root: the folder that its own is in, as editable installs have it; empty for the site folder of the file.
    """

    parts: tuple[str, ...]
    root: str


def namespace(line: str) -> NamespaceLine | None:
    """The namespace package that a line makes, when it does nothing else; None when it does."""
    match = _NAMESPACE.fullmatch(line.rstrip())
    if match is None:
        return None
    parts = tuple(match["name"].split("."))
    child = "" if match["parent"] is None else f"{match['parent']}.{match['child']}"
    is_one = match["parts"] == repr(parts) and child in ("", match["name"])
    return NamespaceLine(parts, match["root"] or "") if is_one else None


def split(text: str, folder: str, exists: Callable[[str], bool]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the folders that a file adds to `sys.path`, and the lines that are run.

    Python 3.13 ends lines where `str.splitlines` does and skips a mark at the start, others only at line feeds; a line
    that any of them would run counts as run.

    Args:
        text: what is in it.
        folder: its site folder.
        exists: whether something is at a path.
    """
    lines = _lines(text)
    runs = tuple(line for line in lines if _is_run(line))
    # A folder's name may hold what ends a line for one reader alone.
    named = dict.fromkeys((*lines, *_NEWLINE.split(text.removeprefix("\ufeff"))))
    paths = [line.rstrip() for line in named if line.strip() and not line.startswith("#") and not _is_run(line)]
    added = dict.fromkeys(posixpath.normpath(posixpath.join(folder, path)) for path in paths if "\0" not in path)
    return tuple(path for path in added if exists(path)), runs


def paths_only(text: str) -> str:
    """What is left of a file when no line of it runs."""
    return "".join(f"{line}\n" for line in _lines(text) if not _is_run(line))


def _lines(text: str) -> list[str]:
    return text.removeprefix("\ufeff").splitlines()


def _is_run(line: str) -> bool:
    return line.startswith(("import ", "import\t"))
