"""What a tree still tells of something that was taken out of it."""

from __future__ import annotations

import ast
import hashlib
import mmap
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from pytest_researchenv._sources import Cut, PrunedSource


__all__ = ["Removed", "traces"]

_CODE = (".py", ".pyi", ".pyx", ".ipynb")

#: Copies of shorter files and definitions say nothing: many files are alike.
_SHORTEST_BYTES = 64

#: Shorter words are found in binary files by chance.
_SHORTEST_IN_BINARY = 6

#: As many bytes are looked at for a zero byte, by which Git, too, tells binary files.
_HEAD_BYTES = 8000


@dataclass(frozen=True, slots=True)
class Removed:
    """What was taken out.

    Attributes:
        cut: by what.
        digests: SHA-256 of the files that were taken out.
        texts: source of the definitions that were cut.
    """

    cut: Cut
    digests: frozenset[str] = frozenset()
    texts: tuple[bytes, ...] = ()

    @classmethod
    def of(cls, path: Path, cut: Cut) -> Removed:
        """What a file or folder is, before it is taken out."""
        files = [path] if not path.is_dir() or path.is_symlink() else [one for one in path.rglob("*") if one.is_file()]
        whole = [one.read_bytes() for one in files if one.is_file() and not one.is_symlink()]
        return cls(cut, frozenset(_digest(data) for data in whole if len(data) >= _SHORTEST_BYTES))


def traces(root: Path, source: PrunedSource, removed: Sequence[Removed]) -> Iterator[str]:
    """Say what still tells of what was taken out.

    Copies of files and of definitions; the words and phrases of the source, in names and contents; and of what is
    secret the paths, imports that it alone could answer, and names that nothing else defines. Archives and compressed
    files are not opened.

    Args:
        root: the tree that is left.
        source: what may not be named.
        removed: what was taken out.
    """
    code = _Code.read(root)
    patterns = [*_patterns(source), *_names(removed, code)]
    digests = {digest: one.cut.path for one in removed for digest in one.digests}
    texts = [(part, _bare(text)) for one in removed for part, text in zip(one.cut.parts, one.texts, strict=False)]
    secret = [one.cut.path for one in removed if one.cut.secret and not one.cut.parts]
    for path in _files(root):
        name = path.relative_to(root).as_posix()
        yield from (
            f"{name} has {shown} in its name" for shown, found in patterns if not found.code and found.in_name(name)
        )
        if path.is_symlink():
            continue
        with path.open("rb") as file:
            if not os.fstat(file.fileno()).st_size:
                continue
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                yield from _in_content(name, data, patterns)
                if original := digests.get(_digest(data)):
                    yield f"{name} is a copy of {original}"
                if path.suffix in _CODE:
                    bare = _bare(data[:])
                    known = (part for part, text in texts if len(text) >= _SHORTEST_BYTES and text in bare)
                    yield from (f"{name} has a copy of {part}" for part in known)
        yield from _told(name, path, secret)
    yield from code.imports(secret)


@dataclass(frozen=True, slots=True)
class _Pattern:
    """What is looked for.

    Attributes:
        text: the words.
        expression: that finds them in bytes.
        code: whether it is looked for in code alone.
    """

    text: str
    expression: re.Pattern[bytes]
    code: bool = False

    def in_name(self, name: str) -> bool:
        return self.expression.search(os.fsencode(name)) is not None


def _patterns(source: PrunedSource) -> Iterator[tuple[str, _Pattern]]:
    for word in source.words:
        yield (
            repr(word),
            _Pattern(word, re.compile(rb"(?<![0-9A-Za-z])" + re.escape(word.encode()) + rb"(?![0-9A-Za-z])")),
        )
    for phrase in source.phrases:
        # Over line breaks and several blanks, as texts are set.
        parts = [re.escape(part.encode()) for part in phrase.split()]
        yield repr(phrase), _Pattern(phrase, re.compile(rb"\s+".join(parts), re.IGNORECASE))


def _names(removed: Sequence[Removed], code: _Code) -> Iterator[tuple[str, _Pattern]]:
    """The names of definitions that were cut, where nothing else in the tree has that name."""
    for one in removed:
        for part in one.cut.parts:
            name = part.rpartition(".")[2]
            if name not in code.defined:
                yield part, _Pattern(name, re.compile(rb"\b" + re.escape(name.encode()) + rb"\b"), code=True)


def _in_content(name: str, data: mmap.mmap, patterns: Sequence[tuple[str, _Pattern]]) -> Iterator[str]:
    binary = b"\0" in data[:_HEAD_BYTES]
    for shown, pattern in patterns:
        if pattern.code and not name.endswith(_CODE):
            continue
        if binary and len(pattern.text) < _SHORTEST_IN_BINARY:
            continue
        if found := pattern.expression.search(data):
            line = data[: found.start()].count(b"\n") + 1
            yield f"{name}:{line} names {shown}" if not binary else f"{name} names {shown}"


def _told(name: str, path: Path, secret: Sequence[str]) -> Iterator[str]:
    if secret and path.stat().st_size <= 16 * 1024**2:
        text = path.read_bytes().lower()
        yield from (f"{name} names {one}" for one in secret if "/" in one and one.lower().encode() in text)


def _digest(data: bytes | mmap.mmap) -> str:
    return hashlib.sha256(data).hexdigest()


def _bare(text: bytes) -> bytes:
    """Code without blanks and line breaks: moved to another depth, it is the same."""
    return b"".join(text.split())


def _files(root: Path) -> Iterator[Path]:
    for parent, folders, names in os.walk(root):
        folders.sort()
        links = [one for one in folders if Path(parent, one).is_symlink()]
        yield from (Path(parent, one) for one in sorted((*names, *links)))


# --- imports ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Code:
    """The Python of a tree: its modules as paths, what it defines, and what it imports, by file."""

    modules: frozenset[str]
    defined: set[str] = field(default_factory=set)
    imported: list[tuple[str, int, str]] = field(default_factory=list)

    @classmethod
    def read(cls, root: Path) -> _Code:
        files = [path for path in _files(root) if path.suffix == ".py" and not path.is_symlink()]
        code = cls(frozenset(_module(path.relative_to(root).as_posix()) for path in files))
        for path in files:
            try:
                tree = ast.parse(path.read_bytes())
            except (SyntaxError, ValueError, RecursionError):
                continue
            code._take(path.relative_to(root).as_posix(), tree)
        return code

    def _take(self, name: str, tree: ast.Module) -> None:
        for node in ast.walk(tree):
            match node:
                case ast.FunctionDef(name=one) | ast.AsyncFunctionDef(name=one) | ast.ClassDef(name=one):
                    self.defined.add(one)
                case ast.Name(id=one, ctx=ast.Store()) | ast.Attribute(attr=one, ctx=ast.Store()) | ast.arg(arg=one):
                    self.defined.add(one)
                case ast.Import(names=names):
                    self.imported.extend((name, node.lineno, alias.name) for alias in names)
                case ast.ImportFrom(module=module, names=names, level=level):
                    above = PurePosixPath(name).parts[:-level] if level else ()
                    base = ".".join((*above, *([module] if module else [])))
                    self.imported.append((name, node.lineno, base))
                    self.imported.extend(
                        (name, node.lineno, f"{base}.{one.name}" if base else one.name) for one in names
                    )

    def imports(self, secret: Sequence[str]) -> Iterator[str]:
        """Imports that only what was taken out could answer: no path of search is known, so ends are compared."""
        gone = {_module(path): path for path in secret}
        for file, line, wanted in self.imported:
            path = next((path for module, path in gone.items() if _ends(module, wanted)), None)
            if path and not any(_ends(module, wanted) for module in self.modules):
                yield f"{file}:{line} imports {wanted}, which is {path}"


def _module(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _ends(module: str, wanted: str) -> bool:
    return bool(wanted) and (module == wanted or module.endswith(f".{wanted}"))
