"""Whether distributions are what was published under their name and version. No Docker."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_researchenv.model import Sign
from pytest_researchenv.sandbox.fake import Link
from tests.unit.integrity.dep import ABOUT, FILES, USES, hashes, wheel
from tests.unit.integrity.images import SITE, Nodes, distribution
from tests.unit.integrity.sites import Index, audited, kinds, native, torch


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


@pytest.mark.parametrize("listed", [True, False])
@pytest.mark.parametrize(
    ("name", "told"), [("dep/core.py", True), ("dep/tests/test_core.py", False), ("dep/empty.py", False)]
)
def test_a_source_that_is_not_there_is_told(tmp_path: Path, name: str, *, listed: bool, told: bool) -> None:
    """Others of its package do something else then; whether the RECORD still has it or not. Tests take up room."""
    published = {**FILES, "dep/core.py": "B = 1\n", "dep/tests/test_core.py": "T = 1\n", "dep/empty.py": ""}
    left = {path: text for path, text in published.items() if path != name}
    nodes: Nodes = distribution(SITE, "dep", published if listed else left)

    signs = audited(
        tmp_path,
        {path: node for path, node in nodes.items() if path != f"{SITE}/{name}"},
        tracked=USES,
        published=wheel(published),
    )

    assert kinds(signs) == ({Sign.DISTRIBUTION} if told else set())


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


def test_programs_of_a_framework_that_are_links_into_a_cache_are_compared_there(tmp_path: Path) -> None:
    """Whatever of it is a link, that of which many lead into one folder included; what is another there is told."""
    cache, program = "/opt/cache/archive-v0/abc", "torch/bin/protoc"
    files = {**torch(), **{f"torch/m{number}.py": f"X = {number}\n" for number in range(40)}, program: "published"}
    held: Nodes = {f"{cache}/{path}": content for path, content in files.items()}
    links: Nodes = {f"{SITE}/{path}": Link(f"{cache}/{path}") for path in files}
    nodes: Nodes = {**distribution(SITE, "torch", files), **held, **links}

    def told(nodes: Nodes) -> set[Sign]:
        signs = audited(tmp_path, nodes, tracked={"run.py": "import torch\n"}, published=wheel(files, "torch"))
        return kinds(signs)

    assert told(nodes) == set()
    assert told({**nodes, f"{cache}/{program}": "another"}) == {Sign.FRAMEWORK}


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


@pytest.mark.parametrize(
    "own",
    [
        {**distribution(SITE, "own", {}), f"{SITE}/own-1.0.dist-info/top_level.txt": "numpy\n"}
        | {f"{SITE}/numpy/__init__.py": ""},
        {f"{SITE}/own-1.0-py3.11.egg/numpy/__init__.py": "", f"{SITE}/x.pth": "./own-1.0-py3.11.egg\n"}
        | {f"{SITE}/own-1.0-py3.11.egg/EGG-INFO/PKG-INFO": "Name: own\nVersion: 1.0\n"},
    ],
)
def test_what_nobody_publishes_and_only_says_that_it_has_a_module(tmp_path: Path, own: Nodes) -> None:
    """Its files are listed nowhere, be they in a folder that it names, or in one of its own."""
    files = {**FILES, "dep/core.py": "import numpy\n"}

    signs = audited(tmp_path, {**distribution(SITE, "dep", files), **own}, tracked=USES, published=wheel(files))

    assert kinds(signs) == {Sign.DISTRIBUTION}


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


_EXTENDING = "__path__ = __import__('pkgutil').extend_path(__path__, __name__)\n"


@pytest.mark.parametrize(
    ("gone", "is_told"),
    [
        ("backports/__init__.py", False),
        ("docs/conf.py", False),
        ("scripts/run.py", False),
        ("dep/tests/helper.py", False),
        ("dep/docs/conf.py", True),
        ("dep/core.py", True),
    ],
)
def test_nobody_misses_what_another_distribution_took_along(tmp_path: Path, gone: str, *, is_told: bool) -> None:
    """What several have goes with the first that is uninstalled: files of namespaces, and folders by mistake."""
    files = {
        "dep/__init__.py": "A = 1\n",
        "dep/core.py": "B = 1\n",
        "dep/docs/conf.py": "C = 1\n",
        "dep/tests/helper.py": "D = 1\n",
        "backports/__init__.py": _EXTENDING,
        "backports/dep.py": "E = 1\n",
        "docs/conf.py": "F = 1\n",
        "scripts/run.py": "G = 1\n",
    }
    nodes = {path: node for path, node in distribution(SITE, "dep", files).items() if path != f"{SITE}/{gone}"}

    signs = audited(tmp_path, nodes, tracked={"run.py": "import dep\n"}, published=wheel(files))

    assert bool(signs.findings) is is_told
