"""Libraries of the standard library's own modules that people build anew: whether one is what they would build.

OpenSSL and SQLite are built from sources where a system's are too old, and nothing says what came of it. What was built
for that is later than the system's, has in itself what the system's has, and needs nothing but the C library.
"""

from __future__ import annotations

import re
from typing import IO

from pytest_researchenv.integrity.elf import read_elf
from pytest_researchenv.integrity.protocol import Entry
from pytest_researchenv.integrity.raw import file_of
from pytest_researchenv.probes.protocol import ProbeTask


__all__ = ["is_built_anew", "newer_doubt"]

#: Names → how such a library calls its version.
_VERSIONS = {
    re.compile(r"lib(?:crypto|ssl)\.so\.[\d.]+"): re.compile(rb"OpenSSL (\d{1,2}\.\d{1,2}\.\d{1,3}[a-z]?) "),
    re.compile(r"libsqlite3\.so\.0"): re.compile(rb"\0(3\.\d{1,3}\.\d{1,3})\0"),
}
#: What it may need: OpenSSL's two need one another.
_NEEDED = re.compile(
    r"lib(?:c|m|dl|pthread|rt)\.so\.\d+|ld-linux[\w-]*\.so\.\d+|lib(?:crypto|z|zstd)\.so\.[\d.]+", re.DOTALL
)
#: What part of the system's names it has: Debian's SQLite has 15 % that are not built by default.
_PART = 0.6
_MOST_BYTES, _BLOCK, _LONGEST = 64 * 1024**2, 1 << 20, 64


def is_built_anew(name: str) -> bool:
    """Whether a library by that name is one that people build newer ones of."""
    return any(pattern.fullmatch(name) for pattern in _VERSIONS)


def newer_doubt(task: ProbeTask, name: str, entry: Entry, system: Entry) -> str:
    """Why a library is none that somebody built since the system's is too old; empty when it may be.

    Args:
        task: what is audited.
        name: what it is loaded by.
        entry: the library.
        system: the system's own.

    Raises:
        SandboxError: the engine refuses to read.
    """
    with file_of(task, entry) as mine, file_of(task, system) as other:
        if mine is None or other is None:
            return "it is too large"
        library, own = read_elf(mine), read_elf(other)
        if library is None or own is None:
            return "it is no library"
        if strange := next((needed for needed in library.needed if not _NEEDED.fullmatch(needed)), ""):
            return f"it needs {strange}"
        if library.auditors or library.runpath:
            return "it has others loaded"
        if len(own.names & library.names) < len(own.names) * _PART:
            return "it lacks most of what the system's has"
        pattern = next(version for names, version in _VERSIONS.items() if names.fullmatch(name))
        built, systems = _version(mine, pattern), _version(other, pattern)
        return "" if built > systems else "it is not later than the system's"


def _version(file: IO[bytes], pattern: re.Pattern[bytes]) -> tuple[tuple[int, str], ...]:
    """The version that a library names; nothing where it names none, and the highest where it names several."""
    file.seek(0)
    found: set[str] = set()
    before = b""
    for _ in range(_MOST_BYTES // _BLOCK):
        block = file.read(_BLOCK)
        if not block:
            break
        found.update(match.decode() for match in pattern.findall(before + block))
        before = block[-_LONGEST:]
    return max((tuple(_part(part) for part in version.split(".")) for version in found), default=())


def _part(text: str) -> tuple[int, str]:
    number = re.match(r"\d+", text)
    return (int(number[0]) if number else 0), text.lstrip("0123456789")
