"""Head and tail of output."""

from __future__ import annotations

import tracemalloc

import pytest

from pytest_researchenv.sandbox.capture import Capture


@pytest.mark.parametrize("size", [1, 3, 7, 1000])
@pytest.mark.parametrize("total", [0, 1, 9, 10, 11, 19, 20, 21, 40, 41, 500])
def test_head_and_tail_are_kept_however_output_is_cut(size: int, total: int) -> None:
    """The first and last ten bytes are kept, for any length and any chunks."""
    whole = bytes(i % 251 for i in range(total))
    capture = Capture(10)

    for start in range(0, total, size):
        capture.feed(whole[start : start + size])

    result = capture.result()
    assert result.head == whole[:10]
    assert result.tail == whole[10:][-10:]
    assert result.total == total
    assert result.omitted == max(0, total - 20)


def test_text_says_what_is_missing() -> None:
    """A reader sees that the middle was left out, and broken characters do no harm."""
    capture = Capture(3)
    capture.feed(b"ab\xff" + b"x" * 100 + b"yz\n")

    assert capture.result().text() == "ab\ufffd\n[... 100 bytes left out ...]\nyz\n"


def test_memory_is_bounded() -> None:
    """A hundred megabytes of output take no more than a few times the limit."""
    limit = 64 * 1024
    chunk = b"x" * 32 * 1024
    capture = Capture(limit)
    tracemalloc.start()

    for _ in range(3200):
        capture.feed(chunk)

    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert capture.result().total == 3200 * 32 * 1024
    assert peak < 8 * limit
