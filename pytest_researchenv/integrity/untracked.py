"""What an agent left in the repository beside its tracked files, as far as Python would import it."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath
from typing import final

from pytest_researchenv.integrity.fleeting import is_fleeting
from pytest_researchenv.integrity.installed import is_module
from pytest_researchenv.integrity.outside import fetched_code
from pytest_researchenv.integrity.protocol import Kind, Snapshot
from pytest_researchenv.probes.imports import EXCLUDED
from pytest_researchenv.probes.protocol import ProbeTask


__all__ = ["LEFT", "PROJECT", "Offer", "Untracked"]

#: What a project has at its top: it is built from there, or was checked out.
PROJECT = ("pyproject.toml", "setup.py", "setup.cfg", ".git", "PKG-INFO")
#: What a project's authors leave in its folder, and hardly anybody who only wants a module to be found.
LEFT = (".git", ".github", ".gitignore", ".hg", "PKG-INFO")
#: Folders of an environment in which there may be modules.
_OF_ENVIRONMENTS = ("bin/", "conda-meta/", "envs/", "include/", "lib/", "lib64/", "pkgs/", "share/")

#: Names of files that build steps write.
_GENERATED = re.compile(r"(?:_*(?:git_?)?version(?:_info)?_*|_*build_(?:info|config)_*|__config__)\.py")
#: What code is generated from: of `x.py.in` and `x.i` comes `x.py`, of `x.proto` `x_pb2.py`.
_TEMPLATES = re.compile(r"(.+?)(?:\.py)?\.(?:i|in|tmpl|template|j2|jinja2?|mako|lark|fbs|thrift|capnp)")
_GRAMMARS = re.compile(r"(.+)\.(?:proto|g4?|ui|qrc)")
_ENDINGS = re.compile(r"(.+?)(?:_pb2(?:_grpc)?|_grpc|Lexer|Parser|Listener|Visitor|_rc|_ui)")
#: What compiles Python sources to extensions of the same name.
_COMPILERS = re.compile(rb"cythonize|mypyc|nuitka", re.IGNORECASE)
_SETUP_BYTES = 1024 * 1024
#: What says how a project is built, by which a package may lie in a folder that is not called like it.
_BUILDS = frozenset({"setup.py", "setup.cfg", "pyproject.toml"})
_PLACING = re.compile(
    r"package[_-]dir[^\n{]*(\{[^}]*\})|^package_dir[ \t]*=[ \t]*\n((?:[ \t]+.*\n?)+)"
    r"|^\[tool\..*(?:package-dir|sources|force-include)\"?\][ \t]*\n((?:[^\[\n].*\n?|\n)*)",
    re.MULTILINE,
)
_WORD = re.compile(r"[^\W\d]\w*")
#: What is compiled, and where sources may be that are no part of the tree.
_NATIVE = (
    *(".c", ".cc", ".cpp", ".cu", ".cxx", ".f", ".f90", ".go", ".hip", ".m", ".mm", ".nim", ".pxd", ".pyx", ".pyx.in"),
    *(".rs", ".zig"),
    *("CMakeLists.txt", "meson.build", ".gitmodules"),
)
_PLACEHOLDER = ".__path_hook__"
#: Paths that are looked at for whether they are links; only what has the name of a module is.
_MOST_LOOKS = 500


@dataclass(frozen=True, slots=True)
class Offer:
    """Something untracked that an import could lead to.

    Attributes:
        path: its file, relative to the repository; of a namespace package the folder.
        regular: whether it is a module, or a package with an `__init__`: then it goes before what comes later.
        native: whether it is compiled.
        linked: whether it is a package only if it is a link to one (`Untracked.is_package`).
    """

    path: str
    regular: bool
    native: bool
    linked: bool = False


@final
class Untracked:
    """The untracked files of the repository.

    Args:
        task: what is audited.
        snapshot: the frozen image.
    """

    def __init__(self, task: ProbeTask, snapshot: Snapshot) -> None:
        self._task = task
        self._snapshot = snapshot
        self.workdir = snapshot.resolved(task.environment.workdir) or task.environment.workdir
        self._tracked = frozenset(task.tree.files)
        self._known: dict[re.Pattern[str], frozenset[str]] = {}
        self._looks = 0
        self._folders = frozenset(
            str(folder) for path in task.tree.files for folder in PurePosixPath(path).parents if folder.name
        )

    def explained(self, path: str) -> bool:
        """Whether what is at a path, relative to the repository, belongs to it.

        It does when it is tracked, at least in part; when a build made it: it is compiled, or generated from something
        tracked; and when it is of a project of its own that lies in the repository. That it lies in a folder for builds
        or for environments explains nothing, since it was found in there.
        """
        package = posixpath.dirname(path) if posixpath.basename(path).startswith("__init__.") else path
        if path in self._tracked or package in self._folders:
            return True
        built = path.endswith(".so") and self.builds
        return built or self._is_generated(path) or self._is_of_project(path)

    def is_called(self, name: str, path: str) -> bool:
        """Whether what is at a path, relative to the repository, is called by a name, be it by its build alone."""
        package = posixpath.dirname(path) if posixpath.basename(path).startswith("__init__.") else path
        return posixpath.basename(package).partition(".")[0] == name or name in self._renamed

    def _is_own(self, name: str, real: str) -> bool:
        """Whether what is at a path of the image is the repository's own by a name."""
        inside = real.removeprefix(f"{self.workdir}/")
        return inside != real and self.explained(inside) and self.is_called(name, inside)

    @cached_property
    def _renamed(self) -> frozenset[str]:
        """Words by which builds say in which folders packages lie: one may lie in a folder of another name."""
        said = (match for text in self._builds(_BUILDS) for match in _PLACING.finditer(text.decode(errors="replace")))
        return frozenset(word for match in said for word in _WORD.findall(match[0]))

    def offers(self) -> Iterator[tuple[str, str, Offer]]:
        """Each folder, name and thing that an import of that name leads to there; nothing that is explained."""
        for (folder, name), offer in self._offers.items():
            if not self._is_generated(offer.path):
                yield folder, name, offer

    def overriding(self) -> Iterator[tuple[str, str]]:
        """Untracked paths that Python prefers to a tracked module, and that module."""
        for (folder, name), offer in self._offers.items():
            package = posixpath.join(folder, name).removeprefix("./")
            file, entry = f"{package}.py", f"{package}/__init__.py"
            # A package goes before a module, and an extension before a source.
            in_package = posixpath.basename(offer.path).startswith("__init__.")
            if offer.linked:
                in_package = file in self._tracked and self.is_package(offer.path)
            built = offer.native and self._is_built("__init__" if in_package else name)
            hides = package not in self._folders and offer.regular and (in_package or offer.native)
            if file in self._tracked and hides and not built:
                yield offer.path, file
            elif entry in self._tracked and in_package and offer.native and not built:
                yield offer.path, entry

    @cached_property
    def builds(self) -> bool:
        """Whether the repository has anything that a build could make an extension of."""
        return self._compiles or any(path.endswith(_NATIVE) for path in self._tracked)

    def compiles(self, stem: str) -> bool:
        """Whether the repository's build compiles a source of a name; without one, whether it may compile anything."""
        return self._is_built(stem) if stem else self.builds

    def placeholders(self) -> Iterator[str]:
        """Folders by a name that setuptools' finders put on the path, relative, for that nothing is there."""
        found = {path[: path.index(_PLACEHOLDER) + len(_PLACEHOLDER)] for path in self._touched if _PLACEHOLDER in path}
        yield from sorted(found)

    # --- what is there ------------------------------------------------------------------------------------

    @cached_property
    def _touched(self) -> frozenset[str]:
        below = f"{self.workdir}/"
        touched = self._snapshot.touched(self.workdir)
        return frozenset(
            path.removeprefix(below) for path, kind in touched.items() if path.startswith(below) and kind != "D"
        )

    @cached_property
    def _environments(self) -> tuple[str, ...]:
        """Folders of virtual environments and conda's, in the repository, in which no module is the repository's."""
        marks = ("pyvenv.cfg", "conda-meta/history")
        return tuple(
            f"{path.removesuffix(mark)}{folder}"
            for path in self._touched
            for mark in marks
            if path.endswith(f"/{mark}")
            for folder in _OF_ENVIRONMENTS
        )

    @cached_property
    def _projects(self) -> frozenset[str]:
        """Folders of projects that are no part of the tracked tree; none where the record has none fetched."""
        if fetched_code(self._task) is False:
            return frozenset()
        made, left = (
            {posixpath.dirname(path) for path in self._touched - self._tracked if posixpath.basename(path) in names}
            for names in (PROJECT, LEFT)
        )
        return frozenset(folder for folder in made & left if folder and folder not in self._folders)

    def _is_elsewhere(self, path: str) -> bool:
        """Whether a path is in an environment or a project of its own."""
        parts = PurePosixPath(path).parts
        if not EXCLUDED.isdisjoint(parts) or not {"site-packages", "dist-packages"}.isdisjoint(parts):
            return True
        return path.startswith(self._environments) or self._is_of_project(path)

    def _is_of_project(self, path: str) -> bool:
        return any(str(folder) in self._projects for folder in PurePosixPath(path).parents)

    def _is_generated(self, path: str) -> bool:
        file = posixpath.basename(path)
        if _GENERATED.fullmatch(file):
            return True
        stem = file.partition(".")[0]
        ended = _ENDINGS.fullmatch(stem)
        made = stem in self._stems(_TEMPLATES) or (ended is not None and ended[1] in self._stems(_GRAMMARS))
        return made and not path.endswith(".pyc")

    def _stems(self, pattern: re.Pattern[str]) -> frozenset[str]:
        """Names of tracked files, as far as a pattern finds them."""
        if pattern not in self._known:
            matches = (pattern.fullmatch(posixpath.basename(path)) for path in self._tracked)
            self._known[pattern] = frozenset(match[1] for match in matches if match)
        return self._known[pattern]

    def _is_built(self, stem: str) -> bool:
        """Whether the repository's own build compiles its sources of a name."""
        if any(f"/{path}".endswith((f"/{stem}.pyx", f"/{stem}.pxd")) for path in self._tracked):
            return True
        return self._compiles

    @cached_property
    def _compiles(self) -> bool:
        return any(map(_COMPILERS.search, self._builds({"setup.py", "pyproject.toml"})))

    def _builds(self, names: Collection[str]) -> Iterator[bytes]:
        """What tracked files of some names hold."""
        for path in self._tracked:
            file = self._task.tree.root / path
            if posixpath.basename(path) in names and file.is_file() and not file.is_symlink():
                with file.open("rb") as stream:
                    yield stream.read(_SETUP_BYTES)

    @cached_property
    def _offers(self) -> Mapping[tuple[str, str], Offer]:
        found: dict[tuple[str, str], Offer] = {}
        holding = {posixpath.dirname(path) for path in self._touched}
        for path in sorted(self._touched - self._tracked):
            pure = PurePosixPath(path)
            if self._is_elsewhere(path):
                continue
            if is_module(path):
                for place, offer in _places(pure):
                    if place not in found or (offer.regular and not found[place].regular):
                        found[place] = offer
            elif pure.name.isidentifier() and path not in holding:
                found[str(pure.parent), pure.name] = Offer(path, regular=True, native=False, linked=True)
        return found

    def is_package(self, path: str) -> bool:
        """Whether a path is a link to a package that is not the repository's own of that name."""
        self._looks += 1
        if self._looks > _MOST_LOOKS:
            # Nobody has so many files with the names of modules, and no ending.
            return True
        entry = self._snapshot.link(f"{self.workdir}/{path}")
        if entry is None or entry.kind is not Kind.LINK:
            return False
        target = self._snapshot.resolved(entry.path)
        if not target:
            return is_fleeting(self._snapshot, entry.path)
        if target == self.workdir or self._is_own(posixpath.basename(path), target):
            return False
        if self._snapshot.entry(f"{target}/__init__.py") is not None:
            return True
        # Bytecode and what is compiled make a package as well, and without any of them a folder with modules is one.
        return any(kind != "D" and is_module(below) for below, kind in self._snapshot.touched(target).items())


def _places(path: PurePosixPath) -> Iterator[tuple[tuple[str, str], Offer]]:
    """Folder and name of each module or package that a file makes."""
    name, native = path.name.partition(".")[0], path.suffix == ".so"
    if name == "__init__":
        yield (str(path.parent.parent), path.parent.name), Offer(str(path), regular=True, native=native)
    elif name.isidentifier():
        yield (str(path.parent), name), Offer(str(path), regular=True, native=native)
    for folder in path.parents:
        if not folder.name.isidentifier():
            break
        yield (str(folder.parent), folder.name), Offer(str(folder), regular=False, native=native)
