"""C0 on real pyright in real containers, and attacks on it.

The packages that these environments hold are made here: nothing is downloaded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import docker
import pytest

from pytest_researchenv.errors import InfrastructureError
from pytest_researchenv.model import Cause, TierResult, Verdict
from pytest_researchenv.sandbox.labels import Owner
from pytest_researchenv.sandbox.protocol import Mount
from pytest_researchenv.sandbox.tools import TARGET


FULL = "/opt/full/bin/python"

#: A project with one package, to be installed as editable.
PROJECT = """\
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"
[project]
name = "spaced.part"
version = "1"
[tool.setuptools]
packages = ["spaced.part"]
"""

Freeze = Callable[[str, Mapping[str, str], str], str]
Judge = Callable[..., TierResult]


def test_a_package_of_which_only_stubs_are_bundled_is_missing(judge: Judge) -> None:
    """Pyright brings stubs of yaml and requests: that does not make them installed."""
    result = judge({"main.py": "import json\nimport requests\nimport yaml\n", "pkg/__init__.py": "import yaml\n"})

    assert (result.verdict, result.cause) == (Verdict.FAILED, Cause.MISSING_IMPORTS)
    assert result.reason == "2 of 3 imports missing: requests, yaml"
    assert result.evidence["missing"] == ["requests", "yaml"]
    assert result.evidence["missing_published"] == []
    assert result.decisive == 'main.py:2: Import "requests" could not be resolved from source'


def test_nothing_in_the_repository_silences_a_report(judge: Judge) -> None:
    """Comments, directives and the repository's own configuration of pyright count for the published figure alone."""
    result = judge(
        {
            "a.py": "import absent_a  # type: ignore\n",
            "b.py": "import absent_b  # noqa: F401  # pyright: ignore[reportMissingImports]\n",
            "c.py": "# type: ignore\nimport absent_c\n",
            "d.py": "# pyright: basic, reportMissingImports=false\nimport absent_d\n",
            "e.py": "import absent_e # pyright:ignore\n",
            "pyrightconfig.json": '{"reportMissingImports": false, "exclude": ["**"]}',
            "pyproject.toml": '[tool.pyright]\nreportMissingImports = false\nignore = ["**"]\n',
            "typings/absent_a.pyi": "",
        }
    )

    assert result.evidence["missing"] == ["absent_a", "absent_b", "absent_c", "absent_d", "absent_e"]
    assert result.evidence["missing_published"] == []
    assert result.evidence["published_selection"] == "pyrightconfig.json"
    assert result.evidence["published_ratio"] == "0/5"


def test_the_published_figure_is_of_the_published_selection(judge: Judge) -> None:
    """Of `src` and `tests` here, without what comments silence, over all names; the verdict is of everything."""
    result = judge(
        {
            "setup.py": "import absent_a\n",
            "src/pkg/__init__.py": "import absent_b\nimport absent_c  # type: ignore\n",
            "src/pkg/old.py": "import absent_d.x\nprint 'hello'\n",
            "tests/test_x.py": "\ufeffimport absent_e\n",
            "typings/absent_b.pyi": "",
            "docs/pkg/__init__.py": "import absent_f\n",
        }
    )

    assert result.evidence["missing"] == [f"absent_{letter}" for letter in "abcef"]
    assert result.evidence["total"] == 5
    assert result.evidence["missing_published"] == ["absent_d", "absent_e"]
    assert result.evidence["published_selection"] == "src and tests"
    assert result.evidence["published_ratio"] == "2/4"


def test_an_editable_install_through_a_finder_is_not_missing(judge: Judge) -> None:
    """What only the interpreter finds is recorded with its finder, and counts in the published figure alone."""
    result = judge({"pkg/__init__.py": "import ext\n"}, python=FULL)

    assert result.verdict is Verdict.PASSED
    assert result.evidence["missing_published"] == ["ext"]
    assert result.evidence["runtime_only"] == ["ext: _EditableFinder /elsewhere/ext/__init__.py"]


def test_an_untracked_stand_in_is_missing(judge: Judge, freeze: Freeze, image: str) -> None:
    """An agent's empty module in the repository's folder is no package."""
    snapshot = freeze(image, {"workspace/project/flash_attn.py": "", "workspace/project/apex/amp.py": ""}, "true")

    result = judge({"main.py": "import apex.amp\nimport flash_attn\n"}, snapshot=snapshot)

    assert result.verdict is Verdict.FAILED
    assert result.evidence["stand_ins"] == [
        "apex: only an untracked stand-in, apex/amp.py",
        "flash_attn: only an untracked stand-in, flash_attn.py",
    ]


def test_a_stand_in_that_pyright_itself_finds_is_missing(judge: Judge, freeze: Freeze, image: str) -> None:
    """A .pth entry, as an editable install makes one, leads pyright into the agent's folder."""
    script = "cd /opt/bare/lib/python3*/site-packages && echo /workspace/project/src > project.pth"
    snapshot = freeze(image, {"workspace/project/src/flash_attn.py": ""}, script)

    result = judge({"pkg/__init__.py": "import flash_attn\n"}, snapshot=snapshot)

    assert result.evidence["missing_published"] == []
    assert result.evidence["published_ratio"] == "0/1"
    assert result.reason.endswith("flash_attn (only an untracked stand-in, src/flash_attn.py)")


def test_what_is_built_or_installed_below_the_repository_is_no_stand_in(
    judge: Judge, freeze: Freeze, base_image: str
) -> None:
    """Extensions compiled in place and an environment in the repository's own folder are an agent's good work."""
    script = """\
set -e
cd /workspace/project
python3 -m venv --without-pip .venv
touch "$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/installed.py"
cp /usr/lib/python3*/lib-dynload/_json.*.so "kernels$(python3 -c '
import sysconfig; print(sysconfig.get_config_var("EXT_SUFFIX"))')"
"""
    snapshot = freeze(base_image, {"workspace/project/README": ""}, script)

    result = judge(
        {"main.py": "import installed\nimport kernels\n"},
        snapshot=snapshot,
        python="/workspace/project/.venv/bin/python",
    )

    assert result.verdict is Verdict.PASSED, result.reason
    assert result.evidence["stand_ins"] == []


def test_a_folder_without_modules_satisfies_no_import(judge: Judge, freeze: Freeze, image: str) -> None:
    """Python takes any folder for a namespace package; a folder of data is none."""
    snapshot = freeze(image, {"workspace/project/datasets/train.json": "{}"}, "true")

    result = judge({"main.py": "import datasets\n"}, snapshot=snapshot)

    assert result.evidence["missing"] == ["datasets"]
    assert result.evidence["stand_ins"] == []


def test_own_packages_resolve_as_when_run(judge: Judge) -> None:
    """The root, `src` and a script's own folder are on the path; relative imports that fail do not count."""
    result = judge(
        {
            "top.py": "import inner\nimport tools.helpers\nfrom . import nothing\nfrom .absent import x\n",
            "src/inner/__init__.py": "from . import absent\n",
            "tools/helpers.py": "",
            "scripts/run.py": "import registry\nimport top\nfrom parts.one import value\n",
            "scripts/registry.py": "",
            "scripts/parts/one.py": "value = 1\n",
        }
    )

    assert (result.verdict, result.reason) == (Verdict.PASSED, "0 of 5 imports missing")


def test_every_counted_file_is_analysed_and_no_other(judge: Judge) -> None:
    """Odd names count, excluded and hidden folders do not; what is no Python is named and not judged."""
    result = judge(
        {
            ".hidden/a.py": "import absent_a\n",
            "with space/é.py": "import absent_b\n",
            "build/c.py": "import absent_c\n",
            "venv/lib/d.py": "import absent_d\n",
            "old.py": "import absent_e\nprint 'hello'\n",
            "null.py": "import absent_f\0\n",
            "__init__.py": "",
            "main.py": "import build.c\n",
        }
    )

    assert result.evidence["missing"] == ["absent_b"]
    assert result.evidence["total"] == 3
    assert result.evidence["unparsable"] == ["null.py", "old.py"]
    assert result.evidence["missing_published"] == ["absent_b", "absent_e", "absent_f"]


def test_unsatisfiable_names_count_in_the_published_figure_alone(judge: Judge) -> None:
    """What `repo.toml` lists is no failure."""
    result = judge({"pkg/__init__.py": "import flash_attn\n"}, unsatisfiable={"flash_attn": "CUDA only"})

    assert result.verdict is Verdict.PASSED
    assert result.evidence["unsatisfiable"] == result.evidence["missing_published"] == ["flash_attn"]


@pytest.mark.parametrize(("most", "verdict"), [(0.5, Verdict.PASSED), (0.49, Verdict.FAILED)])
def test_a_share_of_imports_may_be_allowed_to_miss(judge: Judge, most: float, verdict: Verdict) -> None:
    """The bound is inclusive."""
    assert judge({"main.py": "import absent\nimport json\n"}, most=most).verdict is verdict


@pytest.mark.parametrize("text", ["", "#!/bin/sh\nexit 3\n", "#!/bin/sh\nexit 0\n", "#!/bin/sh\necho 0 of 1\n"])
def test_a_broken_interpreter_is_the_environments_failure(judge: Judge, freeze: Freeze, image: str, text: str) -> None:
    """Neither an error nor "nothing missing": a missing interpreter, one that fails, and ones that say nothing."""
    snapshot = freeze(image, {"opt/python": text} if text else {}, "true")

    result = judge({"main.py": "import json\n"}, snapshot=snapshot, python="/opt/python")

    assert (result.verdict, result.cause) == (Verdict.FAILED, Cause.BROKEN_ENVIRONMENT)
    assert "/opt/python" in result.reason


#: Runs at each start of the bare interpreter, before anything of ours.
STARTED = "set -e; cd /opt/bare/lib/python3*/site-packages; mv /attack.py .; echo import attack > a.pth"


def attacked(freeze: Freeze, image: str, code: str, script: str = "true") -> str:
    """An environment whose bare interpreter runs some code when it starts."""
    return freeze(image, {"attack.py": f"import sys\n{code}"}, f"{STARTED}; {script}")


EVERYTHING = """\
from importlib.machinery import ModuleSpec
class Everything:
    find_spec = staticmethod(lambda name, *_: None if name.startswith("absent_") else ModuleSpec(name, Everything))
    create_module = exec_module = staticmethod(lambda _: None)
sys.meta_path.append(Everything)
"""


def test_an_interpreter_that_finds_everything_is_broken(judge: Judge, freeze: Freeze, image: str) -> None:
    """A finder that answers for every name is caught by names that nobody can know."""
    result = judge({"main.py": "import flash_attn\n"}, snapshot=attacked(freeze, image, EVERYTHING))

    assert (result.verdict, result.cause) == (Verdict.FAILED, Cause.BROKEN_ENVIRONMENT)
    assert "finds modules that do not exist" in result.reason
    assert result.reason.endswith("through Everything")


#: A finder that knows what the tree imports, and says so of nothing else.
KNOWING = """\
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
def folder(name):
    spec = ModuleSpec(name, None)
    spec.submodule_search_locations = ["/elsewhere"]
    return spec
CLAIMS = {
    "no_file": lambda name: ModuleSpec(name, object()),
    "built_in": lambda name: ModuleSpec(name, object(), origin="built-in"),
    "not_there": lambda name: spec_from_file_location(name, f"/opt/{name}/__init__.py"),
    "other_file": lambda name: spec_from_file_location(name, sys.modules["os"].__file__),
    "other_folder": folder,
}
class Knowing:
    find_spec = staticmethod(lambda name, *_: CLAIMS[name](name) if name in CLAIMS else None)
sys.meta_path.append(Knowing)
"""


def test_what_only_a_finder_claims_is_missing(judge: Judge, freeze: Freeze, image: str) -> None:
    """A name that pyright misses needs a module of that name, seen from outside."""
    imports = "import built_in, json, no_file, not_there, other_file, other_folder\n"

    result = judge({"main.py": imports}, snapshot=attacked(freeze, image, KNOWING))

    assert (result.verdict, result.cause) == (Verdict.FAILED, Cause.MISSING_IMPORTS)
    assert result.reason.startswith("5 of 6 imports missing: built_in (only finder Knowing claims it, as built-in)")
    assert result.evidence["runtime_only"] == []
    claims = result.evidence["claims"]
    assert isinstance(claims, list)
    for claim, why in zip(
        claims, ["", "names no file", "/opt/not_there/__init__.py", "/os.py is", "/ext/"], strict=True
    ):
        assert why in claim


def test_patched_import_machinery_finds_nothing_more(judge: Judge, freeze: Freeze, image: str) -> None:
    """Neither `importlib.util.find_spec` nor Python's own finder, patched by a `sitecustomize`."""
    code = """\
import importlib.util
from importlib.machinery import ModuleSpec, PathFinder
def patched(name, path=None, target=None):
    return ModuleSpec(name, object()) if name == "flash_attn" else original(name, path, target)
original = PathFinder.find_spec
PathFinder.find_spec = patched
importlib.util.find_spec = patched
"""
    # Debian's own comes first, and is a link.
    script = "for folder in /usr/lib/python3.*; do cp --remove-destination /sitecustomize.py $folder; done"
    snapshot = freeze(image, {"sitecustomize.py": code}, script)

    result = judge({"main.py": "import flash_attn\nimport json\n"}, snapshot=snapshot)

    assert result.reason == "1 of 2 imports missing: flash_attn (only finder PathFinder claims it, and names no file)"


#: An interpreter that answers in the script's place.
FORGED = """\
import json, os
if sys.orig_argv[-1].endswith("request.json"):
    request = json.load(open(sys.orig_argv[-1]))
    os.makedirs("/opt/late")
    open("/opt/late/late.py", "w").close()
    answer = dict(version="3.11.2", editable=[], modules=dict())
    for name, file in {claims!r}.items():
        module = dict(finder="PathFinder", origin=file, files=[file], real=[file], native=True, owner=name)
        answer["modules"][name] = module
    print(f"\\n{{request['nonce']}} {{json.dumps(answer)}}", flush=True)
    os._exit(0)
"""


ABSENT = {
    "late": "/opt/late/late.py",
    "below": "/opt/bare/bin/python/below.py",
    "own": "/proc/self/root/attack/own.py",
    "device": "/opt/device.py",
}
LOOPING = {"looping": "/opt/loop/looping.py"}


@pytest.mark.parametrize("claims", [ABSENT, LOOPING], ids=["absent", "looping"])
def test_a_forged_answer_makes_no_module(judge: Judge, freeze: Freeze, image: str, claims: dict[str, str]) -> None:
    """Not even of a file that was made while the question was answered, and never an error."""
    script = "ln -s loop /opt/loop; mkfifo /opt/device.py"
    snapshot = attacked(freeze, image, FORGED.format(claims=claims), script)

    result = judge({"main.py": f"import {', '.join(claims)}\n"}, snapshot=snapshot)

    assert (result.verdict, result.cause) == (Verdict.FAILED, Cause.MISSING_IMPORTS), result.reason
    assert result.evidence["missing"] == sorted(claims)
    assert result.reason.count("there is no module") == len(claims)


def test_real_import_hooks_keep_working(judge: Judge, freeze: Freeze, image: str) -> None:
    """A namespace that setuptools' editable finder spans, a zipped egg, a module behind links, and `distutils`."""
    files = {
        "spread/pyproject.toml": PROJECT,
        "spread/spaced/part/__init__.py": "",
        "store/linked.py": "",
    }
    script = """\
set -e
cd /spread && /opt/full/bin/python -m pip install --quiet --no-index --no-deps --no-build-isolation --editable .
cd /opt/full/lib/python3*/site-packages
python3 -c "import zipfile; zipfile.ZipFile('made.egg', 'w').writestr('zipped/__init__.py', '')"
echo "$PWD/made.egg" > made.pth
ln -s /store/linked.py linked.py
"""
    snapshot = freeze(image, files, script)

    result = judge({"main.py": "import spaced.part, zipped, linked, ext\n"}, python=FULL, snapshot=snapshot)

    assert result.verdict is Verdict.PASSED, result.reason
    assert result.evidence["runtime_only"] == [
        "ext: _EditableFinder /elsewhere/ext/__init__.py",
        "spaced: PathFinder __editable__.spaced.part-1.finder.__path_hook__",
    ]


def test_an_environment_in_which_node_cannot_start_is_broken(judge: Judge, freeze: Freeze, image: str) -> None:
    """Deleting a library that pyright needs turns no failure into an error."""
    snapshot = freeze(image, {}, "rm -f /usr/lib/*/libstdc++.so.6*")

    result = judge({"main.py": "import json\n"}, snapshot=snapshot)

    assert (result.verdict, result.cause) == (Verdict.FAILED, Cause.BROKEN_ENVIRONMENT)
    assert "pyright" in result.reason


def test_a_link_in_place_of_the_working_folder_breaks_nothing(judge: Judge, freeze: Freeze, image: str) -> None:
    """A dangling link where the repository was is a missing import at most."""
    snapshot = freeze(image, {}, "rm -rf /workspace && ln -s /nowhere /workspace")

    assert judge({"main.py": "import json\n"}, snapshot=snapshot).verdict is Verdict.PASSED


def test_pyright_that_does_not_run_is_an_error(judge: Judge, docker_client: docker.DockerClient, owner: Owner) -> None:
    """An empty tool volume is nobody's verdict, and never "0 missing"."""
    volume = docker_client.volumes.create("researchenv-test-c0-empty", labels=owner.labels("test"))
    try:
        with pytest.raises(InfrastructureError, match="neither in the environment nor in the base image"):
            judge({"main.py": "import json\n"}, volume=Mount("researchenv-test-c0-empty", TARGET))
    finally:
        volume.remove()
