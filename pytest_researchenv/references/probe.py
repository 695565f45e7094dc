"""What a probe, or a command of `repo.toml`, mentions: files, modules, names, options and keyword arguments."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import final

from pytest_researchenv._parsing import last_name, parse
from pytest_researchenv.references.script import Script
from pytest_researchenv.references.values import ROOT, WILD, Values, join


__all__ = ["Kind", "Mention", "mentions_in_command", "mentions_in_probe"]

#: Calls that run a script of the repository, with its arguments; that read one; that run a module.
_RUNS = frozenset({"run_script", "run_ranks"})
_READS = frozenset({"run_path"})
_IMPORTS = frozenset({"import_module", "run_module", "find_spec"})

_DOTTED = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
_STRING = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+")
#: What files are called; no module is.
_SUFFIX = re.compile(r".*\.(bin|ckpt|csv|jsonl?|md|npy|npz|onnx|png|pth?|py|safetensors|sh|toml|txt|wav|ya?ml|zip)")
_ENTRY = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
_OPTION = re.compile(r"--[A-Za-z][\w.-]*")
_SETTING = re.compile(r"(?:\+{0,2}|~)[A-Za-z_][\w./@-]*(?==)")


class Kind(StrEnum):
    """What is mentioned."""

    FILE = "file"
    MODULE = "module"
    NAME = "name"
    STRING = "string"
    GLOBAL = "global"
    OPTION = "option"
    SETTING = "setting"
    KEYWORD = "keyword"


@dataclass(frozen=True, slots=True)
class Mention:
    """Something that has to be in the tree, if it belongs to the tree at all.

    Attributes:
        kind: what it is.
        text: the path, the dotted name, the option, …
        line: where, in the probe; 0 in `repo.toml`.
        of: whose it is: scripts and dotted names of modules that take an option, have a global, or are called.
        guarded: whether the probe goes on without it.
    """

    kind: Kind
    text: str
    line: int = 0
    of: tuple[str, ...] = ()
    guarded: bool = False


def mentions_in_probe(source: bytes, shared: Sequence[bytes] = ()) -> list[Mention]:
    """Read a probe.

    Args:
        source: the probe.
        shared: modules that lie beside it, whose functions it may call.

    Raises:
        SyntaxError: it is no Python; for some of what is none, ValueError, RecursionError or MemoryError.
    """
    reader = _Reader(parse(source), [parse(one) for one in shared])
    return list(dict.fromkeys(reader.mentions()))


def mentions_in_command(argv: Sequence[str], workdir: str) -> list[Mention]:
    """Read a command of `repo.toml`, whose placeholders are `{repo}` and others."""
    words = [_placed(word) for word in argv]
    return list(dict.fromkeys(_command([[word] for word in words], 0, _placed(workdir))))


def _placed(word: str) -> str:
    return re.sub(r"\{[a-z]+\}", WILD, word.replace("{repo}", ROOT))


def _command(words: Sequence[list[str]], line: int, workdir: str = "") -> Iterator[Mention]:
    """The script or module that a command starts, and the options after it."""
    target: tuple[str, ...] = ()
    before: list[str] = []
    for texts in words:
        started = []
        for text in texts:
            path = join(workdir, text) if workdir and not text.startswith("-") and WILD not in text else text
            if "-m" in before and _DOTTED.fullmatch(text):
                started.append(text)
                yield Mention(Kind.MODULE, text, line)
            elif path.startswith(f"{ROOT}/") and (not workdir or text.startswith(ROOT) or text.endswith(".py")):
                started += [path] if path.endswith(".py") else []
                yield Mention(Kind.FILE, path, line)
            elif target:
                yield from _argument(text, target, line)
        # What a launcher starts takes the arguments from there on.
        target = tuple(started) or target
        before = texts


def _argument(text: str, target: tuple[str, ...], line: int) -> Iterator[Mention]:
    """An option `--name`, with or without a value, or a setting `a.b=value`."""
    head = text.partition(WILD)[0]
    option = _OPTION.match(head)
    # One that an unknown part goes on with is not known.
    if option and (option.end() < len(head) or head == text):
        yield Mention(Kind.OPTION, option[0], line, target)
    elif setting := _SETTING.match(head):
        yield Mention(Kind.SETTING, setting[0], line, target)


@final
class _Reader:
    def __init__(self, module: ast.Module, shared: Sequence[ast.Module]) -> None:
        self._module = module
        self._script = Script(module, shared)
        self._values = Values(self._script)
        self._aliases: dict[str, str] = {}
        self._globals: dict[str, ast.Call] = {}
        self._guarded = {
            inner
            for node in ast.walk(module)
            if isinstance(node, ast.Try) and any(_forgives(handler) for handler in node.handlers)
            for statement in node.body
            for inner in ast.walk(statement)
        }
        for node in ast.walk(module):
            self._name(node)

    def mentions(self) -> Iterator[Mention]:
        """Everything, in no particular order."""
        waiting: list[ast.AST] = [self._module]
        while waiting:
            node = waiting.pop()
            found = [*self._imported(node), *self._string(node)]
            paths = list(self._paths(node)) if isinstance(node, ast.expr) else []
            yield from (*found, *paths)
            if isinstance(node, ast.Call):
                yield from self._call(node)
            if isinstance(node, ast.List | ast.Tuple):
                yield from self._words(node)
            yield from self._argv(node)
            if isinstance(node, ast.Name | ast.Attribute) and (dotted := self._dotted(node)):
                yield Mention(Kind.NAME, dotted, node.lineno, guarded=node in self._guarded)
            # The parts of a path, and of a dotted name, are no mentions of their own.
            elif not paths or isinstance(node, ast.Call):
                waiting += ast.iter_child_nodes(node)

    def _words(self, node: ast.List | ast.Tuple) -> Iterator[Mention]:
        """A command: what it starts, and with which options."""
        words = [self._values.texts(one) for one in self._values.elements(node)]
        found = list(_command(words, node.lineno))
        executable = any(isinstance(one, ast.Attribute) and one.attr == "executable" for one in node.elts)
        if executable and not found:
            # A script that is named without a folder lies in the current one, which may be the repository.
            words = [
                [f"{ROOT}/{text}" if text.endswith(".py") and WILD not in text else text for text in one]
                for one in words
            ]
            found = [
                replace(one, guarded=True) if one.kind is Kind.FILE else one for one in _command(words, node.lineno)
            ]
        yield from found

    # --- names --------------------------------------------------------------------------------------------

    def _name(self, node: ast.AST) -> None:
        """Note what a name of the probe stands for."""
        match node:
            case ast.Import(names=names):
                for alias in names:
                    top = alias.name.partition(".")[0]
                    self._aliases[alias.asname or top] = alias.name if alias.asname else top
            case ast.ImportFrom(module=str() as module, names=names, level=0):
                self._aliases |= {alias.asname or alias.name: f"{module}.{alias.name}" for alias in names}
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as call):
                if last_name(call) in _RUNS | _READS or last_name(call) == "run_module":
                    self._globals[name] = call

    def _imported(self, node: ast.AST) -> Iterator[Mention]:
        match node:
            case ast.Import(names=names):
                for alias in names:
                    yield Mention(Kind.MODULE, alias.name, node.lineno, guarded=node in self._guarded)
            case ast.ImportFrom(module=str() as module, names=names, level=0):
                yield Mention(Kind.MODULE, module, node.lineno, guarded=node in self._guarded)
                for alias in names:
                    if alias.name != "*":
                        yield Mention(Kind.NAME, f"{module}.{alias.name}", node.lineno, guarded=node in self._guarded)
            case ast.Subscript(value=ast.Name(id=name), slice=key) if name in self._globals:
                yield from self._fetched(self._globals[name], key)
            case ast.Subscript(value=ast.Call() as call, slice=key) if last_name(call) in _RUNS | _READS:
                yield from self._fetched(call, key)

    def _fetched(self, call: ast.Call, key: ast.expr) -> Iterator[Mention]:
        """A global of a script that was run."""
        names = [text for text in self._values.texts(key) if text.isidentifier()]
        yield from (Mention(Kind.GLOBAL, name, key.lineno, self._targets(call)) for name in names)

    def _string(self, node: ast.AST) -> Iterator[Mention]:
        """Modules in texts: `package.module:attribute`, and whatever is dotted."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if _ENTRY.fullmatch(node.value):
                yield Mention(Kind.NAME, node.value.replace(":", "."), node.lineno)
            elif _STRING.fullmatch(node.value) and not _SUFFIX.fullmatch(node.value):
                yield Mention(Kind.STRING, node.value, node.lineno)

    def _dotted(self, node: ast.expr) -> str:
        """The dotted name that an expression stands for, if it begins with an import of the probe."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or node.id not in self._aliases or self._script.bound(node) is not None:
            return ""
        return ".".join([self._aliases[node.id], *reversed(parts)])

    # --- paths and calls ----------------------------------------------------------------------------------

    def _paths(self, node: ast.expr) -> Iterator[Mention]:
        if isinstance(node, ast.BinOp | ast.JoinedStr | ast.Call):
            for text in self._values.texts(node):
                if text.startswith(f"{ROOT}/"):
                    yield Mention(Kind.FILE, text, node.lineno, guarded=node in self._guarded)

    def _targets(self, call: ast.Call) -> tuple[str, ...]:
        """The scripts or modules that a call runs."""
        if not call.args:
            return ()
        texts = [text for text in self._values.texts(call.args[0]) if not text.startswith(WILD)]
        if last_name(call) in _IMPORTS:
            return tuple(texts)
        return tuple(join(ROOT, text) for text in texts)

    def _call(self, node: ast.Call) -> Iterator[Mention]:
        targets = self._targets(node) if last_name(node) in _RUNS | _READS | _IMPORTS else ()
        guarded = node in self._guarded
        for target in targets:
            if last_name(node) not in _IMPORTS:
                yield Mention(Kind.FILE, target, node.lineno, guarded=guarded)
            elif _DOTTED.fullmatch(target):
                yield Mention(Kind.MODULE, target, node.lineno, guarded=guarded)
        if last_name(node) in _RUNS and targets:
            yield from self._arguments(ast.List(node.args[1:]), targets, node.lineno)
        if name := self._dotted(node.func):
            for keyword in node.keywords:
                if keyword.arg:
                    yield Mention(Kind.KEYWORD, keyword.arg, node.lineno, (name,), guarded)
            for argument in node.args:
                if isinstance(argument, ast.List):
                    yield from self._options(argument, (name,))

    def _arguments(self, words: ast.expr, targets: tuple[str, ...], line: int) -> Iterator[Mention]:
        for element in self._values.elements(words):
            for text in self._values.texts(element):
                yield from _argument(text, targets, line)

    def _options(self, words: ast.expr, targets: tuple[str, ...]) -> Iterator[Mention]:
        found = self._arguments(words, targets, words.lineno)
        yield from (mention for mention in found if mention.kind is Kind.OPTION)

    def _argv(self, node: ast.AST) -> Iterator[Mention]:
        """Arguments in `sys.argv`: of any script or module of the repository that the probe runs or imports."""
        match node:
            case ast.Assign(targets=[target], value=value) | ast.AugAssign(target=target, value=value):
                holder = target.value if isinstance(target, ast.Subscript) else target
                if isinstance(holder, ast.Attribute) and holder.attr == "argv":
                    yield from self._arguments(value, self._everything(), value.lineno)

    def _everything(self) -> tuple[str, ...]:
        found = list(self._aliases.values())
        for node in ast.walk(self._module):
            if isinstance(node, ast.Call) and last_name(node) in _RUNS | _READS | _IMPORTS:
                found += self._targets(node)
        return tuple(found)


def _forgives(handler: ast.ExceptHandler) -> bool:
    """Whether a handler is for what cannot be imported or found."""
    names = [last_name(one) for one in ast.walk(handler.type) if isinstance(one, ast.expr)] if handler.type else []
    return handler.type is None or bool({"ImportError", "ModuleNotFoundError", "Exception"} & set(names))
