"""Which programs stand before the system's own, and are not there for probes. No Docker."""

from __future__ import annotations

import json
from hashlib import sha256

import pytest

from pytest_researchenv.integrity.hiding import hiding
from pytest_researchenv.integrity.protocol import Entry, Signs, Snapshot
from pytest_researchenv.model import Sign
from pytest_researchenv.sandbox.fake import Link
from tests.unit.integrity.images import DEBIAN, VENV, Nodes, elf, md5, opened_image, python_elf


OTHER = elf(body=b"other")
PYTHON = python_elf()
ANOTHER_PYTHON = python_elf() + b"\0"

CONDA = "/opt/conda"


def signs(nodes: Nodes, *, base: Nodes | None = None, python: str | None = "/opt/venv/bin/python") -> Signs:
    """What is seen of an image with a virtual environment."""
    with opened_image({**VENV, **nodes}, base=base, python=python) as (task, snapshot):
        return hiding(task, snapshot)


def conda(**programs: bytes) -> Nodes:
    """An environment that conda made, with its records."""
    files = {"bin/python3.11": PYTHON, **{f"bin/{name}": content for name, content in programs.items()}}
    paths = [{"_path": path, "sha256": sha256(content).hexdigest()} for path, content in files.items()]
    return {
        f"{CONDA}/conda-meta/history": "",
        f"{CONDA}/conda-meta/python-3.11.9-0.json": json.dumps({"paths_data": {"paths": paths}}),
        f"{CONDA}/bin/python": Link("python3.11"),
        **{f"{CONDA}/{path}": content for path, content in files.items()},
    }


def test_a_virtual_environment_hides_nothing() -> None:
    """Its Pythons are the reported one."""
    assert signs({"/opt/venv/bin/python3.11": Link("python3"), "/opt/venv/bin/train": OTHER}) == Signs()


@pytest.mark.parametrize(
    "content",
    [OTHER, "#!/bin/sh\nexec /usr/bin/git\n", Link("/opt/tools/git")],
    ids=["compiled", "a script", "a link"],
)
@pytest.mark.parametrize("folder", ["/opt/venv/bin", "/usr/local/sbin", "/usr/local/bin", "/usr/sbin"])
def test_nobodys_program_before_the_systems_is_not_there(folder: str, content: bytes | str | Link) -> None:
    """Wherever it comes first, and whatever it is; nothing is held against it."""
    found = signs({"/opt/tools/git": OTHER, f"{folder}/git": content})

    assert found.findings == ()
    assert found.blanked == {f"{folder}/git": ""}
    (remark,) = found.remarks
    assert remark.endswith(f": {folder}/git")


HONEST: dict[str, Nodes] = {
    "a link to the system's": {"/usr/local/bin/git": Link("/usr/bin/git")},
    "a copy of the system's": {"/usr/local/bin/git": DEBIAN["/usr/bin/git"]},
    "a link to nowhere": {"/usr/local/bin/git": Link("/nowhere")},
    "what the engine left where it mounts a file": {"/usr/local/bin/git": b""},
    "what stands behind the system's": {"/usr/local/bin/dash": None, "/opt/venv/lib/git": OTHER},
    "a name that the system does not have": {"/usr/local/bin/ninja": OTHER, "/opt/venv/bin/cmake": "#!/bin/sh\n"},
    "before a script of the system's": {
        "/usr/bin/tool": "#!/usr/bin/python3\n",
        "/var/lib/dpkg/info/tool.md5sums": md5(("/usr/bin/tool", b"#!/usr/bin/python3\n")),
        "/opt/venv/bin/tool": "#!/opt/venv/bin/python\n",
    },
    "a package's": {
        "/usr/sbin/git": OTHER,
        "/var/lib/dpkg/info/later.md5sums": md5(("/usr/sbin/git", OTHER)),
        "/var/lib/dpkg/status": "Package: later\nStatus: install ok installed\nVersion: 2\n\n",
    },
    "before what the agent put there itself": {"/usr/bin/tool": OTHER, "/opt/venv/bin/tool": OTHER + b"later"},
    "a copied interpreter": {"/opt/venv/bin/python3": PYTHON, "/opt/venv/bin/python3.11": PYTHON},
}


@pytest.mark.parametrize("nodes", HONEST.values(), ids=HONEST)
def test_what_hides_nothing_stays(nodes: Nodes) -> None:
    """Links and copies, packages, other names, and where nothing is certain."""
    assert signs(nodes) == Signs()


def test_nobodys_program_before_a_packages_is_not_there() -> None:
    """Of a package that the agent installed."""
    found = signs(
        {
            "/usr/bin/gcc": OTHER,
            "/var/lib/dpkg/info/gcc.md5sums": md5(("/usr/bin/gcc", OTHER)),
            "/var/lib/dpkg/status": "Package: gcc\nStatus: install ok installed\nVersion: 2\n\n",
            "/opt/venv/bin/gcc": "#!/bin/sh\n",
        }
    )

    assert found.blanked == {"/opt/venv/bin/gcc": ""}


def test_the_systems_counts_even_where_the_agent_removed_it() -> None:
    """What stands in its place is nobody's all the same."""
    assert signs({"/usr/bin/git": None, "/usr/local/bin/git": OTHER}).blanked == {"/usr/local/bin/git": ""}


CMAKE: Nodes = {**DEBIAN, "/usr/bin/cmake": OTHER}


@pytest.mark.parametrize(
    "nodes",
    [{"/usr/bin/cmake": None}, {"/usr/bin/cmake": Link("/usr/local/bin/cmake")}],
    ids=["removed", "a link to the newer one"],
)
def test_a_newer_build_tool_in_the_place_of_the_systems_stays(nodes: Nodes) -> None:
    """Without it there would be none by that name."""
    newer = {"/usr/local/bin/cmake": OTHER + b"newer"}

    assert signs({**nodes, **newer}, base=CMAKE) == Signs()
    assert signs(newer, base=CMAKE).blanked == {"/usr/local/bin/cmake": ""}


def test_another_python_than_the_reported_one_is_not_there() -> None:
    """By whatever name of Python's, since programs call `python` where they mean the one that runs them."""
    found = signs({"/opt/venv/bin/python3.11": ANOTHER_PYTHON, "/usr/local/bin/python": ANOTHER_PYTHON})

    assert set(found.blanked) == {"/opt/venv/bin/python3.11", "/usr/local/bin/python"}
    assert found.findings == ()


def test_the_reported_python_stays_wherever_it_is() -> None:
    """Built from sources, and with a virtual environment of it."""
    nodes: Nodes = {
        "/usr/local/bin/python3.12": ANOTHER_PYTHON,
        "/usr/local/bin/python3": Link("python3.12"),
        "/opt/venv/bin/python3": Link("/usr/local/bin/python3.12"),
    }

    assert signs(nodes) == Signs()
    assert signs(nodes, python="/usr/local/bin/python3") == Signs()


def test_what_conda_recorded_stays_where_the_interpreter_is_condas() -> None:
    """Environments of conda's bring their own programs."""
    assert signs(conda(git=OTHER), python=f"{CONDA}/bin/python") == Signs()
    changed = {**conda(git=OTHER), f"{CONDA}/bin/git": OTHER + b"x"}
    assert signs(changed, python=f"{CONDA}/bin/python").blanked == {f"{CONDA}/bin/git": ""}


def test_records_of_conda_in_another_environment_count_for_nothing() -> None:
    """An agent may have written them."""
    forged = {"_path": "bin/git", "sha256": sha256(OTHER).hexdigest()}
    found = signs(
        {
            "/opt/venv/conda-meta/history": "",
            "/opt/venv/conda-meta/git-2.json": json.dumps({"paths_data": {"paths": [forged]}}),
            "/opt/venv/bin/git": OTHER,
        }
    )

    assert found.blanked == {"/opt/venv/bin/git": ""}


def test_many_names_are_looked_up_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """As environments with hundreds of scripts have them: the base image's folders are listed once then."""
    scripts = {f"/opt/venv/bin/script-{number}": "#!/bin/sh\n" for number in range(100)}
    asked: list[str] = []
    with opened_image({**VENV, **scripts, "/opt/venv/bin/git": OTHER}, python="/opt/venv/bin/python") as (
        task,
        snapshot,
    ):
        base = snapshot.base

        def noted(_: Snapshot, path: str) -> Entry | None:
            asked.append(path)
            return base(path)

        monkeypatch.setattr(type(snapshot), "base", noted)
        found = hiding(task, snapshot)

    assert found.blanked == {"/opt/venv/bin/git": ""}
    assert not any("script-" in path for path in asked)


def test_more_of_them_than_anybody_has_cannot_be_audited() -> None:
    """Nothing is left to be called because there are many."""
    found = signs({f"/usr/local/bin/python3.{number}": OTHER for number in range(300)})

    assert [finding.kind for finding in found.findings] == [Sign.UNREADABLE]


@pytest.mark.parametrize("target", ["/proc/self/root/opt/x", "/dev/fd/x"])
def test_a_folder_that_only_a_process_finds_cannot_be_audited(target: str) -> None:
    """What is in it can be anything."""
    found = signs({"/usr/local/bin": Link(target)})

    assert [(finding.kind, finding.field) for finding in found.findings] == [(Sign.UNREADABLE, "/usr/local/bin")]


def test_a_name_that_no_record_holds_cannot_be_audited() -> None:
    """Nothing could stand in its place."""
    found = signs({"/usr/local/bin": Link("/opt/\udcff"), "/opt/\udcff/git": OTHER})

    assert [(finding.kind, finding.field) for finding in found.findings] == [(Sign.UNREADABLE, "/opt/\\xff/git")]


def test_an_environment_without_a_report_has_its_system_looked_at() -> None:
    """No interpreter is known then."""
    assert signs({"/usr/local/bin/git": OTHER}, python=None).blanked == {"/usr/local/bin/git": ""}
