"""What the file system refuses to whoever runs the tests, also where that is root."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest


__all__ = ["refuse_listing", "room_for"]


def refuse_listing(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Let nobody list a folder while a test runs."""
    scan = os.scandir

    def refusing(path: Path) -> AbstractContextManager[Iterator[os.DirEntry[str]]]:
        if Path(path) == folder:
            raise PermissionError(13, "Permission denied")
        return scan(path)

    monkeypatch.setattr(os, "scandir", refusing)


@contextmanager
def room_for(size: int) -> Iterator[None]:
    """Let no file of this process grow beyond so many bytes, as a full disk would; the error is another one (EFBIG)."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
