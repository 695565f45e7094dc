"""Where a probe finds something else than the frozen image has, nothing is believed that leads there. No Docker."""

from __future__ import annotations

import pytest

from pytest_researchenv.integrity.distributions import distributions
from pytest_researchenv.sandbox.fake import Link
from tests.unit.integrity.images import DEBIAN, SITE, VENV, WORKDIR, Nodes, distribution, opened_image
from tests.unit.integrity.sites import PYTHON


TRACKED = {"pkg/__init__.py": "", "pkg/core.py": "", "names.txt": "stand-ins\n"}
CACHE = f"{WORKDIR}/pkg/__pycache__"
TEN = {f"dep/m{number}.py": f"X = {number}\n" for number in range(10)}
HIDDEN: Nodes = {f"/opt/genuine/{path}": text for path, text in TEN.items()}


def problems(nodes: Nodes, *changed: str) -> list[str]:
    """What could not be read of what is installed."""
    with opened_image({**VENV, **nodes}, base=DEBIAN, python=PYTHON, tracked=TRACKED, changed=changed) as (
        task,
        snapshot,
    ):
        distributions(task, snapshot)
        return list(snapshot.problems)


@pytest.mark.parametrize("name", ["/etc/hostname", "/etc/hosts", "/etc/resolv.conf"])
def test_a_path_file_that_the_engine_writes(name: str) -> None:
    """It is empty in the image, and names a folder in every container that runs."""
    (problem,) = problems({f"{SITE}/x.pth": Link(name), name: "", f"{SITE}/localhost/tinydep.py": ""})

    assert problem == f"{SITE}/x.pth leads through {name}, where something else is while a probe runs"


@pytest.mark.parametrize("through", [CACHE, f"{WORKDIR}/pkg/../pkg/__pycache__/..", "/opt/alias"])
@pytest.mark.parametrize("count", [1, 10], ids=["one", "many"])
def test_modules_behind_a_folder_of_bytecode(through: str, count: int) -> None:
    """A file takes its place before a probe, so that links by way of it lead nowhere, and what is next counts."""
    files = dict(list(TEN.items())[:count])
    up = "../" * 9
    links: Nodes = {f"{SITE}/{path}": Link(f"{through}/{up}opt/genuine/{path}") for path in files}
    nodes = {**distribution(SITE, "dep", files), **HIDDEN, **links, f"{CACHE}/x.pyc": "", "/opt/alias": Link(CACHE)}

    assert any(f"leads through {CACHE}, where something else" in problem for problem in problems(nodes))


def test_a_link_by_way_of_what_is_put_back() -> None:
    """What was removed is a folder again, and what was replaced is another."""
    link = Link(f"{WORKDIR}/pkg/../../../opt/hidden.txt")
    removed: Nodes = {f"{WORKDIR}/pkg": None, f"{SITE}/x.pth": link, "/opt/hidden.txt": "/opt"}
    replaced: Nodes = {**removed, f"{WORKDIR}/pkg": Link("/opt")}

    for nodes in (removed, replaced):
        assert problems(nodes, "pkg/__init__.py", "pkg/core.py") != []


def test_a_path_file_that_is_put_back() -> None:
    """The image has an empty one, and its tracked text names a folder."""
    nodes: Nodes = {f"{SITE}/x.pth": Link(f"{WORKDIR}/names.txt"), f"{WORKDIR}/names.txt": ""}

    assert problems(nodes, "names.txt") != []


@pytest.mark.parametrize("name", ["/usr/lib/python3.11/.wh.fnmatch.py", "/opt/.wh..wh..opq", "/opt/.wh.a/b"])
def test_what_a_layer_marks_as_removed(name: str) -> None:
    """The frozen image lacks what the mark names, and the engine's record of what was removed does not have it."""
    (problem,) = problems({name: ""})

    assert problem.startswith(f"{name} is named like")
    assert problems({"/opt/.whatever": "", "/opt/a.wh.b": ""}) == []


def test_links_to_what_stays_are_fine() -> None:
    """A tracked package that is linked to, whatever else of the repository was edited or compiled."""
    nodes: Nodes = {
        f"{SITE}/pkg": Link(f"{WORKDIR}/pkg"),
        f"{SITE}/up": Link("../../../../../opt/genuine/dep"),
        f"{SITE}/x.pth": f"{WORKDIR}\n{CACHE}/../..\n/opt/../opt/genuine\n",
        f"{CACHE}/core.cpython-311.pyc": "",
        f"{WORKDIR}/pkg/core.py": "edited",
        "/etc/hostname": "",
        **HIDDEN,
    }

    assert problems(nodes, "pkg/core.py") == []
