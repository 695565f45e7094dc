"""Which modules are nobody's: in site folders, behind path lines and finders. No Docker."""

from __future__ import annotations

import io
import zipfile
from contextlib import AbstractContextManager
from hashlib import sha256
from pathlib import Path
from typing import IO

import pytest

from pytest_researchenv.integrity import pth
from pytest_researchenv.integrity.modulefiles import Form, modules_in
from pytest_researchenv.model import ImportPolicy, PathSource, Repository, Sign
from pytest_researchenv.sandbox.fake import FakeContainer, Folder, Link
from pytest_researchenv.sandbox.protocol import FileStat
from tests.unit.integrity.images import SITE, WORKDIR, Nodes, distribution
from tests.unit.integrity.sites import Index, audited, kinds, native


USES = {"run.py": "import dep\n"}


def egg(**files: str) -> bytes:
    """A zipped egg, or another archive; `__` in names is a slash."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in files.items():
            archive.writestr(name.replace("__", "/", 1) if "INFO" in name else f"{name}.py", content)
    return buffer.getvalue()


COUNTS, (MOVES, *_) = "import sys; sys.__plen = len(sys.path)", sorted(pth._MOVES)
ABOUT = {"EGG-INFO__PKG-INFO": "Name: dep\nVersion: 1.0\n"}


# --- which of several is found ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("paths", "winner", "form"),
    [
        (["dep.py", "dep/__init__.py"], "dep/__init__.py", Form.PACKAGE),
        (["dep.py", "dep.so"], "dep.so", Form.NATIVE),
        (["dep.py", "dep.abi3.so"], "dep.abi3.so", Form.NATIVE),
        (["dep.py", "dep.cpython-311-x86_64-linux-gnu.so"], "dep.cpython-311-x86_64-linux-gnu.so", Form.NATIVE),
        (["dep.py", "dep.cpython-39-x86_64-linux-gnu.so"], "dep.py", Form.SOURCE),
        (["dep.pyc", "dep.py"], "dep.py", Form.SOURCE),
        (["dep/__init__.py", "dep/__init__.so"], "dep/__init__.so", Form.NATIVE_PACKAGE),
        (["dep/part.py", "dep.py"], "dep.py", Form.SOURCE),
        (["dep/part.py"], "dep", Form.NAMESPACE),
        (["dep/a/b/part.so"], "dep", Form.NAMESPACE),
        (["dep", "dep.py"], "dep", Form.LINK),
    ],
)
def test_modules_are_found_as_python_finds_them(paths: list[str], winner: str, form: Form) -> None:
    """A package goes before a module, an extension before a source, and a folder without code last."""
    for order in (paths, paths[::-1]):
        place = modules_in("/s", [f"/s/{path}" for path in order], "3.11")["dep"][0]

        assert (place.path, place.form) == (f"/s/{winner}", form)


@pytest.mark.parametrize(
    "path", ["Dep.py", "dep-1.py", "dep.txt", "dep/data.json", "dep/1a/part.py", "dep.so.1", "d\udcffp.py"]
)
def test_what_no_import_leads_to_is_no_module(path: str) -> None:
    """Case counts, and names that are no identifiers cannot be imported."""
    assert "dep" not in modules_in("/s", [f"/s/{path}"], "3.11")


def test_nothing_lies_where_finders_have_a_placeholder(tmp_path: Path) -> None:
    """They put its name on the path, and Python takes it for a folder of the repository's."""
    path = f"{WORKDIR}/__editable__.x-1.finder.__path_hook__"

    signs = audited(tmp_path, {f"{path}/dep.py": "", f"{path}/more/a.py": ""}, tracked=USES)

    assert kinds(signs) == {Sign.STUB}
    assert len(signs.findings) == 1


# --- site folders and path lines --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "nodes",
    [
        {f"{SITE}/dep.py": ""},
        {f"{SITE}/dep/__init__.py": ""},
        {f"{SITE}/dep/part.py": ""},
        {f"{SITE}/dep.abi3.so": native()},
        {f"{SITE}/dep.pyc": b"\xa7\r\r\n"},
        {f"{SITE}/dep": Link("/opt/dep"), "/opt/dep/__init__.py": ""},
        {f"{SITE}/dep.py": Link("/opt/dep.py"), "/opt/dep.py": ""},
        {f"{SITE}/x.pth": "/opt/stubs\n", "/opt/stubs/dep.py": ""},
        {f"{SITE}/x.pth": "/opt/stubs\n", "/opt/stubs/dep/__init__.py": ""},
        {f"{SITE}/x.pth": "/opt/stubs\n", "/opt/stubs/dep/deep/part.py": ""},
        {f"{SITE}/x.pth": "/opt/stubs\n", "/opt/stubs/dep": Link("../x"), "/opt/x/__init__.py": ""},
        {f"{SITE}/x.pth": "/opt/stubs\n", "/opt/stubs/dep": "no module", "/opt/stubs/dep.py": ""},
        {f"{SITE}/x.pth": "../../../../stubs\n", "/opt/stubs/dep.py": ""},
        {f"{SITE}/x.pth": "/\n", "/dep.py": ""},
        {f"{SITE}/x.pth": "//\n", "/dep/__init__.py": ""},
        {f"{SITE}/x.pth": "../../../../..\n", "/dep/deep/part.py": ""},
        {f"{SITE}/x.pth": "/opt/root\n", "/opt/root": Link("/"), "/dep": Link("/opt/x"), "/opt/x/__init__.py": ""},
        {f"{SITE}/x.pth": f"{WORKDIR}/build/lib\n", f"{WORKDIR}/build/lib/dep.py": ""},
        {f"{SITE}/x.pth": f"{WORKDIR}/site-packages\n", f"{WORKDIR}/site-packages/dep.py": ""},
        {f"{SITE}/x.pth": f"{WORKDIR}/e/lib\n", f"{WORKDIR}/e/pyvenv.cfg": "", f"{WORKDIR}/e/lib/dep.py": ""},
        {f"{SITE}/x.pth": "/opt/stubs\n", "/opt/stubs/dep.py": "", "/opt/stubs/setup.py": ""},
        {f"{SITE}/x.pth": "/opt/form\ffeed\n", "/opt/form\ffeed/dep.py": ""},
        {f"{SITE}/dep": Link("/proc/self/root/opt/dep"), "/opt/dep/__init__.py": ""},
        {f"{SITE}/dep": Link("/opt/far"), "/opt/far": Link("/dev/fd/3"), **distribution(SITE, "dep", {})},
        {f"{SITE}/x.pth": "/opt/s.zip\n", "/opt/s.zip": egg(dep="")},
        {f"{SITE}/x.pth": "/opt/notes\n", "/opt/notes": b"#!/bin/sh\n" + egg(dep="")},
        {f"{SITE}/__editable___dep_finder.py": "MAPPING = {'dep': '/opt/s/dep'}\n", "/opt/s/dep/__init__.py": ""},
        *(
            {f"{SITE}/__editable___dep_finder.py": "MAPPING = {'dep': '/opt/s/dep'}\n", f"/opt/s/{name}": b""}
            for name in ("dep.so", "dep.pyc", "dep.cpython-311-x86_64-linux-gnu.so")
        ),
        {f"{SITE}/__editable___dep_finder.py": "MAPPING = {'dep': '/opt/s/dep.x'}\n", "/opt/s/dep.py": ""},
        {f"{SITE}/__editable___dep_finder.py": "NAMESPACES = {'dep': ['/opt/s']}\n", "/opt/s/part.py": ""},
        {"/usr/lib/python3.11/dep.py": ""},
        {f"{SITE}/dep.py": "", **distribution(SITE, "tool", {"tool.py": ""})},
    ],
)
def test_what_satisfies_an_import_is_somebodys(tmp_path: Path, nodes: Nodes) -> None:
    """Wherever it is and whatever it is made of; it counts as missing then."""
    signs = audited(tmp_path, nodes, tracked=USES)

    assert kinds(signs) == {Sign.STUB}
    assert list(signs.modules) == ["dep"]


@pytest.mark.parametrize(
    "nodes",
    [
        {},
        distribution(SITE, "dep", {"dep.py": ""}),
        distribution(SITE, "dep", {"dep/part.py": ""}),
        {**distribution(SITE, "one", {"dep/one.py": ""}), **distribution(SITE, "two", {"dep/two.py": ""})},
        {f"{SITE}/x.pth": "/opt/dep\n", "/opt/dep/dep.py": "", "/opt/dep/setup.py": ""} | {"/opt/dep/.gitignore": ""},
        {f"{SITE}/x.pth": "/opt/dep/src\n", "/opt/dep/src/dep.py": "", "/opt/dep/.git/config": ""},
        {f"{SITE}/x.pth": f"{WORKDIR}/third_party/dep\n", f"{WORKDIR}/third_party/dep/dep.py": ""}
        | {f"{WORKDIR}/third_party/dep/pyproject.toml": "", f"{WORKDIR}/third_party/dep/.gitignore": ""},
        {f"{SITE}/__editable___dep_finder.py": "MAPPING: dict = {'dep': '/opt/d/src/dep'}\n"}
        | {"/opt/d/src/dep/__init__.py": "", "/opt/d/pyproject.toml": "", "/opt/d/.github/x.yml": ""},
        {f"{SITE}/dep-1.0-py3.11.egg": egg(dep="", **ABOUT), f"{SITE}/easy-install.pth": "./dep-1.0-py3.11.egg\n"},
        {f"{SITE}/dep-1.0-py3.11.egg/dep.py": "", f"{SITE}/easy-install.pth": "./dep-1.0-py3.11.egg\n"}
        | {f"{SITE}/dep-1.0-py3.11.egg/EGG-INFO/PKG-INFO": "Name: dep\nVersion: 1.0\n"},
        {f"{SITE}/dep.py": "", f"{SITE}/dep-1.0.egg-info": "Name: dep\nVersion: 1.0\n"},
        {f"{SITE}/dep.py": "", f"{SITE}/dep-1.0.egg-info/PKG-INFO": "Name: dep\n"}
        | {f"{SITE}/dep-1.0.egg-info/top_level.txt": "dep\n", f"{SITE}/dep-1.0.egg-info/SOURCES.txt": ""},
        {f"{SITE}/dep": Link("/usr/lib/python3/dist-packages/dep")},
        {f"{SITE}/dep.so": Link("/opt/there/dep.cpython-311-x86_64-linux-gnu.so")},
        {f"{SITE}/x.pth": "/opt/there\n"},
        distribution(SITE, "wide", {"wide.pth": "wide/inner\n", "wide/__init__.py": "", "wide/inner/dep.py": ""}),
        {
            **distribution(SITE, "dep", {"dep.py": ""}),
            f"{SITE}/dep.py": Link("/opt/kept/0a1b.py"),
            "/opt/kept/0a1b.py": "",
        },
    ],
)
def test_what_somebody_has_is_no_stub(tmp_path: Path, nodes: Nodes) -> None:
    """Distributions of every kind, namespaces, eggs, projects that were checked out, and what is simply missing."""
    base: Nodes = {
        "/usr/lib/python3/dist-packages/dep/__init__.py": "",
        "/opt/there/dep.py": "",
        "/opt/there/dep.cpython-311-x86_64-linux-gnu.so": native(),
    }

    signs = audited(tmp_path, nodes, tracked=USES, base=base)

    assert signs.findings == ()
    assert not signs.modules


@pytest.mark.parametrize(
    "nodes",
    [
        {f"{SITE}/dep.py": Link("other.py"), **distribution(SITE, "other", {"other.py": ""})},
        {f"{SITE}/dep": Link("other"), **distribution(SITE, "other", {"other/__init__.py": ""})},
        {f"{SITE}/dep": Link("other"), **distribution(SITE, "other", {"other/part.py": ""})},
        {f"{SITE}/dep.py": Link("/usr/lib/python3.11/colorsys.py")},
        {f"{SITE}/dep": Link("/usr/share/there")},
        {f"{SITE}/x.pth": "other/inner\n", **distribution(SITE, "other", {"other/inner/dep.py": ""})},
        {
            f"{SITE}/x.pth": "other\n",
            **distribution(SITE, "other", {"other/__init__.py": "", "other/dep/__init__.py": ""}),
        },
        {f"{SITE}/x.pth": "/usr/lib/python3.11/email\n"},
        {
            f"{SITE}/__editable___dep_finder.py": f"MAPPING = {{'dep': '{SITE}/other'}}\n",
            **distribution(SITE, "other", {"other.py": ""}),
        },
    ],
)
def test_a_genuine_file_is_no_module_of_another_name(tmp_path: Path, nodes: Nodes) -> None:
    """By links, by path lines into packages, through finders: that it is somebody's does not make it what is meant."""
    files = ("colorsys.py", "email/__init__.py", "email/dep.py")
    base: Nodes = {"/usr/share/there/part.py": "", **{f"/usr/lib/python3.11/{file}": "" for file in files}}

    signs = audited(tmp_path, nodes, tracked=USES, base=base)

    assert kinds(signs) == {Sign.STUB}
    assert list(signs.modules) == ["dep"]


def test_what_easy_install_put_first_is_found_first(tmp_path: Path) -> None:
    """Its lines of code move folders before everything else, a genuine distribution included."""
    moved = f"{COUNTS}\n/opt/stubs\n{MOVES}\n"
    nodes: Nodes = {**distribution(SITE, "dep", {"dep.py": ""}), "/opt/stubs/dep.py": ""}

    assert audited(tmp_path, {**nodes, f"{SITE}/easy-install.pth": "/opt/stubs\n"}, tracked=USES).findings == ()
    assert kinds(audited(tmp_path, {**nodes, f"{SITE}/easy-install.pth": moved}, tracked=USES)) == {Sign.STUB}


def test_what_goes_before_the_standard_library_is_somebodys(tmp_path: Path) -> None:
    """What easy_install moves there; a folder without an `__init__` goes before nothing."""
    moved: Nodes = {f"{SITE}/easy-install.pth": f"{COUNTS}\n/opt/first\n{MOVES}\n"}

    assert kinds(audited(tmp_path, {**moved, "/opt/first/json.py": ""})) == {Sign.INTERPRETER}
    for name in ("json/part.py", "other.py", "test/__init__.py"):
        assert audited(tmp_path, {**moved, f"/opt/first/{name}": ""}).findings == ()
    after: Nodes = {f"{SITE}/a.pth": "/opt/first\n"}
    assert audited(tmp_path, {**moved, **after, "/opt/first/json.py": ""}).findings == ()


def test_a_line_added_to_anothers_record_makes_nobody_an_owner(tmp_path: Path) -> None:
    """A row without a hash, in a record that has hashes."""
    other = distribution(SITE, "tool", {"tool.py": ""})
    path = f"{SITE}/tool-1.0.dist-info/RECORD"
    nodes: Nodes = {**other, path: other[path] + b"dep.py,,\n", f"{SITE}/dep.py": ""}

    assert kinds(audited(tmp_path, nodes, tracked=USES)) == {Sign.STUB}


def test_what_is_in_an_environment_in_the_repository_is_judged_as_elsewhere(tmp_path: Path) -> None:
    """That the repository holds the environment explains nothing of what is in it."""
    site = f"{WORKDIR}/.venv/lib/python3.11/site-packages"
    nodes: Nodes = {
        f"{WORKDIR}/.venv/bin/python": Link("/usr/bin/python3"),
        f"{WORKDIR}/.venv/pyvenv.cfg": "home = /usr/bin\n",
        f"{site}/dep.py": "",
    }

    assert kinds(audited(tmp_path, nodes, tracked=USES, python=f"{WORKDIR}/.venv/bin/python")) == {Sign.STUB}


def test_names_that_nothing_can_satisfy_are_left_alone(tmp_path: Path) -> None:
    """What the suite exempts is no matter whatever stands there."""
    policy = ImportPolicy(unsatisfiable={"dep": "only on another system"})
    repository = Repository("project", PathSource("unused"), imports=policy)

    signs = audited(tmp_path, {f"{SITE}/dep.py": ""}, tracked=USES, repository=repository)

    assert (signs.findings, dict(signs.modules)) == ((), {})


@pytest.mark.parametrize(
    "nodes",
    [
        {f"{SITE}/extra.py": ""},
        {f"{SITE}/x.pth": "/opt/libraries\n", "/opt/libraries/extra/__init__.py": ""},
        {f"{SITE}/x.pth": f"{WORKDIR}/kept\n", f"{WORKDIR}/kept/extra/__init__.py": ""},
        {f"{SITE}/extra": Link("/opt/libraries/extra"), "/opt/libraries/extra/__init__.py": ""},
        {f"{SITE}/extra.py": Link("/opt/libraries/extra.py"), "/opt/libraries/extra.py": ""},
        {f"{SITE}/extra/__init__.py": Link("/opt/libraries/extra.py"), "/opt/libraries/extra.py": ""},
    ],
)
@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("import extra\n", True),
        ("def f():\n    from extra.a import b\n", True),
        ("x = 'import extra'\n", False),
        ('"""Prose.\n\nfrom extra words\n"""\n', False),
    ],
)
def test_what_only_a_distribution_imports_is_somebodys_too(
    tmp_path: Path, source: str, nodes: Nodes, *, told: bool
) -> None:
    """A module of nobody's would run in the same process; one that nothing imports does not."""
    signs = audited(tmp_path, {**distribution(SITE, "dep", {"dep.py": source}), **nodes}, tracked=USES)

    assert kinds(signs) == ({Sign.DISTRIBUTION} if told else set())
    assert not signs.modules


@pytest.mark.parametrize("count", [0, 30])
@pytest.mark.parametrize("is_folder", [False, True])
def test_distributions_that_are_links_import_as_others_do(tmp_path: Path, count: int, *, is_folder: bool) -> None:
    """Some installers leave links to their caches in the place of each file, or of each folder."""
    cache = "/root/.cache/archive/0a1b"
    files: dict[str, bytes | str] = {f"dep/part{number}.py": "A = 1\n" for number in range(count)}
    files["dep/__init__.py"] = "import extra\n"
    installed = distribution(SITE, "dep", files)
    nodes: dict[str, bytes | str | Link | Folder | None] = dict(installed)
    for path in files:
        nodes[f"{cache}/{path}"] = nodes.pop(f"{SITE}/{path}")
        nodes |= {} if is_folder else {f"{SITE}/{path}": Link(f"{cache}/{path}")}
    nodes |= {f"{SITE}/dep": Link(f"{cache}/dep")} if is_folder else {}

    assert audited(tmp_path, nodes, tracked=USES).findings == ()
    assert kinds(audited(tmp_path, {**nodes, f"{SITE}/extra.py": ""}, tracked=USES)) == {Sign.DISTRIBUTION}


@pytest.mark.parametrize(
    "nodes",
    [
        {f"{SITE}/nt.py": ""},
        {f"{SITE}/_winapi.abi3.so": native()},
        {f"{SITE}/org/python/core.py": ""},
        {f"{SITE}/org": Link("/opt/org"), "/opt/org/__init__.py": ""},
        {f"{SITE}/x.pth": "/opt/more\n", "/opt/more/msvcrt.py": ""},
        {f"{SITE}/x.pth": "/opt/more.zip\n", "/opt/more.zip": egg(nt="")},
        distribution(SITE, "org", {"org/python/core.py": ""}),
        {"/usr/lib/python3.11/json/__init__.py": None, f"{SITE}/json/__init__.py": ""},
        {"/usr/lib/python3.11/lib-dynload/_json.cpython-311-x86_64-linux-gnu.so": None, f"{SITE}/_json.py": ""},
    ],
)
def test_what_the_standard_library_would_import_is_nobodys(tmp_path: Path, nodes: Nodes) -> None:
    """It runs in every program that imports `copy` or `pathlib`: no tier is to be believed."""
    base: Nodes = {"/usr/lib/python3.11/json/__init__.py": "x"}

    signs = audited(tmp_path, nodes, base=base, published=Index())

    assert kinds(signs) == {Sign.INTERPRETER}
    assert len(signs.findings) == 1


@pytest.mark.parametrize(
    "nodes",
    [
        {f"{SITE}/json/__init__.py": "", f"{SITE}/_json.py": ""},
        {f"{SITE}/test/__init__.py": "", f"{SITE}/this.py": ""},
        {f"{SITE}/notes.py": "", f"{SITE}/orgs.py": ""},
        distribution(SITE, "pywin32", {"win32api.py": "x"}),
    ],
)
def test_what_the_standard_library_does_not_ask_for(tmp_path: Path, nodes: Nodes) -> None:
    """It has it itself, or it is no part of any program; and what somebody published."""
    published = Index(wheels={"pywin32": {"win32api.py": sha256(b"x").hexdigest()}})
    base: Nodes = {"/usr/lib/python3.11/json/__init__.py": "x"}

    assert audited(tmp_path, nodes, base=base, published=published).findings == ()


def test_what_is_asked_of_the_engine_does_not_grow_with_what_an_agent_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a site folder, in namespaces, in the repository: a quarter of a million files are one stream."""
    asked: list[str] = []
    get, stat = FakeContainer.get, FakeContainer.stat

    def got(container: FakeContainer, path: str) -> AbstractContextManager[IO[bytes] | None]:
        asked.append(path)
        return get(container, path)

    def looked(container: FakeContainer, path: str) -> FileStat | None:
        asked.append(path)
        return stat(container, path)

    monkeypatch.setattr(FakeContainer, "get", got)
    monkeypatch.setattr(FakeContainer, "stat", looked)
    counts = []
    for size in (10, 150):
        nodes: dict[str, bytes | str | Link | Folder | None] = {**distribution(SITE, "dep", {"dep.py": "import m7\n"})}
        for number in range(size):
            nodes |= {f"{SITE}/m{number}.py": "", f"{SITE}/n{number}/part.py": "", f"{SITE}/l{number}": Link("m1.py")}
            nodes |= {f"{WORKDIR}/d{number}.py": "", f"{WORKDIR}/data{number}/json": "", f"{WORKDIR}/x{number}": ""}
        asked.clear()

        signs = audited(tmp_path, nodes, tracked=USES)

        counts.append(len(asked))
        assert [finding.field for finding in signs.findings] == ["m7"]
    assert counts[1] <= counts[0] + 10


def test_an_archive_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    """Whatever is in it may be imported."""
    nodes: Nodes = {f"{SITE}/x.pth": "/opt/s.zip\n", "/opt/s.zip": bytes(9 * 1024 * 1024)}

    assert kinds(audited(tmp_path, nodes, tracked=USES)) == {Sign.UNREADABLE}


# --- several folders of one name --------------------------------------------------------------------------


def test_a_package_goes_before_folders_without_an_init(tmp_path: Path) -> None:
    """Wherever on the path they are: what an earlier folder has is no part of it."""
    nodes: Nodes = {
        **distribution(SITE, "other", {"dep/part.py": ""}),
        f"{SITE}/x.pth": "/opt/stubs\n",
        "/opt/stubs/dep/__init__.py": "",
    }

    assert "dep" in audited(tmp_path, nodes, tracked=USES).modules


def test_all_folders_of_a_namespace_package_are_somebodys(tmp_path: Path) -> None:
    """What one distribution has says nothing of a folder of the same name elsewhere."""
    nodes: Nodes = {**distribution(SITE, "other", {"dep/part.py": ""}), f"{SITE}/x.pth": "/opt/stubs\n"}

    assert not audited(tmp_path, nodes, tracked=USES).modules
    assert "dep" in audited(tmp_path, {**nodes, "/opt/stubs/dep/more.py": ""}, tracked=USES).modules
