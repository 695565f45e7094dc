"""Path files run code where their distributions list it, or somebody is known to write it. No Docker."""

from __future__ import annotations

import hashlib

import pytest

from pytest_researchenv.integrity import pth, virtualenv
from pytest_researchenv.integrity.protocol import Signs
from pytest_researchenv.model import Sign
from pytest_researchenv.sandbox.fake import Folder
from tests.unit.integrity.hooked import NAMESPACE, found, signs
from tests.unit.integrity.images import SITE, STATUS, Nodes, distribution, md5, python_elf


@pytest.mark.parametrize(
    "name", ["evil.pth", "distutils-precedence.pth", "__editable__.x.pth", "_virtualenv.pth", ".pth"]
)
def test_a_path_file_that_nobody_lists(name: str) -> None:
    """Its paths stay, and its code does not."""
    seen = signs({f"{SITE}/{name}": "/opt/a\nimport os; os.system('x')\n/opt/b\n"})

    assert found(seen) == [f"{SITE}/{name}"]
    assert seen.blanked == {f"{SITE}/{name}": "/opt/a\n/opt/b\n"}


def test_a_path_file_that_differs_from_its_distributions() -> None:
    """The RECORD has another hash; and none that is not the site folder's own counts."""
    nodes = distribution(SITE, "x", {"x.pth": "import x\n"})
    path = f"{SITE}/x.pth"

    assert found(signs({**nodes, path: "import x; import evil\n"})) == [path]
    assert found(signs({path: "import x\n", **distribution("/opt/other", "x", {"x.pth": "import x\n"})})) == [path]
    record = {f"{SITE}/x-1.0.dist-info/RECORD": "x.pth,,\n"}
    assert found(signs({path: "import x\n", **record})) == [path]


@pytest.mark.parametrize(
    "text", ["", '"', "x.pth", "x.pth,sha256=%%%,9", "\0" * 1000, "x.pth," + "a" * 200_000, "x.pth,sha256=é,1"]
)
def test_a_broken_record_vouches_for_nothing(text: str) -> None:
    """And breaks nothing."""
    nodes = {f"{SITE}/x.pth": "import x\n", f"{SITE}/x-1.0.dist-info/RECORD": text}
    assert found(signs(nodes)) == [f"{SITE}/x.pth"]


def test_debians_packages_own_their_path_files() -> None:
    """Those of the base image run. Of those that came later only root's records say so, and nobody is accused."""
    path = "/usr/lib/python3/dist-packages/zope-nspkg.pth"
    status = f"{STATUS}Package: zope\nStatus: install ok installed\nVersion: 1\n\n"
    nodes: Nodes = {
        path: "import zope\n",
        "/var/lib/dpkg/status": status,
        "/var/lib/dpkg/info/zope.md5sums": md5((path, b"import zope\n")),
    }
    assert signs({}, "/usr/bin/python3") == Signs()
    seen = signs(nodes, "/usr/bin/python3")
    assert (seen.findings, seen.blanked, len(seen.remarks)) == ((), {path: ""}, 1)
    assert found(signs({**nodes, path: "import evil\n"}, "/usr/bin/python3")) == [path]
    edited = "/usr/lib/python3/dist-packages/distutils-precedence.pth"
    assert found(signs({edited: "import evil\n"}, "/usr/bin/python3")) == [edited]


@pytest.mark.parametrize(
    "before", ["a\f", "a\x1c", "a\u2028", "a\r", '"a\n', "~"], ids=["feed", "separator", "line", "return", "quote", "~"]
)
def test_a_row_of_a_record_is_the_same_to_all_readers(before: str) -> None:
    """What ends a line for some alone, and a line in quotes; and what pip removed lists nothing."""
    nodes = distribution(SITE, "x", {"x.pth": "import x\n"})
    path, info = f"{SITE}/x.pth", f"{SITE}/x-1.0.dist-info"
    listed = nodes.pop(f"{info}/RECORD").decode()
    if before == "~":
        nodes[f"{SITE}/~-1.0.dist-info/RECORD"] = listed.encode()
    else:
        nodes[f"{info}/RECORD"] = f"{before}{listed}".encode()

    assert found(signs(dict(nodes))) == [path]


COUNTS, MOVES = "import sys; sys.__plen = len(sys.path)", sorted(pth._MOVES)


@pytest.mark.parametrize("moves", MOVES)
def test_what_easy_install_writes_moves_its_own_folders(moves: str) -> None:
    """It counts before all of them, and moves them after."""
    assert signs({f"{SITE}/easy-install.pth": f"{COUNTS}\n./a.egg\n/opt/b\n{moves}\n", "/opt/b": Folder()}) == Signs()
    assert signs({f"{SITE}/easy-install.pth": f"{COUNTS}\r\n./a.egg\r\n{moves}"}) == Signs()


@pytest.mark.parametrize(
    "text",
    [
        "{moves}",
        "/opt\n{moves}",
        "/opt\n{counts}\n{moves}",
        "{counts}\n{moves}\n/opt",
        "{counts}\n{counts}\n{moves}",
        "{counts}\n{moves}\n{moves}",
        "{counts}\f/opt\n{moves}",
        "\n{counts}\x1c\n/opt\n{moves}",
    ],
)
def test_a_file_that_moves_what_others_add_is_a_hook(text: str) -> None:
    """Whatever lists it: folders of files before it would go before the standard library."""
    written = text.format(counts=COUNTS, moves=MOVES[0])
    path = f"{SITE}/z.pth"

    assert found(signs({path: written})) == [path]
    listed = distribution(SITE, "x", {"z.pth": written})
    assert found(signs({**listed, f"{SITE}/a.pth": f"{COUNTS}\n"})) == [path]


def test_a_namespace_package_needs_its_folder() -> None:
    """Without one, the line that setuptools writes would make a stand-in for a package that is not there."""
    path = f"{SITE}/google-nspkg.pth"

    assert signs({path: NAMESPACE, f"{SITE}/google": Folder()}) == Signs()
    assert found(signs({path: NAMESPACE})) == [path]
    assert found(signs({path: NAMESPACE + "import evil\n", f"{SITE}/google": Folder()})) == [path]


@pytest.mark.parametrize("name", ["urllib", "zipimport", "google", "grpc"])
def test_a_namespace_package_takes_no_name_of_another_module(name: str) -> None:
    """Of the standard library or in another folder of the path: the line puts it where all imports look first."""
    path, line = f"{SITE}/own-nspkg.pth", NAMESPACE.replace("google", name)
    others: Nodes = {f"{SITE}/x.pth": "/opt/more\n", "/opt/more/google/__init__.py": "", "/opt/more/grpc.py": ""}

    assert found(signs({path: line, f"{SITE}/{name}/parse.py": "import evil\n", **others})) == [path]


@pytest.mark.parametrize(
    "module",
    [
        "google.abi3.so",
        "google.so",
        "google.cpython-311-x86_64-linux-gnu.so",
        "google.cpython-311-powerpc64le-linux-musl.so",
        "google/__init__.abi3.so",
    ],
)
def test_a_namespace_package_is_not_compiled(module: str) -> None:
    """To make a module of a compiled one loads it, whoever lists the line; a source is not run."""
    listed = distribution(SITE, "x", {"google-nspkg.pth": NAMESPACE, "google/part.py": ""})

    assert found(signs({**listed, f"{SITE}/{module}": b"\x7fELF"})) == [f"{SITE}/google-nspkg.pth"]
    assert found(signs({**listed, f"{SITE}/google/__init__.py": "", f"{SITE}/googles.so": ""})) == []


def _rooted(folder: str) -> str:
    """The line as editable installs have it."""
    return NAMESPACE.replace("sys._getframe(1).f_locals['sitedir']", repr(folder))


def test_a_namespace_package_of_an_editable_install_is_in_a_folder_of_the_path() -> None:
    """As `setup.py develop` writes the line, beside one that adds the project; what comes after it counts then."""
    path = f"{SITE}/own-nspkg.pth"
    project: Nodes = {"/opt/project/google/part.py": "", f"{SITE}/easy-install.pth": "/opt/project\n"}

    assert signs({path: _rooted("/opt/project"), **project}) == Signs()


@pytest.mark.parametrize("folder", ["/opt/evil", "opt/evil", "/opt/../opt/evil", "/proc/self/root/opt/evil"])
def test_a_namespace_package_in_a_folder_of_nobodys_is_a_hook(folder: str) -> None:
    """By the line alone, parts of a genuine package would be found there."""
    path = f"{SITE}/own-nspkg.pth"
    nodes: Nodes = {path: _rooted(folder), f"{SITE}/google/part.py": "", "/opt/evil/google/part.py": ""}

    assert found(signs(nodes)) == [path]


@pytest.mark.parametrize("module", ["google.abi3.so", "google/__init__.so"])
def test_a_namespace_package_in_another_folder_is_not_compiled(module: str) -> None:
    """Be the folder on the path, and the line in a RECORD."""
    listed = distribution(SITE, "x", {"x-nspkg.pth": _rooted("/opt/project"), "google/part.py": ""})
    project: Nodes = {f"/opt/project/{module}": b"\x7fELF", f"{SITE}/project.pth": "/opt/project\n"}

    assert found(signs({**listed, **project})) == [f"{SITE}/x-nspkg.pth"]


def test_a_name_that_no_record_can_hold_voids() -> None:
    """Nothing could be put in its place."""
    seen = signs({f"{SITE}/evil\udcff.pth": "import evil\n"})

    assert {finding.kind for finding in seen.findings} == {Sign.HOOK, Sign.UNREADABLE}
    assert seen.blanked == {}
    assert seen.findings[0].field == f"{SITE}/evil\\xff.pth"


def test_a_path_file_too_large_to_be_read() -> None:
    """Nobody's has megabytes; all of it is blanked."""
    seen = signs({f"{SITE}/evil.pth": "#" * 9_000_000 + "\nimport evil\n"})

    assert found(seen) == [f"{SITE}/evil.pth"]
    assert seen.blanked == {f"{SITE}/evil.pth": ""}


# --- virtualenv -------------------------------------------------------------------------------------------

#: What virtualenv's file does, in short: of no known version.
LIKE = '''
"""Patches that are applied at runtime to the virtual environment."""
import os
import sys
_DISTUTILS_PATCH = "distutils.dist", "setuptools.dist"
class _Finder:
    def find_spec(self, fullname, path, target=None):
        from functools import partial
        from importlib.util import find_spec
        return None
sys.meta_path.insert(0, _Finder())
'''


def test_virtualenvs_own_start_up_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a known version it stays; of another it is not run, and held against nobody."""
    path, source = f"{SITE}/_virtualenv.pth", f"{SITE}/_virtualenv.py"
    seen = signs({path: "import _virtualenv", source: LIKE})

    assert seen.findings == ()
    assert seen.blanked == {path: ""}
    assert len(seen.remarks) == 1
    monkeypatch.setattr("pytest_researchenv.integrity.hooks.KNOWN", {_sha256(LIKE)})
    assert signs({path: "import _virtualenv", source: LIKE}) == Signs()
    cached = f"{SITE}/__pycache__/_virtualenv.cpython-311.pyc"
    assert signs({path: "import _virtualenv", source: LIKE, cached: b"x"}) == Signs(blanked={cached: ""})


def _sha256(text: str) -> str:

    return hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize(
    "source",
    [
        "import evil\n" + LIKE,
        LIKE + "exec('x')\n",
        LIKE + "open('/etc/passwd')\n",
        LIKE + "import torch\n",
        LIKE + "from . import evil\n",
        LIKE + "__import__('evil')\n",
        LIKE + "os.environ['X'] = '1'\n",
        LIKE.replace("distutils.dist", "torch.dist"),
        LIKE.replace('"distutils.dist", "setuptools.dist"', '"torch"'),
        "(" * 5000,
        "x = \0",
        "#" * 40_000,
        "",
    ],
)
def test_what_only_looks_like_virtualenvs(source: str) -> None:
    """It does more, or something else."""
    seen = signs({f"{SITE}/_virtualenv.pth": "import _virtualenv", f"{SITE}/_virtualenv.py": source})

    assert found(seen) == [f"{SITE}/_virtualenv.pth"]
    assert seen.blanked == {f"{SITE}/_virtualenv.pth": ""}


def test_virtualenvs_path_file_alone() -> None:
    """Without its module, or with more than its line."""
    assert found(signs({f"{SITE}/_virtualenv.pth": "import _virtualenv"})) == [f"{SITE}/_virtualenv.pth"]
    more = {f"{SITE}/_virtualenv.pth": "import _virtualenv; x", f"{SITE}/_virtualenv.py": LIKE}
    assert found(signs(more)) == [f"{SITE}/_virtualenv.pth"]
    assert virtualenv.suspicion(LIKE) == ""


# --- .start files -----------------------------------------------------------------------------------------


def test_start_files_are_hooks_of_newer_versions() -> None:
    """Python 3.15 runs what they name."""
    site = "/opt/new/lib/python3.15/site-packages"
    base: Nodes = {
        "/opt/new/bin/python": python_elf("3.15"),
        "/opt/new/lib/python3.15/os.py": "",
        site: Folder(),
    }
    nodes = {**base, f"{site}/evil.start": "evil:main\n", **distribution(site, "x", {"x.start": "x:main\n"})}
    seen = signs(nodes, "/opt/new/bin/python")

    assert found(seen) == [f"{site}/evil.start"]
    assert seen.blanked == {f"{site}/evil.start": ""}
