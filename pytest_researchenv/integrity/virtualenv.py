"""The start-up code that virtualenv, and older versions of uv, put into every environment, and list nowhere.

`_virtualenv.pth` imports `_virtualenv.py`, which makes distutils ignore configuration files. No probe needs that, so
what is not exactly known is taken out of the probe's world; it is held against an agent only where it does more.
"""

from __future__ import annotations

import ast

from pytest_researchenv._parsing import parsed


__all__ = ["KNOWN", "PTH", "is_known_line", "suspicion"]

PTH = "_virtualenv.pth"

#: SHA-256 of `_virtualenv.py` of virtualenv 20.0 to 21.15.
KNOWN = frozenset(
    (
        "0278334cdcfab4c746b4416fbd5c2b6e7da937c81e132397d62c361d404ebe0e",
        "684b8c07932ba4a84ac2e5ae9afe49ef04e92bac3d8d4191d455cf09d093e5fc",
        "c9199315871b11b12df226f890a38e66e63191e1adbfb11a66e6861151b33fca",
        "0aeb86546345c1d0fada097536e35525714d5cdbcc2d8eb3f9912a955044fcff",
        "0f20351ea7e90039c46d3fabdef991f28b1e3ff33eb13ee6f0d5cd21ea0e8b14",
        "bec6155ff7bfc88f8e79e481f27fd7ee0a3b40eeca9bfeb41f4c4b997b2f8100",
        "cfe56cafbd68fd31a0e87100f111d7d2f6b7157241096500013c07e88d80a22f",
    )
)

_MOST_LETTERS = 32 * 1024

#: What all its versions import, and some more that a later one may.
_MODULES = frozenset(
    (
        "__future__",
        "abc",
        "collections",
        "contextlib",
        "functools",
        "importlib",
        "os",
        "sys",
        "threading",
        "types",
        "typing",
        "warnings",
    )
)
#: What none of them touches, and code that does something else would need.
_NAMES = frozenset(
    (
        "__builtins__",
        "__import__",
        "__subclasses__",
        "builtins",
        "compile",
        "environ",
        "eval",
        "exec",
        "globals",
        "import_module",
        "open",
        "vars",
    )
)
#: Names of modules that it watches for, and no others.
_WATCHED = frozenset(("distutils.dist", "setuptools.dist"))


def is_known_line(text: str) -> bool:
    """Whether this is all that `_virtualenv.pth` ever holds."""
    return text.strip() == "import _virtualenv"


def suspicion(source: str) -> str:
    """What a `_virtualenv.py` of unknown version has that none of the known ones does; empty when nothing."""
    if len(source) > _MOST_LETTERS:
        return f"it has {len(source)} letters"
    tree = parsed(source)
    if tree is None:
        return "it is no Python source"
    if used := _strange_use(tree):
        return used
    watched = {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.endswith(".dist")
    }
    return "" if watched == _WATCHED else "it does not watch for distutils and setuptools alone"


def _strange_use(tree: ast.Module) -> str:
    """What a module uses that such start-up code does not; empty when nothing."""
    for node in ast.walk(tree):
        imported = []
        if isinstance(node, ast.Import):
            imported = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            imported = [node.module or ".", *(alias.name for alias in node.names if alias.name in _NAMES)]
        strange = [name for name in imported if name.partition(".")[0] not in _MODULES]
        used = {getattr(node, "id", ""), getattr(node, "attr", "")} & _NAMES
        if strange or used:
            return f"it uses {min((*strange, *used))}"
    return ""
