"""What a module of a tree binds at its top level, followed through imports, and which arguments a definition takes."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cache
from pathlib import PurePosixPath
from typing import final

from pytest_researchenv._parsing import last_name
from pytest_researchenv.references.tree import SourceTree


__all__ = ["Definition", "Names", "Seen"]

_Function = ast.FunctionDef | ast.AsyncFunctionDef

#: Decorators that leave the arguments as they are.
_HARMLESS = frozenset(
    {"no_grad", "inference_mode", "cache", "lru_cache", "contextmanager", "staticmethod", "classmethod", "record"}
)


class Seen(Enum):
    """What was found out."""

    FOUND = "found"
    MISSING = "missing"
    UNKNOWN = "cannot tell"


@dataclass(frozen=True, slots=True)
class Definition:
    """A module of the tree, or a class or function in one.

    Attributes:
        path: the module's file, or a package's folder.
        node: the class or function; None for a module.
    """

    path: str
    node: ast.ClassDef | _Function | None = None


@dataclass(slots=True)
class _Module:
    bound: dict[str, list[ast.AST | tuple[str, str]]] = field(default_factory=dict)
    stars: list[str] = field(default_factory=list)
    dynamic: bool = False

    def bind(self, name: str, what: ast.AST | tuple[str, str]) -> None:
        self.bound.setdefault(name, []).append(what)


@final
class Names:
    """The names of all modules of a tree.

    Args:
        tree: the tree.
        roots: folders that its modules are imported from, in order.
    """

    def __init__(self, tree: SourceTree, roots: Sequence[str]) -> None:
        self._tree = tree
        self._roots = tuple(roots)
        self._read = cache(self._read_module)

    def module(self, dotted: str, near: str = "") -> str | None:
        """Where a module is that a file, or nobody in particular, imports absolutely."""
        folder = str(PurePosixPath(near).parent)
        return self._tree.find(dotted, (folder, *self._roots) if near else self._roots)

    def look(self, path: str, name: str) -> tuple[Seen, list[Definition]]:
        """Whether a module binds a name at its top level, and what the tree defines it as."""
        return self._look(path, name, set())

    def _look(self, path: str, name: str, asked: set[tuple[str, str]]) -> tuple[Seen, list[Definition]]:
        if (path, name) in asked:
            return Seen.MISSING, []
        asked.add((path, name))
        module = self._read(path)
        definitions = []
        for what in module.bound.get(name, ()) if module else ():
            if isinstance(what, tuple):
                definitions += self._imported(*what, asked)
            elif isinstance(what, ast.ClassDef | _Function):
                definitions.append(Definition(path, what))
        if module and name in module.bound:
            return Seen.FOUND, definitions
        if found := self._submodule(path, name):
            return Seen.FOUND, [Definition(found)]
        return self._elsewhere(module, name, asked)

    def _submodule(self, path: str, name: str) -> str | None:
        pure = PurePosixPath(path)
        if pure.suffix == ".py" and pure.name != "__init__.py":
            return None
        return self._tree.find(name, (str(pure.parent) if pure.suffix == ".py" else path,))

    def _elsewhere(
        self, module: _Module | None, name: str, asked: set[tuple[str, str]]
    ) -> tuple[Seen, list[Definition]]:
        """Look for a name in what a module imports by `*`."""
        if module is None:
            return Seen.UNKNOWN, []
        unknown = module.dynamic
        for star in module.stars:
            seen, definitions = self._look(star, name, asked) if star else (Seen.UNKNOWN, [])
            if seen is Seen.FOUND:
                return seen, definitions
            unknown |= seen is Seen.UNKNOWN
        return (Seen.UNKNOWN if unknown else Seen.MISSING), []

    def _imported(self, path: str, name: str, asked: set[tuple[str, str]]) -> list[Definition]:
        """What the tree has under a name that is imported from a module of it."""
        if not path:
            return []
        return self._look(path, name, asked)[1] if name else [Definition(path)]

    # --- one module ---------------------------------------------------------------------------------------

    def imports(self, path: str) -> Iterator[str]:
        """The modules of the tree that a module imports, anywhere in it."""
        for node in ast.walk(self._tree.module(path) or ast.Module([], [])):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    yield from self._prefixes(alias.name, path)
            elif isinstance(node, ast.ImportFrom):
                source = self._source(node, path)
                inner = [self._submodule(source, alias.name) for alias in node.names] if source else []
                yield from (found for found in (source, *inner) if found)

    def _prefixes(self, dotted: str, path: str) -> Iterator[str]:
        parts = dotted.split(".")
        for length in range(1, len(parts) + 1):
            if found := self.module(".".join(parts[:length]), path):
                yield found

    def _source(self, node: ast.ImportFrom, path: str) -> str:
        """Where the module is that names are imported from; empty where it is not in the tree."""
        if not node.level:
            return self.module(node.module or "", path) or ""
        folder = PurePosixPath(path)
        for _ in range(node.level):
            folder = folder.parent
        if not node.module:
            own = str(folder / "__init__.py")
            return own if own in self._tree.files else str(folder)
        return self._tree.find(node.module, (str(folder),)) or ""

    def _read_module(self, path: str) -> _Module | None:
        if path in self._tree.folders:
            return _Module()
        parsed = self._tree.module(path)
        if parsed is None:
            return None
        module = _Module()
        try:
            self._block(parsed.body, module, path)
        except RecursionError:
            return None
        for node in ast.walk(parsed):
            if isinstance(node, ast.Global):
                for name in node.names:
                    module.bind(name, node)
        return module

    def _block(self, body: Sequence[ast.AST], module: _Module, path: str) -> None:
        for node in body:
            match node:
                case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                    module.bind(node.name, node)
                    # PEP 562: names are made when they are asked for.
                    module.dynamic |= node.name == "__getattr__"
                case ast.Import(names=names):
                    for alias in names:
                        target = alias.name if alias.asname else alias.name.partition(".")[0]
                        module.bind(alias.asname or target, (self.module(target, path) or "", ""))
                case ast.ImportFrom():
                    self._import_from(node, module, path)
                case ast.Lambda() | ast.comprehension():
                    pass
                case ast.If(test=ast.Name(id="TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING")):
                    self._block(node.orelse, module, path)
                case _:
                    self._statement(node, module)
                    self._block(list(ast.iter_child_nodes(node)), module, path)

    def _import_from(self, node: ast.ImportFrom, module: _Module, path: str) -> None:
        source = self._source(node, path)
        for alias in node.names:
            if alias.name == "*":
                module.stars.append(source)
            else:
                module.bind(alias.asname or alias.name, (source, alias.name))

    @staticmethod
    def _statement(node: ast.AST, module: _Module) -> None:
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.ExceptHandler(name=str() as name):
                module.bind(name, node)
            case ast.MatchAs(name=str() as name) | ast.MatchStar(name=str() as name):
                module.bind(name, node)
            case ast.Subscript(
                value=ast.Call(func=ast.Name(id="globals")), slice=ast.Constant(value=str() as name), ctx=ast.Store()
            ):
                module.bind(name, node)
            case ast.Call(func=ast.Name(id="exec" | "globals" | "setattr" | "vars")):
                module.dynamic = True
            case ast.Subscript(value=ast.Attribute(value=ast.Name(id="sys"), attr="modules"), ctx=ast.Store()):
                module.dynamic = True

    # --- arguments ----------------------------------------------------------------------------------------

    def takes(self, definition: Definition, keyword: str) -> Seen:
        """Whether a class or function of the tree takes a keyword argument."""
        if isinstance(definition.node, ast.ClassDef):
            return self._class_takes(definition, keyword, set())
        return _function_takes(definition.node, keyword) if definition.node else Seen.UNKNOWN

    def _class_takes(self, definition: Definition, keyword: str, asked: set[tuple[str, str]]) -> Seen:
        node = definition.node
        if not isinstance(node, ast.ClassDef) or (definition.path, node.name) in asked:
            return Seen.UNKNOWN
        asked.add((definition.path, node.name))
        if makers := [one for one in node.body if isinstance(one, _Function) and one.name in ("__init__", "__new__")]:
            return _best([_function_takes(maker, keyword) for maker in makers])
        if any(isinstance(one, ast.AnnAssign) and getattr(one.target, "id", "") == keyword for one in node.body):
            return Seen.FOUND
        seen = [Seen.UNKNOWN] if node.keywords else []
        for base in node.bases:
            found = self._look(definition.path, base.id, set())[1] if isinstance(base, ast.Name) else []
            seen += [self._class_takes(one, keyword, asked) for one in found] or [Seen.UNKNOWN]
        return _best(seen)

    def member(self, definition: Definition, name: str) -> tuple[Seen, list[Definition]]:
        """Whether a class of the tree has an attribute of that name in its body, or in that of a class it inherits."""
        return self._member(definition, name, set())

    def _member(self, definition: Definition, name: str, asked: set[tuple[str, str]]) -> tuple[Seen, list[Definition]]:
        node = definition.node
        if not isinstance(node, ast.ClassDef) or (definition.path, node.name) in asked:
            return Seen.UNKNOWN, []
        asked.add((definition.path, node.name))
        body = _Module()
        self._block(node.body, body, definition.path)
        if name in body.bound:
            methods = [one for one in body.bound[name] if isinstance(one, _Function)]
            return Seen.FOUND, [Definition(definition.path, method) for method in methods]
        unknown = bool(node.keywords or node.decorator_list) or body.dynamic
        for base in node.bases:
            found = self._look(definition.path, base.id, set())[1] if isinstance(base, ast.Name) else []
            answers = [self._member(one, name, asked) for one in found] or [(Seen.UNKNOWN, [])]
            if here := [answer for answer in answers if answer[0] is Seen.FOUND]:
                return here[0]
            unknown |= any(answer[0] is Seen.UNKNOWN for answer in answers)
        return (Seen.UNKNOWN if unknown else Seen.MISSING), []


def _function_takes(node: _Function, keyword: str) -> Seen:
    if any(argument.arg == keyword for argument in (*node.args.args, *node.args.kwonlyargs)):
        return Seen.FOUND
    if node.args.kwarg or not all(last_name(one) in _HARMLESS for one in node.decorator_list):
        return Seen.UNKNOWN
    return Seen.MISSING


def _best(seen: Sequence[Seen]) -> Seen:
    for answer in (Seen.FOUND, Seen.UNKNOWN):
        if answer in seen:
            return answer
    return Seen.MISSING
