"""Streams of digits: which classes arrive at which step, and what is seen of them.

A stream is drawn from a key, and from nothing else: the order of the classes, the split into training and test, and a
*sensor*, a random layer through which all digits of that stream are seen. So classes, pixels and splits of one stream
say nothing about those of another. Python's standard library is enough to draw one.
"""

from __future__ import annotations

import gzip
import math
import random
from array import array
from dataclasses import dataclass
from operator import mul
from pathlib import Path


__all__ = ["CLASSES", "FEATURES", "Digits", "Examples", "Stream", "accuracy", "draw", "public_key", "read_digits"]

FEATURES = 64
CLASSES = 10
# Of each class; the others are the test part.
_TRAINING_SHARE = 0.7
# Pixels go from 0 to 16. With this scale a third of what the sensor yields lies beyond +-0.8, where it is not linear.
_SCALE = 0.02


@dataclass(frozen=True, slots=True)
class Digits:
    """The data set: 1797 images of 8 x 8 pixels, and what each of them shows."""

    pixels: list[list[float]]
    shown: list[int]


@dataclass(frozen=True, slots=True)
class Examples:
    """Rows of 64 numbers each, one after the other, and the class of each row."""

    values: array[float]
    labels: list[int]

    def chosen(self, rows: list[int]) -> Examples:
        """Return some of the rows."""
        values = array("f")
        for row in rows:
            values.extend(self.values[row * FEATURES : (row + 1) * FEATURES])
        return Examples(values, [self.labels[row] for row in rows])

    def __add__(self, other: Examples) -> Examples:
        return Examples(self.values + other.values, self.labels + other.labels)


@dataclass(frozen=True, slots=True)
class Stream:
    """For each step: what is learned at it, and the test part of the classes that are new at it."""

    key: str
    training: list[Examples]
    tests: list[Examples]

    def test_after(self, step: int) -> Examples:
        """Return the test part of all classes up to a step, counted from 0; the order of rows says nothing."""
        together = Examples(array("f"), [])
        for test in self.tests[: step + 1]:
            together += test
        rows = list(range(len(together.labels)))
        random.Random(f"{step} {self.key}").shuffle(rows)  # noqa: S311
        return together.chosen(rows)


def read_digits(path: Path) -> Digits:
    """Read the file of the data set: 64 pixels and the digit in each line."""
    with gzip.open(path, "rt", encoding="ascii") as lines:
        rows = [[float(part) for part in line.split(",")] for line in lines]
    return Digits([row[:FEATURES] for row in rows], [int(row[FEATURES]) for row in rows])


def public_key(seed: int) -> str:
    """Return the key of the stream that the runner uses for a seed."""
    return f"public {seed}"


def draw(digits: Digits, key: str, steps: int) -> Stream:
    """Draw a stream: its classes are numbered in the order in which they arrive."""
    # Drawn from the key's SHA-512, the same on every machine.
    chance = random.Random(key)  # noqa: S311
    order = chance.sample(range(CLASSES), CLASSES)
    weights = [[chance.gauss(0, 1) for _ in range(FEATURES)] for _ in range(FEATURES)]
    means = [sum(column) / len(column) for column in zip(*digits.pixels, strict=True)]
    training: list[Examples] = []
    tests: list[Examples] = []
    for step in range(steps):
        parts: list[list[tuple[int, int]]] = [[], []]
        for label in range(step * CLASSES // steps, (step + 1) * CLASSES // steps):
            rows = [index for index, shown in enumerate(digits.shown) if shown == order[label]]
            chance.shuffle(rows)
            cut = int(len(rows) * _TRAINING_SHARE)
            for part, chosen in zip(parts, (rows[:cut], rows[cut:]), strict=True):
                part.extend((label, index) for index in chosen)
        for part, examples in zip(parts, (training, tests), strict=True):
            chance.shuffle(part)
            seen = array("f")
            for _, index in part:
                seen.extend(_seen(digits.pixels[index], means, weights))
            examples.append(Examples(seen, [label for label, _ in part]))
    return Stream(key, training, tests)


def accuracy(predicted: list[int], labels: list[int]) -> float:
    """Return the share of right predictions in per cent."""
    return 100 * sum(map(int.__eq__, predicted, labels)) / len(labels)


def _seen(pixels: list[float], means: list[float], weights: list[list[float]]) -> list[float]:
    centred = [pixel - mean for pixel, mean in zip(pixels, means, strict=True)]
    return [math.tanh(_SCALE * sum(map(mul, row, centred))) for row in weights]
