"""A research task as agents meet it."""

from __future__ import annotations

from pathlib import Path

from pytest_researchenv.model import PrunedSource
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


def test_published_trees_are_pruned_where_they_are_fetched() -> None:
    """What a description removes is taken out of the published folder, and what it withholds may not be named in it."""
    task = next(one for one in load_research_suite(find_suite("researchgym")).tasks if one.acronym == "CMR")
    source = workplace_of(task).source
    assert isinstance(source, PrunedSource)
    assert [one.path for one in source.cuts] == [one.path for one in task.removed]
    assert [one.path for one in source.cuts if one.secret] == [
        "models/tta_baselines/tcr.py",
        "models/blip_tta.py",
        "models/clip_model.py",
        "models/clip_reid_tta.py",
    ]
    assert source.words == ("TCR",)
    assert source.phrases == ("Test-time Adaptation for Cross-modal Retrieval with Query Shift", "2410.15624")
