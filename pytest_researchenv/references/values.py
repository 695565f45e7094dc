"""What an expression of a script can come to, as far as constants tell: texts, and the elements of lists.

An unknown part of a text is `WILD`, the repository's folder is `ROOT`. A name has every value that it gets anywhere in
its scope, and a parameter every one that a call in the script gives it.
"""

from __future__ import annotations

import ast
import itertools
import posixpath
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar, final

from pytest_researchenv._parsing import last_name
from pytest_researchenv.references.script import How, Origin, Script, keywords


__all__ = ["ROOT", "WILD", "Values", "join"]

_T = TypeVar("_T")

#: Stands for what is not known.
WILD = "\0"
#: Stands for the repository's folder.
ROOT = "\1"

#: Most values that are told apart, and how deep they are looked for.
_MOST = 64
_DEEPEST = 16
_MOST_STEPS = 2000

#: The variable that names the repository's folder, and what probes call it.
_VARIABLE = "RESEARCHENV_REPO"
_CONSTANT = "REPO"

#: Calls that give back the path that they are given or called on, and those that join.
_SAME = frozenset({"str", "fspath", "resolve", "absolute", "as_posix", "abspath", "expanduser"})
_JOINS = frozenset({"Path", "PurePosixPath", "join", "joinpath"})
_LISTS = frozenset({"list", "tuple", "sorted", "set", "map", "reversed", "iter"})


def join(folder: str, name: str) -> str:
    """Join two paths; one that begins at a root stands alone."""
    return name if name.startswith((ROOT, "/")) else posixpath.normpath(f"{folder}/{name}")


@final
class Values:
    """The values of one script."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._open: set[tuple[str, ast.expr]] = set()
        self._steps = 0
        #: Function → the call of it that is looked into.
        self._calling: dict[str, ast.Call] = {}

    def texts(self, node: ast.expr) -> list[str]:
        """Every text that an expression can come to."""
        found = self._within(node, self._texts, _MOST)
        return list(dict.fromkeys(found)) or [WILD]

    def elements(self, node: ast.expr) -> list[ast.expr]:
        """The elements of a list, a tuple, or whatever is iterated over, in order; those of all that it can be."""
        return self._within(node, self._elements, _MOST * 4)

    def pairs(self, node: ast.expr) -> list[tuple[ast.expr, ast.expr]]:
        """The keys and values of a dictionary."""
        return self._within(node, self._pairs, _MOST * 4)

    def _within(self, node: ast.expr, find: Callable[[ast.expr], Iterable[_T]], most: int) -> list[_T]:
        """At most so many of what is found. Definitions can be circular, or branch without end: then nothing is."""
        if not self._open:
            self._steps = 0
        self._steps += 1
        question = (find.__name__, node)
        if question in self._open or len(self._open) > _DEEPEST or self._steps > _MOST_STEPS:
            return []
        self._open.add(question)
        try:
            return list(itertools.islice(find(node), most))
        finally:
            self._open.remove(question)

    # --- names --------------------------------------------------------------------------------------------

    def _values(self, name: ast.Name) -> Iterator[ast.expr]:
        for origin in self._script.bound(name) or ():
            yield from self._origin(origin)

    def _origin(self, origin: Origin) -> Iterable[ast.expr]:
        call = self._calling.get(origin.function)
        calls = [call] if call else self._script.calls.get(origin.function, [])
        match origin.how:
            case How.VALUE:
                return [origin.node]
            case How.ELEMENT:
                return self.elements(origin.node)
            case How.KEY | How.ITEM:
                return [pair[origin.how is How.ITEM] for pair in self.pairs(origin.node)]
            case How.PLACE:
                return self._places(origin.node, origin.place)
            case _:
                return self._from_calls(origin, calls)

    @staticmethod
    def _from_calls(origin: Origin, calls: list[ast.Call]) -> list[ast.expr]:
        """What the script's own calls of a function give one of its parameters."""
        if origin.how is How.KEYWORDS:
            return [keywords(calls)]
        if origin.how is How.REST:
            return [ast.List([argument for call in calls for argument in call.args[origin.place :]])]
        given = []
        for call in calls:
            before = call.args[: origin.place + 1]
            if 0 <= origin.place < len(call.args) and not any(isinstance(one, ast.Starred) for one in before):
                given.append(call.args[origin.place])
            given += [keyword.value for keyword in call.keywords if keyword.arg == origin.name]
        return given

    def _places(self, iterable: ast.expr, place: int) -> list[ast.expr]:
        """What stands at a place of the tuples that are iterated over."""
        if isinstance(iterable, ast.Call) and last_name(iterable) == "zip":
            return self.elements(iterable.args[place]) if place < len(iterable.args) else []
        if isinstance(iterable, ast.Call) and last_name(iterable) == "enumerate":
            return self.elements(iterable.args[0]) if place and iterable.args else []
        rows = [row for row in self.elements(iterable) if isinstance(row, ast.Tuple | ast.List)]
        return [row.elts[place] for row in rows if place < len(row.elts)]

    def _returned(self, node: ast.Call, find: Callable[[ast.expr], list[_T]]) -> list[_T]:
        """What is found in all that a function of the script returns, with the arguments of this call."""
        name = last_name(node)
        before = dict(self._calling)
        self._calling[name] = node
        try:
            return [one for value in self._script.returns.get(name, ()) for one in find(value)]
        finally:
            self._calling = before

    # --- texts --------------------------------------------------------------------------------------------

    def _texts(self, node: ast.expr) -> Iterable[str]:
        found: Iterable[str] = ()
        match node:
            case ast.Constant(value=str() | int() | float() as value):
                found = [str(value)]
            case ast.Name():
                found = self._named(node)
            case ast.Attribute(value=value, attr=name):
                found = self._attribute(value, name)
            case ast.BinOp(left=left, op=ast.Div(), right=right):
                found = _product(join, self.texts(left), self.texts(right))
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                found = _product(str.__add__, self.texts(left), self.texts(right))
            case ast.JoinedStr(values=parts):
                found = self._joined(parts)
            case ast.IfExp(body=one, orelse=other) | ast.BoolOp(values=[one, other]):
                found = [*self.texts(one), *self.texts(other)]
            case ast.Subscript(value=ast.Attribute(attr="environ"), slice=ast.Constant(value=name)):
                found = [ROOT if name == _VARIABLE else WILD]
            case ast.Call():
                found = self._call(node)
        return found

    def _named(self, name: ast.Name) -> list[str]:
        if self._script.bound(name) is None:
            return [ROOT if name.id == _CONSTANT else WILD]
        return [text for value in self._values(name) for text in self.texts(value)]

    def _attribute(self, value: ast.expr, name: str) -> list[str]:
        if name == _CONSTANT:
            return [ROOT]
        if name == "parent":
            return [posixpath.dirname(text) or WILD for text in self.texts(value)]
        return [WILD]

    def _joined(self, parts: list[ast.expr]) -> list[str]:
        found = [""]
        for part in parts:
            inner = part.value if isinstance(part, ast.FormattedValue) else part
            found = _product(str.__add__, found, self.texts(inner))
        return found

    def _call(self, node: ast.Call) -> Iterable[str]:
        name = last_name(node)
        owner = [node.func.value] if isinstance(node.func, ast.Attribute) else []
        if name in _JOINS and node.args:
            # `os.path.join` and `pathlib.Path` are called on modules, `joinpath` on a path.
            paths = [*owner, *node.args] if name == "joinpath" else node.args
            found = self.texts(paths[0])
            for path in paths[1:]:
                found = _product(join, found, self.texts(path))
            return found
        if name in _SAME and (node.args or owner):
            return self.texts((node.args or owner)[0])
        if name in {"get", "getenv"} and node.args and self.texts(node.args[0]) == [_VARIABLE]:
            return [ROOT]
        return self._returned(node, self.texts)

    # --- lists and dictionaries ---------------------------------------------------------------------------

    def _elements(self, node: ast.expr) -> Iterable[ast.expr]:
        found: Iterable[ast.expr] = ()
        match node:
            case ast.List(elts=elements) | ast.Tuple(elts=elements) | ast.Set(elts=elements):
                found = itertools.chain.from_iterable(map(self._unpacked, elements))
            case ast.ListComp(elt=element) | ast.GeneratorExp(elt=element):
                found = self._unpacked(element)
            case ast.Name():
                lists = [*self._values(node), ast.List(self._script.added(node))]
                found = itertools.chain.from_iterable(map(self.elements, lists))
            case ast.BinOp(left=one, op=ast.Add(), right=other) | ast.IfExp(body=one, orelse=other):
                found = [*self.elements(one), *self.elements(other)]
            case ast.Call(func=ast.Attribute(value=owner, attr="split" | "items" | "keys" | "values" as name)):
                found = self._listed(owner, name)
            case ast.Call(args=[*_, iterable]) if last_name(node) in _LISTS:
                found = self.elements(iterable)
            case ast.Call():
                found = self._returned(node, self._written)
            case ast.Dict():
                found = [key for key, _ in self.pairs(node)]
        return found

    def _listed(self, owner: ast.expr, method: str) -> list[ast.expr]:
        """The words of a text, or what a dictionary holds."""
        if method == "split":
            return [ast.Constant(word) for text in self.texts(owner) for word in text.split()]
        pairs = self.pairs(owner)
        if method == "items":
            return [ast.Tuple([key, value]) for key, value in pairs]
        return [key if method == "keys" else value for key, value in pairs]

    def _written(self, node: ast.expr) -> list[ast.expr]:
        """The elements of a list that a call returns, with what its arguments come to."""
        return [ast.Constant(text) for element in self.elements(node) for text in self.texts(element)]

    def _unpacked(self, node: ast.expr) -> list[ast.expr]:
        return self.elements(node.value) if isinstance(node, ast.Starred) else [node]

    def _pairs(self, node: ast.expr) -> Iterable[tuple[ast.expr, ast.expr]]:
        merged: Iterable[ast.expr] = ()
        match node:
            case ast.DictComp(key=key, value=value):
                return [(key, value)]
            case ast.Dict(keys=keys, values=values):
                both = zip(keys, values, strict=True)
                return itertools.chain.from_iterable(
                    self.pairs(value) if key is None else [(key, value)] for key, value in both
                )
            case ast.Name():
                merged = [*self._values(node), *self._script.keyed(node)]
            case ast.BinOp(left=one, op=ast.BitOr(), right=other) | ast.IfExp(body=one, orelse=other):
                merged = [one, other]
            case ast.Call():
                if last_name(node) != "dict":
                    return self._returned(node, self.pairs)
                merged = [*node.args, keywords([node])]
        return itertools.chain.from_iterable(map(self.pairs, merged))


def _product(combine: Callable[[str, str], str], some: Iterable[str], others: Iterable[str]) -> list[str]:
    return [combine(one, other) for one, other in itertools.islice(itertools.product(some, others), _MOST)]
