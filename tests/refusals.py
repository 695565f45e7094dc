"""What the file system refuses to whoever runs the tests, also where that is root."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest


__all__ = ["refuse_listing"]


def refuse_listing(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Let nobody list a folder while a test runs."""
    scan = os.scandir

    def refusing(path: Path) -> AbstractContextManager[Iterator[os.DirEntry[str]]]:
        if Path(path) == folder:
            raise PermissionError(13, "Permission denied")
        return scan(path)

    monkeypatch.setattr(os, "scandir", refusing)
