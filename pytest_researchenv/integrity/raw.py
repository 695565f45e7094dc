"""Whole files of an image, however large, for what a snapshot does not keep."""

from __future__ import annotations

import hashlib
import io
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import IO

from pytest_researchenv.integrity.protocol import Entry
from pytest_researchenv.probes.launch import attempt_labels
from pytest_researchenv.probes.protocol import ProbeTask
from pytest_researchenv.sandbox.peek import opened
from pytest_researchenv.sandbox.protocol import Container, ContainerSpec


__all__ = ["file_of", "md5_of", "md5_sums"]

#: Largest file that is read.
_MOST_BYTES = 1024**3
_BLOCK = 1 << 20


@contextmanager
def file_of(task: ProbeTask, entry: Entry) -> Iterator[IO[bytes] | None]:
    """A regular file of the snapshot that can be sought in; None when it is too large.

    Args:
        task: what is audited.
        entry: the file, as the snapshot has it.

    Raises:
        SandboxError: the engine refuses to read.
    """
    if entry.content is not None:
        yield io.BytesIO(entry.content)
        return
    if entry.size > _MOST_BYTES:
        yield None
        return
    with tempfile.TemporaryFile() as file:
        with _container(task) as container:
            for block in _blocks(container, entry.path):
                file.write(block)
        file.seek(0)
        yield file


def md5_of(content: bytes) -> str:
    """The MD5 sum of some bytes: dpkg records no others."""
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def md5_sums(task: ProbeTask, entries: Collection[Entry]) -> dict[str, str]:
    """MD5 sums of regular files of the snapshot that are not kept, by path; none of what is too large.

    Raises:
        SandboxError: the engine refuses to read.
    """
    sums: dict[str, str] = {}
    if not entries:
        return sums
    with _container(task) as container:
        for entry in entries:
            if entry.size <= _MOST_BYTES:
                digest = hashlib.md5(usedforsecurity=False)
                for block in _blocks(container, entry.path):
                    digest.update(block)
                sums[entry.path] = digest.hexdigest()
    return sums


@contextmanager
def _container(task: ProbeTask) -> Iterator[Container]:
    spec = ContainerSpec(image=task.environment.image, argv=("/bin/true",), labels=attempt_labels(task))
    with task.sandbox.opened(spec) as container:
        yield container


def _blocks(container: Container, path: str) -> Iterator[bytes]:
    with opened(container, path) as found:
        content = found[1] if found else None
        while content is not None and (block := content.read(_BLOCK)):
            yield block
