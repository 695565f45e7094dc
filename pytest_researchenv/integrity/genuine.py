"""Whether a program that no package owns is a Python all the same: by what only a Python has."""

from __future__ import annotations

import posixpath
import re

from pytest_researchenv.integrity.elf import Elf


__all__ = ["doubt", "launches"]

#: Functions of Python's that a Python exports to its extension modules: Debian's 3.11 has 1600.
_FEWEST = 600

#: Names in a program that only starts libpython: what Python's own `main` calls, and what every linker adds.
_LAUNCHER = re.compile(
    r"|Py_BytesMain|Py_Main|_Py_UnixMain|main|setlocale|environ|__environ|stdout|stderr|stdin|"
    r"_+(?:libc|gmon|cxa|stack_chk|bss|data|fini|init|IO|ITM|Jv|TMC|dso|end|edata|start|etext|progname)\w*|_?(?:init|fini|end|"
    r"edata|etext|start|__bss_start|data_start)|GLIBC_[\w.]+|GCC_[\w.]+|CXXABI_[\w.]+|\S*\.so[\w.]*|\$ORIGIN\S*|\$\{ORIGIN\}\S*|/\S*"
)

#: Where a dynamic loader is; Nix and Guix have none elsewhere.
_LOADER = re.compile(
    r"/lib(?:32|64)?/ld(?:-linux[\w.-]*|64?|-musl[\w.-]*)\.so\.\d|/(?:nix|gnu)/store/[\w./+-]+/ld[\w.-]+"
)


def doubt(elf: Elf) -> str:
    """Why a program is no Python; empty when it has what a Python has, or leaves that to libpython (`launches`)."""
    if elf.auditors:
        return f"it has its loading watched by {elf.auditors[0]}"
    if elf.loader and (not _LOADER.fullmatch(elf.loader) or ".." in elf.loader):
        return f"it is loaded by {elf.loader}"
    if launches(elf):
        strange = sorted(name for name in elf.names if not _LAUNCHER.fullmatch(name))
        return f"it does more than to start Python: it uses {', '.join(strange[:3])}" if strange else ""
    functions = sum(name.lstrip("_").startswith("Py") for name in elf.names)
    if elf.minor is None or functions < _FEWEST:
        return f"it has {functions} of Python's functions; a Python has more than {_FEWEST}"
    return ""


def launches(elf: Elf) -> str:
    """The libpython that a program starts; empty when it has Python in itself."""
    if elf.minor is not None:
        return ""
    return next((name for name in elf.needed if posixpath.basename(name).startswith("libpython3")), "")
