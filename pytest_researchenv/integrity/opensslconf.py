"""What OpenSSL loads since its configuration says so: read as OpenSSL reads it, and strictly where that could differ.

The program's own section (`openssl_conf`, and Node's `nodejs_conf`) names modules of configuration. A few are OpenSSL's
own; any other is a library, which it loads from a path or by the module's name. Two of its own load libraries in turn:
`providers` and `engines`, from paths that are given as one of several keys, and by names that may be paths, too. So it
is not asked which keys load something, but whether there is anything that is not known to load nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain


__all__ = ["strange_line"]

#: What blanks are to OpenSSL.
_BLANKS = " \t\r"
#: Where programs begin to read.
_PROGRAMS = re.compile(r"\w*_conf")
#: Modules of configuration that OpenSSL has in itself, without those that load libraries.
_HARMLESS = frozenset({"alg_section", "config_diagnostics", "oid_section", "random", "ssl_conf", "stbl_section"})
_LOADING = frozenset({"engines", "providers"})
#: A name of a section, a provider or an engine: a path it is not, and it means what it says.
_NAME = re.compile(r"[\w-]+")
#: Some number the names of one section, and OpenSSL leaves the numbers out.
_NUMBERED = re.compile(r"(?:\w+\.)?([\w-]+)")
#: Keys by which a library is named that is loaded.
_LIBRARIES = frozenset({"MODULE_PATH", "SO_PATH", "dynamic_path", "module", "path", "pkcs11-module-path"})
_SURE = frozenset({"SO_PATH", "dynamic_path", "module"})
#: What leads elsewhere, or means something else than it says.
_ODD = re.compile(r"[/\\$\"'`]")


@dataclass(slots=True)
class _Read:
    """A configuration: section → its lines, as key and value."""

    sections: dict[str, list[tuple[str, str]]] = field(default_factory=dict)

    def of(self, name: str) -> list[tuple[str, str]]:
        return self.sections.get(name, [])


def strange_line(text: str, is_genuine: Callable[[str], bool]) -> str:
    """The first line by which something may be loaded that is nobody's; empty where there is none.

    Args:
        text: the configuration.
        is_genuine: whether an absolute path is that of a file as its package has it.
    """
    read = _Read()
    section = "default"
    for line in _lines(text):
        if line.startswith("["):
            section = line.removeprefix("[").rpartition("]")[0].strip(_BLANKS)
            if _ODD.search(section):
                return line
            continue
        key, equals, value = (part.strip(_BLANKS) for part in line.partition("="))
        word, _, rest = line.partition(" ") if not equals else (key, "", value)
        if word.startswith(".include"):
            # Its value may follow a blank, or an equals sign.
            target = rest.strip(_BLANKS) or value or key.removeprefix(".include").strip(_BLANKS)
            if not (target.startswith("/") and is_genuine(target)):
                return line
            continue
        named, colons, inner = key.partition("::")
        read.sections.setdefault(named if colons else section, []).append((inner if colons else key, value))
    return next(chain(_strange(read, is_genuine), _anywhere(read, is_genuine)), "")


def _anywhere(read: _Read, is_genuine: Callable[[str], bool]) -> Iterator[str]:
    """Lines that name a library and that no program is seen to reach: few have them who want nothing loaded."""
    for key, value in (line for lines in read.sections.values() for line in lines):
        if key in _SURE and not (value.startswith("/") and is_genuine(value)):
            yield f"{key} = {value}"


def _lines(text: str) -> Iterator[str]:
    """Its lines, joined where a backslash ends one, without comments and blanks around them."""
    joined = ""
    for line in text.removeprefix("\ufeff").split("\n"):
        part = line.rstrip("\r")
        if (len(part) - len(part.rstrip("\\"))) % 2:
            joined += part[:-1]
            continue
        whole, joined = (joined + part).partition("#")[0].strip(_BLANKS), ""
        if whole:
            yield whole
    if whole := joined.partition("#")[0].strip(_BLANKS):
        yield whole


def _strange(read: _Read, is_genuine: Callable[[str], bool]) -> Iterator[str]:
    for program, first in read.of("default"):
        if not _PROGRAMS.fullmatch(program):
            continue
        if not _NAME.fullmatch(first):
            yield f"{program} = {first}"
        for module, second in read.of(first):
            kind = module.partition(".")[0]
            if kind in _LOADING and _NAME.fullmatch(second):
                yield from _loading(read, second, is_genuine)
            elif kind not in _HARMLESS:
                yield f"{module} = {second}"


def _loading(read: _Read, section: str, is_genuine: Callable[[str], bool]) -> Iterator[str]:
    """What providers or engines have loaded that is nobody's."""
    for name, own in read.of(section):
        if not (_NUMBERED.fullmatch(name) and _NAME.fullmatch(own)):
            yield f"{name} = {own}"
        for key, value in read.of(own):
            named = key.rpartition(".")[2] in _LIBRARIES or _ODD.search(value)
            if named and not (value.startswith("/") and is_genuine(value)):
                yield f"{key} = {value}"
