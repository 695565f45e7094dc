"""Scores from labels themselves, where predictions are handed in and the truth was kept back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from pytest_researchenv.research.metrics import percent
from pytest_researchenv.research.problems import OutputError, Problem, ProblemKind


__all__ = ["LabelScores", "class_scores", "entity_scores", "predicted_tags", "read_tags"]

#: A sentence: each token with its tag.
Sentence = tuple[tuple[str, str], ...]

_SHOWN = 60
_LONGEST_LINE = 10_000


@dataclass(frozen=True, slots=True)
class LabelScores:
    """F1 in percent.

    Attributes:
        micro: over all labels at once; of classes, that is the accuracy.
        macro: the mean over classes, or over types of entities, each counting the same.
    """

    micro: float
    macro: float


@dataclass(frozen=True, slots=True)
class _Counts:
    """How often something was predicted rightly, predicted, and true."""

    right: int
    predicted: int
    true: int

    @property
    def f1(self) -> float:
        """`2 · right / (predicted + true)`, the harmonic mean of precision and recall; 0 where there was neither."""
        return 2 * self.right / (self.predicted + self.true) if self.predicted + self.true else 0.0


def class_scores(truth: Sequence[str], predicted: Sequence[str]) -> LabelScores:
    """Micro and macro F1 of one label for each sample.

    The macro mean is over the classes that are true or predicted of any sample, as scikit-learn's `f1_score` has it.

    Raises:
        OutputError: not one prediction for each sample.
    """
    if not truth or len(truth) != len(predicted):
        raise OutputError("predictions", [_count("samples", len(predicted), len(truth))])
    right = Counter(a for a, b in zip(truth, predicted, strict=True) if a == b)
    true, guessed = Counter(truth), Counter(predicted)
    classes = sorted(true.keys() | guessed.keys())
    each = [_Counts(right[one], guessed[one], true[one]).f1 for one in classes]
    return _scores(_Counts(right.total(), len(predicted), len(truth)).f1, each)


def entity_scores(
    truth: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]], types: Collection[str]
) -> LabelScores:
    """Micro and macro F1 of entities, given by tags `B-type`, `I-type` and `O`.

    An entity counts where its type, its first and its last token are right, as in the CoNLL evaluation; one may begin
    with `I-`. Unlike there, none goes on into the next sentence. The macro mean is over the given types, those of the
    training data: a type that is never found counts as 0.

    Args:
        truth: tags of each sentence.
        predicted: likewise.
        types: over which the macro mean is.

    Raises:
        OutputError: not one tag for each token.
    """
    problems = [
        _count(f"tags in sentence {number}", len(b), len(a))
        for number, (a, b) in enumerate(zip(truth, predicted, strict=False), 1)
        if len(a) != len(b)
    ]
    if not truth or len(truth) != len(predicted):
        problems.append(_count("sentences", len(predicted), len(truth)))
    if problems or not types:
        raise OutputError("predictions", problems or [Problem(ProblemKind.INVALID, "no types of entities are given")])
    true = {(number, *one) for number, tags in enumerate(truth) for one in _entities(tags)}
    guessed = {(number, *one) for number, tags in enumerate(predicted) for one in _entities(tags)}
    right, known, found = (Counter(one[1] for one in every) for every in (true & guessed, true, guessed))
    each = [_Counts(right[one], found[one], known[one]).f1 for one in sorted(types)]
    return _scores(_Counts(len(true & guessed), len(guessed), len(true)).f1, each)


def _scores(micro: float, each: Sequence[float]) -> LabelScores:
    return LabelScores(percent(micro), percent(sum(each) / len(each)))


def _count(what: str, found: int, expected: int) -> Problem:
    kind = ProblemKind.MISSING if found < expected else ProblemKind.EXTRA if found > expected else ProblemKind.INVALID
    return Problem(kind, f"{found} {what} are predicted, and {expected} are true")


def _entities(tags: Sequence[str]) -> Iterator[tuple[str, int, int]]:
    """Type, first token and end of each entity."""
    begin, kind = 0, ""
    for place, tag in enumerate([*tags, "O"]):
        prefix, _, name = tag.partition("-")
        goes_on = prefix == "I" and name == kind
        if kind and not goes_on:
            yield kind, begin, place
        if not goes_on:
            begin, kind = place, name if prefix in {"B", "I"} else ""


# --- tokens and their tags ----------------------------------------------------------------------------------


def read_tags(text: str) -> tuple[Sentence, ...]:
    """Sentences of a text with a token and a tag a line, and an empty line between sentences.

    Raises:
        OutputError: a line is neither.
    """
    sentences: list[Sentence] = []
    sentence: list[tuple[str, str]] = []
    # Only these end a line: tokens may be other separators of Unicode.
    for number, line in enumerate(f"{text}\n\n".replace("\r\n", "\n").split("\n"), 1):
        # A token may hold spaces or nothing: MatScholar's training data have `MPam 1/2` on line 25513, and three lines
        # without a token.
        token, space, tag = line[:_LONGEST_LINE].replace("\t", " ").rstrip().rpartition(" ")
        if space and len(line) <= _LONGEST_LINE:
            sentence.append((token.strip(), tag))
        elif line.strip():
            problem = f"line {number} is no token with a tag: {line[:_SHOWN]!r}"
            raise OutputError("tags", [Problem(ProblemKind.INVALID, problem)])
        elif sentence:
            sentences.append(tuple(sentence))
            sentence = []
    return tuple(sentences)


def predicted_tags(truth: Sequence[Sentence], predicted: Sequence[Sentence]) -> list[list[str]]:
    """The predicted tags, where the tokens are those of the truth.

    Raises:
        OutputError: some are not, so that tags would belong to other tokens.
    """
    problems = [_count("sentences", len(predicted), len(truth))] if len(truth) != len(predicted) else []
    for number, (true, guessed) in enumerate(zip(truth, predicted, strict=False), 1):
        tokens, others = [token for token, _ in true], [token for token, _ in guessed]
        if tokens != others:
            problems.append(Problem(ProblemKind.INVALID, f"sentence {number} has other tokens than it was given"))
    if problems:
        raise OutputError("predictions", problems)
    return [[tag for _, tag in sentence] for sentence in predicted]
