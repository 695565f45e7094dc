"""What of a Python script decides what it does: its code, and the parts of shared modules that it uses.

Explanations do not count, and neither does what a module has for others: so a verdict stands when a probe is only
explained better, or when a shared module gets something new.
"""

from __future__ import annotations

import ast
import builtins
import io
import re
import sys
import tokenize
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import final

from pytest_researchenv._parsing import last_name, parsed


__all__ = ["code_of", "own_code"]

#: Every part of a module; and none of it but what runs when it is imported.
_ALL, _NONE = "*", ""

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_Definition = _Function | ast.ClassDef

#: What reaches a module's parts by other ways than their names, and what reads explanations.
_REACHING = frozenset({"__getattr__", "__import__", "__subclasses__", "eval", "exec", "globals", "locals", "vars"})
_READING = frozenset({"__doc__", "getcomments", "getdoc", "getsource", "getsourcelines"})
_IMPORTING = frozenset({"__import__", "find_spec", "import_module", "run_module"})

#: What does nothing but give a value, also as a decorator. Whatever else a definition calls may change other parts.
_PURE = frozenset(
    {
        *("Path", "absolute", "bool", "dict", "float", "frozenset", "get", "int", "len", "list", "set", "str", "tuple"),
        *("cache", "classmethod", "compile", "contextmanager", "dataclass", "field", "final", "lru_cache", "property"),
        *("inference_mode", "no_grad", "setter", "staticmethod"),
    }
)
#: Classes that are indifferent to what inherits them.
_BASES = frozenset(
    {
        *(name for name, one in vars(builtins).items() if isinstance(one, type)),
        *("Enum", "Function", "Handler", "IntEnum", "Module", "NamedTuple", "Protocol", "StrEnum", "TypedDict"),
    }
)


def code_of(script: Path, shared: Mapping[str, Path]) -> dict[str, bytes]:
    """Return the code of a script, under an empty name, and what it uses of shared modules, by name.

    Args:
        script: a Python script.
        shared: what it can import beside it: name → file. Of a script or module that cannot be parsed, everything
            counts.
    """
    beside = tuple((name, file.read_bytes()) for name, file in sorted(shared.items()))
    return dict(_code_of(script.read_bytes(), beside))


@lru_cache(maxsize=1024)
def _code_of(script: bytes, beside: tuple[tuple[str, bytes], ...]) -> dict[str, bytes]:
    """Do what `code_of` does, of contents: a page asks for the same of every result, many times."""
    shared = dict(beside)
    modules: dict[str, _Module | None] = {}
    used: dict[str, set[str]] = {}
    own = parsed(script)
    pending = list(_uses(own, shared))
    # What a shared module imports is no news where the script imports it itself, or where everybody has it.
    plain = sys.stdlib_module_names.union(shared, _imported(own) if own else ())
    while pending:
        name, part = pending.pop()
        if part in used.setdefault(name, set()):
            continue
        used[name].add(part)
        if name not in modules:
            tree = parsed(shared[name])
            modules[name] = _Module.of(tree, shared, plain) if tree else None
            pending.extend((other, _ALL) for other in (_told(tree, shared) if tree else shared))
            if tree and _reaches_itself(tree):
                pending.append((name, _ALL))
        module = modules[name]
        if module:
            pending.extend(module.needs(part, name))
    texts = {"": script} | {name: shared[name] for name in used}
    if any(tree and _mentions(tree, _READING) for tree in map(parsed, texts.values())):
        return texts
    found = {"": own_code(texts.pop(""))}
    for name, text in texts.items():
        module = modules[name]
        found[name] = own_code(text, module.lines(used[name])) if module else text
    return found


def own_code(script: bytes, numbers: set[int] | None = None) -> bytes:
    """Return a script's lines without docstrings, comments and blank lines; those of some numbers alone, if given.

    Lines within other strings stay as they are. Everything does where a script cannot be parsed, is no UTF-8, or reads
    its own explanations.
    """
    tree = parsed(script)
    # Positions are those in UTF-8, and the comment that names another encoding decides what texts say.
    if tree is None or _mentions(tree, _READING) or _encoding(script) not in {"utf-8", "utf-8-sig"}:
        return script
    lines = script.splitlines()
    docstrings = {number for node in ast.walk(tree) for number in _docstring(node, lines)}
    texts = {
        number
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes))
        for number in _several(node)
    }
    kept = (
        line if number in texts else line.rstrip()
        for number, line in enumerate(lines, 1)
        if number not in docstrings
        and (number in texts or not _says_nothing(line))
        and (numbers is None or number in numbers)
    )
    return b"\n".join(kept)


@final
@dataclass(frozen=True, slots=True)
class _Module:
    """The parts of a shared module.

    Attributes:
        parts: name that is bound at its top → the statements that bind it.
        frame: statements that do more than to bind names, whenever it is imported; they can be among the parts, too.
        imports: name → the shared modules, with a part of each, that the name can stand for.
    """

    parts: Mapping[str, list[ast.stmt]]
    frame: list[ast.stmt]
    imports: Mapping[str, set[tuple[str, str]]]

    @classmethod
    def of(cls, tree: ast.Module, shared: Mapping[str, object], plain: frozenset[str]) -> _Module:
        parts: dict[str, list[ast.stmt]] = {}
        frame: list[ast.stmt] = []
        imports: dict[str, set[tuple[str, str]]] = {}
        for name, meant in _imports(tree, shared):
            imports.setdefault(name, set()).add(meant)
        for node in tree.body:
            bound = list(_bound(node))
            for name in bound:
                parts.setdefault(name, []).append(node)
            if not bound or _does_more(node, plain):
                frame.append(node)
        return cls(parts, frame, imports)

    def needs(self, part: str, own: str) -> Iterator[tuple[str, str]]:
        """What a part, and importing the module at all, use: modules with names of parts."""
        nodes = [*self._nodes(part), *self.frame]
        names = {each.id for node in nodes for each in ast.walk(node) if isinstance(each, ast.Name)}
        # An annotation, or what a module's own attribute is asked for by, can be a text.
        names |= {each for node in nodes for each in _texts(node) if each.isidentifier()}
        # Any name can come from `import *`.
        for name in names | {part, _ALL}:
            yield from self.imports.get(name, ())
            if name in self.parts:
                yield own, name
        # Each module that is imported runs, whatever is used of it.
        yield from ((module, _NONE) for meant in self.imports.values() for module, _ in meant)

    def lines(self, parts: Iterable[str]) -> set[int]:
        """The numbers of the lines of some parts and of the frame."""
        nodes = [node for part in parts for node in self._nodes(part)] + self.frame
        return {number for node in nodes for number in range(_first(node), (node.end_lineno or node.lineno) + 1)}

    def _nodes(self, part: str) -> list[ast.stmt]:
        if part in self.parts or part == _NONE:
            return self.parts.get(part, [])
        return [node for nodes in self.parts.values() for node in nodes]


def _encoding(script: bytes) -> str:
    return tokenize.detect_encoding(io.BytesIO(script).readline)[0]


def _mentions(tree: ast.Module, names: frozenset[str]) -> bool:
    """Whether a script uses or defines any of some names; as an attribute, one that only Python itself has."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | _Function) and getattr(node, "id", getattr(node, "name", "")) in names:
            return True
        # `model.eval()` is no `eval`.
        if isinstance(node, ast.Attribute) and node.attr in names - {"eval", "exec", "locals", "vars"}:
            return True
    return False


def _imported(node: ast.AST) -> set[str]:
    """The top-level names that a script or a statement imports."""
    found: set[str] = set()
    for each in ast.walk(node):
        if isinstance(each, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in each.names}
        elif isinstance(each, ast.ImportFrom):
            found.add(str(each.module).partition(".")[0])
    return found


def _texts(node: ast.AST) -> Iterator[str]:
    """All texts in a script or a statement, but those that stand alone: they explain."""
    explaining = {id(each.value) for each in ast.walk(node) if isinstance(each, ast.Expr)}
    for each in ast.walk(node):
        if isinstance(each, ast.Constant) and isinstance(each.value, str) and id(each) not in explaining:
            yield each.value


def _told(tree: ast.Module, shared: Mapping[str, object]) -> Iterator[str]:
    """The shared modules that a script names in texts: to import them when it runs, or to run them."""
    # A text that is the name alone is a key as often.
    names = {text for node in ast.walk(tree) if _fetches(node) for text in _texts(node)}
    for text in _texts(tree):
        for name in (name for name in shared if name in text):
            if name in names or text == f"{name}.py" or re.search(rf"\b(import|from|-m)\s+{name}\b", text):
                yield name


def _reaches_itself(tree: ast.Module) -> bool:
    """Whether a module gets at its parts by other ways than their names."""
    own = (each for node in ast.walk(tree) if _fetches(node) for each in ast.walk(node))
    return _mentions(tree, _REACHING) or any(isinstance(each, ast.Name) and each.id == "__name__" for each in own)


def _fetches(node: ast.AST) -> bool:
    """Whether something gets a module by its name."""
    return (isinstance(node, ast.Call) and last_name(node.func) in _IMPORTING) or (
        isinstance(node, ast.Subscript) and last_name(node.value) == "modules"
    )


def _uses(tree: ast.Module | None, shared: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """What a script takes from shared modules: pairs of a module and a part."""
    if tree is None:
        yield from ((name, _ALL) for name in shared)
        return
    yield from ((name, _ALL) for name in _told(tree, shared))
    whole: dict[str, set[str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module in shared and not node.level:
            yield from ((str(node.module), alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            for alias in (alias for alias in node.names if alias.name in shared):
                whole.setdefault(alias.asname or alias.name, set()).add(alias.name)
    bases = [node.value for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in whole:
            yield from ((name, node.attr) for name in whole[node.value.id])
        elif isinstance(node, ast.Name) and node.id in whole and not any(node is base for base in bases):
            yield from ((name, _ALL) for name in whole[node.id])
    # A module that is imported and never used runs even so.
    yield from ((name, _NONE) for names in whole.values() for name in names)


def _imports(tree: ast.Module, shared: Mapping[str, object]) -> Iterator[tuple[str, tuple[str, str]]]:
    """Names that stand for a shared module, or a part of one, with both."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module in shared and not node.level:
            yield from ((alias.asname or alias.name, (node.module, alias.name)) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((one.asname or one.name, (one.name, _ALL)) for one in node.names if one.name in shared)


def _bound(node: ast.stmt) -> Iterator[str]:
    """The names that a statement at a module's top binds."""
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            yield from (alias.asname or alias.name.partition(".")[0] for alias in names if alias.name != _ALL)
        case ast.Assign(targets=targets):
            yield from (each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name))
        case ast.AnnAssign(target=ast.Name(id=name)):
            yield name


def _does_more(node: ast.stmt, plain: frozenset[str]) -> bool:
    """Whether a statement at a module's top that binds names can do more, when the module is imported."""
    match node:
        case ast.Import() | ast.ImportFrom():
            # A package can be missing, and can do what it likes.
            return not _imported(node) <= plain
        case ast.Assign(targets=targets) if not all(isinstance(one, ast.Name | ast.Tuple) for one in targets):
            return True
    return any(_is_at_work(each) for each in _run_at_import(node))


def _is_at_work(node: ast.AST) -> bool:
    """Whether an expression or a statement can change anything but the name that it is bound to."""
    if isinstance(node, ast.Call):
        return last_name(node.func) not in _PURE
    if isinstance(node, _Definition) and any(last_name(one) not in _PURE for one in node.decorator_list):
        return True
    if isinstance(node, ast.ClassDef):
        # A class can look at those that inherit it.
        return bool(node.keywords) or not all(last_name(base) in _BASES for base in node.bases)
    stored = isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load)
    return stored or isinstance(node, ast.NamedExpr | ast.Await | ast.Yield | ast.YieldFrom)


def _run_at_import(node: ast.AST) -> Iterator[ast.AST]:
    """A statement, and all parts of it that run when it does: not what functions do."""
    waiting = [node]
    while waiting:
        each = waiting.pop()
        yield each
        if isinstance(each, _Function):
            waiting += [*each.decorator_list, each.args]
        elif isinstance(each, ast.Lambda):
            waiting.append(each.args)
        elif not isinstance(each, ast.arg):
            waiting += ast.iter_child_nodes(each)


def _first(node: ast.stmt) -> int:
    """The first line of a statement, with its decorators."""
    decorators = node.decorator_list if isinstance(node, _Definition) else []
    return min([node.lineno, *(one.lineno for one in decorators)])


def _docstring(node: ast.AST, lines: list[bytes]) -> Iterator[int]:
    """The lines of a node's docstring, where nothing else stands on them."""
    if isinstance(node, ast.Module | _Definition) and ast.get_docstring(node):
        text = node.body[0]
        first, last = text.lineno, text.end_lineno or text.lineno
        before, behind = lines[first - 1][: text.col_offset], lines[last - 1][text.end_col_offset :]
        if _says_nothing(before) and _says_nothing(behind):
            yield from range(first, last + 1)


def _several(node: ast.expr) -> range:
    """The lines of a text that has more than one."""
    last = node.end_lineno or node.lineno
    return range(node.lineno, last + 1) if last > node.lineno else range(0)


def _says_nothing(line: bytes) -> bool:
    stripped = line.strip()
    return not stripped or stripped.startswith(b"#")
