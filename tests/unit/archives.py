"""A container at work, and archives of its folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from pytest_researchenv.archiving.index import Index
from pytest_researchenv.archiving.taking import take_archive
from pytest_researchenv.sandbox.fake import FakeContainer, FakeSandbox
from pytest_researchenv.sandbox.protocol import ContainerSpec


__all__ = ["ROOT", "archive", "at_work", "take"]

ROOT = "/workspace/task"


def at_work(files: Mapping[str, bytes]) -> FakeContainer:
    """A container with files below the folder."""
    sandbox = FakeSandbox()
    image = sandbox.add_image("base", {"/workspace/.keep": b""})
    container = sandbox.create(ContainerSpec(image))
    for name, content in files.items():
        container.files.write(f"{ROOT}/{name}", content)
    return container


def take(
    container: FakeContainer,
    folder: Path,
    *,
    most_bytes: int = 1024**2,
    wanted: Callable[[], bool] = lambda: True,
) -> Index:
    """Take one archive."""
    return take_archive(container, ROOT, folder, most_bytes=most_bytes, wanted=wanted)


def archive(folder: Path) -> None:
    """Archive a folder with one file into an attempt's."""
    take(at_work({"notes.md": b"what was tried"}), folder)
