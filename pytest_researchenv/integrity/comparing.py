"""Whether distributions are what was published under their name and version."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias, final

from pytest_researchenv.integrity.changes import EMPTY, SPARE, is_spare, listed
from pytest_researchenv.integrity.installed import Distribution, Installed, Style, is_code, is_module, is_program
from pytest_researchenv.integrity.ownsources import OwnSources, by_name, ends
from pytest_researchenv.integrity.protocol import Entry
from pytest_researchenv.integrity.published import Unknown
from pytest_researchenv.integrity.saying import only_says
from pytest_researchenv.integrity.witness import Published
from pytest_researchenv.probes.protocol import Tree


__all__ = ["Comparison", "Compiles", "Difference"]

#: Files of which the index is asked what its wheel really holds.
_ASKED = 3
#: What has less than this part of the published sources only has their name.
_LEAST_PART = 1 / 3

#: Bytes of a source file, in the mean of some hundred libraries.
_MEAN_BYTES = 8 * 1024
#: Where a wheel has what is installed elsewhere.
_DATA = re.compile(r"[^/]+-[^/]+\.data/.*", re.DOTALL)

#: Whether a repository compiles something to a module of a name; of an empty one, whether it compiles anything.
Compiles: TypeAlias = Callable[[str], bool]
_Hashes: TypeAlias = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Difference:
    """How a distribution differs from the published one of its name and version.

    Attributes:
        words: what is there instead.
        foreign: absolute paths of modules that the published one does not have.
        hollow: whether hardly anything of the published one is there.
    """

    words: str
    foreign: frozenset[str] = frozenset()
    hollow: bool = False


@final
class Comparison:
    """One distribution beside the published one.

    Args:
        one: what is compared.
        installed: what is installed.
        published: what is known.
        strict: whether it must be the published one wherever it says that it came from.
        tree: the repository's pinned tree.
        compiles: whether the repository has anything that is compiled to a module of some name.
        is_from_elsewhere: whether it says so, and may.
        bundled: what a wheel of the same name and version holds that the system brings along: path → SHA-256.
        vendored: what such a wheel of the repository's holds; nobody else is asked then.
    """

    def __init__(
        self,
        one: Distribution,
        installed: Installed,
        published: Published,
        *,
        strict: bool,
        tree: Tree,
        compiles: Compiles,
        is_from_elsewhere: bool,
        bundled: Mapping[str, str],
        vendored: Mapping[str, str],
    ) -> None:
        self._one = one
        self._installed = installed
        self._published = published
        self._strict = strict
        self._own = OwnSources(tree)
        self._compiles = compiles
        self._is_from_elsewhere = is_from_elsewhere
        self._bundled = bundled
        self._vendored = vendored
        #: What was not compared, though nothing differs; known after `result`.
        self.unseen = ""

    def result(self) -> Difference | Unknown | None:
        """How it differs; None when it does not."""
        if self.is_tracked() and not self._strict and not self._vendored:
            unlike = self._unlike_tracked()
            return self._edited(unlike) if unlike else None
        return self._compared()

    def _compared(self) -> Difference | Unknown | None:
        """How it differs from the published one."""
        answers: list[Unknown] = []
        for ask in (self._wheel, self._near, self._sources):
            found = ask()
            if not isinstance(found, Unknown):
                if found is None and ask == self._near:
                    self.unseen = f"only the sources of {self._one} were compared: {answers[0].reason}"
                return found
            answers.append(found)
        return next((answer for answer in answers if answer.reason), Unknown(""))

    def is_tracked(self) -> bool:
        """Whether it was built from the repository's own sources: of all its modules a good part is tracked."""
        found: dict[str, list[bool]] = {}
        for name in self._code:
            if name.endswith(".py"):
                found.setdefault(name.partition("/")[0], []).append(bool(self._own.like(name)))
        if not found or not all(sum(there) >= len(there) * _LEAST_PART for there in found.values()):
            return False
        # What has no source at all is its own only where the repository compiles something.
        return self._compiles("") or all(name.partition("/")[0] in found for name in self._code if is_module(name))

    def _unlike_tracked(self) -> list[str]:
        """What has a tracked file's place and other content, or goes before one; of what came from elsewhere, none."""
        if self._is_from_elsewhere:
            return []
        # What is laid open in place has hardly more in its site folder than what leads there.
        code = self._in_site if self._is_editable else self._code
        before = (name for name in code if self._goes_before(name, code))
        return sorted({*before, *(name for name, path in code.items() if self._is_unlike(name, path))})

    def _goes_before(self, name: str, code: Collection[str]) -> bool:
        """Whether a file hides a tracked source, which no build of the repository's does."""
        source = self._own.preferred(name)
        # By the last part of its path alone, many a tracked file is like one.
        if not source or ("/" not in source and source not in code):
            return False
        if name.endswith(".pyc"):
            return source not in code
        return not (name.endswith(".so") and self._compiles(posixpath.basename(name).partition(".")[0]))

    def _is_unlike(self, name: str, path: str) -> bool:
        """Whether a source has a tracked file's place, and another content."""
        entry = self._installed.at(path)
        digest = entry.sha256 if entry is not None and name.endswith(".py") else ""
        if not digest or self._own.has(name, digest) is not False:
            return False
        source = self._installed.content(path)
        if self._own.differs_in_version(name, (source.content if source else None) or b""):
            return False
        return source is None or not only_says(posixpath.basename(name), source)

    @property
    def _is_editable(self) -> bool:
        return self._one.direct is not None and self._one.direct.editable

    @property
    def _in_site(self) -> Mapping[str, str]:
        """The code that it lists in its site folder."""
        below = f"{self._one.site}/"
        return {path.removeprefix(below): path for path in self._one.files if path.startswith(below) and is_code(path)}

    def _edited(self, names: list[str]) -> Difference | Unknown | None:
        """What is to be said of one that has other sources than the repository, unless it is published."""
        words = listed("files that differ from the repository's own", names)
        if self._is_editable:
            # What is published, and what is in its folder, is another thing.
            return Difference(words)
        said = self._compared()
        if said is None or isinstance(said, Difference):
            return said and Difference(words)
        offered = self._published.offered(self._one.name, self._one.version)
        return Difference(words) if offered is False else Unknown(f"{self._one} has {words}, and may be published")

    def size(self) -> int:
        """Bytes of its code; of what is in no site folder, as many as its files have in the mean."""
        entries = (self._installed.code.get(path) for path in self._code.values())
        return sum(_MEAN_BYTES if entry is None else entry.size for entry in entries)

    def is_as_published(self) -> bool:
        """Whether all of its Python is, byte for byte, among the published sources of its name and version."""
        python = sorted(name for name in self._code if name.endswith(".py"))
        return bool(python) and all(map(self._only_says, self._unlike_sources(python, unknown=True)))

    def has(self, path: str, digest: str) -> bool | Unknown:
        """Whether its published wheel has a file, of code or not, at its place.

        What was not installed from an index may be another day's: of that, only that it is the same is known.

        Args:
            path: absolute, in its site folder.
            digest: the file's SHA-256 in hexadecimal.
        """
        one, name = self._one, path.removeprefix(f"{self._one.site}/")
        known = self._vendored or self._published.of(one.name, one.version, one.tags)
        if digest in (self._bundled.get(name), None if isinstance(known, Unknown) else known.get(name)):
            return True
        if isinstance(known, Unknown):
            return known
        if self._vendored:
            return False
        if one.direct is not None:
            return Unknown(f"the published {one} has another {name}, and it came from elsewhere")
        return name in known and self._published.held(one.name, one.version, one.tags, name) == digest

    def _wheel(self) -> Difference | Unknown | None:
        """How it differs from the published wheel."""
        one = self._one
        if one.style is not Style.WHEEL or (one.direct is not None and not self._strict and not self._vendored):
            return Unknown("")
        known = self._vendored or self._published.of(one.name, one.version, one.tags)
        if isinstance(known, Unknown):
            return known
        about = f"{posixpath.basename(one.path)}/WHEEL"
        # A wheel of pure Python that was built on the spot has the tags of the published one, and its own WHEEL.
        pure = all(tag.endswith("-any") for tag in one.tags)
        rebuilt = pure and one.files.get(f"{one.site}/{about}") != known.get(about)
        runs = (name for name in sorted(known) if is_code(name) or is_program(name))
        other = [name for name in runs if not _DATA.fullmatch(name) and self._differs(name, known[name])]
        other = [name for name in other if name not in other[:_ASKED] or not self._is_held(name)]
        # Its libraries look for others beside themselves first, so that one more may be taken for the system's.
        more = [name for name in sorted(self._code) if name not in known]
        more = [name for name in more if self._differs(name, self._bundled.get(name, ""))]
        if rebuilt:
            other = [name for name in self._unlike_sources(other, unknown=True) if not self._only_says(name)]
            more = [name for name in self._unlike_sources(more, unknown=True) if not self._only_says(name)]
        return self._difference(known, other, more)

    def _near(self) -> Difference | Unknown | None:
        """How a framework's sources differ from those of the published build of the same version.

        Builds for other devices have a local version of their own, and sit on other indexes. Their sources are the
        same: of torch 2.13.0+cpu and 2.13.0 all 2371 are, but for `version.py`.
        """
        one = self._one
        public = one.version.partition("+")[0]
        if not self._strict or public == one.version or one.style is not Style.WHEEL:
            return Unknown("")
        known = self._published.of(one.name, public, one.tags)
        if isinstance(known, Unknown):
            return known
        sources = {name: digest for name, digest in known.items() if name.endswith(".py") and not _DATA.fullmatch(name)}
        other = [name for name in sorted(sources) if self._differs(name, sources[name]) and not self._only_says(name)]
        more = [name for name in sorted(self._code) if name.endswith(".py") and name not in known]
        return self._difference(sources, other, [name for name in more if not self._only_says(name)])

    def _difference(self, known: _Hashes, other: list[str], more: list[str]) -> Difference | None:
        """What is to be said of files that differ, and of those that are not published."""
        if not other and not more:
            return None
        due = [
            name for name in known if is_code(name) and not _DATA.fullmatch(name) and SPARE.isdisjoint(name.split("/"))
        ]
        there = sum(self._at(name) is not None for name in due)
        if len(due) > 1 and there <= len(due) * _LEAST_PART:
            return Difference(f"only {there} of its {len(due)} files are there", hollow=True)
        if self._vendored and due and not any(self._is_same(name, known[name]) for name in due):
            return Difference(f"none of its {len(due)} files is that of the repository's own wheel", hollow=True)
        words = (listed("other files", other) if other else "", listed("more files", more) if more else "")
        return Difference("; ".join(filter(None, words)), frozenset(self._code[name] for name in more))

    def _sources(self) -> Difference | Unknown | None:
        """How it differs from the published sources."""
        known = self._published.sources_of(self._one.name, self._one.version)
        if isinstance(known, Unknown):
            return known
        if not self._code:
            return None
        tops = {name.partition("/")[0].removesuffix(".py") for name in self._code}
        due = [
            path
            for path in known
            if SPARE.isdisjoint(path.split("/")) and not path.endswith("setup.py")
            # Of a project's folder all of it is there; of what was installed, what is below the same names.
            if self._is_editable or not tops.isdisjoint(path.removesuffix(".py").split("/"))
        ]
        there = {posixpath.basename(name) for name in self._code}
        same = sum(posixpath.basename(path) in there for path in due)
        if known and same <= len(due) * _LEAST_PART:
            return Difference(f"only {same} of its {len(due) or len(known)} sources are there", hollow=True)
        # What came from elsewhere may be of another day.
        other = [] if self._one.direct else self._unlike_sources(sorted(self._code), unknown=False)
        other = [name for name in other if not self._only_says(name)]
        return Difference(listed("other files", other)) if other else None

    @cached_property
    def _code(self) -> Mapping[str, str]:
        """The code that it has: path in its site folder, or its project's → where it is."""
        one, installed = self._one, self._installed
        below, paths = f"{one.site}/", iter(one.files)
        if one.style is Style.EGG:
            below, paths = f"{one.path}/", iter(one.files or installed.code)
        elif one.direct is not None and one.direct.editable:
            below, paths = f"{one.direct.folder}/", iter(installed.touched_in(one.direct.folder))
        elif one.modules:
            paths = (path for path in installed.code if _top(path, below) in one.modules)
        return {path.removeprefix(below): path for path in paths if is_code(path) and path.startswith(below)}

    def _at(self, name: str) -> Entry | None:
        return self._installed.at(self._code.get(name, f"{self._one.site}/{name}"))

    def _differs(self, name: str, digest: str) -> bool:
        entry = self._at(name)
        if entry is None:
            counts = self._strict or name.endswith(".py")
            return counts and not is_spare(name, digest)
        return entry.sha256 not in ("", digest, self._bundled.get(name))

    def _is_same(self, name: str, digest: str) -> bool:
        entry = self._at(name)
        return entry is not None and entry.sha256 == digest != EMPTY

    def _is_held(self, name: str) -> bool:
        """Whether the published wheel really holds what is installed, and its record is wrong."""
        one, entry = self._one, self._at(name)
        if entry is None or self._vendored:
            return False
        return self._published.held(one.name, one.version, one.tags, name) == entry.sha256

    def _unlike_sources(self, names: Iterable[str], *, unknown: bool) -> list[str]:
        """Files that are others than those of the same name among the published sources.

        Args:
            names: of some of its files.
            unknown: whether those of which there are no published sources are among them.
        """
        known = self._published.sources_of(self._one.name, self._one.version)
        if isinstance(known, Unknown):
            return list(names) if unknown else []
        tails = by_name(known)
        unlike = []
        for name in names:
            found = [known[path] for path in tails.get(posixpath.basename(name), ()) if ends(path, name)]
            entry = self._at(name)
            found += [self._bundled[name]] if name in self._bundled else []
            if entry is not None and (entry.sha256 not in ("", *found) if found else unknown):
                unlike.append(name)
        return unlike

    def _only_says(self, name: str) -> bool:
        """Whether a source only says something of the build that wrote it, such as a version, and does nothing."""
        entry = self._installed.content(self._code.get(name, f"{self._one.site}/{name}"))
        return entry is not None and only_says(posixpath.basename(name), entry)


def _top(path: str, below: str) -> str:
    """The top-level module that a file in a folder belongs to; empty for one that is not in it."""
    return path.removeprefix(below).partition("/")[0].partition(".")[0] if path.startswith(below) else ""
