"""What gives the names of a script their values: read once. Scopes are functions, and the script itself."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import final

from pytest_researchenv._parsing import last_name


__all__ = ["How", "Origin", "Script", "keywords"]

#: The functions around something, as numbers; none for what stands in the script itself.
_Scope = tuple[int, ...]
_Key = tuple[_Scope, str]
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


class How(Enum):
    """How a name comes by a value."""

    VALUE = auto()
    ELEMENT = auto()
    KEY = auto()
    ITEM = auto()
    PLACE = auto()
    GIVEN = auto()
    REST = auto()
    KEYWORDS = auto()
    UNKNOWN = auto()


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value comes from.

    Attributes:
        how: which of the others count.
        node: the value itself; what is iterated over; or the mapping whose keys or values are.
        place: the place in the tuples that are iterated over, or among a function's parameters.
        function: the function whose calls give a parameter its value.
        name: that parameter's name.
    """

    how: How
    node: ast.expr = field(default_factory=lambda: ast.Constant(None))
    place: int = -1
    function: str = ""
    name: str = ""


def keywords(calls: list[ast.Call]) -> ast.Dict:
    """The keyword arguments of some calls, as a dictionary."""
    named = [keyword for call in calls for keyword in call.keywords]
    return ast.Dict([ast.Constant(one.arg) if one.arg else None for one in named], [one.value for one in named])


@final
class Script:
    """One script, with the functions of modules that lie beside it.

    Attributes:
        calls: last part of a name → calls of what is called so.
        returns: function → what it returns.
    """

    def __init__(self, module: ast.Module, shared: Sequence[ast.Module] = ()) -> None:
        self._bound: dict[_Key, list[Origin]] = defaultdict(list)
        self._added: dict[_Key, list[ast.expr]] = defaultdict(list)
        self._keyed: dict[_Key, list[ast.expr]] = defaultdict(list)
        self._scopes: dict[ast.AST, _Scope] = {}
        self.calls: dict[str, list[ast.Call]] = defaultdict(list)
        self.returns: dict[str, list[ast.expr]] = defaultdict(list)
        self._walk(module, ())
        own = set(self.returns)
        for number, other in enumerate(shared, 1):
            self._walk(other, (-number,), own)

    def _walk(self, module: ast.Module, scope: _Scope, known: Collection[str] = ()) -> None:
        """Note everything in a module, but functions that are known already."""
        waiting: list[tuple[ast.AST, _Scope]] = [(module, scope)]
        while waiting:
            node, outer = waiting.pop(0)
            if isinstance(node, ast.FunctionDef) and node.name in known:
                continue
            self._scopes[node] = outer
            inner = (*outer, len(self._scopes)) if isinstance(node, _FUNCTIONS) else outer
            self._note(node, inner)
            waiting += [(child, inner) for child in ast.iter_child_nodes(node)]

    def bound(self, node: ast.Name) -> list[Origin] | None:
        """Where the values of a name come from; None where nothing but an import, or nothing at all, gives it one."""
        return self._bound.get(self._key(node))

    def added(self, node: ast.Name) -> list[ast.expr]:
        """What is added to a list of that name."""
        return self._added.get(self._key(node), [])

    def keyed(self, node: ast.Name) -> list[ast.expr]:
        """The dictionaries that one of that name is updated with."""
        return self._keyed.get(self._key(node), [])

    def _key(self, node: ast.Name) -> _Key:
        """The innermost scope in which a name gets a value."""
        scope = self._scopes.get(node, ())
        inner = (scope[:length] for length in range(len(scope), 0, -1))
        return next(((one, node.id) for one in inner if (one, node.id) in self._bound), ((), node.id))

    def _note(self, node: ast.AST, scope: _Scope) -> None:
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    self._assign(target, value, scope)
            case ast.AnnAssign(target=ast.Name() as target, value=ast.expr() as value):
                self._assign(target, value, scope)
            case ast.NamedExpr(target=target, value=value):
                self._assign(target, value, scope)
            case ast.AugAssign(target=ast.Name(id=name), value=value):
                self._added[scope, name].append(ast.Starred(value))
                self._keyed[scope, name].append(value)
            case ast.For(target=target, iter=iterable) | ast.comprehension(target=target, iter=iterable):
                self._iterate(target, iterable, scope)
            case ast.FunctionDef():
                self._function(node, scope)
            case ast.Call():
                self._call(node, scope)

    def _assign(self, target: ast.expr, value: ast.expr, scope: _Scope) -> None:
        match target, value:
            case ast.Name(id=name), _:
                self._bound[scope, name].append(Origin(How.VALUE, value))
            case ast.Tuple(elts=targets), ast.Tuple(elts=values) if len(targets) == len(values):
                for one, other in zip(targets, values, strict=True):
                    self._assign(one, other, scope)
            case ast.Subscript(value=ast.Name(id=name), slice=key), _:
                self._keyed[scope, name].append(ast.Dict([key], [value]))
            case ast.Tuple(elts=targets), _:
                for one in targets:
                    if isinstance(one, ast.Name):
                        self._bound[scope, one.id].append(Origin(How.UNKNOWN))

    def _iterate(self, target: ast.expr, iterable: ast.expr, scope: _Scope) -> None:
        match target, iterable:
            case ast.Name(id=name), _:
                self._bound[scope, name].append(Origin(How.ELEMENT, iterable))
            case (
                ast.Tuple(elts=[ast.Name(id=key), ast.Name(id=value)]),
                ast.Call(func=ast.Attribute(value=mapping, attr="items")),
            ):
                self._bound[scope, key].append(Origin(How.KEY, mapping))
                self._bound[scope, value].append(Origin(How.ITEM, mapping))
            case ast.Tuple(elts=targets), _:
                for place, one in enumerate(targets):
                    if isinstance(one, ast.Name):
                        self._bound[scope, one.id].append(Origin(How.PLACE, iterable, place))

    def _function(self, node: ast.FunctionDef, scope: _Scope) -> None:
        own = node.args
        ordered = [*own.posonlyargs, *own.args]
        for place, one in enumerate(ordered):
            self._bound[scope, one.arg].append(Origin(How.GIVEN, place=place, function=node.name, name=one.arg))
        for only in own.kwonlyargs:
            self._bound[scope, only.arg].append(Origin(How.GIVEN, function=node.name, name=only.arg))
        defaulted = ordered[len(ordered) - len(own.defaults) :]
        for one, default in zip([*defaulted, *own.kwonlyargs], [*own.defaults, *own.kw_defaults], strict=True):
            if default is not None:
                self._bound[scope, one.arg].append(Origin(How.VALUE, default))
        if own.vararg:
            self._bound[scope, own.vararg.arg].append(Origin(How.REST, place=len(ordered), function=node.name))
        if own.kwarg:
            self._bound[scope, own.kwarg.arg].append(Origin(How.KEYWORDS, function=node.name))
        self.returns[node.name] += [
            one.value for one in ast.walk(node) if isinstance(one, ast.Return) and one.value is not None
        ]

    def _call(self, node: ast.Call, scope: _Scope) -> None:
        self.calls[last_name(node)].append(node)
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append"), args=[value]):
                self._added[scope, name].append(value)
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="extend"), args=[value]):
                self._added[scope, name].append(ast.Starred(value))
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="update"), args=arguments):
                self._keyed[scope, name] += [*arguments, keywords([node])]
