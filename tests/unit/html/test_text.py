"""Words that may be anything become text that means what it looks like."""

from __future__ import annotations

import gzip
import time
import tracemalloc
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_researchenv.report.html.text import Excerpt, cut, read_excerpt, visible, without_terminal


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain, ünïcode ✓ 漢字", "plain, ünïcode ✓ 漢字"),
        ("two\n\tlines", "two\n\tlines"),
        ("a\u202eb", "a\\u202eb"),
        ("a\x00\x1b[2J", "a\\x00\\x1b[2J"),
        ("caf\udce9", "caf\\xe9"),
        ("\ud83d", "\\ud83d"),
        ("a\u200bb\ufeff", "a\\u200bb\\ufeff"),
        ("a\r\nb", "a\\r\nb"),
    ],
)
def test_what_is_not_seen_is_written_out(text: str, shown: str) -> None:
    """Nobody can hide a letter, or turn the direction of writing."""
    assert visible(text) == shown


@given(st.text(st.characters()))
def test_nothing_unseen_is_left(text: str) -> None:
    """Whatever comes in, what goes out can be encoded and holds no control, format or surrogate character."""
    shown = visible(text)

    shown.encode()
    assert {unicodedata.category(letter) for letter in shown if letter not in "\n\t"}.isdisjoint(
        {"Cc", "Cf", "Cs", "Zl", "Zp"}
    )


@pytest.mark.parametrize(
    ("printed", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07text", "text"),
        ("10%\r50%\r100%\ndone", "100%\ndone"),
        ("windows\r\nlines\r\n", "windows\nlines\n"),
        ("last\r", "last"),
    ],
)
def test_a_log_reads_as_a_terminal_would_have_left_it(printed: str, shown: str) -> None:
    """Colours go, and of a bar of progress its last form stays."""
    assert without_terminal(printed) == shown


def test_a_short_log_is_shown_whole(tmp_path: Path) -> None:
    """Nothing is left out that fits."""
    (tmp_path / "C1-001.log").write_bytes(b"one\ntwo\xff\n")

    assert read_excerpt(tmp_path / "C1-001.log") == Excerpt("one\ntwo\\xff\n")


def test_of_a_long_log_both_ends_are_shown(tmp_path: Path) -> None:
    """Whole lines, and how much is missing between them."""
    raw = b"".join(b"line %06d\n" % number for number in range(20_000))
    (tmp_path / "C1-001.log").write_bytes(raw)

    found = read_excerpt(tmp_path / "C1-001.log")

    assert found is not None
    assert found.head.startswith("line 000000\n")
    assert found.tail.startswith("line ")
    assert found.tail.endswith("line 019999\n")
    assert len(found.head) + len(found.tail) + found.omitted == len(raw)


@pytest.mark.parametrize("count", [3, 20_000])
def test_a_compressed_log_reads_the_same(tmp_path: Path, count: int) -> None:
    """Records name logs by their plain names, whether they were compressed since or not."""
    raw = b"".join(b"line %06d\n" % number for number in range(count))
    (tmp_path / "C1-001.log").write_bytes(raw)
    (tmp_path / "C2-001.log.gz").write_bytes(gzip.compress(raw))

    assert read_excerpt(tmp_path / "C2-001.log") == read_excerpt(tmp_path / "C1-001.log")


def test_of_a_huge_log_only_the_ends_are_read(tmp_path: Path) -> None:
    """100 MB cost neither time nor memory."""
    with (tmp_path / "C1-001.log").open("wb") as file:
        file.truncate(100 * 1024**2)
        file.seek(0, 2)
        file.write(b"\nthe end\n")
    tracemalloc.start()
    began = time.process_time()

    found = read_excerpt(tmp_path / "C1-001.log")

    took, (_, most) = time.process_time() - began, tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found is not None
    assert found.tail.endswith("the end\n")
    assert took < 0.5
    assert most < 1024**2


@pytest.mark.parametrize(
    "content", [b"no archive", gzip.compress(b"x" * 10_000, mtime=0)[:-20], b""], ids=["no archive", "cut", "empty"]
)
def test_what_cannot_be_read_is_left_out(tmp_path: Path, content: bytes) -> None:
    """A damaged log spoils no page."""
    (tmp_path / "C1-001.log.gz").write_bytes(content)

    assert read_excerpt(tmp_path / "C1-001.log") in {None, Excerpt()}


def test_a_missing_log_is_none(tmp_path: Path) -> None:
    """Neither a file nor a folder is there."""
    (tmp_path / "C2-001.log").mkdir()

    assert read_excerpt(tmp_path / "C1-001.log") is None
    assert read_excerpt(tmp_path / "C2-001.log") is None


def test_a_long_text_is_cut() -> None:
    """What is cut says so."""
    assert cut("abcdef", 4) == "abc…"
    assert cut("abcd", 4) == "abcd"
