"""Hold what the probes of a repository mention against its pinned tree. Nothing of either is run."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import final

from pytest_researchenv.model import Repository, SabotageKind, Tier
from pytest_researchenv.probes.lookup import printable
from pytest_researchenv.probes.protocol import Tree
from pytest_researchenv.references.bindings import Definition, Names, Seen
from pytest_researchenv.references.options import Options
from pytest_researchenv.references.probe import Kind, Mention, mentions_in_command, mentions_in_probe
from pytest_researchenv.references.tree import SourceTree
from pytest_researchenv.references.values import ROOT, WILD
from pytest_researchenv.suite import resolve_probe, shared_modules


__all__ = ["Reference", "check_references"]

#: The tiers that run code of the repository.
_RUN = (Tier.C1, Tier.C3, Tier.C4)

#: Of several answers the first counts.
_ORDER = (Seen.FOUND, Seen.UNKNOWN, Seen.MISSING)


@dataclass(frozen=True, slots=True)
class Reference:
    """One thing that a probe mentions of the tree, and whether it is there.

    Attributes:
        where: the file of the suite, with the line.
        text: what is mentioned, in words.
        seen: what was found out.
    """

    where: str
    text: str
    seen: Seen

    def __str__(self) -> str:
        return f"{self.where}: {self.text}: {self.seen.value}"


def check_references(repository: Repository, tree: Tree) -> list[Reference]:
    """Look up everything that the probed tiers of a repository mention of its tree, and what sabotage is to hollow out.

    Raises:
        SuiteError: a probe is missing.
    """
    mentions = dict.fromkeys(_mentions(repository))
    judge = _Judge(repository, SourceTree(tree), [mention for _, mention in mentions])
    found = []
    for place, mention in mentions:
        try:
            seen = judge.seen(mention)
        except RecursionError:  # A chain of classes or modules that no person wrote.
            seen = Seen.UNKNOWN
        if seen is not None:
            seen = Seen.UNKNOWN if mention.guarded and seen is Seen.MISSING else seen
            where = f"{place}:{mention.line}" if mention.line else place
            found.append(Reference(where, judge.words(mention), seen))
    return sorted(found, key=str)


def _mentions(repository: Repository) -> Iterator[tuple[str, Mention]]:
    shared = [file.read_bytes() for file in shared_modules(repository)]
    read: set[str] = set()
    for tier in _RUN:
        spec = repository.spec(tier)
        if spec.probe and spec.probe not in read:
            read.add(spec.probe)
            source = resolve_probe(repository, tier).read_bytes()
            try:
                yield from ((spec.probe, mention) for mention in mentions_in_probe(source, shared))
            except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
                yield spec.probe, Mention(Kind.FILE, f"{WILD}{error}")
        commands = [spec.argv, *([value] for value in spec.environment.values() if "{repo}" in value)]
        for command in commands:
            yield from (("repo.toml", mention) for mention in mentions_in_command(command, spec.workdir))
    if entry := repository.sabotage.get(SabotageKind.ENTRY):
        yield "repo.toml", Mention(Kind.FILE, f"{ROOT}/{entry.target}")


@final
class _Judge:
    def __init__(self, repository: Repository, tree: SourceTree, mentions: Iterable[Mention]) -> None:
        self._tree = tree
        # A folder that the probe names can be put on the path, and that of a script is.
        named = [path for one in mentions if (path := _path(one)) and WILD not in path]
        folders = [path if path in tree.folders else str(Path(path).parent) for path in named]
        self._roots = [folder for folder in dict.fromkeys([*tree.roots(), *folders]) if folder in tree.folders]
        self._names = Names(tree, self._roots)
        self._options = Options(tree, self._names)
        self._foreign = {file.stem for file in shared_modules(repository)} | sys.stdlib_module_names

    def seen(self, mention: Mention) -> Seen | None:
        """What can be said of a mention; None where it is of nothing in the tree."""
        answers = {
            Kind.FILE: self._file,
            Kind.MODULE: self._dotted,
            Kind.NAME: self._dotted,
            Kind.STRING: self._string,
            Kind.GLOBAL: self._global,
            Kind.OPTION: self._option,
            Kind.SETTING: self._setting,
            Kind.KEYWORD: self._keyword,
        }
        return answers[mention.kind](mention)

    def words(self, mention: Mention) -> str:
        """What is mentioned, and of what in the tree."""
        text = printable(mention.text.replace(f"{ROOT}/", "").replace(WILD, "…"))
        owners = [owner.replace(f"{ROOT}/", "") for owner in mention.of if owner.startswith(ROOT) or self._own(owner)]
        return f"{mention.kind} {text}" + (f" of {' or '.join(owners[:3])}" if owners else "")

    def _file(self, mention: Mention) -> Seen:
        if not mention.text.startswith(ROOT):
            return Seen.MISSING  # A probe that is no Python.
        path = mention.text.removeprefix(f"{ROOT}/")
        if WILD not in path:
            return {True: Seen.FOUND, False: Seen.MISSING, None: Seen.UNKNOWN}[self._tree.holds(path)]
        if self._tree.matches(path.split(WILD)):
            return Seen.FOUND
        known = path.partition(WILD)[0].rpartition("/")[0]
        return Seen.UNKNOWN if not known or self._tree.holds(known) else Seen.MISSING

    def _own(self, dotted: str) -> bool:
        """Whether a dotted name begins with a module or package of the tree.

        A folder without `__init__.py` gives way to any installed package, and so to one that the repository asks for.
        """
        top = dotted.partition(".")[0]
        if top in self._foreign or not (places := self._places(top)):
            return False
        if any(place.endswith(".py") for place in places):
            return True
        return any(map(self._is_package, places)) and not self._tree.asks_for(top)

    def _places(self, top: str) -> list[str]:
        return [place for root in self._roots if (place := self._tree.find(top, (root,)))]

    def _is_package(self, folder: str) -> bool:
        """Whether a folder without `__init__.py` holds modules."""
        return any(path.startswith(f"{folder}/") for path in self._tree.python_files())

    def _dotted(self, mention: Mention) -> Seen | None:
        return self._resolve(mention.text)[0] if self._own(mention.text) else None

    def _string(self, mention: Mention) -> Seen | None:
        seen = self._dotted(mention)
        # Other things are written with dots, too.
        return Seen.UNKNOWN if seen is Seen.MISSING else seen

    def _resolve(self, dotted: str) -> tuple[Seen, list[Definition]]:
        """Follow a dotted name from each folder that has a module or package of that name: any may come first."""
        top = dotted.partition(".")[0]
        answers = [self._follow(dotted, root) for root in self._roots if self._tree.find(top, (root,))]
        return min(answers, key=lambda answer: _ORDER.index(answer[0]), default=(Seen.UNKNOWN, []))

    def _follow(self, dotted: str, root: str) -> tuple[Seen, list[Definition]]:
        """Follow a dotted name: modules, then a name that the last one binds, then an attribute of a class."""
        parts = dotted.split(".")
        places = [self._tree.find(".".join(parts[:count]), (root,)) for count in range(1, len(parts) + 1)]
        length = max(count for count, place in enumerate(places, 1) if place)
        place = places[length - 1] or ""
        if length == len(parts):
            return Seen.FOUND, [Definition(place)]
        seen, found = self._names.look(place, parts[length])
        if seen is Seen.MISSING and self._tree.is_built(".".join(parts[: length + 1])):
            seen = Seen.UNKNOWN
        for name in parts[length + 1 :]:
            if seen is not Seen.FOUND or not found:
                return (seen, []) if seen is not Seen.FOUND else (Seen.UNKNOWN, [])
            seen, found = self._attribute(found[0], name)
        return seen, found

    def _attribute(self, definition: Definition, name: str) -> tuple[Seen, list[Definition]]:
        if definition.node is None:
            return self._names.look(definition.path, name)
        return self._names.member(definition, name)

    def _keyword(self, mention: Mention) -> Seen | None:
        if not self._own(mention.of[0]):
            return None
        seen, found = self._resolve(mention.of[0])
        if seen is not Seen.FOUND:
            return None  # Said of the name already.
        answers = {self._names.takes(definition, mention.text) for definition in found} or {Seen.UNKNOWN}
        return min(answers, key=_ORDER.index)

    def _scripts(self, mention: Mention) -> list[str]:
        """The files of the tree that a mention is of."""
        found = []
        for owner in mention.of:
            if owner.startswith(ROOT):
                found.append(owner.removeprefix(f"{ROOT}/"))
            elif self._own(owner):
                found += [definition.path for definition in self._resolve(owner)[1]]
                main = self._names.module(f"{owner}.__main__")
                found += [main] if main else []
        return [path for path in found if self._tree.holds(path)]

    def _option(self, mention: Mention) -> Seen | None:
        scripts = self._scripts(mention)
        return self._options.declared(mention.text, scripts) if scripts else None

    def _setting(self, mention: Mention) -> Seen | None:
        scripts = self._scripts(mention)
        return self._options.overridable(mention.text, scripts) if scripts else None

    def _global(self, mention: Mention) -> Seen | None:
        answers = [self._names.look(script, mention.text)[0] for script in self._scripts(mention)]
        return min(answers, key=_ORDER.index, default=None)


def _path(mention: Mention) -> str:
    """The path in the tree that a mention is of, or empty."""
    return mention.text.removeprefix(f"{ROOT}/") if mention.kind is Kind.FILE else ""
