"""A research task as agents meet it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_researchenv.errors import ConfigurationError
from pytest_researchenv.research.suite import load_research_suite
from pytest_researchenv.research.workplace import workplace_of
from pytest_researchenv.source import fetch
from pytest_researchenv.suite import find_suite


def test_a_workplace_holds_the_code_and_nothing_of_the_evaluation(tmp_path: Path) -> None:
    """What an agent begins with is the folder of the code: neither the evaluation nor the withheld method."""
    task = next(one for one in load_research_suite(find_suite("researchgym")).tasks if one.name == "digits-continual")
    place = workplace_of(task)
    assert (place.key, place.workdir) == (task.key, "/workspace/digits-continual")
    files = fetch(place, cache=tmp_path).files
    assert "continual/methods/own.py" in files
    assert not [name for name in files if "evaluat" in name or "withheld" in name]


def test_trees_that_must_be_prepared_are_refused() -> None:
    """A published tree holds what an agent may not see, and is not given away as it is."""
    task = next(one for one in load_research_suite(find_suite("researchgym")).tasks if one.source.git)
    with pytest.raises(ConfigurationError, match="cannot be given"):
        workplace_of(task)
