"""Which of the files in a folder an import of a top-level name leads to."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum

from pytest_researchenv.integrity.installed import is_module


__all__ = ["Form", "Place", "is_native", "modules_in"]

#: Tags of extension modules that any version loads.
_ANY_VERSION = (None, "abi3", "abi3t")


class Form(IntEnum):
    """What stands for a module; the first that is there wins, in one folder."""

    LINK = 0
    NATIVE_PACKAGE = 1
    PACKAGE = 2
    BYTECODE_PACKAGE = 3
    NATIVE = 4
    SOURCE = 5
    BYTECODE = 6
    NAMESPACE = 7
    STANDARD = 8
    ARCHIVE = 9


_PACKAGES = {Form.NATIVE: Form.NATIVE_PACKAGE, Form.SOURCE: Form.PACKAGE, Form.BYTECODE: Form.BYTECODE_PACKAGE}


@dataclass(frozen=True, slots=True)
class Place:
    """Where a top-level module is.

    Attributes:
        path: its file; of a namespace package the folder.
        folder: the entry of `sys.path` that it is in, without links.
        form: what it is.
    """

    path: str
    folder: str
    form: Form


def modules_in(folder: str, paths: Iterable[str], version: str) -> dict[str, tuple[Place, ...]]:
    """What an import of a top-level name may lead to in a folder; of several, the first that is there.

    Args:
        folder: an entry of `sys.path`.
        paths: files of code in and below it, and links, or whatever may be links.
        version: minor version of the Python, as `3.11`.
    """
    found: dict[str, dict[Form, Place]] = {}
    split = [(path, *path.removeprefix(f"{folder.rstrip('/')}/").partition("/")) for path in paths]
    folders = {name for _, name, slash, _ in split if slash}
    for path, first, slash, rest in split:
        if slash:
            name, place = first, _in_package(folder, first, path, rest, version)
        elif first in folders:
            continue
        else:
            name, place = first.partition(".")[0], _alone(folder, first, path, version)
        if place and name.isidentifier():
            found.setdefault(name, {}).setdefault(place.form, place)
    return {name: tuple(places[form] for form in sorted(places)) for name, places in found.items()}


def _alone(folder: str, file: str, path: str, version: str) -> Place | None:
    form = _form(file, file.partition(".")[0], version)
    if form is None and "." not in file:
        form = Form.LINK
    return None if form is None else Place(path, folder, form)


def _in_package(folder: str, name: str, path: str, rest: str, version: str) -> Place | None:
    form = None if "/" in rest else _form(rest, "__init__", version)
    if form is not None:
        return Place(path, folder, _PACKAGES[form])
    reachable = is_module(path) and all(part.isidentifier() for part in rest.split("/")[:-1])
    return Place(posixpath.join(folder, name), folder, Form.NAMESPACE) if reachable else None


def is_native(file: str, stem: str, version: str) -> bool:
    """Whether a file's name is one by which Python finds a compiled module.

    Args:
        file: the file's name.
        stem: the module's name, or `__init__`.
        version: minor version of the Python, as `3.11`.
    """
    match = re.fullmatch(rf"{re.escape(stem)}(?:\.([^./]+))?\.so", file)
    if match is None:
        return False
    return match[1] in _ANY_VERSION or match[1].startswith(f"cpython-{version.replace('.', '')}")


def _form(file: str, stem: str, version: str) -> Form | None:
    if file.endswith(".so"):
        return Form.NATIVE if is_native(file, stem, version) else None
    return {f"{stem}.py": Form.SOURCE, f"{stem}.pyc": Form.BYTECODE}.get(file)
