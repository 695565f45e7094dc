"""The folder in memory of an agent's container: only commands that run in the container can write there."""

from __future__ import annotations

from pathlib import PurePosixPath

from pytest_researchenv.errors import SandboxError
from pytest_researchenv.sandbox.protocol import Container


__all__ = ["write_text"]

#: Characters. The kernel takes no variable beyond 128 KiB, and a character has four bytes at most.
_LONGEST = 30_000

_WRITE_S = 30.0


def write_text(container: Container, path: str, text: str) -> None:
    """Write a file, and the folders on the way to it, in a started container.

    Raises:
        SandboxError: it could not be written.
    """
    for at in range(0, max(1, len(text)), _LONGEST):
        done = container.exec(
            ["/bin/sh", "-c", f'mkdir -p "$1" && printf %s "$PART" {">>" if at else ">"} "$2"', "sh", *_places(path)],
            timeout_s=_WRITE_S,
            environment={"PART": text[at : at + _LONGEST]},
        )
        if not done.ok:
            raise SandboxError(f"cannot write {path} in the agent's container: {done.how}: {done.output.text()[:300]}")


def _places(path: str) -> tuple[str, str]:
    return str(PurePosixPath(path).parent), path
