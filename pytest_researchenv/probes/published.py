"""The figure of C0 as the published harness would have counted it, for comparison with the paper.

The published harness (arXiv 2603.06739) had pyright analyse a selection of the tree and counted the distinct top-level
names of its `reportMissingImports` errors. C0 has pyright analyse everything, by a configuration of its own; of what
that reports, this module keeps what the selection would have had. The first that applies is the selection:

1. `pyrightconfig.json` at the root, with all that it says;
2. `[tool.pyright]` in `pyproject.toml`, likewise;
3. the folder `src`, and `tests` beside it;
4. every folder with an `__init__.py`, but for build and environment folders.

Where none does, nothing was analysed. Of a configuration count what it includes, excludes, ignores and takes strictly,
with pyright's own meaning of patterns, the severity of the rule, execution environments, `extends`, stubs and extra
paths. Pyright goes on without one that it cannot parse; of a rule with an impossible value it complains in the midst
of its report, which the harness could not read then and took for 0. Comments that silence pyright count, and so do
stubs that are in the tree.

What cannot be seen in that one run is left as it was there: folders that hold builds or environments are not analysed
and links not followed; what a configuration says of Python's version and platform, of constants, or of another
interpreter has no effect; what is found in our run is not missing, even where a configuration moves the places to look
in. The published scripts differ in details (some take top-level folders alone in rule 4, and some can count nothing at
all, by a slip in a pattern); here all repositories are treated alike.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

from pytest_researchenv.probes.imports import EXCLUDED
from pytest_researchenv.probes.protocol import Tree
from pytest_researchenv.probes.pyright import MISSING, Diagnostic
from pytest_researchenv.probes.pyrightconfig import (
    Comments,
    Configuration,
    GarbledError,
    Parts,
    TooLargeError,
    is_file,
    path_parts,
)


__all__ = ["Published", "published_figure"]

_JSON = "pyrightconfig.json"
_TOML = "pyproject.toml"


@dataclass(frozen=True, slots=True)
class Published:
    """The published figure.

    Attributes:
        missing: the distinct missing top-level names, sorted.
        selection: one line: what was analysed, by which rule.
        known: whether the figure could be had.
    """

    missing: tuple[str, ...]
    selection: str
    known: bool = True

    def ratio(self, total: int) -> str:
        """The metric as the harness wrote it: the number of missing names over the published total."""
        return f"{len(self.missing)}/{total}" if self.known else "unknown"


def published_figure(tree: Tree, diagnostics: Iterable[Diagnostic], *, workdir: str) -> Published:
    """Keep what the published harness would have seen of what pyright reports on the whole tree.

    Args:
        tree: the pinned tree.
        diagnostics: all that pyright reported.
        workdir: where the repository is in the container; patterns of a configuration may go through it.
    """
    selection = _selection(tree)
    if not selection.configuration and not selection.targets:
        return Published((), selection.rule)
    # Pyright looks for a configuration even where it is told what to analyse.
    name = selection.configuration or (_TOML if is_file(tree, _TOML) else "")
    root = path_parts(workdir)
    try:
        configuration = Configuration.read(tree, name, root, selection.targets)
    except GarbledError as error:
        return Published((), f"{selection.rule}; nothing, since pyright complains of {error} in the midst of its JSON")
    except TooLargeError as error:
        return Published((), str(error), known=False)
    reported: dict[str, list[Diagnostic]] = {}
    for item in diagnostics:
        if item.rule == MISSING and not item.relative:
            reported.setdefault(item.path, []).append(item)
    analysis = _Analysis.of(tree, root, configuration)
    missing = {item.name for path, items in reported.items() for item in analysis.seen(path, items)}
    unread = f"; pyright cannot read {configuration.unread}" if configuration.unread else ""
    return Published(tuple(sorted(missing)), selection.rule + unread)


@dataclass(frozen=True, slots=True)
class _Selection:
    """What the published harness chose.

    Attributes:
        rule: in words.
        configuration: path of the configuration that says what is analysed.
        targets: the folders that are analysed, where none does.
    """

    rule: str
    configuration: str = ""
    targets: tuple[str, ...] = ()


def _selection(tree: Tree) -> _Selection:
    if is_file(tree, _JSON):
        return _Selection(_JSON, _JSON)
    if is_file(tree, _TOML):
        text = (tree.root / _TOML).read_bytes().decode(errors="replace")
        if re.search(r"^[ \t]*\[tool\.pyright\]", text, re.MULTILINE):
            return _Selection(f"[tool.pyright] in {_TOML}", _TOML)
    folders = {path.partition("/")[0] for path in tree.files if "/" in path}
    if "src" in folders:
        targets = tuple(name for name in ("src", "tests") if name in folders)
        return _Selection(" and ".join(targets), targets=targets)
    found = (PurePosixPath(path).parent for path in tree.files if PurePosixPath(path).name == "__init__.py")
    packages = tuple(sorted({str(folder) for folder in found if EXCLUDED.isdisjoint(folder.parts)}))
    if packages:
        return _Selection(f"folders with an __init__.py ({len(packages)})", targets=packages)
    return _Selection("nothing: there is no configuration, no src and no folder with an __init__.py")


@dataclass(frozen=True, slots=True)
class _Analysis:
    """What pyright would report on the selection.

    Attributes:
        tree: the pinned tree.
        root: where it is.
        configuration: what pyright goes by.
        environments: folders that are virtual environments.
        stubs: paths of the modules and packages of which there are stubs.
        modules: paths of all modules and packages.
    """

    tree: Tree
    root: Parts
    configuration: Configuration
    environments: frozenset[Parts]
    stubs: frozenset[Parts]
    modules: frozenset[Parts]

    @classmethod
    def of(cls, tree: Tree, root: Parts, configuration: Configuration) -> _Analysis:
        """That of a tree by a configuration."""
        paths = [(*root, *path.split("/")) for path in tree.files]
        stubs = _modules(path for path in paths if path[-1].endswith(".pyi"))
        modules = _modules(path for path in paths if path[-1].endswith((".py", ".pyi")))
        return cls(tree, root, configuration, frozenset(_environments(paths)), stubs, modules)

    def seen(self, path: str, reported: Iterable[Diagnostic]) -> Iterator[Diagnostic]:
        """What the harness would have counted of what is reported on a file."""
        parts = (*self.root, *path.split("/"))
        if not self.configuration.analyses(parts, self.environments):
            return
        place = self.configuration.place(parts)
        comments = Comments.of((self.tree.root / path).read_bytes())
        if comments.level(place.level) != "error":
            return
        # Beside the usual places, where the configuration has modules looked for.
        more = (place.root, *place.extra, self.configuration.stubs)
        for item in reported:
            if not comments.silence(item.line, obeys=place.obeys) and not self._has(item.module, parts, more):
                yield item

    def _has(self, module: str, importer: Parts, more: Iterable[Parts]) -> bool:
        """Whether a module that our run misses has stubs in the tree, or is in one of more places."""
        name = tuple(module.split("."))
        above = [importer[:end] for end in range(len(self.root), len(importer))]
        if any((*folder, *name) in self.stubs for folder in (*above, (*self.root, "src"))):
            return True
        return any((*folder, *name) in self.modules for folder in more)


def _environments(paths: Iterable[Parts]) -> Iterator[Parts]:
    """The folders that pyright takes for virtual environments."""
    for path in paths:
        if path[-1] == "pyvenv.cfg":
            yield path[:-1]
        if path[-1] == "activate" and path[-2] in ("bin", "Scripts"):
            yield path[:-2]
        if "conda-meta" in path:
            yield path[: path.index("conda-meta")]


def _modules(paths: Iterable[Parts]) -> frozenset[Parts]:
    """The paths of modules without their suffixes, and the folders that they are in."""
    files = [(*path[:-1], path[-1].rpartition(".")[0]) for path in paths]
    return frozenset(path[:end] for path in files for end in range(1, len(path) + 1))
