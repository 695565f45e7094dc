"""Evaluation of continual learning: hidden streams of digits, one process for each step.

The handed-in code gets the rows and classes of one step at a time, and nothing of earlier steps but its own state. It
predicts from its states alone, for rows whose classes never leave this process. Accuracies are computed here.
"""
# researchgym canary 564fea92-6bd3-44ab-ae3a-f8fefb7db5c7

from __future__ import annotations

import json
import sys
from functools import cached_property
from pathlib import Path


_TASK = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(_TASK.parent / "_shared"), str(_TASK / "code"), str(_TASK / "evaluation")]

from arrays import floats, integers, rows_kept  # noqa: E402
from continual.stream import CLASSES, FEATURES, Digits, Examples, Stream, accuracy, draw, public_key, read_digits  # noqa: E402
from judging.calls import Broken, Calls, Files  # noqa: E402
from judging.flow import main  # noqa: E402
from judging.problem import Hidden, Metrics  # noqa: E402


__all__ = ["PROBLEM", "DigitsContinual"]

_STEPS = {"steps2": 2, "steps5": 5, "steps10": 10}
_STATE_BYTES = 48 * 1024
# Rows that are predicted together when it is looked at whether that matters.
_FEW = 16
# Share of predictions: sums in another order may turn a row that lies on a boundary.
_TURNED = 0.005


class DigitsContinual:
    """The task, for the judge."""

    folder = _TASK
    package = "continual"
    data = "data"
    deadline_s = 60.0

    def __init__(self) -> None:
        self._drawn: dict[str, Stream] = {}

    @cached_property
    def digits(self) -> Digits:
        """The data set, from our own copy."""
        return read_digits(_TASK / "code" / "data" / "digits.csv.gz")

    def stream(self, hidden: Hidden) -> Stream:
        """Return a hidden stream; each is drawn once."""
        if hidden.key not in self._drawn:
            self._drawn[hidden.key] = draw(self.digits, hidden.key, _STEPS[hidden.subtask])
        return self._drawn[hidden.key]

    def setting(self, subtask: str) -> dict[str, int]:
        """Return the number of steps."""
        return {"steps": _STEPS[subtask]}

    def public(self, seed: int) -> str:
        """Return the key of a public stream."""
        return public_key(seed)

    def measure(self, calls: Calls, method: str, hidden: Hidden) -> Metrics:
        """Return the accuracy after the last step, and the mean of those after each step."""
        stream = self.stream(hidden)
        states = _learned(calls, method, stream, hidden.seed)
        tests = [stream.test_after(step) for step in range(len(states))]
        found = []
        for state, test in zip(states, tests, strict=True):
            # In a process for each, since which rows are new at a step says what classes they may be of.
            labels = _predicted(calls, method, state, [test])[0]
            if len(set(labels)) == 1 < len(set(test.labels)):
                raise Broken(
                    "constant", f"it predicts class {labels[0]} for all rows of {len(set(test.labels))} classes"
                )
            found.append(accuracy(labels, test.labels))
        return {"Acc": found[-1], "AAA": sum(found) / len(found)}

    def inspect(self, calls: Calls, other: Calls, method: str, hidden: Hidden) -> None:
        """Look for rows in states, and whether rows, calls or the environment change each other's predictions."""
        stream = self.stream(hidden)
        states = _learned(calls, method, stream, hidden.seed)
        for step, (state, examples) in enumerate(zip(states, stream.training, strict=True)):
            if kept := rows_kept(state, examples.values, FEATURES):
                raise Broken("rehearsal", f"the state after step {step} holds {kept} rows of that step")
        test = stream.test_after(len(states) - 1)
        together = _predicted(calls, method, states[-1], [test])[0]
        again = _predicted(other, method, _learned(other, method, stream, hidden.seed)[-1], [test])[0]
        if _differ(again, together):
            raise Broken(
                "conditions", "the same calls yield something else when they are made again in another environment"
            )
        order = sorted(range(len(test.labels)), key=lambda row: (test.labels[row], row))
        parts = [order[start : start + _FEW] for start in range(0, len(order), _FEW)]
        few = _predicted(calls, method, states[-1], [test.chosen(part) for part in parts])
        if _differ([label for labels in few for label in labels], [together[row] for row in order]):
            raise Broken(
                "batch", f"what it predicts for a row depends on the others: {_FEW} at a time it is something else"
            )


def _learned(calls: Calls, method: str, stream: Stream, seed: int) -> list[bytes]:
    states: list[bytes] = []
    for examples in stream.training:
        request = {"action": "learn", "method": method, "seed": seed, "begun": bool(states)}
        files: Files = {
            "request.json": json.dumps(request).encode(),
            "x.npy": floats(examples.values, FEATURES),
            "y.npy": integers(examples.labels),
        }
        if states:
            files["state.npz"] = states[-1]
        state = calls.run("continual.worker", files, "{folder}", outputs=("state.npz",))["state.npz"]
        if len(state) > _STATE_BYTES:
            raise Broken("state-size", f"the state has {len(state)} bytes; {_STATE_BYTES} are allowed")
        states.append(state)
    return states


def _predicted(calls: Calls, method: str, state: bytes, asked: list[Examples]) -> list[list[int]]:
    request = {"action": "predict", "method": method, "asked": len(asked)}
    files: Files = {"request.json": json.dumps(request).encode(), "state.npz": state}
    files |= {f"x-{number}.npy": floats(examples.values, FEATURES) for number, examples in enumerate(asked)}
    left = calls.run("continual.worker", files, "{folder}", outputs=("predictions.json",))["predictions.json"]
    try:
        answers = json.loads(left)
    except (ValueError, RecursionError) as error:
        raise Broken("predictions", f"predictions.json is no JSON: {str(error)[:200]}") from error
    if not isinstance(answers, list) or len(answers) != len(asked):
        raise Broken("predictions", f"predictions are {answers!r:.80}, not {len(asked)} lists")
    for labels, examples in zip(answers, asked, strict=True):
        if not isinstance(labels, list) or len(labels) != len(examples.labels):
            raise Broken("predictions", f"predictions are {labels!r:.80}, not {len(examples.labels)} classes")
        if wrong := [label for label in labels if type(label) is not int or not 0 <= label < CLASSES]:
            raise Broken("predictions", f"{wrong[0]!r:.80} is no class: these are the integers from 0 to {CLASSES - 1}")
    return answers


def _differ(one: list[int], other: list[int]) -> bool:
    return sum(map(int.__ne__, one, other)) > _TURNED * len(one)


PROBLEM = DigitsContinual()

if __name__ == "__main__":
    main(PROBLEM)
