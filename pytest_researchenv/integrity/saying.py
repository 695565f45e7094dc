"""Sources that only say something of the build that wrote them."""

from __future__ import annotations

import ast
import re

from pytest_researchenv._parsing import parsed, written
from pytest_researchenv.integrity.protocol import Entry


__all__ = ["only_says"]

#: Names of sources that builds write, and the largest of those that only say something of a build.
_SAYING = re.compile(r"_*(?:git_?|build_?)?(?:version|build|config|info|about|meta|commit|revision)(?:_?info)?_*\.py")
_SAYING_BYTES = 16 * 1024
#: What a source that a build step wrote may use: those of setuptools-scm and versioneer do.
_USED = frozenset({"__future__", "json", "typing"})
_READ = re.compile(r"json\.loads|typing\.[A-Z]\w*")


def only_says(name: str, entry: Entry) -> bool:
    """Whether a source only says something of a build, such as a version, and does nothing.

    Args:
        name: of its file.
        entry: the file, with its content.
    """
    if not _SAYING.fullmatch(name) or entry.size > _SAYING_BYTES:
        return False
    tree = parsed(entry.content or b"")
    return tree is not None and all(map(_is_harmless, ast.walk(tree)))


def _is_harmless(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        return written(node.func) == "json.loads"
    if isinstance(node, ast.Import):
        return all(alias.name in _USED and alias.asname is None for alias in node.names)
    if isinstance(node, ast.ImportFrom):
        return node.module in _USED and not node.level
    if isinstance(node, ast.Attribute):
        # `typing.sys.modules` leads everywhere, and needs no call to be changed.
        return isinstance(node.ctx, ast.Load) and _READ.fullmatch(written(node)) is not None
    if isinstance(node, ast.Name):
        return node.id != "__builtins__"
    return not isinstance(node, ast.ClassDef | ast.AsyncFunctionDef | ast.Lambda | ast.Global | ast.Delete) and not (
        isinstance(node, ast.FunctionDef) and bool(node.decorator_list)
    )
