"""What of a standard library is neither as CPython released it nor as builders of interpreters leave it."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import IO, NamedTuple

from pytest_researchenv._parsing import parsed, written
from pytest_researchenv.integrity.packages import entries_at
from pytest_researchenv.integrity.protocol import Entry, Kind, Snapshot
from pytest_researchenv.integrity.releases import PATCHED, Library


__all__ = ["Difference", "differences", "release_of"]

#: What a build compiles, and a folder of what extensions are built with.
_BUILT = re.compile(r"lib-dynload/[^/]*\.so|config-[^/]+/.*", re.DOTALL)
#: What a build was made with, as a source that it writes.
_SETTINGS = re.compile(r"_sysconfigdata[\w-]*\.py")
_MODULES = (".py", ".pyc", ".so")
#: What such a source is made of.
_PLAIN = (
    *(ast.Module, ast.Expr, ast.Assign, ast.Name, ast.expr_context, ast.Constant, ast.Dict, ast.alias),
    *(ast.JoinedStr, ast.FormattedValue, ast.UnaryOp, ast.unaryop),
)
#: Links that are followed.
_MOST_LINKS = 200

#: What no builder's change has, and code that does something else would need.
_DENIED = re.compile(
    r"exec|eval|compile|open|io|_io|posix|importlib|builtins|__\w+__|globals|locals|vars|getattr|setattr|delattr"
    r"|subprocess|multiprocessing|threading|exec[lv]\w*|spawn\w*|posix_spawn\w*|popen\w*|system|v?fork\w*|modules|meta_path"
    r"|path_hooks|runpy|marshal|pickle|zipimport|pkgutil|stdout|stderr|argv|settrace|setprofile|addaudithook|write_text"
    r"|write_bytes|CDLL|dlopen|LoadLibrary|atexit|_?exit|abort|gc|inspect",
    re.IGNORECASE,
)
#: What some do have of it (python-build-standalone, in uuid and sysconfig).
_KNOWN = re.compile(r"getattr\(_uuid, \"has_stable_extractable_node\", False\)|Path\(__file__\)|\bre\.compile\(")
#: What puts folders before all others, and what hides that it does.
_PATH = re.compile(r"\bsys\s*\.\s*path\b|\bfrom\s+sys\s+import\b|\bimport\b.*\bas\b|\binsert\b")
_IMPORT = re.compile(r"(?:from\s+(\S+)\s+)?import\b(.*)")
_IMPORTED = frozenset({"", "os", "sys", "re", "pathlib"})

#: How a Python calls its own version, and letters of that.
_RELEASE = rb"(3\.%d\.\d{1,2}(?:(?:a|b|rc)\d{1,2})?)\0"
_LONGEST, _BLOCK = 32, 1 << 20
_MOST_BYTES = 256 * 1024**2


class Difference(NamedTuple):
    """A file that is not the release's.

    Attributes:
        path: where it is.
        released: what the release has, in words.
        observed: what is there instead.
        patched: whether builders are known to change it, and nothing in the change is more than they do.
    """

    path: str
    released: str
    observed: str
    patched: bool = False


def release_of(file: IO[bytes], minor: int) -> str:
    """The release that a program or library holds, as `3.11.9`; empty where it names none, or several.

    Args:
        file: at its start.
        minor: its minor version.
    """
    pattern, found, before = re.compile(_RELEASE % minor), set(), b""
    for _ in range(_MOST_BYTES // _BLOCK):
        block = file.read(_BLOCK)
        if not block:
            break
        found.update(pattern.findall(before + block))
        before = block[-_LONGEST:]
    return found.pop().decode() if len(found) == 1 else ""


def differences(snapshot: Snapshot, top: str, files: Collection[str], library: Library) -> Iterator[Difference]:
    """Compare a standard library with that of a release.

    What a build compiles is not compared, but an extension or bytecode that Python prefers to a source, or finds where
    none was, is told.

    Args:
        snapshot: the image.
        top: folder of the standard library, without links on the way.
        files: the files in it that are compared, absolute.
        library: what was released.

    Raises:
        SandboxError: the engine refuses to read.
    """
    links = 0
    for entry in entries_at(snapshot, files):
        path = entry.path
        name = path.removeprefix(f"{top}/")
        if not name.endswith(_MODULES) or _BUILT.fullmatch(name) or entry.is_folder:
            continue
        if _SETTINGS.fullmatch(name) and _is_settings(entry):
            continue
        if name not in library.files:
            yield Difference(path, "the modules of the release", "a module that it does not have")
            continue
        file = entry
        if entry.kind is Kind.LINK:
            links += 1
            target = snapshot.entry(path) if links <= _MOST_LINKS else None
            file = replace(target, path=path) if target is not None else entry
        if file.sha256 == library.files[name]:
            continue
        if name in PATCHED and (why := _suspicion(file, library.texts.get(name, ""))):
            yield Difference(path, "the release's source", f"its content differs: {why}")
        else:
            yield Difference(path, "the release's source", "its content differs", patched=name in PATCHED)


def _is_settings(entry: Entry) -> bool:
    """Whether a source assigns texts and numbers, and does nothing but to find out where it is."""
    tree = parsed(entry.content or b"import")
    return tree is not None and all(
        # What is called must be what it is called.
        (isinstance(node, _PLAIN) and not (isinstance(node, ast.Name) and _is_other(node)))
        or (isinstance(node, ast.ImportFrom) and node.module == "pathlib")
        or (isinstance(node, ast.Call) and written(node.func).rpartition(".")[2] in ("str", "Path", "resolve"))
        or (isinstance(node, ast.Attribute) and node.attr in ("resolve", "parent"))
        for node in ast.walk(tree)
    )


def _is_other(name: ast.Name) -> bool:
    return name.id in ("str", "Path", "resolve") and not isinstance(name.ctx, ast.Load)


def _suspicion(file: Entry, released: str) -> str:
    """What a changed source has that no builder put there."""
    if file.content is None:
        return "it cannot be read"
    added = Counter(map(str.strip, file.text.splitlines())) - Counter(map(str.strip, released.splitlines()))
    for line in added:
        text = _KNOWN.sub("", line)
        names = re.findall(r"\w+", text)
        if strange := next((name for name in names if _DENIED.fullmatch(name)), ""):
            return f"it has {strange}"
        if found := _PATH.search(text):
            return f"it has {found[0]}"
        if match := _IMPORT.search(text):
            imported = {match[1] or "", *((match[2].split(",")) if not match[1] else ())}
            if not {name.strip() for name in imported} <= _IMPORTED:
                return f"it has {line}"
    return ""
