"""Importing compiled extensions, with errors that say what is wrong: missing, or built for something else.

They are told by the files that are there and by the loader's words. Importing this imports the standard library alone.
"""  # pytest-researchenv canary febcbe79-36b0-4284-b305-e27b1a79d212

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from types import ModuleType


_ABI, _ARCHITECTURE = "built for another ABI", "built for another architecture"
_MACHINES = {3: "x86", 40: "ARM", 62: "x86-64", 183: "AArch64"}
_ABSENT = re.compile(r"(?:No module named|cannot import name) '([\w.]+)'(?: from [a-z ]*'([\w.]+)')?")
_OTHER_ABI = re.compile(
    r"undefined symbol: |symbol \S+ version \S+ not defined|version `(GLIBC|CXXABI|GCC)\S* not found|Python version mis"
    r"|compiled against A[BP]I version|multiarray failed to import|_ARRAY_API not|compiled using NumPy|binary incompat"
    # Not the driver's own libraries, which come with the machine.
    r"|lib(torch|c10|python|nccl|cu(?!da\.so)|nv(?!idia-))[^/:]*: cannot open shared object"
)
_OTHER_DEVICE = re.compile(r"no kernel image|invalid device function|unsupported toolchain|kernel image is invalid")


class ExtensionError(ImportError):
    """An extension cannot be used; the message is one line that begins with the kind of fault."""


def require(module: str, *, distribution: str = "") -> ModuleType:
    """Import a compiled extension, or a package that contains one.

    The fault of an extension is raised as `ExtensionError`, other errors pass unchanged. `distribution` installs it.
    """
    if importlib.util.find_spec("torch"):
        importlib.import_module("torch")  # Extensions find torch's libraries only when it has loaded them.
    try:
        return importlib.import_module(module)
    except (ImportError, OSError, RuntimeError, ValueError, AttributeError) as error:
        if not (fault := _fault(module, error)):
            raise
        here = f"Python {sys.version_info[0]}.{sys.version_info[1]} and {_release('torch')}"
        name = _release(distribution or module.partition(".")[0])
        raise ExtensionError(
            f"extension {fault[0]}: {module} of {name}: {fault[1]}; (re)install it for {here}"
        ) from error


@contextmanager
def explained(module: str) -> Iterator[None]:
    """Explain the error of kernels that are not for the device; put it around the first launch and its result."""
    try:
        yield
    except RuntimeError as error:
        if not _OTHER_DEVICE.search(str(error)):
            raise
        cuda = getattr(sys.modules.get("torch"), "cuda", None)
        capability = ".".join(map(str, cuda.get_device_capability())) if cuda and cuda.is_available() else "unknown"
        found = f"no kernel for this device (device capability {capability}, {str(error).splitlines()[0]})"
        raise ExtensionError(f"extension {_ARCHITECTURE}: {module}: {found}; compile it for that capability") from error


def _fault(module: str, error: BaseException) -> tuple[str, str] | None:
    """The kind of fault and what was found, in an error or what led to it; None when no extension is at fault."""
    text, path = " ".join(str(error).split())[:300], str(getattr(error, "path", None) or "")
    if absent := _ABSENT.match(text):
        name = ".".join(filter(None, (absent[2], absent[1])))
        *folders, last = name.split(".")
        for file in (file for entry in sys.path for file in Path(entry, *folders).glob(f"{last}.*.so")):
            if file.name.removeprefix(last) not in EXTENSION_SUFFIXES:
                return _foreign(file) or (_ABI, f"{file} is for another interpreter than *{EXTENSION_SUFFIXES[0]}")
        ours = isinstance(error, ModuleNotFoundError) and name.partition(".")[0] == module.partition(".")[0]
        if ours or name == module:
            return "missing", f"there is no {name}"
    found = f"{path}: {text}" if ".so" in path and path not in text else text
    if fault := _foreign(Path(*re.findall(r"/[^:]*\.so[^:]*", found)[:1])):
        return fault
    if _OTHER_ABI.search(text):
        return _ABI, found
    if isinstance(error, (ImportError, OSError)) and ".so" in found:
        return _ARCHITECTURE if "wrong ELF class" in text else "cannot be loaded", found
    before = error.__cause__ or error.__context__
    return _fault(module, before) if before else None


def _foreign(file: Path) -> tuple[str, str] | None:
    """The fault of a file for another machine than this process's; None when it is for this one, or tells nothing."""
    found, here = _machine(file), _machine(Path("/proc/self/exe"))
    return (_ARCHITECTURE, f"{file} is for {found}, this process is {here}") if found not in {"", here} else None


def _machine(file: Path) -> str:
    """What an ELF file is for; empty when it is none."""
    head = file.read_bytes()[:20] if file.is_file() else b""
    number = int.from_bytes(head[18:20], "big" if head[5:6] == b"\x02" else "little")
    name = _MACHINES.get(number, f"machine {number}")
    return f"{name}, {32 * head[4]} bit" if head[:4] == b"\x7fELF" and number else ""


def _release(distribution: str) -> str:
    found = next(iter(importlib.metadata.distributions(name=distribution)), None)
    return f"{distribution} {found.version}" if found else f"{distribution} (not installed)"
