"""Continual learning: the trainer's logs, each of one or more seeds.

A log says itself which data set it is of, and in which steps: the trainer prints its settings first. Its path says so
too, in one of two published layouts, `<model>/<data set>/<classes at first>/<classes a step>/<name>.log` and
`<data set>_…_t<steps>.log`. All that is said must agree. Published: ResearchGym (arXiv 2602.15112), task
continual-learning.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from pytest_researchenv.research.cells import Plan, Run, required_runs
from pytest_researchenv.research.metrics import Metric, exact_mean
from pytest_researchenv.research.outputs.files import UnreadableError
from pytest_researchenv.research.outputs.found import Finder, Found


__all__ = ["AAA", "ACC", "PLANS", "SEEDS", "read_logs"]

ACC = Metric("Acc", least=0, most=100)
AAA = Metric("AAA", least=0, most=100)
SEEDS = (1992, 1993, 1994)

#: Data set and number of steps → sub-task.
_SUBTASKS = {
    ("ImageNet-R", 5): "cl-imagenet-r-n5",
    ("ImageNet-R", 10): "cl-imagenet-r-n10",
    ("ImageNet-R", 20): "cl-imagenet-r-n20",
    ("ImageNet-A", 10): "cl-imagenet-a-n10",
    ("CIFAR-100", 10): "cl-cifar100-n10",
    ("CUB-200", 10): "cl-cub200-n10",
}

PLANS: Mapping[str, tuple[Plan, ...]] = {
    name: tuple(Plan(metric, required_runs(seeds=SEEDS)) for metric in (ACC, AAA)) for name in _SUBTASKS.values()
}

#: What a data set is called in settings, folders and file names.
_DATASETS = {
    "imagenetr": "ImageNet-R",
    "inr": "ImageNet-R",
    "imageneta": "ImageNet-A",
    "ina": "ImageNet-A",
    "cifar224": "CIFAR-100",
    "cifar100": "CIFAR-100",
    "c100": "CIFAR-100",
    "cub": "CUB-200",
    "cub200": "CUB-200",
}
_CLASSES = {"ImageNet-R": 200, "ImageNet-A": 200, "CIFAR-100": 100, "CUB-200": 200}

_LONGEST_LINE = 100_000
_SETTING = re.compile(r"(seed|dataset|init_cls|increment): (\S{1,40})\s*")
_TOTALS = "CNN: "
_CURVE = "CNN top1 curve: "
_AVERAGE = "Average Accuracy (CNN): "
_NUMPY = re.compile(r"\bnp\.float(?:32|64)\(([^()]{1,40})\)")

#: Logged figures are rounded to two digits, a curve's mean is not.
_TOLERANCE = 0.01


@dataclass(slots=True)
class _Segment:
    """What a log says of one seed."""

    settings: dict[str, str] = field(default_factory=dict)
    totals: list[object] = field(default_factory=list)
    curve: list[object] | None = None
    average: float | None = None


def read_logs(root: Path) -> Found:
    """Read all logs below a folder.

    Acc is the accuracy over all classes after the last step, AAA the mean of that accuracy over all steps, taken from
    the logged accuracies themselves; what the log says of both besides must agree.
    """
    finder = Finder(root)
    for path, name in finder.files(".log"):
        try:
            segments = list(_segments(finder.text(path)))
        except UnreadableError as error:
            finder.skip(name, error)
            continue
        if not segments:
            finder.skip(name, "names no seed")
        for segment in segments:
            _take(finder, name, segment)
    return finder.found()


def _take(finder: Finder, name: str, segment: _Segment) -> None:
    where = f"{name}, seed {segment.settings['seed']}"
    try:
        run = Run(seed=_seed(segment.settings["seed"]))
        subtask, steps = _subtask(name, segment)
        acc, aaa = _figures(segment, steps)
    except UnreadableError as error:
        finder.skip(where, error)
        return
    finder.add(subtask, ACC.name, run, acc, name)
    finder.add(subtask, AAA.name, run, aaa, name)


def _seed(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise UnreadableError("is no seed")
    return int(text)


def _segments(text: str) -> Iterator[_Segment]:
    """A log seed by seed: a process of several seeds writes them all to one file."""
    segment: _Segment | None = None
    for line in text.splitlines():
        if len(line) > _LONGEST_LINE:
            continue
        message = line.partition(" => ")[2] or line
        if setting := _SETTING.fullmatch(message):
            if setting[1] == "seed":
                if segment is not None:
                    yield segment
                segment = _Segment()
            if segment is not None:
                segment.settings.setdefault(setting[1], setting[2])
        elif segment is not None:
            _note(segment, message)
    if segment is not None:
        yield segment


def _note(segment: _Segment, message: str) -> None:
    if message.startswith(_TOTALS):
        value = _literal(message.removeprefix(_TOTALS))
        segment.totals.append(value.get("total") if isinstance(value, dict) else None)
    elif message.startswith(_CURVE):
        value = _literal(message.removeprefix(_CURVE))
        segment.curve = value if isinstance(value, list) else []
    elif message.startswith(_AVERAGE):
        value = _literal(message.removeprefix(_AVERAGE))
        segment.average = value if isinstance(value, float) else None


def _literal(text: str) -> object:
    try:
        return ast.literal_eval(_NUMPY.sub(r"\1", text.strip()))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None


# --- which sub-task -----------------------------------------------------------------------------------------


def _subtask(name: str, segment: _Segment) -> tuple[str, int]:
    """The sub-task and its number of steps, by all that says so."""
    said = {*_by_settings(segment.settings), *_by_folders(name), *_by_name(name)}
    if not said:
        raise UnreadableError("neither the settings nor the path say which data set it is, and in how many steps")
    if len(said) > 1:
        described = " and ".join(f"{dataset} in {steps} steps" for dataset, steps in sorted(said))
        raise UnreadableError(f"settings and path contradict each other: {described}")
    dataset, steps = said.pop()
    if (dataset, steps) not in _SUBTASKS:
        raise UnreadableError(f"{dataset} in {steps} steps is no sub-task")
    return _SUBTASKS[dataset, steps], steps


def _by_settings(settings: Mapping[str, str]) -> Iterator[tuple[str, int]]:
    if settings.keys() >= {"dataset", "init_cls", "increment"}:
        yield from _split(settings["dataset"], settings["init_cls"], settings["increment"])


def _by_folders(name: str) -> Iterator[tuple[str, int]]:
    parts = PurePosixPath(name).parts
    if len(parts) > 3:  # noqa: PLR2004 - data set, classes at first and classes a step above the file
        dataset, first, increment = parts[-4:-1]
        # Where both are equal, the published trainer writes 0.
        yield from _split(dataset, increment if first == "0" else first, increment)


def _split(dataset: str, first: str, increment: str) -> Iterator[tuple[str, int]]:
    known = _DATASETS.get(_token(dataset))
    if known and re.fullmatch(r"[1-9][0-9]{0,3}", first) and re.fullmatch(r"[1-9][0-9]{0,3}", increment):
        yield known, 1 + -((int(first) - _CLASSES[known]) // int(increment))


def _by_name(name: str) -> Iterator[tuple[str, int]]:
    # Whole words of the name: the first "t" with digits of `inr_lora_vit16_t20.log` is in "vit16".
    words = re.split(r"[^a-z0-9]+", PurePosixPath(name).stem.lower().replace("imagenet-", "imagenet"))
    datasets = {_DATASETS[word] for word in words if word in _DATASETS}
    steps = {int(word[1:]) for word in words if re.fullmatch(r"t[0-9]{1,3}", word)}
    if len(datasets) == 1:
        dataset = datasets.pop()
        possible = steps or {count for known, count in _SUBTASKS if known == dataset}
        if len(possible) == 1:
            yield dataset, possible.pop()


def _token(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text.lower())


# --- which accuracies ---------------------------------------------------------------------------------------


def _figures(segment: _Segment, steps: int) -> tuple[object, object]:
    """Acc and AAA; both are what is wrong with an accuracy where one is no accuracy."""
    if len(segment.totals) != steps:
        raise UnreadableError(f"holds the accuracy after {len(segment.totals)} steps, and not after {steps}")
    totals: list[float] = []
    for value in segment.totals:
        if ACC.wrong(value) or not isinstance(value, int | float):
            return value, value
        totals.append(float(value))
    if segment.curve is not None and segment.curve != totals:
        raise UnreadableError("the logged curve is not that of the logged accuracies")
    mean = float(exact_mean(tuple(totals)))
    if segment.average is not None and abs(segment.average - mean) > _TOLERANCE:
        raise UnreadableError(f"the logged average is {segment.average:g}, that of its accuracies {mean:.2f}")
    return totals[-1], mean
