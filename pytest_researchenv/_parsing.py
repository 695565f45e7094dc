"""Python sources, read as trees: never run, and quietly."""

from __future__ import annotations

import ast
import warnings


__all__ = ["last_name", "parse", "parsed", "written"]


def parse(source: bytes | str) -> ast.Module:
    """Parse a source without a word about its style.

    Raises:
        SyntaxError: it is no Python; for some of what is none, ValueError, RecursionError or MemoryError.
    """
    with warnings.catch_warnings():
        # Old code is full of invalid escapes: SyntaxWarning, and an error under `-W error`.
        warnings.simplefilter("ignore")
        return ast.parse(source)


def parsed(source: bytes | str) -> ast.Module | None:
    """Parse a source; None where it is no Python."""
    try:
        return parse(source)
    # Null bytes and wrong encodings are ValueError or LookupError, deep nesting RecursionError or MemoryError.
    except (SyntaxError, ValueError, LookupError, RecursionError, MemoryError):
        return None


def written(node: ast.expr) -> str:
    """How an expression is written; `?` where it is nested deeper than anybody writes it."""
    try:
        return ast.unparse(node)
    except RecursionError:
        return "?"


def last_name(node: ast.expr) -> str:
    """The last part of the name of what is called, or of a decorator, with or without a call; or an empty text."""
    called = node.func if isinstance(node, ast.Call) else node
    return getattr(called, "attr", getattr(called, "id", ""))
