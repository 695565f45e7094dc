"""Where finders of editable installs lead is somebody's, whoever wrote their text. No Docker."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_researchenv.integrity import editable, finders
from pytest_researchenv.integrity.finders import Finder, Search, finder_of
from pytest_researchenv.model import Sign
from pytest_researchenv.sandbox.fake import Link
from tests.unit.integrity.images import SITE, WORKDIR, Nodes, distribution
from tests.unit.integrity.sites import Index, audited, kinds


USES = {"run.py": "import dep\n", "src/own/__init__.py": "", "src/own/part.py": ""}
EDITABLES = "from editables.redirector import RedirectingFinder as F\nF.install()\n"
REDIRECT = "import sys\n\n\ndef install(*found):\n    sys.meta_path.insert(0, found)\n"
SPACES = f"NAMESPACES = {{'src': ['{WORKDIR}/src']}}\n"
OWN = f"'own': '{WORKDIR}/src/own/__init__.py', 'own.part': '{WORKDIR}/src/own/part.py'"


@pytest.fixture(autouse=True)
def _known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the redirect of this file be a known one."""
    monkeypatch.setattr(editable, "_REDIRECTS", frozenset({editable._digest(REDIRECT)}))


def install(text: str, name: str = "_editable_skbc_own", **more: str) -> Nodes:
    """An editable install of the repository, with a finder."""
    files = {f"{name}.pth": f"import {name}\n", f"{name}.py": text, **{path.replace("__", "."): "" for path in more}}
    about = {"url": f"file://{WORKDIR}", "dir_info": {"editable": True}}
    editables = distribution(SITE, "editables", {"editables/__init__.py": "", "editables/redirector.py": ""})
    note = {f"{SITE}/own-1.0.dist-info/direct_url.json": json.dumps(about)}
    return {**distribution(SITE, "own", files), **note, **(editables if "editables" in text else {})}


def redirect(*values: str, **more: str) -> Nodes:
    """One that scikit-build-core writes."""
    return install(f"{REDIRECT}\ninstall({', '.join(values)})\n", **more)


# --- what one says ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "found"),
    [
        (
            "MAPPING = {'a': '/x/a'}\nNAMESPACES = {'b': ['/y', 'z']}\n",
            Finder({"a": ("/x/a",)}, {"b": ("/y", "/w/z")}, search=Search.SUFFIX),
        ),
        (
            f"{EDITABLES}F.map_module('a', '/x/a.py')\nF.map_module('b', 'b.py')",
            Finder({"a": ("/x/a.py",), "b": ("/w/b.py",)}),
        ),
        (
            f"{REDIRECT}\ninstall({{'a': '/x/a.py'}}, {{'a.b': 'a/b.so'}}, {{'a': ['/x', 'a']}}, ['a'], None)\n",
            Finder({"a": ("/x/a.py",), "a.b": ("/s/a/b.so",)}, {"a": ("/x", "/s/a")}, first=True),
        ),
        (
            f"{REDIRECT}\ninstall(['a'], ['/x', '/y'], None)\n",
            Finder({"a": ("/x/a", "/y/a")}, first=True, search=Search.PATH),
        ),
        (f"{REDIRECT}\ninstall('a', {{'a'}}, '/x', ['/y'])\n", Finder(first=True)),
        ("no Python", Finder(search=Search.SUFFIX)),
    ],
)
def test_what_finders_say(source: str, found: Finder) -> None:
    """Those of setuptools, of editables, of scikit-build-core in both of its modes, and of meson-python."""
    assert finder_of(source.encode(), "/s", "/w") == found


@pytest.mark.parametrize("limit", ["_MOST_FINDERS", "_MOST_NAMES"])
def test_more_of_them_than_are_read_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    """Each may lead Python anywhere."""
    monkeypatch.setattr(finders, limit, 1)
    nodes = {f"{SITE}/__editable___{name}_finder.py": f"MAPPING = {{'{name}': '/x'}}\n" for name in ("a", "b")}

    assert Sign.UNREADABLE in kinds(audited(tmp_path, nodes, tracked=USES))


@pytest.mark.parametrize(
    ("note", "complete"), [({"vcs_info": {"vcs": "git"}}, True), ({"vcs_info": {"vcs": "git"}}, False), ({}, True)]
)
def test_what_a_finder_imports_comes_from_an_index(tmp_path: Path, note: dict[str, object], *, complete: bool) -> None:
    """What came from elsewhere is nobody's to vouch for, and what runs at start is not run then."""
    nodes = install(f"{EDITABLES}F.map_module('own', '{WORKDIR}/src/own/__init__.py')", "_editable_impl_own")
    about = {"url": "https://example.org/editables", **(note or {"archive_info": {}})}
    nodes = {**nodes, f"{SITE}/editables-1.0.dist-info/direct_url.json": json.dumps(about)}
    signs = audited(tmp_path, nodes, tracked=USES, published=Index(complete=complete))

    assert signs.findings == ()
    assert signs.blanked == {f"{SITE}/_editable_impl_own.pth": ""}


# --- where they lead --------------------------------------------------------------------------------------

KEPT: Nodes = {
    "/opt/kept/dep.py": "",
    "/opt/kept/other/part.py": "",
    f"{WORKDIR}/kept/dep.py": "",
    f"{WORKDIR}/kept/own.py": "",
}


@pytest.mark.parametrize(
    "nodes",
    [
        install(f"{EDITABLES}F.map_module('dep', '/opt/kept/dep.py')", "_editable_impl_own"),
        install(f"{EDITABLES}F.map_module('dep', '/opt/kept/dep.py')", "_own"),
        install(f"{EDITABLES}F.map_module('dep', 'kept/dep.py')", "_editable_impl_own"),
        redirect("{'dep': '/opt/kept/dep.py'}", "{}", "None"),
        redirect("{}", "{'dep': '/opt/kept/dep.py'}", "None"),
        redirect("{}", "{}", "{'dep': ['/opt/kept/other']}", "[]", "None"),
        redirect("['dep']", "['/opt/kept']", "None"),
        {**redirect("{'dep': '/opt/s/../kept/dep.py'}", "{}"), "/opt/s": Link("/opt/t/s"), "/opt/t/kept/dep.py": ""}
        | {"/opt/t/s/x": ""},
    ],
)
def test_a_stand_in_to_which_a_finder_leads(tmp_path: Path, nodes: Nodes) -> None:
    """The text is its builder's, and the place is nobody's."""
    signs = audited(tmp_path, {**KEPT, **nodes}, tracked=USES, published=Index(names=("editables",)))

    assert Sign.STUB in kinds(signs)
    assert list(signs.modules) == ["dep"]


def test_a_finder_that_is_asked_first_goes_before_what_is_installed(tmp_path: Path) -> None:
    """Its own distribution lists a module, and it leads to another."""
    for places, found in (("{'dep': '/opt/kept/dep.py'}", True), ("{}", False)):
        signs = audited(tmp_path, {**KEPT, **redirect(places, "{}", dep__py="")}, tracked=USES)
        assert (Sign.STUB in kinds(signs)) is found


def test_what_distributions_import_by_a_finder(tmp_path: Path) -> None:
    """The repository takes no part."""
    nodes = install(f"{EDITABLES}F.map_module('numpy', '/opt/kept/dep.py')", "_editable_impl_own")
    other = distribution(SITE, "tool", {"tool.py": "import numpy\n"})

    assert Sign.DISTRIBUTION in kinds(
        audited(tmp_path, {**KEPT, **nodes, **other}, tracked={"run.py": "import tool\n"})
    )


@pytest.mark.parametrize(
    "values",
    [
        (f"{{{OWN}, 'own.more': '/opt/kept/dep.py'}}", "{}"),
        (f"{{{OWN}}}", "{'own.more': '/opt/kept/dep.py'}"),
        (f"{{{OWN}, 'own.more': '{WORKDIR}/kept/dep.py'}}", "{}"),
        (f"{{'own': '{WORKDIR}/kept/own.py'}}", "{}"),
        (f"{{{OWN}}}", "{}", "{'own': ['/opt/kept/other']}"),
        (f"{{{OWN}}}", "{}", "{'own.more': ['/opt/kept/other']}"),
    ],
)
def test_parts_of_a_package_lie_in_it(tmp_path: Path, values: tuple[str, ...]) -> None:
    """A finder that has them elsewhere is not run, and held against nobody: none of these is published."""
    signs = audited(tmp_path, {**KEPT, **redirect(*values)}, tracked=USES)

    assert signs.blanked == {f"{SITE}/_editable_skbc_own.pth": ""}
    assert signs.findings == ()


@pytest.mark.parametrize(
    "nodes",
    [
        install(f"{EDITABLES}F.map_module('own', '{WORKDIR}/src/own/__init__.py')", "_editable_impl_own"),
        redirect(f"{{{OWN}}}", "{}", "None"),
        redirect(f"{{{OWN}}}", "{'own.part': 'own/part.py'}", f"{{'own': ['{WORKDIR}/src/own', 'own']}}", "['own']"),
        {**redirect(f"{{{OWN}, 'own.made': '{WORKDIR}/src/own/made.py'}}", "{}"), f"{WORKDIR}/src/own/made.py": ""},
        redirect("['own']", f"['{WORKDIR}/src']", "None"),
        {
            f"{SITE}/__editable___own_finder.py": f"MAPPING = {{'own': '{WORKDIR}/src/own'}}\n",
            f"{WORKDIR}/src/own.py": "",
        },
        redirect(f"{{'helper': '{WORKDIR}/kept/own.py'}}", "{}"),
        redirect("{'gone': '/opt/gone.py'}", "{}"),
        {**redirect("{'a': '/opt/a/a/__init__.py', 'a.b': '/opt/a/a/b.py'}", "{}"), "/opt/a/a/__init__.py": ""}
        | {"/opt/a/a/b.py": "", "/opt/a/pyproject.toml": "", "/opt/a/.gitignore": ""},
        {f"{SITE}/__editable___own_finder.py": f"MAPPING = {{'own': '{WORKDIR}/src/own'}}\n{SPACES}"},
    ],
)
def test_honest_finders(tmp_path: Path, nodes: Nodes) -> None:
    """Of the repository, with what builds write beside its sources and into the site folder, and of a project."""
    uses = {**USES, "run.py": "import own, src, a\n", "src/x.py": ""}
    signs = audited(tmp_path, nodes, tracked=uses, published=Index(names=("editables",), complete=False))

    assert [finding for finding in signs.findings if finding.kind is not Sign.PROVENANCE] == []
    assert signs.blanked == {}
