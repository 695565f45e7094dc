"""Scores from labels: classes, and entities by their tags."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_researchenv.research.labels import LabelScores, class_scores, entity_scores, predicted_tags, read_tags
from pytest_researchenv.research.problems import OutputError, ProblemKind


TAGS = ("O", "B-MAT", "I-MAT", "B-PRO", "I-PRO")
tags = st.lists(st.sampled_from(TAGS), min_size=1, max_size=12)
pairs = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("abc")), min_size=1, max_size=20)


def spans(sentence: list[str]) -> set[tuple[int, int, str]]:
    """Entities by another way: a regular expression over the tags, each written with as many characters."""
    written = "".join({"O": "..", "B-MAT": "Mm", "I-MAT": "mm", "B-PRO": "Pp", "I-PRO": "pp"}[tag] for tag in sentence)
    found = re.finditer(r"(?:Mm|mm)(?:mm)*|(?:Pp|pp)(?:pp)*", written)
    return {(one.start() // 2, one.end() // 2, one[0][1]) for one in found}


# --- classes ------------------------------------------------------------------------------------------------


def test_classes_by_hand() -> None:
    """Three of four right; F1 is 2/3 of a, 4/5 of b."""
    scores = class_scores("aabb", "abbb")

    assert scores.micro == 75.0
    assert scores.macro == pytest.approx(100 * (2 / 3 + 4 / 5) / 2)


def test_a_class_that_is_only_predicted_counts() -> None:
    """As 0, as in scikit-learn: a, b and c of one sample of each true and another predicted."""
    assert class_scores("ab", "ac").macro == pytest.approx(100 / 3)


@given(pairs)
def test_micro_is_accuracy(samples: list[tuple[str, str]]) -> None:
    """Of one label for each sample; and the order of samples does not matter."""
    truth, predicted = zip(*samples, strict=True)

    scores = class_scores(truth, predicted)

    assert scores.micro == pytest.approx(100 * sum(a == b for a, b in samples) / len(samples))
    assert 0 <= scores.macro <= 100
    assert scores == class_scores(truth[::-1], predicted[::-1])
    assert (scores.micro == 100) == (scores.macro == 100) == (truth == predicted)


@pytest.mark.parametrize(("predicted", "kind"), [("ab", ProblemKind.MISSING), ("abcd", ProblemKind.EXTRA)])
def test_every_sample_has_a_prediction(predicted: str, kind: ProblemKind) -> None:
    """The ones that are sure cannot be chosen."""
    with pytest.raises(OutputError) as caught:
        class_scores("abc", predicted)
    assert caught.value.of(kind) == (f"{len(predicted)} samples are predicted, and 3 are true",)


def test_no_samples_are_no_score() -> None:
    """Not 0, and not 100."""
    with pytest.raises(OutputError):
        class_scores("", "")


# --- entities -----------------------------------------------------------------------------------------------


def test_entities_by_hand() -> None:
    """Of two materials and a property, one material is cut short: two of three right of three."""
    truth = [["B-MAT", "I-MAT", "O", "B-PRO"], ["B-MAT", "O"]]
    predicted = [["B-MAT", "O", "O", "B-PRO"], ["B-MAT", "O"]]

    scores = entity_scores(truth, predicted, {"MAT", "PRO"})

    assert scores.micro == pytest.approx(200 / 3)
    assert scores.macro == 75.0


def test_a_type_that_is_never_found_is_0() -> None:
    """The types are those of the training data."""
    assert entity_scores([["B-MAT"]], [["B-MAT"]], ["MAT", "SPL"]) == LabelScores(100.0, 50.0)


@given(st.lists(tags, min_size=1, max_size=5))
def test_entities_are_those_of_another_implementation(truth: list[list[str]]) -> None:
    """Whatever the tags: also an entity that begins with `I-`, or follows another."""
    predicted = [
        [TAGS[(TAGS.index(tag) + place) % 5] if place % 3 else tag for place, tag in enumerate(one)] for one in truth
    ]
    right = sum(len(spans(a) & spans(b)) for a, b in zip(truth, predicted, strict=True))
    every = sum(len(spans(one)) for one in [*truth, *predicted])

    scores = entity_scores(truth, predicted, ["MAT", "PRO"])

    assert scores.micro == pytest.approx(200 * right / every if every else 0)


@given(st.lists(tags, min_size=1, max_size=5))
def test_the_truth_is_100(truth: list[list[str]]) -> None:
    """Where there are entities at all; saying none is 0."""
    types = {tag[2:] for sentence in truth for tag in sentence if tag != "O"} or {"MAT"}
    expected = 100 if any(tag != "O" for sentence in truth for tag in sentence) else 0

    assert entity_scores(truth, truth, types) == LabelScores(expected, expected)
    assert entity_scores(truth, [["O"] * len(one) for one in truth], types) == LabelScores(0, 0)


def test_an_entity_ends_with_its_sentence() -> None:
    """`I-` at the beginning of the next is another one, and not more of the last."""
    assert entity_scores([["B-MAT"], ["I-MAT"]], [["B-MAT"], ["O"]], ["MAT"]).micro == pytest.approx(200 / 3)


@pytest.mark.parametrize(
    ("predicted", "said"),
    [
        ([["O", "O"]], "1 sentences are predicted, and 2 are true"),
        ([["O"], ["O"]], "1 tags in sentence 1 are predicted, and 2 are true"),
        ([["O", "O", "O"], ["O"]], "3 tags in sentence 1 are predicted, and 2 are true"),
    ],
)
def test_every_token_has_a_tag(predicted: list[list[str]], said: str) -> None:
    """No sentence is left out."""
    with pytest.raises(OutputError, match=said):
        entity_scores([["O", "O"], ["O"]], predicted, ["MAT"])


# --- tokens and their tags ----------------------------------------------------------------------------------


def test_tags_are_read_sentence_by_sentence() -> None:
    """As the data of the task are written, whatever ends a line."""
    text = "elastic B-PRO\r\nsoftening I-PRO\r\n\r\n\n- I-DSC\n"

    assert read_tags(text) == ((("elastic", "B-PRO"), ("softening", "I-PRO")), (("-", "I-DSC"),))
    assert read_tags("") == ()
    assert read_tags("MPam 1/2  O\n O\n") == ((("MPam 1/2", "O"), ("", "O")),)


@pytest.mark.parametrize("line", ["token", "x" * 20_000 + " O", "\x1b[2J"])
def test_a_line_is_a_token_with_a_tag(line: str) -> None:
    """Or it is told, in a line that can be printed."""
    with pytest.raises(OutputError, match="line 2 is no token with a tag") as caught:
        read_tags(f"a O\n{line}\n")
    assert str(caught.value).isprintable()


def test_predictions_are_of_the_given_tokens() -> None:
    """Another token, one less, or a sentence that was left out."""
    truth = read_tags("a O\nb O\n\nc O\n")

    assert predicted_tags(truth, read_tags("a B-MAT\nb O\n\nc O\n")) == [["B-MAT", "O"], ["O"]]
    for text, said in (
        ("a O\nx O\n\nc O\n", "sentence 1 has other tokens"),
        ("a O\n\nc O\n", "sentence 1 has other tokens"),
        ("a O\nb O\n", "1 sentences are predicted, and 2 are true"),
    ):
        with pytest.raises(OutputError, match=said):
            predicted_tags(truth, read_tags(text))
