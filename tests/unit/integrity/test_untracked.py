"""Which untracked files of the repository are nobody's modules. No Docker."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_researchenv.integrity import untracked
from pytest_researchenv.model import Sign
from pytest_researchenv.sandbox.fake import Folder, Link
from tests.unit.integrity.images import SITE, WORKDIR, Nodes, distribution
from tests.unit.integrity.sites import audited, kinds, native, torch


USES = {"run.py": "import dep\n"}


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("dep.py", True),
        ("dep/__init__.py", True),
        ("dep/part.py", True),
        ("src/dep.py", True),
        ("torch.py", True),
        ("torch/__init__.py", True),
        ("torch/notes.py", False),
        ("torch.so", True),
        ("json.py", True),
        ("scripts/json.py", True),
        ("scripts/dep.py", False),
        ("pkg/json.py", True),
        ("pkg/csv.py", False),
        ("org/python/core.py", True),
        ("nt.py", True),
        ("orgs/core.py", False),
        ("notes/json.py", False),
        ("test.py", False),
        ("tests/__init__.py", False),
        ("check_env.py", False),
        ("dep.so", True),
        ("json.so", True),
        ("dep/pyvenv.cfg", True),
        ("dep/setup.cfg", True),
        ("dep_pb2.py", False),
        ("dep_pb2.pyc", True),
        ("_version.py", False),
        ("build/lib/dep.py", False),
        ("dep/pyproject.toml", False),
        (".venv/lib/python3.11/site-packages/json.py", False),
        ("env/lib/json.py", False),
    ],
)
def test_untracked_files_that_stand_for_a_module_are_told(tmp_path: Path, path: str, *, told: bool) -> None:
    """Where scripts run, or where an import looks; not what a build made, nor an environment, nor people's notes."""
    installed = {
        **distribution(SITE, "torch", torch()),
        **distribution(SITE, "wandb", {"wandb/__init__.py": "", "tests/__init__.py": ""}),
    }
    tracked = {
        "run.py": "import torch, dep, dep_pb2, _version\n",
        "scripts/go.py": "import os\n",
        "pkg/__init__.py": "import json\n",
        "dep.proto": "",
    }
    more = {"env/lib/json.py": ["env/pyvenv.cfg"], "dep/pyproject.toml": ["dep/.gitignore", "dep/__init__.py"]}
    more |= {path: ["dep/__init__.py"] for path in ("dep/pyvenv.cfg", "dep/setup.cfg")}
    beside = {f"{WORKDIR}/{name}": "" for name in more.get(path, [])}
    nodes: Nodes = {**installed, **beside, f"{WORKDIR}/{path}": native() if path.endswith(".so") else ""}

    signs = audited(tmp_path, nodes, tracked=tracked)

    assert kinds(signs) == ({Sign.STUB} if told else set())


@pytest.mark.parametrize(
    ("nodes", "told"),
    [
        ({"wandb/run/files/model.py": ""}, False),
        ({"torch": Link("/opt/torch"), "/opt/torch/__init__.py": ""}, True),
        ({"torch": Link("/opt/torch"), "/opt/torch/__init__.pyc": b"x"}, True),
        ({"torch": Link("/opt/torch"), "/opt/torch/__init__.abi3.so": b"x"}, True),
        ({"torch": Link("/opt/torch"), "/opt/torch/part.py": ""}, True),
        ({"torch": Link("/opt/torch"), "/opt/torch/data.txt": ""}, False),
        ({"torch": Link("/opt/nowhere")}, False),
        ({"torch": Link("/proc/self/root/opt/torch"), "/opt/torch/__init__.py": ""}, True),
        ({"torch": Link("data"), "data/__init__.py": ""}, True),
        ({"torch": Link(".venv/torch"), ".venv/torch/__init__.py": ""}, True),
        ({"torch": Link("pkg")}, True),
        ({"torch": Link("data"), "data/notes.txt": ""}, False),
        ({"json": Link(".venv/json"), ".venv/json/__init__.py": ""}, True),
        ({"outer": Link("pkg/outer"), "pkg/outer/__init__.py": ""}, False),
        ({"inner": Link("pkg/inner")}, False),
        ({"utils/__init__.py": ""}, True),
        ({"utils.cpython-311-x86_64-linux-gnu.so": native()}, True),
        ({"fast.cpython-311-x86_64-linux-gnu.so": native()}, False),
        ({"pkg/__init__.so": native()}, True),
        ({"scripts/utils.py": ""}, True),
    ],
)
def test_untracked_files_do_not_go_before_tracked_ones(tmp_path: Path, nodes: Nodes, *, told: bool) -> None:
    """Packages before modules, extensions before sources, links before all; what the repository compiles is its own."""
    tracked = {"run.py": "import utils, torch\n", "utils.py": "", "scripts/go.py": "import utils\n"}
    tracked |= {"fast.py": "", "fast.pxd": "", "pkg/__init__.py": "", "pkg/inner/__init__.py": "import inner\n"}
    installed = {**distribution(SITE, "torch", torch()), **distribution(SITE, "wandb", {"wandb/__init__.py": ""})}
    placed = {path if path.startswith("/") else f"{WORKDIR}/{path}": node for path, node in nodes.items()}

    signs = audited(tmp_path, {**installed, **placed}, tracked=tracked)

    assert kinds(signs) == ({Sign.STUB} if told else set())


@pytest.mark.parametrize("source", ["csrc/dep.cpp", "dep.pyx", ".gitmodules"])
def test_a_compiled_module_may_be_built_where_there_is_something_to_build(tmp_path: Path, source: str) -> None:
    """But nobody builds what is the standard library's."""
    tracked = {"run.py": "import dep, json\n", source: ""}

    assert audited(tmp_path, {f"{WORKDIR}/dep.so": native()}, tracked=tracked).findings == ()
    assert kinds(audited(tmp_path, {f"{WORKDIR}/json.so": native()}, tracked=tracked)) == {Sign.STUB}


@pytest.mark.parametrize("setup", ["from Cython.Build import cythonize\n", "from mypyc.build import mypycify\n"])
def test_what_a_repository_compiles_goes_before_its_sources(tmp_path: Path, setup: str) -> None:
    """Its own build says so."""
    nodes: Nodes = {f"{WORKDIR}/utils.cpython-311-x86_64-linux-gnu.so": native()}

    assert audited(tmp_path, nodes, tracked={"utils.py": "", "setup.py": setup}).findings == ()


@pytest.mark.parametrize("source", ["src/dep.cc", "setup.py", "CMakeLists.txt", ".gitmodules"])
def test_what_is_compiled_may_come_of_any_source(tmp_path: Path, source: str) -> None:
    """Which of them, nobody can tell."""
    tracked = {"run.py": "import dep\n", source: "cythonize"}

    assert audited(tmp_path, {f"{WORKDIR}/dep.so": native()}, tracked=tracked).findings == ()


def test_the_repositorys_own_modules_are_its_own(tmp_path: Path) -> None:
    """By an editable install, by a path line, through a finder, through links: whatever leads there."""
    tracked = {"src/own/__init__.py": "import own, made\n", "setup.py": ""}
    tracked |= {"src/made/core.py": "", "src/made/core.c": ""}
    nodes: Nodes = {
        f"{SITE}/own.pth": f"{WORKDIR}/build/links\n",
        f"{WORKDIR}/build/links/own/__init__.py": Link(f"{WORKDIR}/src/own/__init__.py"),
        f"{SITE}/__editable___own_finder.py": f"MAPPING = {{'own': '{WORKDIR}/src/own'}}\n",
        f"{WORKDIR}/src/made/_native.so": native(),
        f"{WORKDIR}/src/own.egg-info/PKG-INFO": "",
    }

    assert audited(tmp_path, nodes, tracked=tracked).findings == ()
    assert audited(tmp_path, {**nodes, f"{WORKDIR}/empty": Folder()}, tracked=tracked).findings == ()


@pytest.mark.parametrize(
    ("nodes", "more", "told"),
    [
        ({f"{SITE}/dep": Link(f"{WORKDIR}/src/own")}, {}, True),
        ({f"{SITE}/dep.py": Link(f"{WORKDIR}/src/own/__init__.py")}, {}, True),
        ({f"{SITE}/__editable___dep_finder.py": f"MAPPING = {{'dep': '{WORKDIR}/src/own'}}\n"}, {}, True),
        (
            {f"{SITE}/dep": Link(f"{WORKDIR}/src/own")},
            {"setup.py": "setup(dep=1, package_dir={'': 's'})"},
            True,
        ),
        ({f"{SITE}/dep": Link(f"{WORKDIR}/src/dep")}, {"src/dep/__init__.py": ""}, False),
        ({f"{SITE}/dep": Link(f"{WORKDIR}/src/own")}, {"setup.py": "setup(package_dir={'dep': 'src/own'})"}, False),
        (
            {f"{SITE}/dep": Link(f"{WORKDIR}/src/own")},
            {"setup.cfg": "[options]\npackage_dir =\n  dep=src/own\n"},
            False,
        ),
        (
            {f"{SITE}/__editable___dep_finder.py": f"MAPPING = {{'dep': '{WORKDIR}/src/own'}}\n"},
            {"pyproject.toml": '[project]\nname = "x"\n\n[tool.setuptools.package-dir]\ndep = "src/own"\n'},
            False,
        ),
        (
            {f"{SITE}/dep": Link(f"{WORKDIR}/src/own")},
            {"setup.cfg": "[options]\npackage_dir =\n  =src\ninstall_requires =\n  dep\n"},
            True,
        ),
    ],
)
def test_a_tracked_package_is_none_of_another_name(
    tmp_path: Path, nodes: Nodes, more: dict[str, str], *, told: bool
) -> None:
    """A link or a finder gives it one; where the repository's build does so, it is its own."""
    signs = audited(tmp_path, nodes, tracked={**USES, "src/own/__init__.py": "", **more})

    assert kinds(signs) == ({Sign.STUB} if told else set())


def test_decoys_do_not_hide_a_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is looked at one by one is bounded, and beyond the bound nothing is taken for honest."""
    monkeypatch.setattr(untracked, "_MOST_LOOKS", 2)
    decoys: Nodes = {f"{WORKDIR}/{name}": "" for name in ("abc", "ast", "bdb", "bz2")}

    few = audited(tmp_path, {f"{WORKDIR}/abc": "", f"{WORKDIR}/notes": ""}, tracked=USES)
    many = audited(tmp_path, decoys, tracked=USES)

    assert (few.findings, kinds(many)) == ((), {Sign.STUB})


@pytest.mark.parametrize(
    ("source", "nodes", "told"),
    [
        ("import extra\n", {f"{WORKDIR}/extra.py": ""}, True),
        ("import extra\n", {f"{WORKDIR}/extra/__init__.py": ""}, True),
        ("import extra\n", {f"{WORKDIR}/data/extra.py": ""}, False),
        ("import extra\n", {f"{WORKDIR}/extra/notes.txt": ""}, False),
        ("import tests\n", {f"{WORKDIR}/tests.py": ""}, False),
        ("A = 1\n", {f"{WORKDIR}/extra.py": ""}, False),
    ],
)
def test_nothing_untracked_is_what_distributions_import(
    tmp_path: Path, source: str, nodes: Nodes, *, told: bool
) -> None:
    """Beside a script it is found before all else, by what can do without as well: so torch finds a numpy."""
    signs = audited(tmp_path, {**distribution(SITE, "dep", {"dep.py": source}), **nodes}, tracked=USES)

    assert kinds(signs) == ({Sign.STUB} if told else set())


def test_nothing_in_the_repository_was_checked_out_where_nothing_was_fetched(tmp_path: Path) -> None:
    """What passes for a project of its own, and is on nobody's record, is the agent's."""
    nodes: Nodes = {
        f"{SITE}/x.pth": f"{WORKDIR}/there\n",
        f"{WORKDIR}/there/dep.py": "",
        f"{WORKDIR}/there/PKG-INFO": "",
    }

    assert audited(tmp_path, nodes, tracked=USES).findings == ()
    assert kinds(audited(tmp_path, nodes, tracked=USES, network="none")) == {Sign.STUB}
