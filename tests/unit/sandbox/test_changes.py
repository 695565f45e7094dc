"""Reading the engine's list of what a container differs in. No Docker."""

from __future__ import annotations

import io
import tracemalloc
from typing import TYPE_CHECKING

import pytest

from pytest_researchenv.errors import SandboxError
from pytest_researchenv.sandbox._changes import parsed
from pytest_researchenv.sandbox.protocol import Change, ChangeKind


if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


class Endless(io.RawIOBase):
    """An answer of many paths, made while it is read."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self._left = count
        self._rest = b"["

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """Make the next ones."""
        view = memoryview(buffer).cast("B")
        while self._left and len(self._rest) < len(view):
            comma = b"" if self._left == 1 else b","
            self._rest += b'{"Path":"/tmp/' + b"%d" % self._left * 10 + b'","Kind":1}' + comma
            self._left -= 1
            if not self._left:
                self._rest += b"]\n"
        size = min(len(view), len(self._rest))
        view[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size


@pytest.mark.parametrize("answer", [b"null\n", b"[]"])
def test_no_changes_are_told_in_two_ways(answer: bytes) -> None:
    """Null by engines that found none, or an empty list."""
    assert list(parsed(io.BytesIO(answer))) == []


def test_kinds_are_named() -> None:
    """Engines number them."""
    answer = b'[{"Path":"/a","Kind":0},{"Path":"/b\\n","Kind":1},{"Path":"/c","Kind":2}]'

    assert list(parsed(io.BytesIO(answer))) == [
        Change(ChangeKind.CHANGED, "/a"),
        Change(ChangeKind.ADDED, "/b\n"),
        Change(ChangeKind.REMOVED, "/c"),
    ]


@pytest.mark.parametrize("answer", [b"", b'[{"Path":"/a","Ki', b'[{"Path":"/a"}]', b'[{"Path":"/a","Kind":7}]', b"[1]"])
def test_a_damaged_list_is_an_error(answer: bytes) -> None:
    """A list that ends in its midst must not look like one with fewer changes."""
    with pytest.raises(SandboxError, match="damaged"):
        list(parsed(io.BytesIO(answer)))


def test_a_long_list_takes_no_memory() -> None:
    """An agent may leave a million files."""
    tracemalloc.start()
    try:
        count = sum(1 for _ in parsed(io.BufferedReader(Endless(300_000))))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert count == 300_000
    assert peak < 4 * 1024**2
