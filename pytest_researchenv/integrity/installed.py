"""Which distributions are installed, what each says that it installed, and what code is there."""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import final

from pytest_researchenv.integrity._metadata import Direct
from pytest_researchenv.integrity.fleeting import is_fleeting
from pytest_researchenv.integrity.protocol import Entry, Kind, Snapshot
from pytest_researchenv.probes.lookup import printable


__all__ = ["Distribution", "Installed", "Style", "is_code", "is_module", "is_program"]

#: Links to single files that are followed one by one; one takes some ten milliseconds.
_MOST_FOLLOWED = 2000
#: A target that leads where its text says, if no folder on the way is a link.
_PLAIN = re.compile(r"(?:/|(?:\.\./)*)(?!\.{0,2}(?:/|$))[^/]+(?:/(?!\.{0,2}(?:/|$))[^/]+)*", re.DOTALL)
#: So many links into one folder, and all of it is read.
_MANY_LINKS = 5

#: Where the metadata of a distribution is, in the folder that its record is.
_METADATA = ("METADATA", "PKG-INFO", "EGG-INFO/PKG-INFO")

_MODULE = re.compile(r".*\.(?:py|pyc|so)", re.DOTALL)
_LIBRARY = re.compile(r".*\.so(?:\.\d+)*", re.DOTALL)


class Style(StrEnum):
    """What says that something is installed."""

    WHEEL = "dist-info"
    LEGACY = "egg-info"
    EGG = "egg"
    CONDA = "conda"
    DEBIAN = "dpkg"


@dataclass(frozen=True, slots=True, eq=False)
class Distribution:
    """Something that is installed, as its own record says.

    Attributes:
        name: normalized name.
        version: its version.
        style: what says so.
        path: that record: a folder or a file.
        site: the site folder that it is in, without links; empty for what is recorded elsewhere.
        files: absolute path → SHA-256 in hexadecimal of each file that it lists; empty where it gives none.
        modules: top-level modules that it names; of one that lists no files.
        tags: what its wheel was made for.
        direct: where it came from, when not from an index.
        requires: normalized names of what it needs.
        groups: entry points: group → modules.
        gaps: what every installer leaves and is not there: `RECORD`, `INSTALLER`, `WHEEL`, or `RECORD of itself`.
        has_digests: whether it gives a digest of any file.
    """

    name: str
    version: str
    style: Style
    path: str
    site: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    modules: frozenset[str] = frozenset()
    tags: tuple[str, ...] = ()
    direct: Direct | None = None
    requires: frozenset[str] = frozenset()
    groups: Mapping[str, frozenset[str]] = field(default_factory=dict)
    gaps: tuple[str, ...] = ()
    has_digests: bool = field(init=False)

    def __post_init__(self) -> None:
        # Asked of each file, which any number of others may list as well.
        object.__setattr__(self, "has_digests", any(self.files.values()))

    def __str__(self) -> str:
        return f"{self.name} {self.version}".strip()


def is_module(path: str) -> bool:
    """Whether an import could lead to a file of that name; bytecode beside its source is never imported from there."""
    return _MODULE.fullmatch(path) is not None and "/__pycache__/" not in path


def is_code(path: str) -> bool:
    """Whether a file of that name is run: a module, or a library that a module loads."""
    return is_module(path) or (_LIBRARY.fullmatch(path) is not None and "/__pycache__/" not in path)


def is_program(path: str) -> bool:
    """Whether a file of that name is a command."""
    folder, name = posixpath.split(path)
    return posixpath.basename(folder) == "bin" and "." not in name


@final
class Installed:
    """All that is installed for one interpreter.

    Args:
        snapshot: the frozen image.
        sites: the site folders, without links, in the order of `sys.path`.
        distributions: what is installed in them, in the same order.
        code: absolute path → each file of code in them, each command, and each link.
        touched: what the agent added, changed or removed in them.
        unchecked: bytecode in `__pycache__` that Python takes without a look at its source.
        problems: why not everything was read; more may come while links are followed.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        *,
        sites: tuple[str, ...],
        distributions: tuple[Distribution, ...],
        code: Mapping[str, Entry],
        touched: Mapping[str, str],
        unchecked: tuple[str, ...] = (),
        problems: tuple[str, ...] = (),
    ) -> None:
        self._snapshot = snapshot
        self.sites = sites
        self.distributions = distributions
        self.code = code
        self.touched = touched
        self.unchecked = unchecked
        self.problems = list(problems)
        self._owners = _owners(distributions)
        self._links = frozenset(path for path, entry in code.items() if entry.kind is Kind.LINK)
        self._roots = Counter(root for path in self._links if (root := self._root(path)))
        self._elsewhere: dict[str, dict[str, Entry]] = {}
        self._targets: dict[str, str] = {}
        self._followed = 0

    def owners(self, path: str) -> tuple[Distribution, ...]:
        """The distributions that list a file."""
        return self._owners.get(path, ())

    def egg(self, path: str) -> Distribution | None:
        """The egg that a file is in."""
        for one in self.distributions:
            if one.style is Style.EGG and (path == one.path or path.startswith(f"{one.path}/")):
                return one
        return None

    def is_agents(self, one: Distribution) -> bool:
        """Whether the record of a distribution is an agent's, or was changed by one."""
        names = ("RECORD", "METADATA", "PKG-INFO", "INSTALLER", "entry_points.txt")
        files = (*names, *(f"EGG-INFO/{name}" for name in names))
        return one.path in self.touched or any(f"{one.path}/{name}" in self.touched for name in files)

    def is_packaged(self, one: Distribution) -> bool:
        """Whether conda or a package of the system brought a distribution, and has its metadata as it is.

        That such a record names the metadata says nothing: of a file that it gives no digest of, it knows nothing.
        """
        for path in (one.path, *(f"{one.path}/{name}" for name in _METADATA)):
            # A look for each of thousands of distributions takes the engine minutes.
            if not self.owners(path) and path not in self._links and not self.link_above(path):
                continue
            entry = self._snapshot.entry(path)
            owners = self.owners(entry.path) if entry is not None and entry.kind is Kind.FILE else ()
            packaged = [owner for owner in owners if owner.style in (Style.CONDA, Style.DEBIAN)]
            if entry is not None and any(owner.files[entry.path] == entry.sha256 != "" for owner in packaged):
                return True
        return False

    def touched_in(self, folder: str) -> Mapping[str, str]:
        """What the agent changed in any folder."""
        return self._snapshot.touched(folder)

    def is_touched(self, path: str) -> bool:
        """Whether an agent put there what is at a path of a site folder, or a link on the way to it."""
        return path in self.touched or self.link_above(path) in self.touched

    def link_above(self, path: str) -> str:
        """The link that stands for a folder on the way to a path of a site folder; empty when none does."""
        if self._links:
            for parent in _parents(path):
                if parent in self._links:
                    return parent
        return ""

    def at(self, path: str) -> Entry | None:
        """What is at a path that a distribution lists, links followed; of files the digest and no content."""
        entry = self.code.get(path)
        if entry is not None and entry.kind is not Kind.LINK:
            return entry
        if entry is not None:
            root = self._root(path)
            many = root and self._roots[root] >= _MANY_LINKS
            return self._beyond(root, self._target(path)) if many else self._single(path)
        if link := self.link_above(path):
            target = self._snapshot.resolved(link)
            if not target and link not in self._elsewhere and is_fleeting(self._snapshot, link):
                self._elsewhere[link] = {}
                self.problems.append(f"{printable(link)} leads somewhere only while a process runs")
            # A whole image is not read because a link leads to its root.
            if target.count("/") > 1 and not any(site.startswith(f"{target}/") for site in self.sites):
                return self._beyond(target, f"{target}{path.removeprefix(link)}")
            return None
        if any(path.startswith(f"{site}/") for site in self.sites) and (is_code(path) or is_program(path)):
            return None
        return self._single(path)

    def content(self, path: str) -> Entry | None:
        """What a path leads to, with its content."""
        return self._snapshot.entry(path)

    def beyond(self, path: str) -> tuple[str, str] | None:
        """Where a listed path leads to, when it is a link or lies behind one: what is to be read, and the path in that.

        What is to be read is a folder outside to which many such links lead, or the path itself.
        """
        if path in self._links:
            root = self._root(path)
            return (root, self._target(path)) if root and self._roots[root] >= _MANY_LINKS else (path, path)
        link = self.link_above(path)
        if not link:
            return None
        if link not in self._targets:
            self._targets[link] = self._snapshot.resolved(link)
        target = self._targets[link]
        # A whole image is not read because a link leads to its root.
        if target.count("/") <= 1 or any(site.startswith(f"{target}/") for site in self.sites):
            return None
        return target, f"{target}{path.removeprefix(link)}"

    def leads_to_known(self, path: str) -> bool:
        """Whether a link leads to a file that a distribution lists, or that the base image has."""
        if path not in self._links:
            return False
        real = self._snapshot.resolved(path)
        if any(real.startswith(f"{site}/") for site in self.sites):
            return real not in self.touched or bool(self.owners(real))
        return bool(real) and real not in self._snapshot.touched(posixpath.dirname(real))

    def _target(self, link: str) -> str:
        """What a link says, as far as can be told without a look at the way."""
        return posixpath.normpath(posixpath.join(posixpath.dirname(link), self.code[link].link))

    def _beyond(self, root: str, target: str) -> Entry | None:
        """A file in a folder outside that links lead to; the folder is read once, as a whole."""
        if root not in self._elsewhere:
            real = self._snapshot.resolved(root)
            self._elsewhere[root] = {
                f"{root}{entry.path.removeprefix(real)}": entry
                for entry in self._snapshot.tree(root)
                if is_code(entry.path) or is_program(entry.path) or entry.kind is Kind.LINK
            }
        entry = self._elsewhere[root].get(target)
        return self._single(target) if entry is not None and entry.kind is Kind.LINK else entry

    def _single(self, path: str) -> Entry | None:
        self._followed += 1
        if self._followed == _MOST_FOLLOWED:
            self.problems.append(f"more than {_MOST_FOLLOWED} files of distributions are elsewhere than they should be")
        if self._followed >= _MOST_FOLLOWED:
            return None
        entry = self._snapshot.entry(path)
        if path in self._links and (entry is None or entry.kind is Kind.LINK) and is_fleeting(self._snapshot, path):
            self.problems.append(f"{printable(path)} leads somewhere only while a process runs")
        # A link that is still one leads nowhere.
        return None if entry is not None and entry.kind is Kind.LINK else entry

    def _root(self, link: str) -> str:
        """The folder that a link of a whole tree of links leads into: its target without what it is in its site.

        Empty, too, where it has to be followed step by step: what it goes back out of may be a link, and what a slash
        stands behind has to be a folder.
        """
        if not _PLAIN.fullmatch(self.code[link].link):
            return ""
        site = next((site for site in self.sites if link.startswith(f"{site}/")), posixpath.dirname(link))
        below, target = link.removeprefix(f"{site}/"), self._target(link)
        while below and not target.endswith(f"/{below}"):
            below = below.partition("/")[2]
        root = target.removesuffix(f"/{below}")
        return root if below and root.count("/") > 1 else ""


def _owners(distributions: tuple[Distribution, ...]) -> dict[str, tuple[Distribution, ...]]:
    found: dict[str, list[Distribution]] = {}
    for one in distributions:
        for path in one.files:
            found.setdefault(path, []).append(one)
    return {path: tuple(owners) for path, owners in found.items()}


def _parents(path: str) -> Iterator[str]:
    while path.count("/") > 1:
        path = posixpath.dirname(path)
        yield path
