"""Explaining time series: tables of comma-separated values, each row one explainer on one fold.

The published scripts write no header, so that a row's number of columns is what tells which of two layouts it has; a
file with a header is read by its names, in any order. Rows of other explainers, and of other shares of masked points,
are of other cells and passed over. Published: ResearchGym (arXiv 2602.15112), task time-series-explanation.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from pytest_researchenv.research.cells import Plan, Run, required_runs
from pytest_researchenv.research.metrics import Metric
from pytest_researchenv.research.outputs.files import UnreadableError
from pytest_researchenv.research.outputs.found import Finder, Found


__all__ = ["FOLDS", "MOST_CPD", "PLANS", "REAL_COLUMNS", "SYNTHETIC_COLUMNS", "read_tables"]

#: Columns of the published scripts, in their order.
REAL_COLUMNS = (
    "seed",
    "fold",
    "baseline",
    "topk",
    "explainer",
    "lambda_1",
    "lambda_2",
    "lambda_3",
    "cpd_50",
    "cpd",
    "aucc",
    "accuracy",
    "comprehensiveness",
    "cross_entropy",
    "log_odds",
    "sufficiency",
)
SYNTHETIC_COLUMNS = (
    "seed",
    "fold",
    "baseline",
    "explainer",
    "lambda_1",
    "lambda_2",
    "cpd_50",
    "cpd",
    "aucc",
    "aup",
    "aur",
    "information",
    "entropy",
    "roc_auc",
    "auprc",
)

FOLDS = (0, 1, 2, 3, 4)

#: CPD has no useful bound by its definition (each masked point may add up to 1); the largest published one is 1.578.
MOST_CPD = 4.0

_CPD = Metric("CPD", least=0, most=MOST_CPD)
_REAL = {name: f"tim-{name}" for name in ("pam", "boiler", "epilepsy", "wafer", "freezer")}
_SYNTHETIC = {"switch_feature": "tim-switch-feature", "hmm": "tim-state"}
_AVERAGE, _ZERO = "average", "zeros"
_SUBSTITUTES = {_AVERAGE: "CPD-Avg", _ZERO: "CPD-Zero"}
_SYNTHETIC_METRICS = (_CPD, Metric("AUP", least=0, most=1), Metric("AUR", least=0, most=1))
_TOPK = 0.1

PLANS: Mapping[str, tuple[Plan, ...]] = {
    **{
        name: tuple(
            Plan(Metric(one, least=0, most=MOST_CPD), required_runs(folds=FOLDS)) for one in _SUBSTITUTES.values()
        )
        for name in _REAL.values()
    },
    **{
        name: tuple(Plan(metric, required_runs(folds=FOLDS)) for metric in _SYNTHETIC_METRICS)
        for name in _SYNTHETIC.values()
    },
}

_NEEDED = frozenset({"fold", "baseline", "explainer", "cpd"})

_MAX_COLUMNS = 64
_LONGEST_LINE = 10_000
_NUMBER = re.compile(r"[-+]?[0-9]{1,20}(?:\.[0-9]{0,20})?(?:[eE][-+]?[0-9]{1,3})?")
_DATASET = re.compile(r"(?<![a-z0-9])(pam|boiler|epilepsy|wafer|freezer|hmm|switch[-_ ]?feature)(?![a-z0-9])")


def read_tables(root: Path, explainer: str) -> Found:
    """Read all tables below a folder.

    Args:
        root: the folder; a file's path from there names its data set.
        explainer: name of the method that is judged, whatever its case.
    """
    finder = Finder(root)
    for path, name in finder.files(".csv"):
        try:
            dataset = _dataset(name)
            for number, row in _rows(finder.text(path), finder, name):
                where = f"{name}:{number}"
                try:
                    _take(finder, dataset, row, explainer, where)
                except UnreadableError as error:
                    finder.skip(where, error)
        except UnreadableError as error:
            finder.skip(name, error)
    return finder.found()


def _dataset(name: str) -> str:
    named = {re.sub(r"switch.*", "switch_feature", one) for one in _DATASET.findall(name.lower())}
    if len(named) != 1:
        described = ", ".join(sorted(named)) or "none"
        raise UnreadableError(f"its path must name one data set ({', '.join((*_REAL, *_SYNTHETIC))}), not {described}")
    return named.pop()


def _rows(text: str, finder: Finder, name: str) -> Iterator[tuple[int, dict[str, str]]]:
    header: tuple[str, ...] | None = None
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        # Before anything is made of the line, which may be millions of commas.
        if len(line) > _LONGEST_LINE or line.count(",") >= _MAX_COLUMNS:
            finder.skip(f"{name}:{number}", f"more than {_MAX_COLUMNS} columns or {_LONGEST_LINE} characters")
            continue
        cells = [cell.strip() for cell in next(csv.reader([line]))]
        if header is None and number == 1 and not _NUMBER.fullmatch(cells[0]):
            header = tuple(cell.lower() for cell in cells)
            if len(set(header)) < len(header):
                raise UnreadableError("its header names a column twice")
            if lacking := _NEEDED.difference(header):
                raise UnreadableError(f"its first line is no row, and as a header lacks {', '.join(sorted(lacking))}")
            continue
        names = header or next((one for one in (REAL_COLUMNS, SYNTHETIC_COLUMNS) if len(one) == len(cells)), ())
        if len(names) != len(cells):
            expected = len(header) if header else f"{len(REAL_COLUMNS)} or {len(SYNTHETIC_COLUMNS)}"
            finder.skip(f"{name}:{number}", f"has {len(cells)} columns, and not {expected}")
            continue
        yield number, dict(zip(names, cells, strict=True))


def _take(finder: Finder, dataset: str, row: Mapping[str, str], explainer: str, where: str) -> None:
    real = dataset in _REAL
    if _text(row, "explainer").casefold() != explainer.casefold():
        return
    substitute = _text(row, "baseline").lower()
    if substitute not in _SUBSTITUTES:
        raise UnreadableError(f"its baseline is {substitute[:60]!r}, and not Average or Zeros")
    fold = _text(row, "fold")
    if not re.fullmatch(r"[0-9]{1,4}", fold):
        raise UnreadableError(f"its fold is {fold[:60]!r}, and no count")
    run = Run(fold=int(fold))
    if real:
        topk = _value(_text(row, "topk"))
        if topk == _TOPK:
            finder.add(_REAL[dataset], _SUBSTITUTES[substitute], run, _value(_text(row, "cpd")), where)
    elif substitute == _AVERAGE:
        for metric in _SYNTHETIC_METRICS:
            finder.add(_SYNTHETIC[dataset], metric.name, run, _value(_text(row, metric.name.lower())), where)


def _text(row: Mapping[str, str], column: str) -> str:
    if column not in row:
        raise UnreadableError(f"has no column {column}; it has {', '.join(row)[:200]}")
    return row[column]


def _value(text: str) -> object:
    return float(text) if _NUMBER.fullmatch(text) else text
