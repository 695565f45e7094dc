"""The files of a pinned tree: what is there, what Python would import from it, and what its sources hold."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path, PurePosixPath
from typing import final

import tomli

from pytest_researchenv._parsing import parsed
from pytest_researchenv.probes.protocol import Tree


__all__ = ["SourceTree"]

#: Longer files are no source code that a person wrote.
_LONGEST_BYTES = 2 * 1024**2

_PROJECT = frozenset({"pyproject.toml", "setup.py", "setup.cfg"})
_BUILT = (".pyx", ".so", ".pyi", ".proto", ".cpp", ".cu", ".rs")
_BUILDS = frozenset({"setup.py", "pyproject.toml", "setup.cfg", "CMakeLists.txt", "Cargo.toml", "meson.build"})
_COMPILED = re.compile(r"^_|_(cuda|ext|ops|C|pb2|pb2_grpc)$|^version$")
_LISTS = re.compile(r"requirements.*\.(txt|in)$|^environment.*\.ya?ml$|^(pyproject\.toml|setup\.(py|cfg))$")
_YAML = (".yaml", ".yml")


@final
class SourceTree:
    """A tree that is read, never run.

    Attributes:
        files: its tracked paths.
        folders: all folders that hold some.
    """

    def __init__(self, tree: Tree) -> None:
        self._root = tree.root
        self.files = frozenset(tree.files)
        self.folders = frozenset(str(folder) for path in tree.files for folder in PurePosixPath(path).parents) | {"."}
        self._links = {path for path in tree.files if (tree.root / path).is_symlink()}
        self.module = cache(self._module)
        self.text = cache(self._text)

    # --- paths --------------------------------------------------------------------------------------------

    def holds(self, path: str) -> bool | None:
        """Whether a file or a folder is there; None where a link leads out of the tree."""
        if path in self._links or any(str(folder) in self._links for folder in PurePosixPath(path).parents):
            return self._real(path) is not None or None
        return path in self.files or path in self.folders

    def matches(self, parts: Sequence[str]) -> bool:
        """Whether a file or a folder is there whose path has these parts in order, with anything between them."""
        return any(_has_in_order(path, parts) for path in (*self.files, *self.folders))

    def _real(self, path: str) -> Path | None:
        """Where a file is; None where it is not, or a link leads to it out of the tree, or around in a circle."""
        try:
            place = (self._root / path).resolve(strict=True)
        except (OSError, RuntimeError):
            return None
        return place if place.is_relative_to(self._root.resolve()) else None

    # --- modules ------------------------------------------------------------------------------------------

    def roots(self) -> Iterator[str]:
        """Folders that Python imports from once everything of the tree is installed, the tree's own first."""
        yield "."
        projects = sorted({str(PurePosixPath(path).parent) for path in self.files if _name(path) in _PROJECT})
        for project in (".", *projects):
            yield from (project, _below(project, "src"), *self._packages(project))

    def _packages(self, project: str) -> Iterator[str]:
        """Folders that pyproject.toml or setup.py names as the place of packages."""
        named = re.findall(r"package_dir\s*=\s*\{\s*['\"]{2}\s*:\s*['\"]([\w./-]+)", self._setup(project))
        named += re.findall(r"find_(?:namespace_)?packages\(\s*(?:where\s*=\s*)?['\"]([\w./-]+)", self._setup(project))
        for value in _strings(_at(self._toml(_below(project, "pyproject.toml")), "tool")):
            named.append(value)
            # What is named is a package as often as the folder that it lies in.
            named.append(str(PurePosixPath(value).parent))
        yield from (_below(project, name) for name in named if _below(project, name) in self.folders)

    def _setup(self, project: str) -> str:
        return self.text(_below(project, "setup.py")) or ""

    def find(self, dotted: str, roots: Iterable[str]) -> str | None:
        """The file of a module, or the folder of a package that has no `__init__.py`, or None."""
        path = dotted.replace(".", "/")
        folder = None
        for root in roots:
            for candidate in (f"{_below(root, path)}/__init__.py", f"{_below(root, path)}.py"):
                if candidate in self.files or (self._links and self.holds(candidate)):
                    return candidate
            if folder is None and _below(root, path) in self.folders:
                folder = _below(root, path)
        return folder

    def is_built(self, dotted: str) -> bool:
        """Whether a build makes a module: some source of that name is no Python, or the build's files name it."""
        last = dotted.rpartition(".")[2]
        if any(_name(path).removesuffix(suffix) == last for path in self.files for suffix in _BUILT):
            return True
        # What only the last part names has to look like a compiled module.
        names = [dotted.replace(".", r"[./]")] + ([re.escape(last)] if _COMPILED.search(last) else [])
        form = re.compile(rf"\b(?:{'|'.join(names)})\b")
        return any(form.search(self.text(path) or "") for path in self.files if _name(path) in _BUILDS)

    def asks_for(self, package: str) -> bool:
        """Whether the tree lists a package among what is to be installed."""
        form = re.compile(rf"[\s'\"-]*{re.escape(package)}\s*(?:[<>=~!\[;@#,'\"(].*)?", re.IGNORECASE)
        lines = (line for path in self.files if _LISTS.search(_name(path)) for line in self._requirements(path))
        return any(form.fullmatch(line) for line in lines)

    def _requirements(self, path: str) -> Iterator[str]:
        text = self.text(path) or ""
        if not path.endswith(".toml"):
            yield from text.splitlines()
            return
        data = self._toml(path)
        for lists in (("project", "dependencies"), ("project", "optional-dependencies"), ("dependency-groups",)):
            yield from _strings(_at(data, *lists), any_text=True)
        yield from map(str, _at(data, "tool", "poetry", "dependencies"))

    def _toml(self, path: str) -> object:
        try:
            return tomli.loads(self.text(path) or "")
        except (ValueError, RecursionError):  # Numbers that are too long are no TOMLDecodeError.
            return {}

    # --- contents -----------------------------------------------------------------------------------------

    def _text(self, path: str) -> str | None:
        """A file's text; None where it cannot be read, leads out of the tree, or is too long."""
        place = self._real(path)
        if place is None or not place.is_file() or place.stat().st_size > _LONGEST_BYTES:
            return None
        return place.read_text(encoding="utf-8", errors="replace")

    def _module(self, path: str) -> ast.Module | None:
        """A Python file, parsed; None where it cannot be read or is no Python."""
        place = self._real(path)
        if place is None or not place.is_file() or place.stat().st_size > _LONGEST_BYTES:
            return None
        return parsed(place.read_bytes())

    def python_files(self) -> list[str]:
        """All Python files."""
        return sorted(path for path in self.files if path.endswith(".py"))

    def yaml_files(self) -> list[str]:
        """All YAML files."""
        return sorted(path for path in self.files if path.endswith(_YAML))


def _has_in_order(path: str, parts: Sequence[str]) -> bool:
    """Whether a text begins with the first part, ends with the last, and has the others in between."""
    # As a regular expression, many parts would take ages.
    first, *middle, last = parts
    if not path.startswith(first):
        return False
    place = len(first)
    for part in middle:
        place = path.find(part, place)
        if place < 0:
            return False
        place += len(part)
    return path.endswith(last) and len(path) - len(last) >= place


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _below(folder: str, name: str) -> str:
    return str(PurePosixPath(folder, name))


def _at(value: object, *keys: str) -> dict[str, object] | list[object]:
    """A table or a list in a table of TOML; nothing where there is none."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict | list) else {}


def _strings(value: object, *, any_text: bool = False) -> Iterator[str]:
    """All texts in a table of TOML, those that can be folders unless any will do."""
    if isinstance(value, str):
        if any_text or (re.fullmatch(r"[\w./-]{1,100}", value) and not value.startswith("/")):
            yield value
    elif isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _strings(one, any_text=any_text)
