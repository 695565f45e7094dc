"""A folder of somebody's tree, without what its readers may not see.

The tree is data: it is read and cut, and nothing of it is run or imported. Whatever cannot be taken out with certainty
stops: an error costs a correction of the description, and a tree that tells its secret costs the measurement.
"""

from __future__ import annotations

import ast
import difflib
import os
import shutil
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from pytest_researchenv._problems import nearest
from pytest_researchenv._sources import Cut, PrunedSource
from pytest_researchenv._traces import Removed, traces
from pytest_researchenv.errors import SourceError


__all__ = ["prune"]

_BYTECODE = (".pyc", ".pyo")

_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Assign | ast.AnnAssign

#: How many traces a message names.
_NAMED = 10


def prune(whole: Path, source: PrunedSource, target: Path) -> None:
    """Make the folder of a tree one of its own, and take out what a source says.

    Python's bytecode goes, too: a module that was taken out could be imported from it.

    Args:
        whole: the tree; what is left of it is of no use.
        source: which folder, and what is taken out.
        target: new folder.

    Raises:
        SourceError: something that is to be taken out is not there, or something of it stays.
    """
    _folder(whole, source.folder).rename(target)
    _check_kinds(target)
    removed = [_take(target, cut) for cut in source.cuts]
    _check_twins(target, source.cuts)
    _drop_bytecode(target)
    _check_links(target)
    found = list(traces(target, source, removed))
    if found:
        rest = f"; and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
        listed = "; ".join(found[:_NAMED])
        raise SourceError(
            f"the tree still tells what is withheld: {listed}{rest}. Name these in [[removed]], or correct [withheld]"
        )


def _listed(folder: Path) -> list[str]:
    return sorted(one.name for one in folder.iterdir())


def _near(name: str, known: Sequence[str]) -> str:
    return nearest(name, known if len(known) <= _NAMED else difflib.get_close_matches(name, known))


def _folder(whole: Path, name: str) -> Path:
    folder = whole
    for part in PurePosixPath(name).parts:
        names = _listed(folder)
        if part not in names:
            raise SourceError(f"the commit has no folder {name!r}: {part!r} is not there{_near(part, names)}")
        folder /= part
        if folder.is_symlink() or not folder.is_dir():
            raise SourceError(f"the commit has no folder {name!r}: {part!r} is a file or a link; correct [source]")
    if not any(folder.iterdir()):
        raise SourceError(f"the folder {name!r} of the commit is empty, as that of a submodule is; correct [source]")
    return folder


def _check_kinds(root: Path) -> None:
    """Nothing may hold a history, in which all that is taken out would stay."""
    for path in _everything(root):
        name = path.relative_to(root).as_posix()
        if path.is_symlink():
            continue
        if path.is_dir():
            if path.name.lower() == ".git" or all((path / one).exists() for one in ("HEAD", "objects", "refs")):
                raise SourceError(f"{name} is a Git repository, whose history cannot be cut: name it in [[removed]]")
        elif path.name.lower() == ".git" or _begins(path, b"PACK\0\0\0", b"# v2 git bundle", b"# v3 git bundle"):
            raise SourceError(f"{name} is a part of a Git repository, which cannot be cut: name it in [[removed]]")


def _begins(path: Path, *heads: bytes) -> bool:
    with path.open("rb") as file:
        return file.read(16).startswith(heads)


# --- taking out -------------------------------------------------------------------------------------------


def _take(root: Path, cut: Cut) -> Removed:
    path = root
    for part in PurePosixPath(cut.path).parts:
        if path.is_symlink() or not path.is_dir():
            raise SourceError(f"{cut.path!r} lies behind {path.name!r}, which is no folder: name what is there itself")
        names = _listed(path)
        if part not in names:
            raise SourceError(
                f"nothing is called {cut.path!r}: {part!r} is not there{_near(part, names)}; correct [[removed]], in "
                "which small and capital letters differ"
            )
        path /= part
    if cut.parts:
        return _cut_parts(path, cut)
    removed = Removed.of(path, cut)
    if path.is_symlink():
        goal = path.parent / path.readlink()
        if goal.exists():
            raise SourceError(f"{cut.path!r} is a link to {str(path.readlink())!r}, which stays: name that, too, first")
        path.unlink()
    elif path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()
    return removed


def _check_twins(root: Path, cuts: Sequence[Cut]) -> None:
    gone = {cut.path.casefold(): cut.path for cut in cuts if not cut.parts}
    for path in _everything(root):
        name = path.relative_to(root).as_posix()
        if original := gone.get(name.casefold()):
            raise SourceError(f"{name} differs from {original!r} in case alone: name it in [[removed]], too")


def _cut_parts(path: Path, cut: Cut) -> Removed:
    status = path.lstat()
    if path.suffix != ".py" or not stat.S_ISREG(status.st_mode):
        raise SourceError(f"{cut.path!r} is no file of Python code: parts can only be cut from one")
    source = path.read_bytes()
    texts: list[bytes] = []
    for part in cut.parts:
        source, text = _without(source, part, cut.path)
        texts += text
    path.write_bytes(source)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    return Removed(cut, texts=tuple(texts))


def _without(source: bytes, part: str, where: str) -> tuple[bytes, list[bytes]]:
    """A module without a definition, and the definition's text; all of it, where it is made several times."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError) as error:
        raise SourceError(f"{where} cannot be read as Python, so nothing can be cut from it: {error}") from error
    bodies = list(_bodies(tree, part.split(".")))
    if not bodies:
        known = sorted(_defined(tree))
        raise SourceError(f"{where} does not define {part!r}{_near(part, known)}: correct [[removed]]")
    lines = source.splitlines(keepends=True)
    spans: list[tuple[int, int, bytes]] = []
    for body, nodes in bodies:
        alone = len(nodes) == len(body)
        for node in nodes:
            first, last = _lines(node)
            head = lines[first - 1]
            indent = head[: len(head) - len(head.lstrip())]
            end = b"\r\n" if head.endswith(b"\r\n") else b"\n"
            spans.append((first, last, indent + b"pass" + end if alone and node is nodes[0] else b""))
        body[:] = [ast.Pass()] if alone else [one for one in body if one not in nodes]
    texts = [b"".join(lines[first - 1 : last]) for first, last, _ in spans]
    for first, last, instead in sorted(spans, reverse=True):
        lines[first - 1 : last] = [instead]
    left = b"".join(lines)
    # What stays must be what was there: nothing that shared a line with it may have gone with it.
    if _dumped(left) != ast.dump(tree):
        raise SourceError(f"{where}: {part!r} shares its lines with other code, and cannot be cut out alone")
    return left, texts


def _dumped(source: bytes) -> str:
    try:
        return ast.dump(ast.parse(source))
    except (SyntaxError, ValueError):
        return ""


def _lines(node: ast.stmt) -> tuple[int, int]:
    decorators = [one.lineno for one in getattr(node, "decorator_list", ())]
    return min([node.lineno, *decorators]), node.end_lineno or node.lineno


def _bodies(node: ast.AST, names: Sequence[str]) -> Iterator[tuple[list[ast.stmt], list[ast.stmt]]]:
    """The lists of statements that hold a definition, each with the statements that make it.

    Branches of an `if` or a `try` are of the scope that they are in; functions and classes are scopes of their own.
    """
    for field in ("body", "orelse", "finalbody", "handlers"):
        body = getattr(node, field, None)
        if not isinstance(body, list):
            continue
        found = [one for one in body if _name(one) == names[0]]
        if found and len(names) == 1:
            yield body, found
        for one in body:
            if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                if len(names) > 1 and one.name == names[0]:
                    yield from _bodies(one, names[1:])
            else:
                yield from _bodies(one, names)


def _name(node: ast.AST) -> str:
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return name
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            return name
    return ""


def _defined(node: ast.AST, prefix: str = "") -> Iterator[str]:
    for one in ast.iter_child_nodes(node):
        if name := _name(one):
            yield prefix + name
            yield from _defined(one, f"{prefix}{name}.")
        else:
            yield from _defined(one, prefix)


# --- what stays -------------------------------------------------------------------------------------------


def _drop_bytecode(root: Path) -> None:
    for path in [*_everything(root)]:
        if path.name == "__pycache__" and path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif path.suffix.lower() in _BYTECODE and os.path.lexists(path) and not path.is_dir():
            path.unlink()


def _check_links(root: Path) -> None:
    top = root.resolve()
    for path in _everything(root):
        if not path.is_symlink():
            continue
        name, goal = path.relative_to(root).as_posix(), os.readlink(path)  # noqa: PTH115 - a Path would normalise it
        try:
            inside = path.resolve(strict=True).is_relative_to(top)
        except (OSError, RuntimeError):
            inside = False
        if os.path.isabs(goal) or not inside:  # noqa: PTH117 - likewise
            raise SourceError(
                f"{name} is a link to {goal!r}, outside of the folder, or to what was taken out: name it in [[removed]]"
            )


def _everything(root: Path) -> Iterator[Path]:
    """Every path below a folder, in order; links are not followed."""
    for parent, folders, files in os.walk(root):
        folders.sort()
        yield from (Path(parent, name) for name in (*folders, *sorted(files)))
