"""The reader of each published format, and what its sub-tasks need."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pytest_researchenv.research.cells import Plan
from pytest_researchenv.research.outputs import continual, explanation, replay, retrieval, tokenization
from pytest_researchenv.research.outputs.found import Found
from pytest_researchenv.research.task import Format


__all__ = ["plans_of", "read_as"]

_PLANS: Mapping[Format, Mapping[str, tuple[Plan, ...]]] = {
    Format.CONTINUAL: continual.PLANS,
    Format.RETRIEVAL: retrieval.PLANS,
    Format.REPLAY: replay.PLANS,
    Format.TOKENIZATION: tokenization.PLANS,
    Format.EXPLANATION: explanation.PLANS,
}


def plans_of(form: Format, subtask: str) -> tuple[Plan, ...]:
    """Return the cells of a sub-task, by the name that readers have for it (`Task.read_as`); none of an unknown one."""
    return _PLANS[form].get(subtask, ())


def read_as(form: Format, root: Path, method: str = "") -> Found:
    """Read a folder of results.

    Args:
        form: of which format they are.
        root: the folder.
        method: whose results count, where a format may hold those of several.
    """
    match form:
        case Format.CONTINUAL:
            return continual.read_logs(root)
        case Format.RETRIEVAL:
            return retrieval.read_runs(root)
        case Format.REPLAY:
            return replay.read_records(root)
        case Format.TOKENIZATION:
            return tokenization.read_predictions(root)
        case Format.EXPLANATION:
            return explanation.read_tables(root, method)
