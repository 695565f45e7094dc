"""What a source imports, told without running it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from pytest_researchenv._parsing import last_name, parsed


__all__ = ["imported"]

_IMPORTING = frozenset({"__import__", "import_module"})
_RUNNING = frozenset({"compile", "eval", "exec"})


def imported(text: str, *, alone: bool = False) -> frozenset[str]:
    """Top-level names that a source imports, code in texts included.

    Args:
        text: the source.
        alone: whether only what is imported when the source itself is counts: not what its functions do.
    """
    tree = parsed(text)
    return frozenset(_names(tree, alone=alone)) if tree else frozenset()


def _names(tree: ast.AST, *, alone: bool) -> Iterator[str]:
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield (node.module or "").partition(".")[0]
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called, text = last_name(node), node.args[0].value
            if isinstance(text, str) and called in _IMPORTING:
                yield text.partition(".")[0]
            elif isinstance(text, str) and called in _RUNNING:
                yield from imported(text, alone=alone)
        if not (alone and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)):
            waiting.extend(ast.iter_child_nodes(node))
