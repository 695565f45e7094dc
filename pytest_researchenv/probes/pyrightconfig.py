"""A tree's own configuration of pyright, and the comments in its files, as pyright 1.1.414 reads them.

Only what decides whether a missing import is reported is read: what is analysed, the severity of the rule, where else
modules are looked for, and what silences it. The tree is not trusted: nothing outside it is read, and no configuration
takes long.
"""

from __future__ import annotations

import fnmatch
import io
import json
import re
import tokenize
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import tomli

from pytest_researchenv.probes.protocol import Tree
from pytest_researchenv.probes.pyright import MISSING


__all__ = ["Comments", "Configuration", "GarbledError", "Parts", "TooLargeError", "is_file", "path_parts"]

#: Patterns are matched with every file that misses something. Configurations with thousands of them are no real ones.
_LARGEST = 32 * 1024

_MOST_EXTENDED = 10

#: The severity of the rule in each mode.
_MODES = {"off": "warning", "basic": "error", "standard": "error", "strict": "error"}

_LEVELS = ("error", "warning", "information", "none")

#: In a configuration they are no strings, in a comment they are.
_SWITCHES = {"true": "error", "false": "none"}

#: Settings of rules that are true or false; all others are called `report…` and have a severity.
_BOOLEANS = frozenset(
    {
        "analyzeUnannotatedFunctions",
        "deprecateTypingAliases",
        "disableBytesTypePromotions",
        "enableExperimentalFeatures",
        "enableReachabilityAnalysis",
        "enableTypeIgnoreComments",
        "strictDictionaryInference",
        "strictListInference",
        "strictParameterNoneValue",
        "strictSetInference",
    }
)

#: Components of an absolute path, or of a pattern.
Parts = tuple[str, ...]


class TooLargeError(Exception):
    """A configuration is larger than any that a person writes."""


class GarbledError(Exception):
    """Pyright complains of that configuration in the midst of its report, which is no JSON then."""


# --- patterns ---------------------------------------------------------------------------------------------


def path_parts(path: str, base: Parts = ()) -> Parts:
    """The components of a path or pattern; `..` goes up, and stays at the root."""
    path = path.replace("\\", "/")
    parts = [] if path.startswith("/") else [*base]
    for part in path.split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in ("", "."):
            parts.append(part)
    return tuple(parts)


def _covers(pattern: Parts, path: Parts) -> bool:
    """Whether a pattern is of a path, or of a folder that it is in.

    Pyright makes a regular expression of it, which takes for ever on `**/**/**/…`; this takes components one by one.
    """
    reached = {0}
    for part in pattern:
        if part == "**":
            reached = {*range(min(reached), len(path) + 1)}
        else:
            reached = {at + 1 for at in reached if at < len(path) and _fits(part, path[at])}
        if not reached:
            return False
    return True


def _fits(pattern: str, name: str) -> bool:
    if _is_wild(pattern):
        return fnmatch.fnmatchcase(name, pattern.replace("[", "[[]"))
    return pattern == name


def _is_wild(part: str) -> bool:
    return "*" in part or "?" in part


def _reaches(pattern: Parts, path: Parts, environments: Collection[Parts]) -> bool:
    """Whether pyright, looking for what a pattern includes, comes by a file.

    It starts before the first wildcard, be that a file or a folder, and enters folders that the pattern covers, all of
    them with `**` in it. Those that are virtual environments it never enters.
    """
    start = next((at for at, part in enumerate(pattern) if _is_wild(part)), len(pattern))
    if path == pattern[:start]:
        return True
    if not _covers(pattern, path) or any(path[:end] in environments for end in range(start, len(path))):
        return False
    return "**" in pattern or all(_covers(pattern, path[:end]) for end in range(start + 1, len(path)))


# --- configurations ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Place:
    """An execution environment: settings of the files below a folder.

    Attributes:
        root: the folder.
        level: severity of a missing import.
        obeys: whether `# type: ignore` has an effect.
        extra: more folders in which modules are looked for.
    """

    root: Parts
    level: str = "error"
    obeys: bool = True
    extra: tuple[Parts, ...] = ()

    def changed(self, settings: Mapping[str, object], base: Parts) -> _Place:
        """With what a configuration, or one of its execution environments, says."""
        for name, value in settings.items():
            severity = name.startswith("report") and not (isinstance(value, bool) or value in _LEVELS)
            if severity or (name in _BOOLEANS and not isinstance(value, bool)):
                raise GarbledError(name)
        level = settings.get(MISSING)
        if isinstance(level, bool):
            level = "error" if level else "none"
        obeys = settings.get("enableTypeIgnoreComments")
        extra = settings.get("extraPaths")
        return replace(
            self,
            level=level if isinstance(level, str) and level in _LEVELS else self.level,
            obeys=obeys if isinstance(obeys, bool) else self.obeys,
            extra=tuple(path_parts(path, base) for path in _strings(extra)) if isinstance(extra, list) else self.extra,
        )


@dataclass(frozen=True, slots=True)
class Configuration:
    """What pyright goes by.

    Attributes:
        default: settings of files that are in none of the places.
        stubs: folder with stubs.
        lists: `include`, `exclude`, `ignore` and `strict` → patterns.
        places: execution environments; the first that holds a file is its own.
        unread: path of a configuration that pyright cannot read, and goes on without.
    """

    default: _Place
    stubs: Parts
    lists: Mapping[str, tuple[Parts, ...]] = field(default_factory=dict)
    places: tuple[_Place, ...] = ()
    unread: str = ""

    @classmethod
    def read(cls, tree: Tree, name: str, root: Parts, targets: Collection[str] = ()) -> Configuration:
        """Read a configuration, and what it extends.

        Args:
            tree: the pinned tree.
            name: path of the configuration in it; when empty, there is none.
            root: where the tree is.
            targets: folders that are given to pyright to analyse, whatever the configuration includes.

        Raises:
            GarbledError: pyright says something of one of them where its report should be.
            TooLargeError: one of them is too large.
        """
        chain, unread = _chain(tree, name, root) if name else ([], "")
        known = cls(_Place(root), (*root, "typings"))
        for settings, base in chain:
            known = _changed(known, settings, base)
        places = known.places
        for settings, base in chain:
            listed = settings.get("executionEnvironments")
            if isinstance(listed, list):
                places = tuple(_place(known.default, item, base) for item in listed)
        include = tuple(path_parts(target, root) for target in targets) or known.lists.get("include") or (root,)
        return replace(known, places=places, lists={**known.lists, "include": include}, unread=unread)

    def analyses(self, path: Parts, environments: Collection[Parts]) -> bool:
        """Whether what is found in a file is reported; `environments` are the folders that are virtual ones."""
        if any(_covers(pattern, path) for name in ("exclude", "ignore") for pattern in self.lists.get(name, ())):
            return False
        return any(_reaches(pattern, path, environments) for pattern in self.lists["include"])

    def place(self, path: Parts) -> _Place:
        """The settings of a file."""
        place = next((place for place in self.places if path[: len(place.root)] == place.root), self.default)
        strict = any(_covers(pattern, path) for pattern in self.lists.get("strict", ()))
        return replace(place, level="error") if strict else place


def _changed(known: Configuration, settings: Mapping[str, object], base: Parts) -> Configuration:
    lists = dict(known.lists)
    for name in ("include", "exclude", "ignore", "strict"):
        listed = settings.get(name)
        if isinstance(listed, list):
            # Only `ignore` may name a place outside.
            written = [text for text in _strings(listed) if name == "ignore" or not text.startswith("/")]
            lists[name] = tuple(path_parts(text, base) for text in written)
    mode = settings.get("typeCheckingMode")
    default = known.default
    if isinstance(mode, str) and mode in _MODES:  # It begins anew: what an extended configuration says is forgotten.
        default = replace(default, level=_MODES[mode], obeys=True)
    stubs = settings.get("stubPath")
    return replace(
        known,
        default=default.changed(settings, base),
        stubs=path_parts(stubs, base) if isinstance(stubs, str) else known.stubs,
        lists=lists,
    )


def _place(default: _Place, item: object, base: Parts) -> _Place:
    settings = item if isinstance(item, dict) else {}
    root = settings.get("root")
    return replace(default, root=path_parts(root if isinstance(root, str) else "", base)).changed(settings, base)


def _strings(items: Iterable[object]) -> list[str]:
    return [item for item in items if isinstance(item, str)]


def _chain(tree: Tree, name: str, root: Parts) -> tuple[list[tuple[Mapping[str, object], Parts]], str]:
    """A configuration and what it extends, each with its folder, the extended ones first; and one that is not read."""
    chain: list[tuple[Mapping[str, object], Parts]] = []
    seen: list[Parts] = []
    path = (*root, *name.split("/"))
    while path not in seen and len(seen) < _MOST_EXTENDED:
        seen.append(path)
        try:
            settings = _parsed(tree, "/".join(path[len(root) :]) if path[: len(root)] == root else "")
        except (ValueError, RecursionError):
            return chain, "/".join(path[len(root) :])
        if not isinstance(settings, dict):
            break
        chain.insert(0, (settings, path[:-1]))
        extended = settings.get("extends")
        if not isinstance(extended, str):
            break
        path = path_parts(extended, path[:-1])
    return chain, ""


def _parsed(tree: Tree, name: str) -> object:
    """What a configuration holds; None where it has nothing for pyright.

    Raises:
        ValueError: it cannot be read.
        RecursionError: likewise.
        TooLargeError: it is too large.
    """
    if not is_file(tree, name):
        raise ValueError(f"there is no {name} in the tree")
    size = (tree.root / name).stat().st_size
    if size > _LARGEST:
        raise TooLargeError(f"unknown: {name} has {size} bytes, more than {_LARGEST}")
    text = (tree.root / name).read_bytes().decode(errors="replace")
    if not name.endswith(".toml"):
        return _relaxed_json(text)
    tool = tomli.loads(text).get("tool")
    return tool.get("pyright") if isinstance(tool, dict) else None


def _relaxed_json(text: str) -> object:
    """JSON with comments, and with commas before closing brackets."""
    # What is never closed reaches to the end: tried again from each quote, it took 8 s on 32 KiB.
    string = r'"(?:[^"\\]|\\.)*(?:"|\\?\Z)'
    written = rf"({string})|//[^\r\n]*|/\*.*?\*/|(/\*.*)"
    text = re.sub(written, lambda found: found[1] or found[2] or " ", text, flags=re.DOTALL)
    # A comma with nothing before it stays an error.
    kept = rf"({string}|[\[{{,]\s*,)|,(?=\s*[\]}}])"
    return json.loads(re.sub(kept, lambda found: found[1] or "", text, flags=re.DOTALL))


def is_file(tree: Tree, name: str) -> bool:
    """Whether a path of a tree is a tracked file, or a link to something in the tree."""
    path = tree.root / name
    return name in tree.files and path.is_file() and path.resolve().is_relative_to(tree.root.resolve())


# --- comments ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Comments:
    """What the comments of a file say to pyright.

    Attributes:
        everything: whether a `# type: ignore` stands before all code.
        lines: lines with a `# type: ignore`, counted from 1.
        rules: lines with a `# pyright: ignore` → the rules it is for; None for all.
        operands: what `# pyright: …` comments set, in their order.
    """

    everything: bool
    lines: frozenset[int]
    rules: Mapping[int, tuple[str, ...] | None]
    operands: tuple[str, ...]

    @classmethod
    def of(cls, source: bytes) -> Comments:
        """Those of a source, up to where it is no Python."""
        everything = False
        lines = set()
        rules: dict[int, tuple[str, ...] | None] = {}
        operands: list[str] = []
        for token, first in _comments(source.decode(errors="replace").removeprefix("\ufeff")):
            text = token.string[1:]
            if _ignored(text, "type") is not None:
                everything |= first
                lines.add(token.start[0])
            if (listed := _ignored(text, "pyright")) is not None:
                rules[token.start[0]] = tuple(map(str.strip, listed[1:-1].split(","))) if listed else None
            said = text.strip()
            if said.startswith("pyright:") and not said.removeprefix("pyright:").strip().startswith("ignore"):
                operands += _ordered(said.removeprefix("pyright:"))
        return cls(everything, frozenset(lines), rules, tuple(operands))

    def level(self, level: str) -> str:
        """The severity of a missing import, when it would be that without comments."""
        for operand in self.operands:
            name, _, value = (part.strip() for part in operand.partition("="))
            if name in _MODES and name != "off" and not value:
                level = "error"
            elif name == MISSING and _SWITCHES.get(value, value) in _LEVELS:
                level = _SWITCHES.get(value, value)
        return level

    def silence(self, line: int, *, obeys: bool) -> bool:
        """Whether a missing import on a line is not reported; `obeys` is whether `# type: ignore` has an effect."""
        if obeys and (self.everything or line in self.lines):
            return True
        rules = self.rules.get(line, ())
        return rules is None or MISSING in rules


def _ordered(said: str) -> list[str]:
    """What one comment sets; a mode comes first, wherever in it it stands."""
    return sorted(said.split(","), key=lambda operand: operand.strip() not in _MODES)


def _ignored(comment: str, word: str) -> str | None:
    """The bracket of a `type: ignore` or `pyright: ignore` comment, empty where it has none; None for another one."""
    inside = r"[\w: \t,-]*" if word == "type" else r"[\w \t,-]*"
    ending = rf"[ \t]*(\[{inside}\])|[ \t]+(?![ \t\[])|$"
    found = re.search(rf"(?:^|#)[ \t]*{word}:[ \t]*ignore(?:{ending})", comment, re.ASCII)
    return None if found is None else found[1] or ""


def _comments(text: str) -> Iterator[tuple[tokenize.TokenInfo, bool]]:
    """The comments of a text up to where it is no Python, each with whether no code stands before it."""
    first = True
    try:
        for token in tokenize.generate_tokens(io.StringIO(text, newline="").readline):
            if token.type == tokenize.COMMENT:
                yield token, first
            elif token.type not in (tokenize.NL, tokenize.NEWLINE, tokenize.INDENT):
                first = False
    # TokenError and IndentationError are SyntaxErrors only from Python 3.12 on.
    except (tokenize.TokenError, SyntaxError):
        return
