"""Whether distributions are what was published, and where they came from. No Docker."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_researchenv.integrity import outside
from pytest_researchenv.model import Sign
from pytest_researchenv.sandbox.fake import Folder, Link
from tests.unit.integrity.images import DEBIAN, SITE, WORKDIR, Nodes, distribution, md5
from tests.unit.integrity.sites import Index, audited, kinds, native, torch


USES = {"run.py": "import dep\n"}
ABOUT = f"{SITE}/dep-1.0.dist-info"
NATIVE = "cp311-cp311-manylinux_2_17_x86_64"
FILES: dict[str, bytes | str] = {"dep/__init__.py": "A = 1\n", "dep/core.py": "B = 2\n", "dep/more.py": "C = 3\n"}


def hashes(files: Mapping[str, bytes | str]) -> dict[str, str]:
    """Path → SHA-256."""
    raw = {path: content.encode() if isinstance(content, str) else content for path, content in files.items()}
    return {path: hashlib.sha256(content).hexdigest() for path, content in raw.items()}


def wheel(files: Mapping[str, bytes | str], name: str = "dep", version: str = "1.0") -> Index:
    """An index whose only wheel has some files, and the WHEEL that `distribution` writes."""
    about = f"{name}-{version}.dist-info/WHEEL"
    installed = distribution("", name, {}, version)
    return Index(wheels={name: hashes({**files, about: installed[f"/{about}"]})})


def from_folder(folder: str, *, editable: bool = False) -> dict[str, bytes | str]:
    """The note that pip leaves of what was installed from a folder."""
    info = {"editable": True} if editable else {}
    return {f"{ABOUT}/direct_url.json": json.dumps({"url": f"file://{folder}", "dir_info": info})}


# --- what was published -----------------------------------------------------------------------------------


def test_what_was_published_raises_nothing(tmp_path: Path) -> None:
    """Data of a wheel that goes elsewhere is not looked for."""
    index = wheel({**FILES, "dep-1.0.data/scripts/run.py": "x"})

    signs = audited(tmp_path, distribution(SITE, "dep", FILES), tracked=USES, published=index)

    assert (signs.findings, signs.remarks) == ((), ())


def test_a_module_that_only_a_process_finds(tmp_path: Path) -> None:
    """Nothing can be said of what is there."""
    nodes: Nodes = {**distribution(SITE, "dep", FILES), f"{SITE}/dep/core.py": Link("/proc/self/root/opt/core.py")}

    assert Sign.UNREADABLE in kinds(audited(tmp_path, nodes, tracked=USES, published=wheel(FILES)))


def test_a_folder_that_is_named_like_those_of_data_is_code_like_any_other(tmp_path: Path) -> None:
    """What a wheel has in `dep-1.0.data` is installed elsewhere, so that nothing of the kind is in a site folder."""
    for folder in ("dep.data", "dep-1.0.data"):
        nodes = {**distribution(SITE, "dep", {**FILES, f"{folder}/other.py": "X = 1\n"}), f"{SITE}/x.pth": folder}

        signs = audited(tmp_path, nodes, tracked={"run.py": "import other\n"}, published=wheel(FILES))

        assert Sign.DISTRIBUTION in kinds(signs)
        assert "other" in signs.modules


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"dep/core.py": "B = 42\n"}, "other files: dep/core.py"),
        ({"dep/extra.py": ""}, "more files: dep/extra.py"),
        ({"dep/core.so": native()}, "more files: dep/core.so"),
        ({"dep/libstdc++.so.6": native()}, "more files: dep/libstdc++.so.6"),
        ({"dep/bin/helper": "x"}, "other files: dep/bin/helper"),
    ],
)
def test_a_rewritten_record_hides_nothing(tmp_path: Path, change: dict[str, str], words: str) -> None:
    """The record fits what is there, and the index knows better."""
    published = {**FILES, "dep/bin/helper": "published"}
    installed = distribution(SITE, "dep", {**published, **change})

    signs = audited(tmp_path, installed, tracked=USES, published=wheel(published))

    assert kinds(signs) == {Sign.DISTRIBUTION}
    assert signs.findings[0].observed == words
    assert not signs.modules


def test_what_is_listed_in_anothers_rewritten_record_is_not_theirs(tmp_path: Path) -> None:
    """A module that the published distribution does not have counts as missing."""
    installed = distribution(SITE, "tool", {"tool.py": "", "dep.py": ""})

    signs = audited(tmp_path, installed, tracked=USES, published=wheel({"tool.py": ""}, "tool"))

    assert kinds(signs) == {Sign.DISTRIBUTION}
    assert list(signs.modules) == ["dep"]


def test_a_wheel_may_hold_another_file_than_its_record_says(tmp_path: Path) -> None:
    """Installers do not compare, so the wheel itself is asked before anybody is accused."""
    changed = {**FILES, "dep/core.py": "B = 'another build'\n"}
    index = wheel(FILES)
    index = Index(wheels=index.wheels, really=hashes({"dep/core.py": changed["dep/core.py"]}))

    assert audited(tmp_path, distribution(SITE, "dep", changed), tracked=USES, published=index).findings == ()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({}, False),
        ({"dep/core.py": "B = 'as the sources have it'\n"}, False),
        ({"dep/core.py": "B = 42\n"}, True),
        ({"dep/_version.py": "version: str = '1.0'\n__all__ = ['version']\n"}, False),
        ({"dep/_version.py": "import json\ndef get_versions():\n    return json.loads('{}')\n"}, False),
        ({"dep/_version.py": "import os\nos._exit(0)\n"}, True),
        ({"dep/_version.py": "from os import *\n"}, True),
        ({"dep/_version.py": "@print\ndef f(): ...\n"}, True),
        ({"dep/_version.py": "import typing\nif typing.TYPE_CHECKING:\n    v: typing.Optional[str]\n"}, False),
        ({"dep/_version.py": "import typing\ndef f(): ...\ntyping.sys.modules['os'] = f\n"}, True),
        ({"dep/_version.py": "def f(): ...\n__builtins__['open'] = f\n"}, True),
        ({"dep/new.py": "import os\n"}, True),
    ],
)
def test_what_was_built_on_the_spot_is_compared_with_the_sources(
    tmp_path: Path, change: dict[str, str], *, told: bool
) -> None:
    """Its WHEEL is its own; a source may be the published wheel's or the published sources', or only say a version."""
    rebuilt = distribution(SITE, "dep", {**FILES, **change})
    index = Index(
        wheels={"dep": hashes({**FILES, "dep-1.0.dist-info/WHEEL": "Generator: another\n"})},
        sources={
            "dep": hashes({"src/dep/core.py": "B = 'as the sources have it'\n", "src/dep/__init__.py": "A = 1\n"})
        },
    )

    assert kinds(audited(tmp_path, rebuilt, tracked=USES, published=index)) == ({Sign.DISTRIBUTION} if told else set())


@pytest.mark.parametrize(
    ("files", "direct", "words"),
    [
        (FILES, "", ""),
        ({**FILES, "dep/core.py": "B = 42\n"}, "", "other files: dep/core.py"),
        ({**FILES, "dep/core.py": "B = 42\n"}, "git+https://example.org/dep", ""),
        ({"dep/__init__.py": ""}, "git+https://example.org/dep", "only 1 of its 3 sources are there"),
        ({"dep/__init__.py": ""}, "", "only 1 of its 3 sources are there"),
    ],
)
def test_what_has_no_wheel_is_compared_with_the_sources(
    tmp_path: Path, files: dict[str, bytes | str], direct: str, words: str
) -> None:
    """What came from elsewhere may be of another day, and not a hollow thing with the same name."""
    nodes: dict[str, bytes | str] = {**distribution(SITE, "dep", files)}
    if direct:
        nodes |= {
            f"{ABOUT}/direct_url.json": json.dumps({"url": direct.removeprefix("git+"), "vcs_info": {"vcs": "git"}})
        }
    index = Index(sources={"dep": hashes({**FILES, "setup.py": "", "tests/test_dep.py": "", "docs/conf.py": ""})})

    signs = audited(tmp_path, nodes, tracked=USES, published=index)

    assert [finding.observed for finding in signs.findings] == ([words] if words else [])
    assert list(signs.modules) == (["dep"] if words.startswith("only") else [])


def test_a_framework_is_the_published_one_wherever_it_came_from(tmp_path: Path) -> None:
    """No note of where it came from excuses it."""
    forged = {**torch(), "torch/cuda/__init__.py": "def is_available(): return True\n"}
    note = '{"url": "https://example.org/t", "vcs_info": {"vcs": "git"}}'
    nodes: Nodes = {**distribution(SITE, "torch", forged), f"{SITE}/torch-1.0.dist-info/direct_url.json": note}

    signs = audited(tmp_path, nodes, tracked={"run.py": "import torch\n"}, published=wheel(torch(), "torch"))

    assert kinds(signs) == {Sign.FRAMEWORK}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({}, False),
        ({"torch/version.py": "__version__ = '1.0+cpu'\ncuda: str | None = None\n"}, False),
        ({"torch/lib/libc10.so": native("for another device")}, False),
        ({"torch/cuda/__init__.py": "def is_available(): return True\n"}, True),
        ({"torch/more.py": "import os\n"}, True),
    ],
)
def test_a_build_for_other_devices_has_the_same_sources(tmp_path: Path, change: dict[str, str], *, told: bool) -> None:
    """The index does not have its files, and has another of the same version; that no more was seen is said."""
    files = {**torch(), "torch/version.py": "__version__ = '1.0'\n", "torch/lib/libc10.so": native()}
    installed = distribution(SITE, "torch", {**files, **change}, version="1.0+cpu")
    index = Index(wheels={"torch": hashes(files)}, versions=("1.0", "1.0+cpu"))

    signs = audited(tmp_path, installed, tracked={"run.py": "import torch\n"}, published=index)

    assert kinds(signs) == ({Sign.FRAMEWORK} if told else set())
    assert list(signs.modules) == (["torch"] if told else [])
    assert [remark[:39] for remark in signs.remarks] == ([] if told else ["only the sources of torch 1.0+cpu were "])


@pytest.mark.parametrize(
    ("name", "version", "told"),
    [
        ("torch", "1.0+cu999", True),
        ("torch", "1.0+rocm9.9.9", True),
        ("torchvision", "1.0+cpu.cxx11.abi", True),
        ("torch", "1.0.dev20250101+cu128", False),
        ("torch", "1.0a0+gitdeadbee", False),
        ("torch", "1.0+cu12.nv24.5", False),
        ("triton", "1.0+cu999", False),
    ],
)
def test_a_build_of_torchs_that_its_own_index_does_not_have(
    tmp_path: Path, name: str, version: str, *, told: bool
) -> None:
    """It counts as missing however large it is; vendors and whoever builds it have labels of their own."""
    files = {**torch(), "torch/lib/libc10.so": native("forged")}
    index = Index(wheels={name: hashes(files)}, names=(name,))

    signs = audited(
        tmp_path, distribution(SITE, name, files, version), tracked={"run.py": "import torch\n"}, published=index
    )

    assert (kinds(signs) == {Sign.STUB}, "torch" in signs.modules) == (told, told)
    assert told or signs.findings == () or name == "triton"
    unknown = replace(index, complete=False, names=())
    signs = audited(
        tmp_path, distribution(SITE, name, files, version), tracked={"run.py": "import torch\n"}, published=unknown
    )
    assert Sign.STUB not in kinds(signs)
    assert signs.remarks


def test_what_is_hardly_there_is_not_what_it_says(tmp_path: Path) -> None:
    """A file or two with the name and version of a large distribution: its modules count as missing."""
    more = {f"dep/part{number}.py": "" for number in range(9)}

    signs = audited(tmp_path, distribution(SITE, "dep", FILES), tracked=USES, published=wheel({**FILES, **more}))
    assert signs.findings == ()
    small = {"dep/__init__.py": "B = 42\n", "dep/core.py": "B = 42\n"}
    signs = audited(tmp_path, distribution(SITE, "dep", small), tracked=USES, published=wheel({**FILES, **more}))

    assert [finding.observed for finding in signs.findings] == ["only 2 of its 12 files are there"]
    assert list(signs.modules) == ["dep"]


def test_what_a_framework_needs_is_compared_too(tmp_path: Path) -> None:
    """It runs in the same process. That nothing is known of it is no remark."""
    needs = f"{SITE}/torch-1.0.dist-info/METADATA"
    installed = {**distribution(SITE, "torch", torch()), **distribution(SITE, "dep", {"dep/core.py": "forged"})}
    installed[needs] += b'Requires-Dist: Dep (>=1) ; extra == "x"\n'
    index = Index(wheels={**wheel(torch(), "torch").wheels, **wheel(FILES).wheels})

    signs = audited(tmp_path, installed, frameworks=("torch",), published=index)

    assert [(finding.kind, finding.field) for finding in signs.findings] == [(Sign.DISTRIBUTION, "dep 1.0")]


@pytest.mark.parametrize("needs", ["Requires-Dist: other\n", ""])
def test_what_nothing_says_that_it_is_needed_is_compared_too(tmp_path: Path, needs: str) -> None:
    """Metadata is no witness of what code imports, and frameworks import much that they can do without."""
    installed: Nodes = {
        **distribution(SITE, "dep", FILES),
        **distribution(SITE, "middle", {"middle.py": ""}),
        **distribution(SITE, "other", {"other.py": "import os\n"}),
        f"{SITE}/middle-1.0.dist-info/METADATA": f"Name: middle\nVersion: 1.0\n{needs}",
    }
    index = Index(wheels={**wheel(FILES).wheels, **wheel({"other.py": ""}, "other").wheels}, names=("middle",))

    signs = audited(tmp_path, installed, tracked=USES, published=index)

    assert [finding.field for finding in signs.findings if finding.kind is Sign.DISTRIBUTION] == ["other 1.0"]


@pytest.mark.parametrize(("importing", "told"), [("import numpy as np\n", True), ("A = 1\n", False)])
def test_what_nobody_publishes_and_distributions_import(tmp_path: Path, importing: str, *, told: bool) -> None:
    """It stands in for what they can do without; what only its own author imports is nobody's business."""
    files = {**FILES, "dep/core.py": importing}
    own = distribution(SITE, "own", {"numpy/__init__.py": "import numpy.part\n", "numpy/part.py": ""})

    signs = audited(tmp_path, {**distribution(SITE, "dep", files), **own}, tracked=USES, published=wheel(files))

    assert kinds(signs) == ({Sign.DISTRIBUTION} if told else set())


@pytest.mark.parametrize("version", ["1.1", "1.0+local"])
def test_a_version_that_nobody_publishes(tmp_path: Path, version: str) -> None:
    """The name alone is no origin."""
    signs = audited(tmp_path, distribution(SITE, "dep", FILES, version), tracked=USES, published=Index(names=("dep",)))

    assert kinds(signs) == {Sign.STUB}
    assert list(signs.modules) == ["dep"]


def test_what_is_not_known_is_a_remark(tmp_path: Path) -> None:
    """Nobody is accused for an index that does not answer."""
    installed = {**distribution(SITE, "dep", FILES), **distribution(SITE, "torch", torch())}

    signs = audited(tmp_path, installed, tracked=USES, frameworks=("torch",), published=Index(complete=False))

    assert signs.findings == ()
    assert signs.remarks == ("no wheel of torch", "no wheel of dep")


# --- where it came from -----------------------------------------------------------------------------------


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


# --- what the proxy wrote down ----------------------------------------------------------------------------


def got(host: str, path: str) -> list[dict[str, object]]:
    """A request that an agent got an answer to, as the proxy writes it down."""
    return [{"kind": "egress", "method": "GET", "host": host, "path": path, "allowed": True}]


GIT = json.dumps({"url": "https://git.example/dep", "vcs_info": {"vcs": "git"}})
CHECKOUT = json.dumps({"url": "file:///opt/dep", "dir_info": {}})


@pytest.mark.parametrize(
    ("network", "requests", "git", "checkout"),
    [
        ("open", [], False, False),
        ("none", [], True, True),
        ("allowlist", None, False, False),
        ("allowlist", [], True, True),
        ("allowlist", got("pypi.org", "/simple/dep/"), True, True),
        ("allowlist", got("files.pythonhosted.org", "/packages/dep-1.0.tar.gz"), True, True),
        ("allowlist", [{**got("git.example", "/dep/info/refs")[0], "allowed": False}], True, True),
        ("allowlist", got("git.example", "/dep/info/refs?service=git-upload-pack"), False, False),
        ("allowlist", got("git.example", "/page"), False, True),
        ("allowlist", got("mirror.example", "/dep/archive/main.zip"), False, False),
        ("allowlist", got("tunnel.example", ""), False, False),
        ("allowlist", got("hub.example", "/api/models/x"), True, True),
        ("allowlist", [{"kind": "egress"}, {"kind": "model"}], True, True),
    ],
)
@pytest.mark.parametrize("names", [(), ("dep",)], ids=["nobodys", "published"])
def test_where_nothing_was_fetched_from_nothing_came(
    tmp_path: Path,
    network: str,
    requests: list[dict[str, object]] | None,
    names: tuple[str, ...],
    *,
    git: bool,
    checkout: bool,
) -> None:
    """A note of a Git host or of a checkout is anybody's to write; what the proxy wrote down is not."""
    records = tmp_path / "records"
    records.mkdir()
    if requests is not None:
        (records / "requests.jsonl").write_text("".join(json.dumps(line) + "\n" for line in requests))
    project: Nodes = {"/opt/dep/.gitignore": "", "/opt/dep/setup.py": "", "/opt/dep/.git/HEAD": "ref: x"}
    index = Index(names=names)

    for note, told, more in ((GIT, git, {}), (CHECKOUT, checkout, project)):
        nodes: Nodes = {
            **distribution(SITE, "dep", FILES, "9.9"),
            f"{SITE}/dep-9.9.dist-info/direct_url.json": note,
            **more,
        }
        signs = audited(tmp_path / "tree", nodes, tracked=USES, published=index, network=network, records=records)
        assert (Sign.STUB in kinds(signs), list(signs.modules)) == (told, ["dep"] if told else [])


@pytest.mark.parametrize(
    ("hosts", "told"), [(["pypi.org"], True), (["pypi.org", "git.example"], False), (["pypi.org"] * 30, False)]
)
def test_many_requests_hide_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hosts: list[str], *, told: bool
) -> None:
    """After so many, the proxy tells of each host once: from one that is no index may have come anything."""
    monkeypatch.setattr(outside, "_FULL", 5)
    monkeypatch.setattr(outside, "_MOST", 20)
    records = tmp_path / "records"
    records.mkdir()
    every = [*got("pypi.org", "/simple/x/") * 5, *(one for host in hosts for one in got(host, "/page"))]
    (records / "requests.jsonl").write_text("".join(json.dumps(line) + "\n" for line in every))
    nodes: Nodes = {**distribution(SITE, "dep", FILES, "9.9"), f"{SITE}/dep-9.9.dist-info/direct_url.json": GIT}

    signs = audited(tmp_path / "tree", nodes, tracked=USES, published=Index(), network="allowlist", records=records)

    assert (Sign.STUB in kinds(signs)) is told


def test_what_is_the_repositorys_or_published_needs_not_be_fetched(tmp_path: Path) -> None:
    """Nor does what the base image has."""
    project: Nodes = {"/opt/dep/.git/HEAD": "ref: x", "/opt/dep/setup.py": ""}
    noted = {f"{ABOUT}/direct_url.json": CHECKOUT}
    own = {f"packages/{path}": content for path, content in FILES.items()}
    every: Nodes = {**distribution(SITE, "dep", FILES), **noted}

    def told(**options: object) -> set[Sign]:
        return kinds(audited(tmp_path, network="none", **{"tracked": USES, "nodes": {**every, **project}, **options}))  # type: ignore[arg-type]

    assert told(published=Index()) == {Sign.STUB}
    assert told(published=Index(), nodes=every, base=project) == set()
    assert told(published=Index(), tracked={**USES, **own}) == set()
    assert told(published=Index(sources={"dep": hashes(FILES)})) == set()
    assert told(published=Index(complete=False)) == set()


@pytest.mark.parametrize(("network", "told"), [("open", False), ("none", True)])
def test_what_is_large_and_of_no_index_was_fetched(tmp_path: Path, network: str, *, told: bool) -> None:
    """Vendors and whoever builds torch have versions that no index has; without a clone or an archive nobody has."""
    files = distribution(SITE, "torch", torch(), "1.0a0+gitdeadbee")
    index = Index(names=("torch",))

    signs = audited(tmp_path, files, tracked={"run.py": "import torch\n"}, published=index, network=network)

    assert (kinds(signs), list(signs.modules)) == (({Sign.STUB}, ["torch"]) if told else (set(), []))


@pytest.mark.parametrize(("network", "told"), [("open", False), ("none", True)])
def test_what_distutils_installed_was_published_or_fetched(tmp_path: Path, network: str, *, told: bool) -> None:
    """It leaves no note of where it came from. A version that is published needs none."""
    about = f"{SITE}/dep-9.9.egg-info"
    nodes: Nodes = {
        f"{SITE}/dep.py": "A = 1\n",
        f"{about}/PKG-INFO": "Name: dep\nVersion: 9.9\n",
        f"{about}/top_level.txt": "dep\n",
    }

    def seen(*versions: str) -> set[Sign]:
        index = Index(names=("dep",), versions=versions)
        return kinds(audited(tmp_path, nodes, tracked=USES, published=index, network=network))

    assert (Sign.STUB in seen("1.0")) is told
    assert Sign.STUB not in seen("1.0", "9.9")


def test_a_path_leads_to_a_project_that_was_fetched(tmp_path: Path) -> None:
    """Or to one of the agent's own, which is a stand-in whatever lies beside it."""
    nodes: Nodes = {f"{SITE}/dep.pth": "/opt/dep\n", "/opt/dep/dep.py": "A = 1\n", "/opt/dep/setup.py": ""}
    nodes = {**nodes, "/opt/dep/.git/HEAD": "ref: x"}

    assert kinds(audited(tmp_path, nodes, tracked=USES, network="open")) == set()
    assert kinds(audited(tmp_path, nodes, tracked=USES, network="none")) == {Sign.STUB}
