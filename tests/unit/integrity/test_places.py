"""What may lie where the harness puts its own things. No Docker."""

from __future__ import annotations

import pytest

from pytest_researchenv.agents.protocol import REPORT_PATH, SCRATCH, TOOL_TARGET
from pytest_researchenv.integrity.places import places
from pytest_researchenv.integrity.protocol import Signs
from pytest_researchenv.model import Sign
from pytest_researchenv.sandbox.fake import Folder, Link
from tests.unit.integrity.images import Nodes, opened_image


def signs(nodes: Nodes) -> Signs:
    """What is seen of an image."""
    with opened_image(nodes) as (task, snapshot):
        return places(task, snapshot)


@pytest.mark.parametrize(
    "nodes",
    [
        {REPORT_PATH: "{}"},
        {REPORT_PATH: "{}", TOOL_TARGET: Folder(), SCRATCH: Folder(), "/researchenv/host": Folder()},
        {"/researchenv/notes.md": "", "/researchenv/report.json.bak": "", "/researchenv/work/probe.py": ""},
        {REPORT_PATH: Link("/root/report.json")},
        {"/researchenv": None},
        {"/researchenv-other/probes/x": ""},
    ],
)
def test_a_report_and_an_agents_own_files_are_no_sign(nodes: Nodes) -> None:
    """Nor are the places where something was mounted while it worked."""
    assert signs(nodes) == Signs()


@pytest.mark.parametrize(
    ("nodes", "paths"),
    [
        ({"/researchenv/probes/out/result.json": "{}"}, ["probes", "probes/out", "probes/out/result.json"]),
        ({"/researchenv/probes": Link("/root/mine")}, ["probes"]),
        ({"/researchenv/probes": Folder()}, ["probes"]),
        ({"/researchenv/tools/node": ""}, ["tools/node"]),
        ({"/researchenv/tools": Link("/root")}, ["tools"]),
        ({f"{SCRATCH}/x": ""}, ["scratch/x"]),
        ({"/researchenv/assets/model/model": ""}, ["assets", "assets/model", "assets/model/model"]),
    ],
)
def test_what_lies_in_the_harness_s_folders_is_told(nodes: Nodes, paths: list[str]) -> None:
    """Results made up beforehand, links to catch what is written, and stand-ins for tools and assets."""
    found = signs(nodes).findings

    assert [one.field for one in found] == [f"/researchenv/{path}" for path in paths]
    assert {one.kind for one in found} == {Sign.PLACE}
    assert not Sign.PLACE.voids


def test_a_link_in_place_of_the_whole_folder_is_told() -> None:
    """All that the harness puts there would go elsewhere."""
    (finding,) = signs({"/researchenv": Link("/root/mine"), "/root/mine/probes/x": ""}).findings

    assert (finding.field, finding.observed) == ("/researchenv", "there is a link")


def test_many_files_are_counted() -> None:
    """Names are fit to print."""
    found = signs({f"/researchenv/probes/{number:04d}\x1b": "" for number in range(1000)}).findings

    assert len(found) == 21
    assert found[-1].observed == "there are 981 more files"
    assert all(one.field.isprintable() for one in found)
