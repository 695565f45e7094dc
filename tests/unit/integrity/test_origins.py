"""Where distributions came from: an installer, a project, the repository itself. No Docker."""

from __future__ import annotations

import hashlib
import json
import zipfile
from pathlib import Path

import pytest

from pytest_researchenv.model import Sign
from pytest_researchenv.sandbox.fake import Folder, Link
from tests.unit.integrity.dep import ABOUT, FILES, USES, from_folder, hashes, wheel
from tests.unit.integrity.images import DEBIAN, SITE, WORKDIR, Nodes, distribution, md5
from tests.unit.integrity.sites import Index, audited, kinds, native


@pytest.mark.parametrize("missing", ["RECORD", "INSTALLER", "WHEEL"])
def test_what_every_installer_leaves_is_there(tmp_path: Path, missing: str) -> None:
    """Of what an agent put there by hand, and the repository imports."""
    nodes = {path: node for path, node in distribution(SITE, "dep", FILES).items() if path != f"{ABOUT}/{missing}"}

    assert kinds(audited(tmp_path, nodes, tracked=USES)) == {Sign.PROVENANCE}
    assert kinds(audited(tmp_path, nodes, tracked={"run.py": "import os\n"})) == set()
    if missing == "INSTALLER":
        # As who unpacks a published wheel leaves it.
        assert audited(tmp_path, nodes, tracked=USES, published=wheel(FILES)).findings == ()


def test_a_record_lists_itself(tmp_path: Path) -> None:
    """Every installer's does."""
    nodes = distribution(SITE, "dep", FILES)
    nodes[f"{ABOUT}/RECORD"] = nodes[f"{ABOUT}/RECORD"].replace(b"dep-1.0.dist-info/RECORD,,\n", b"")

    assert kinds(audited(tmp_path, nodes, tracked=USES)) == {Sign.PROVENANCE}


@pytest.mark.parametrize(
    ("folder", "more", "told"),
    [
        ("/opt/dep", {}, True),
        ("/opt/dep", {"/opt/dep/notes.txt": ""}, True),
        ("/opt/dep", {"/opt/dep/pyproject.toml": ""}, False),
        ("/opt/dep", {"/opt/dep/setup.py": ""}, False),
        ("/opt/d%65p", {"/opt/dep/setup.py": ""}, False),
        (WORKDIR, {}, False),
        (f"{WORKDIR}/third_party/dep", {f"{WORKDIR}/third_party/dep/x": ""}, False),
        ("/opt/../../../opt/dep", {"/opt/dep/setup.py": ""}, False),
        ("/opt/\0dep", {}, False),
    ],
)
def test_the_folder_of_a_local_project_is_a_project(tmp_path: Path, folder: str, more: Nodes, *, told: bool) -> None:
    """One that is gone, and one that never was a project, say nothing of where it came from."""
    nodes = {**distribution(SITE, "dep", FILES), **from_folder(folder), **more}

    assert kinds(audited(tmp_path, nodes, tracked=USES)) == ({Sign.PROVENANCE} if told else set())


def test_the_strict_mode_of_setuptools_is_the_repositorys_own(tmp_path: Path) -> None:
    """Its modules are links in a folder of the build, each to a tracked file."""
    links = f"{WORKDIR}/pkg/build/__editable__.dep-1.0-py3-none-any"
    nodes: Nodes = {
        **distribution(SITE, "dep", {"__editable__.dep-1.0.pth": f"{links}\n"}),
        **from_folder(f"{WORKDIR}/pkg", editable=True),
        f"{links}/dep/__init__.py": Link(f"{WORKDIR}/pkg/src/dep/__init__.py"),
    }
    tracked = {**USES, "pkg/pyproject.toml": "", "pkg/src/dep/__init__.py": "A = 1\n"}

    assert audited(tmp_path, nodes, tracked=tracked, published=Index()).findings == ()


@pytest.mark.parametrize(
    ("sources", "told"),
    [
        ({f"src/{path}": content for path, content in FILES.items()}, False),
        ({f"src/{path}": content for path, content in FILES.items()} | {"src/dep/core.py": "B = 42\n"}, True),
        ({"src/dep/__init__.py": "A = 1\n", "src/dep/core.py": "B = 2\n"}, True),
        ({}, True),
    ],
    ids=["published", "changed", "more", "unknown"],
)
def test_a_folder_that_is_gone_is_no_matter_where_all_sources_are_the_published_ones(
    tmp_path: Path, sources: dict[str, bytes | str], *, told: bool
) -> None:
    """Whoever builds a library from a folder of temporary files removes it afterwards."""
    nodes = {**distribution(SITE, "dep", FILES), **from_folder("/tmp/dep")}  # noqa: S108 - in the image
    index = Index(sources={"dep": hashes(sources)} if sources else {}, names=("dep",))

    assert kinds(audited(tmp_path, nodes, tracked=USES, published=index)) == ({Sign.PROVENANCE} if told else set())


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({}, True),
        (from_folder("/opt/dep") | {"/opt/dep/pyproject.toml": ""}, True),
        (from_folder("/opt/dep") | {"/opt/dep/setup.py": "", "/opt/dep/.gitignore": ""}, False),
        ({f"{ABOUT}/direct_url.json": '{"url": "https://github.com/a/b", "vcs_info": {"vcs": "git"}}'}, False),
        ({f"{ABOUT}/direct_url.json": '{"url": "https://example.org/dep.whl", "archive_info": {}}'}, False),
        ({f"{ABOUT}/direct_url.json": '{"url": "file:///opt/dep.whl", "archive_info": {}}'}, True),
        ({f"{ABOUT}/direct_url.json": '{"url": "file:///opt/dep", "vcs_info": {"vcs": "git"}}'}, True),
        ({f"{ABOUT}/direct_url.json": '{"url": "file:///opt/dep", "vcs_info": {}}', "/opt/dep/.git/HEAD": ""}, False),
        ({f"{ABOUT}/direct_url.json": '{"url": "http://[", "archive_info": {}}'}, True),
        ({f"{ABOUT}/direct_url.json": "[" * 5000}, True),
    ],
)
def test_what_nobody_publishes_says_where_it_came_from(tmp_path: Path, more: Nodes, *, told: bool) -> None:
    """An index that knows what it does not have, and nothing else that leads to an author: it counts as missing."""
    nodes = {**distribution(SITE, "dep", FILES), **more}

    signs = audited(tmp_path, nodes, tracked=USES, published=Index())

    assert (Sign.STUB in kinds(signs)) is told
    assert list(signs.modules) == (["dep"] if told else [])
    for index in (Index(complete=False), Index(names=("dep",))):
        assert Sign.STUB not in kinds(audited(tmp_path, nodes, tracked=USES, published=index))


def test_what_is_large_is_published_on_a_page_of_its_own_perhaps(tmp_path: Path) -> None:
    """Installers leave no note of `pip install -f URL`: what nobody would write for one import is a remark."""
    files = {**FILES, "dep/_native.so": native("x" * 300_000)}

    signs = audited(tmp_path, distribution(SITE, "dep", files), tracked=USES, published=Index())

    assert signs.findings == ()
    assert len(signs.remarks) == 1


@pytest.mark.parametrize(
    "tracked",
    [
        {f"packages/dep/src/{path}": content for path, content in FILES.items()},
        {"vendor/Dep-1.0.tar.gz": ""},
    ],
)
def test_what_the_repository_has_itself_needs_no_publisher(tmp_path: Path, tracked: dict[str, str]) -> None:
    """Its own packages, and wheels that it brings along."""
    signs = audited(tmp_path, distribution(SITE, "dep", FILES), tracked={**USES, **tracked}, published=Index())

    assert signs.findings == ()


@pytest.mark.parametrize(("content", "told"), [("B = 2\n", False), ("B = 42\n", True)])
def test_a_wheel_of_the_repository_says_what_it_holds(tmp_path: Path, content: str, *, told: bool) -> None:
    """Nobody else has to know it."""
    path = tmp_path / "vendor" / "dep-1.0-py3-none-any.whl"
    path.parent.mkdir()
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in distribution("", "dep", FILES).items():
            archive.writestr(name.lstrip("/"), text)
    tree = (*USES, "vendor/dep-1.0-py3-none-any.whl")
    installed = distribution(SITE, "dep", {**FILES, "dep/core.py": content})

    signs = audited(tmp_path, installed, tracked=USES, published=Index(), also=tree)

    assert kinds(signs) == ({Sign.DISTRIBUTION} if told else set())


@pytest.mark.parametrize("files", [{"dep.py": "A = 42\n"}, {"dep/__init__.py": "A = 42\n"}])
def test_a_stand_in_for_a_wheel_of_the_repository_counts_as_missing(tmp_path: Path, files: dict[str, str]) -> None:
    """It has the name of the wheel, its metadata, and not one of its files. One that was only edited is there."""
    path = tmp_path / "dep-1.0-py3-none-any.whl"
    genuine: dict[str, bytes | str] = {name: text.replace("42", "1") for name, text in files.items()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in distribution("", "dep", {**genuine, "dep_more.py": "B = 2\n"}).items():
            archive.writestr(name.lstrip("/"), text)
    also = (*USES, path.name)

    signs = audited(tmp_path, distribution(SITE, "dep", files), tracked=USES, published=Index(), also=also)
    assert kinds(signs) == {Sign.DISTRIBUTION}
    assert list(signs.modules) == ["dep"]
    edited = distribution(SITE, "dep", {**files, "dep_more.py": "B = 2\n"})
    assert not audited(tmp_path, edited, tracked=USES, published=Index(), also=also).modules


@pytest.mark.parametrize(("copyright", "told"), [("dep", False), ("other", True)])
def test_a_package_of_the_system_is_one_of_the_system(tmp_path: Path, copyright: str, *, told: bool) -> None:  # noqa: A002
    """Every one of Debian's says who may copy it; where that was removed from all of them, nothing is known."""
    path = "/usr/lib/python3/dist-packages/dep.py"
    status = f"{DEBIAN['/var/lib/dpkg/status']!s}Package: dep\nStatus: install ok installed\nVersion: 1\n\n"
    nodes: Nodes = {
        path: "A = 1\n",
        "/var/lib/dpkg/status": status,
        "/var/lib/dpkg/info/dep.md5sums": md5((path, b"A = 1\n")),
        "/var/lib/dpkg/info/dep.list": f"/.\n{path}\n",
        f"/usr/share/doc/{copyright}/copyright": "",
    }
    there: Nodes = {"/usr/share/doc/base-files/copyright": ""}

    signs = audited(tmp_path, nodes, tracked=USES, python="/usr/bin/python3", base=there)

    assert kinds(signs) == ({Sign.STUB} if told else set())
    assert audited(tmp_path, nodes, tracked=USES, python="/usr/bin/python3").findings == ()


@pytest.mark.parametrize(("digest", "told"), [("own", False), ("", True), ("another", True)])
def test_a_package_of_condas_has_the_metadata_as_it_is(tmp_path: Path, digest: str, *, told: bool) -> None:
    """A record that only names it, or has another, is no reason not to ask the index."""
    prefix = "/opt/conda"
    edited = distribution(f"{prefix}/lib/python3.11/site-packages", "dep", {**FILES, "dep/core.py": "B = 42\n"})
    metadata = next(path for path in edited if path.endswith("/METADATA"))
    digests = {"own": hashlib.sha256(edited[metadata]).hexdigest(), "": "", "another": "0" * 64}
    interpreter = DEBIAN["/usr/bin/python3.11"]
    assert isinstance(interpreter, bytes)
    records = {
        "python-3.11.2-0": [("bin/python", hashlib.sha256(interpreter).hexdigest())],
        "dep-1.0-0": [(metadata.removeprefix(f"{prefix}/"), digests[digest])],
    }
    nodes: dict[str, bytes | str | Link | Folder | None] = {
        **edited,
        f"{prefix}/bin/python": interpreter,
        f"{prefix}/lib/python3.11/os.py": "",
        f"{prefix}/conda-meta/history": "",
    }
    for name, files in records.items():
        paths = [{"_path": path, "sha256_in_prefix": sha} for path, sha in files]
        nodes[f"{prefix}/conda-meta/{name}.json"] = json.dumps({"name": name, "paths_data": {"paths": paths}})

    signs = audited(tmp_path, nodes, tracked=USES, python=f"{prefix}/bin/python", published=wheel(FILES))

    assert kinds(signs) == ({Sign.DISTRIBUTION} if told else set())


# --- what was built from the repository's own sources -------------------------------------------------------

OWN = {f"src/{path}": content for path, content in FILES.items() if isinstance(content, str)}


@pytest.mark.parametrize(
    ("files", "told"),
    [
        (FILES, False),
        ({**FILES, "dep/_version.py": "__version__ = '1.0'\n"}, False),
        ({**FILES, "dep/__init__.py": "__version__ = '1.0.post3'\nA = 1\n"}, False),
        ({**FILES, "dep/core.py": "B = 42\n"}, True),
        ({**FILES, "dep/core.py": "__version__ = '1' if open('/opt/x') else '2'\nB = 2\n"}, True),
        ({**FILES, "dep/core.py": "__version__: str = '1.0'\nB = 2\n"}, False),
        ({**FILES, "dep/core.py": "VERSION: typing.Final[str] = '1.0'\nB = 2\n"}, False),
        ({**FILES, "dep/core.py": "version: exec('import os') = '1.0'\nB = 2\n"}, True),
        ({**FILES, "dep/core.py": "version: other[0] = '1.0'\nB = 2\n"}, True),
    ],
)
def test_an_installed_copy_of_the_repositorys_own_is_the_repositorys(
    tmp_path: Path, files: dict[str, bytes | str], *, told: bool
) -> None:
    """Its RECORD fits whatever was done to it. Builds write versions into sources, and nothing else."""
    own = {**OWN, "src/dep/__init__.py": "__version__ = '0'\nA = 1\n"} if files["dep/__init__.py"] != "A = 1\n" else OWN
    for noted in ({}, from_folder(WORKDIR)):
        nodes = distribution(SITE, "dep", files)
        nodes |= {f"{SITE}/{path}": str(text).encode() for path, text in noted.items()}
        signs = audited(tmp_path, nodes, tracked={**USES, **own}, published=Index())

        assert kinds(signs) == ({Sign.DISTRIBUTION} if told else set())


EDITED = {**FILES, "dep/core.py": "B = 42\n"}
ELSEWHERE = f"{ABOUT}/direct_url.json"


@pytest.mark.parametrize(
    ("files", "noted", "told"),
    [
        (EDITED, from_folder(WORKDIR, editable=True), True),
        (FILES, from_folder(WORKDIR, editable=True), False),
        ({"dep_editable.pth": f"{WORKDIR}/src\n"}, from_folder(WORKDIR, editable=True), False),
        (EDITED, {ELSEWHERE: '{"url": "x", "archive_info": {}}'}, True),
        (EDITED, {ELSEWHERE: '{"url": "file:///opt/dep-1.0-py3-none-any.whl", "archive_info": {}}'}, True),
        (FILES, {ELSEWHERE: '{"url": "file:///opt/dep-1.0-py3-none-any.whl", "archive_info": {}}'}, False),
        (EDITED, {ELSEWHERE: f'{{"url": "file://{WORKDIR}", "vcs_info": {{"vcs": "git"}}}}'}, True),
        (EDITED, {ELSEWHERE: '{"url": "https://host.example/dep.git", "vcs_info": {"vcs": "git"}}'}, False),
    ],
)
def test_that_a_copy_of_the_repositorys_own_came_from_elsewhere_is_not_just_believed(
    tmp_path: Path, files: dict[str, bytes | str], noted: dict[str, bytes | str], *, told: bool
) -> None:
    """Nor that it is laid open in place: what it has in its site folder is compared all the same."""
    nodes: Nodes = {**distribution(SITE, "dep", files), **noted, f"{WORKDIR}/.git/config": ""}

    signs = audited(tmp_path, nodes, tracked={**USES, **OWN, "setup.py": ""}, published=Index())

    assert (Sign.DISTRIBUTION in kinds(signs)) is told


@pytest.mark.parametrize(
    ("more", "tracked", "told"),
    [
        ({"dep/__init__.cpython-311-x86_64-linux-gnu.so": b"\x7fELF"}, {}, True),
        ({"dep/core.abi3.so": b"\x7fELF"}, {}, True),
        ({"dep/core.abi3.so": b"\x7fELF"}, {"csrc/x.cpp": ""}, True),
        ({"dep/core.abi3.so": b"\x7fELF"}, {"src/dep/core.pxd": ""}, False),
        ({"dep/core.abi3.so": b"\x7fELF"}, {"setup.py": "mypycify()"}, False),
        ({"dep/_C.so": b"\x7fELF"}, {"csrc/x.cpp": ""}, False),
        ({"dep/core.pyc": b"x"}, {}, False),
        ({"dep/own.pyc": b"x"}, {"src/dep/own.py": ""}, True),
        ({"dep/core/__init__.py": "B = 2\n"}, {}, True),
        ({"dep/made_pb2.py": "B = 2\n"}, {}, False),
    ],
)
def test_nothing_goes_before_the_repositorys_own_sources_in_a_copy(
    tmp_path: Path, more: dict[str, bytes | str], tracked: dict[str, str], *, told: bool
) -> None:
    """All of them may be there as they are tracked, and Python takes what is compiled, or a folder."""
    nodes = distribution(SITE, "dep", {**FILES, **more})

    signs = audited(tmp_path, nodes, tracked={**USES, **OWN, **tracked}, published=Index())

    assert kinds(signs) == ({Sign.DISTRIBUTION} if told else set())


def test_a_published_one_of_the_same_names_is_no_copy(tmp_path: Path) -> None:
    """A repository may bring along what it changed; who installs the published one has that."""
    own = {**OWN, "src/dep/core.py": "B = 'patched'\n"}
    nodes = distribution(SITE, "dep", FILES)

    assert kinds(audited(tmp_path, nodes, tracked={**USES, **own}, published=wheel(FILES))) == set()
    assert kinds(audited(tmp_path, nodes, tracked={**USES, **own}, published=Index(complete=False))) == set()


@pytest.mark.parametrize("name", ["dep.cpython-311-x86_64-linux-gnu.so", "dep.so", "dep.pyc"])
@pytest.mark.parametrize("more", [{}, {"setup.py": "cythonize"}])
def test_a_tracked_files_name_is_no_witness_for_what_has_no_source(
    tmp_path: Path, name: str, more: dict[str, str]
) -> None:
    """A repository that compiles nothing has no compiled module of its own, whatever lies beside one."""
    nodes = distribution(SITE, "dep", {"run.py": USES["run.py"], name: b"\x7fELF"})

    signs = audited(tmp_path, nodes, tracked={**USES, **more}, published=Index())

    assert (Sign.STUB in kinds(signs)) is not bool(more)
