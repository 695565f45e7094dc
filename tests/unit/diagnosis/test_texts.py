"""Patterns: plain text in which a star stands for anything within the line."""

from __future__ import annotations

import random
import re
import time

import pytest

from pytest_researchenv.diagnosis.texts import Text


@pytest.mark.parametrize(
    ("pattern", "line"),
    [
        ("No module named", "ModuleNotFoundError: No module named 'x'"),
        ("lib*.so*: cannot open", "OSError: libGL.so.1: cannot open shared object file"),
        ("^Killed$", "  Killed "),
        ("^Killed", "Killed by signal"),
        ("not found$", "sh: 1: git: not found"),
        ("^sh: 1: *: not found$", "sh: 1: git: not found"),
        ("a*a", "aa"),
        ("^a*b$", "ab"),
    ],
)
def test_a_line_that_says_it_fits(pattern: str, line: str) -> None:
    """Parts in their order, with anything or nothing between; margins do not count."""
    assert Text.of(pattern).fits(line)


@pytest.mark.parametrize(
    ("pattern", "line"),
    [
        ("No module named", "no module named 'x'"),
        ("^Killed", "was Killed"),
        ("^Killed$", "Killed 9"),
        ("not found$", "not found here"),
        ("a*b", "b a"),
        ("a*a", "a"),
        ("^ab*b$", "ab"),
    ],
)
def test_a_line_that_does_not_say_it_does_not_fit(pattern: str, line: str) -> None:
    """Case and order count, and no letter is used twice."""
    assert not Text.of(pattern).fits(line)


@pytest.mark.parametrize("pattern", ["", "*", "^*$", " * "])
def test_a_pattern_that_fits_every_line_is_refused(pattern: str) -> None:
    """It would be a rule for everything."""
    with pytest.raises(ValueError, match="fits every line"):
        Text.of(pattern)


@pytest.mark.parametrize("seed", range(20))
def test_it_fits_as_a_regular_expression_would(seed: int) -> None:
    """Looking for parts one behind the other finds what going back would find, too, at either end as well."""
    chance = random.Random(seed)  # noqa: S311 - a test
    for _ in range(200):
        parts = ["".join(chance.choices("ab", k=chance.randint(1, 3))) for _ in range(chance.randint(1, 3))]
        line = "".join(chance.choices("abx", k=chance.randint(0, 12)))
        begin, end = chance.choice(["", "^"]), chance.choice(["", "$"])
        expected = re.search(begin + ".*".join(parts) + end, line) is not None

        assert Text.of(begin + "*".join(parts) + end).fits(line) is expected, (begin, parts, end, line)


def test_a_hostile_line_takes_no_longer_than_it_is_long() -> None:
    """A megabyte in which every part but the last stands everywhere."""
    text = Text.of("a*a*a*a*a*a*a*b")
    line = "a" * 1_000_000

    begin = time.process_time()
    fits = text.fits(line)

    assert not fits
    assert time.process_time() - begin < 0.5
