"""Which options and settings a script of a tree takes: declared in it, in what it imports, or anywhere in the tree."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import final

from pytest_researchenv.references.bindings import Names, Seen
from pytest_researchenv.references.tree import SourceTree


__all__ = ["Options"]

#: What makes options of a function's parameters or a class's fields, with `-` and `_` as one.
_FROM_NAMES = frozenset(
    {"Fire", "fire", "HfArgumentParser", "tyro", "typer", "click", "jsonargparse", "simple_parsing", "LightningCLI"}
)
#: What brings options of a library's own.
_FROM_LIBRARIES = frozenset(
    {
        "HfArgumentParser",
        "LightningCLI",
        "TrainingArguments",
        "add_argparse_args",
        "add_config_arguments",
        "TrlParser",
        "setup_parser",
    }
)
#: Those of hydra's own, where it is used.
_HYDRA = frozenset(
    {"--config-path", "--config-name", "--config-dir", "--cfg", "--multirun", "--run", "--resolve", "--package"}
)
_KEY = re.compile(r"^[ \t]*(?:-[ \t]+)?['\"]?([\w./-]+)['\"]?[ \t]*:", re.MULTILINE)
#: A key with keys of its own below it. One with a word instead may name a library's settings.
_TABLE = re.compile(r"^[ \t]*(?:-[ \t]+)?['\"]?([\w./-]+)['\"]?[ \t]*:[ \t]*(?:\{.*|&\w+)?(?:#.*)?$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class _Facts:
    """What a module holds that can declare an option.

    Attributes:
        texts: all short strings.
        fields: annotated names in classes, and functions' parameters.
        words: all names, also of attributes and imports.
        computed: whether an option's name is put together when it runs.
    """

    texts: frozenset[str] = frozenset()
    fields: frozenset[str] = frozenset()
    words: frozenset[str] = frozenset()
    computed: bool = False


@final
class Options:
    """The options of a tree's scripts."""

    def __init__(self, tree: SourceTree, names: Names) -> None:
        self._tree = tree
        self._names = names
        self._facts = cache(self._read)
        self._reached = cache(self._closure)
        self._everywhere = cache(self._all_texts)
        self._keys = cache(self._all_keys)
        self._tables = cache(self._all_tables)

    def declared(self, option: str, scripts: Iterable[str]) -> Seen:
        """Whether any of some scripts takes an option, e.g. `--batch-size`."""
        modules = [self._facts(path) for script in scripts for path in self._reached(script)]
        if not modules or _declared(option, modules):
            return Seen.FOUND if modules else Seen.UNKNOWN
        if option in self._everywhere() or _plain(option) in self._keys():
            return Seen.FOUND
        library = any(facts.words & _FROM_LIBRARIES or facts.computed for facts in modules)
        return Seen.UNKNOWN if library else Seen.MISSING

    def overridable(self, key: str, scripts: Iterable[str]) -> Seen:
        """Whether a setting of some scripts, e.g. `model.encoder.hidden_size`, can be overridden.

        Its last part is a key of some YAML file, or a field of a class that the scripts reach; or it is a group, which
        is a folder.
        """
        parts = key.lstrip("+~").partition("@")[0].split(".")
        fields = (self._facts(path).fields for script in scripts for path in self._reached(script))
        if not self._keys() or parts[0] == "hydra":
            return Seen.UNKNOWN
        if parts[-1] in self._keys() or any(parts[-1] in some for some in fields) or self._is_group("/".join(parts)):
            return Seen.FOUND
        # What begins with + is added; what stands below an unknown one may be a library's.
        above = len(parts) > 1 and parts[-2] not in self._tables() and not self._is_group(parts[-2])
        return Seen.UNKNOWN if key.startswith("+") or above else Seen.MISSING

    def _is_group(self, name: str) -> bool:
        return any(folder == name or folder.endswith(f"/{name}") for folder in self._tree.folders)

    def _closure(self, script: str) -> tuple[str, ...]:
        """A script and the modules of the tree that it imports, and those that they import."""
        found = dict.fromkeys([script] if script in self._tree.files else [])
        waiting = list(found)
        while waiting:
            for path in self._names.imports(waiting.pop()):
                if path not in found and path in self._tree.files:
                    found[path] = None
                    waiting.append(path)
        return tuple(found)

    def _read(self, path: str) -> _Facts:
        module = self._tree.module(path)
        if module is None:
            return _Facts(computed=True)
        texts, fields, words, computed = set(), set(), set(), False
        for node in ast.walk(module):
            match node:
                case ast.Constant(value=str() as text) if len(text) < 100:  # noqa: PLR2004 - no option is longer
                    texts.add(text)
                case ast.ClassDef(body=body):
                    fields |= {getattr(one.target, "id", "") for one in body if isinstance(one, ast.AnnAssign)}
                case ast.arg(arg=name):
                    fields.add(name)
                case ast.Name(id=name) | ast.Attribute(attr=name):
                    words.add(name)
                case ast.ImportFrom(names=names) | ast.Import(names=names):
                    words |= {alias.name for alias in names}
            computed |= isinstance(node, ast.Call) and _computes(node)
        return _Facts(frozenset(texts), frozenset(fields), frozenset(words), computed)

    def _all_texts(self) -> frozenset[str]:
        return frozenset().union(*(self._facts(path).texts for path in self._tree.python_files()))

    def _all_keys(self) -> frozenset[str]:
        return self._matched(_KEY)

    def _all_tables(self) -> frozenset[str]:
        return self._matched(_TABLE)

    def _matched(self, form: re.Pattern[str]) -> frozenset[str]:
        """What a form finds in all YAML files."""
        found = (form.findall(self._tree.text(path) or "") for path in self._tree.yaml_files())
        return frozenset(key for keys in found for key in keys)


def _plain(option: str) -> str:
    return option.lstrip("-").replace("-", "_")


def _declared(option: str, modules: Iterable[_Facts]) -> bool:
    """Whether some modules together declare an option."""
    modules = list(modules)
    words = frozenset().union(*(facts.words for facts in modules))
    texts = frozenset().union(*(facts.texts for facts in modules))
    fields = frozenset().union(*(facts.fields for facts in modules))
    # argparse's BooleanOptionalAction, click and tyro have a second one that says no.
    wanted = {option, option.lstrip("-"), re.sub(r"^--no[-_]", "--", option)}
    # click has both in one text: `--shout/--no-shout`.
    if wanted & texts or any(option in text.split("/") for text in texts if "/--" in text):
        return True
    if "hydra" in words and option in _HYDRA:
        return True
    plain = _plain(option)
    return bool(words & _FROM_NAMES and {plain, plain.removeprefix("no_")} & (fields | texts))


def _computes(node: ast.Call) -> bool:
    """Whether a call declares an option whose name is no constant."""
    return (
        getattr(node.func, "attr", "") == "add_argument"
        and bool(node.args)
        and not any(isinstance(argument, ast.Constant | ast.Starred) for argument in node.args)
    )
