"""Materials tokenization: what the task's evaluation writes below `preds`.

Generation: `generation/gen_seed_<seed>.json` of each seed; its summary must agree with them, and alone it counts for
nothing. Classification: `cls/pc_summary.json`, and the frames `res_*` of the other four. Those are pickles of pandas
frames, which are never opened here, since a pickle is a program; `frame.to_json(path, orient="split")`, run where the
agent's code may run, makes the JSON that is read. Shares become percent. Published: ResearchGym (arXiv 2602.15112),
task materials-tokenization.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pytest_researchenv.research.cells import Plan, Run, required_runs
from pytest_researchenv.research.metrics import Metric, percent
from pytest_researchenv.research.outputs.files import UnreadableError
from pytest_researchenv.research.outputs.found import Finder, Found


__all__ = ["FOLDS", "GENERATION_SEEDS", "MACRO", "MICRO", "PLANS", "SEEDS", "read_predictions"]

MACRO = Metric("Macro-F1", least=0, most=100)
MICRO = Metric("Micro-F1", least=0, most=100)
_ACCURACY = Metric("Accuracy", least=0, most=100)

SEEDS = (42, 43, 44)
GENERATION_SEEDS = (33, 44, 55, 111, 222)
FOLDS = (1, 2, 3, 4, 5)

_GENERATION = {task: f"mdt-gen-{task.lower()}" for task in ("NER", "RC", "EAE", "PC", "SAR", "SC", "SF")}
_MEASURES = {"macro": MACRO, "micro": MICRO}
_PARAGRAPHS = "mdt-cls-pc"

#: Beyond it, nothing is made of a number: it may have thousands of digits.
_LARGEST = 1000


@dataclass(frozen=True, slots=True)
class _Frames:
    """Where the frames of a sub-task lie."""

    subtask: str
    pattern: str
    folded: bool = False


_FRAMES = (
    _Frames("mdt-cls-sofc-ner", r"ner/sofc/cv_([0-9])/res_[^/]+", folded=True),
    _Frames("mdt-cls-sf", r"ner/sofc_slot/cv_([0-9])/res_[^/]+", folded=True),
    _Frames("mdt-cls-matscholar-ner", r"ner/matscholar/res_[^/]+"),
    _Frames("mdt-cls-rc", r"relation_classification/res_[^/]+"),
)

PLANS: Mapping[str, tuple[Plan, ...]] = {
    **{
        name: tuple(Plan(metric, required_runs(seeds=GENERATION_SEEDS)) for metric in (MACRO, MICRO))
        for name in _GENERATION.values()
    },
    **{
        one.subtask: tuple(
            Plan(metric, required_runs(seeds=SEEDS, folds=FOLDS if one.folded else (None,)))
            for metric in (MACRO, MICRO)
        )
        for one in _FRAMES
    },
    _PARAGRAPHS: (Plan(_ACCURACY, required_runs(seeds=SEEDS)),),
}


def read_predictions(root: Path) -> Found:
    """Read what lies below `preds`.

    Args:
        root: that folder.
    """
    finder = Finder(root)
    for path, name in finder.files(".json"):
        try:
            if seed := re.fullmatch(r"generation/gen_seed_([0-9]{1,9})\.json", name):
                _take_generation(finder, name, int(seed[1]), _document(finder, path))
            elif name == "generation/gen_summary.json":
                _compare_summary(finder, _document(finder, path))
            elif name == "cls/pc_summary.json":
                _take_paragraphs(finder, name, _document(finder, path))
            else:
                _take_frame(finder, name, path)
        except UnreadableError as error:
            finder.skip(name, error)
    for _, name in finder.files(".pkl"):
        if re.search(r"(^|/)res_[^/]*$", name):
            finder.skip(name, 'pickles are never opened: write it as JSON with DataFrame.to_json(orient="split")')
    return finder.found()


def _document(finder: Finder, path: Path) -> Mapping[str, object]:
    document = finder.json(path)
    if not isinstance(document, dict):
        raise UnreadableError("holds no JSON object")
    return document


def _share(value: object) -> object:
    """A share in percent; what is no share stays what it is, to be told so."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= _LARGEST:
        return value
    return percent(float(value))


# --- generation ---------------------------------------------------------------------------------------------


def _take_generation(finder: Finder, name: str, seed: int, document: Mapping[str, object]) -> None:
    for task, measure, value in _generated(seed, document):
        finder.add(_GENERATION[task], _MEASURES[measure].name, Run(seed=seed), _share(value), name)


def _generated(seed: int, document: Mapping[str, object]) -> Iterator[tuple[str, str, object]]:
    if document.get("seed") != seed or isinstance(document.get("seed"), bool):
        raise UnreadableError(f"is named after seed {seed}, and says {document.get('seed')!r:.60}")
    metrics = document.get("metrics")
    if not isinstance(metrics, dict):
        raise UnreadableError("has no metrics")
    for task, values in metrics.items():
        if task in _GENERATION and isinstance(values, dict):
            for measure in _MEASURES:
                if f"{measure}_f1" in values:
                    yield task, measure, values[f"{measure}_f1"]


def _compare_summary(finder: Finder, summary: Mapping[str, object]) -> None:
    """Refuse a summary that does not follow from the files of its seeds."""
    seeds = summary.get("seeds")
    if not isinstance(seeds, list) or not all(type(seed) is int for seed in seeds):
        raise UnreadableError("names no seeds")
    expected: dict[tuple[str, str], list[object]] = {}
    for seed in seeds[:100]:
        path = finder.root / "generation" / f"gen_seed_{seed}.json"
        if not path.is_file():
            raise UnreadableError(f"is a summary without gen_seed_{seed}.json; a summary alone is no result")
        for task, measure, value in _generated(seed, _document(finder, path)):
            expected.setdefault((measure, task), []).append(value)
    for measure in _MEASURES:
        told = summary.get(measure)
        for task in _GENERATION:
            if not isinstance(told, dict) or told.get(task, []) != expected.get((measure, task), []):
                raise UnreadableError(f"its {measure} of {task} is not that of its seeds' files")


# --- classification -----------------------------------------------------------------------------------------


def _take_paragraphs(finder: Finder, name: str, document: Mapping[str, object]) -> None:
    needed = ("best_lr", "model_name", "seeds", "test_accuracy_list", "val_accuracy_list")
    if lacking := [key for key in needed if key not in document]:
        raise UnreadableError(f"lacks {', '.join(lacking)}")
    seeds, values, validated = (document[key] for key in needed[2:])
    if not isinstance(seeds, list) or not isinstance(values, list) or not isinstance(validated, list):
        raise UnreadableError("its seeds and accuracies are no lists")
    if not len(seeds) == len(values) == len(validated):
        raise UnreadableError(f"has {len(seeds)} seeds, {len(values)} test and {len(validated)} validation accuracies")
    for seed, value in zip(seeds, values, strict=True):
        if type(seed) is not int:
            raise UnreadableError(f"has a seed {seed!r:.60}")
        finder.add(_PARAGRAPHS, _ACCURACY.name, Run(seed=seed), _share(value), name)


def _take_frame(finder: Finder, name: str, path: Path) -> None:
    for one in _FRAMES:
        if match := re.fullmatch(one.pattern + r"\.json", name):
            break
    else:
        return
    fold = int(match[1]) if one.folded else None
    seeds, rows = _frame(_document(finder, path))
    for metric in _MEASURES.values():
        row = rows.get(f"Test {metric.name.lower().replace('-', '_')}")
        if row is None:
            raise UnreadableError(f"has no row of the test's {metric.name}")
        for seed, value in zip(seeds, row, strict=True):
            finder.add(one.subtask, metric.name, Run(seed=seed, fold=fold), _share(value), name)


def _frame(document: Mapping[str, object]) -> tuple[list[int], dict[str, list[object]]]:
    """Seeds and rows of a frame: columns are seeds, or their positions as the published scripts leave them."""
    columns, index, data = (document.get(key) for key in ("columns", "index", "data"))
    if not isinstance(columns, list) or not isinstance(index, list) or not isinstance(data, list):
        raise UnreadableError('is no frame as DataFrame.to_json(orient="split") writes it')
    if not all(type(column) is int for column in columns) or len(set(columns)) < len(columns):
        raise UnreadableError("its columns are no different seeds")
    if len(index) != len(data) or len(set(map(repr, index))) < len(index):
        raise UnreadableError("its rows are not one of each name")
    rows: dict[str, list[object]] = {}
    for label, row in zip(index, data, strict=True):
        if not isinstance(label, str) or not isinstance(row, list) or len(row) != len(columns):
            raise UnreadableError("a row has no name, or not one value of each column")
        rows[label] = row
    positions = list(range(len(columns)))
    if columns == positions:
        # Of a fourth run nothing is known, so that it is one that was not asked for.
        return [SEEDS[place] if place < len(SEEDS) else -place for place in positions], rows
    return columns, rows
