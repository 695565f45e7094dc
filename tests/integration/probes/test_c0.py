"""C0 on real pyright in real containers, and attacks on it.

The packages that these environments hold are made here: nothing is downloaded.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import docker
import pytest

from pytest_researchenv.errors import InfrastructureError
from pytest_researchenv.model import (
    Cause,
    Environment,
    EnvironmentKey,
    ImportPolicy,
    PathSource,
    Repository,
    SelfReport,
    TierResult,
    Verdict,
)
from pytest_researchenv.probes.c0 import C0Probe
from pytest_researchenv.probes.protocol import ProbeTask, Tree
from pytest_researchenv.sandbox.docker import DockerSandbox
from pytest_researchenv.sandbox.labels import Owner
from pytest_researchenv.sandbox.protocol import ContainerSpec, Mount
from pytest_researchenv.sandbox.tools import TARGET, ensure_tools


REPOSITORY = Repository("someone/project", PathSource("."))
BARE = "/opt/bare/bin/python"
FULL = "/opt/full/bin/python"

#: setuptools makes a finder, not a .pth entry, for an editable install of a flat project that has more folders.
EDITABLE = {
    "elsewhere/pyproject.toml": """\
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"
[project]
name = "ext"
version = "1"
[tool.setuptools]
packages = ["ext"]
""",
    "elsewhere/ext/__init__.py": "",
}

PREPARE = """\
set -e
mkdir -p /workspace/project
python3 -m venv --without-pip /opt/bare
python3 -m venv --system-site-packages /opt/full
cd /elsewhere
/opt/full/bin/python -m pip install --quiet --no-index --no-deps --no-build-isolation --editable .
"""

Freeze = Callable[[str, Mapping[str, str], str], str]
Judge = Callable[..., TierResult]


def tar(files: Mapping[str, str]) -> io.BytesIO:
    """An archive with these files and their folders."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(text.encode()), 0o755
            archive.addfile(member, io.BytesIO(text.encode()))
    buffer.seek(0)
    return buffer


@pytest.fixture(scope="module")
def freeze(docker_sandbox: DockerSandbox) -> Iterator[Freeze]:
    """Makes an image from another, with files put in and a shell script run; removed at the end."""
    made: list[str] = []

    def make(image: str, files: Mapping[str, str], script: str) -> str:
        with docker_sandbox.opened(ContainerSpec(image)) as container:
            container.put("/", tar(files))
            container.start()
            done = container.exec(["sh", "-c", script], timeout_s=120)
            assert done.ok, done.output.text()
            container.stop()
            made.append(container.freeze(f"researchenv-test-c0:{len(made)}", labels={}))
        return made[-1]

    yield make
    for image in reversed(made):
        docker_sandbox.remove_image(image)


@pytest.fixture(scope="module")
def image(freeze: Freeze, base_image: str) -> str:
    """An environment with a bare interpreter, and one with an editable install."""
    return freeze(base_image, EDITABLE, PREPARE)


@pytest.fixture(scope="module")
def tools(docker_client: docker.DockerClient, owner: Owner, base_image: str) -> Mount:
    """The volume with node and pyright."""
    return ensure_tools(docker_client, owner=owner, image=base_image, say=print)


@pytest.fixture
def judge(docker_sandbox: DockerSandbox, tools: Mount, base_image: str, image: str, tmp_path: Path) -> Judge:
    """Judges a tree of files in an environment."""

    def run(
        files: Mapping[str, str],
        *,
        python: str = BARE,
        snapshot: str = image,
        volume: Mount = tools,
        unsatisfiable: Mapping[str, str] | None = None,
        most: float = 0.0,
    ) -> TierResult:
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        repository = Repository(
            REPOSITORY.name, REPOSITORY.source, imports=ImportPolicy(unsatisfiable=dict(unsatisfiable or {}))
        )
        environment = Environment(
            key=EnvironmentKey("run", "agent", repository.slug, 1),
            image=snapshot,
            base_image=base_image,
            workdir=repository.workdir,
            report=SelfReport(python_path=python),
            report_problem="",
            changed=(),
            inputs={},
            telemetry={},
            ended="exited with code 0",
            created="",
        )
        task = ProbeTask(
            environment=environment,
            repository=repository,
            tree=Tree(tmp_path, tuple(sorted(files)), "digest"),
            sandbox=docker_sandbox,
            tools=volume,
            log=len,
            settings={"c0_max_missing": most},
        )
        return C0Probe().judge(task)

    return run


def test_a_package_of_which_only_stubs_are_bundled_is_missing(judge: Judge) -> None:
    """Pyright brings stubs of yaml and requests: that does not make them installed."""
    result = judge({"main.py": "import json\nimport requests\nimport yaml\n"})

    assert (result.verdict, result.cause) == (Verdict.FAILED, Cause.MISSING_IMPORTS)
    assert result.reason == "2 of 3 imports missing: requests, yaml"
    assert result.evidence["missing"] == ["requests", "yaml"]
    assert result.evidence["missing_published"] == []
    assert result.decisive == 'main.py:2: Import "requests" could not be resolved from source'


def test_nothing_in_the_repository_silences_a_report(judge: Judge) -> None:
    """Comments, file-level directives and the repository's own configuration of pyright have no effect."""
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
    assert result.evidence["missing_published"] == result.evidence["missing"]


def test_an_editable_install_through_a_finder_is_not_missing(judge: Judge) -> None:
    """What only the interpreter finds is recorded with its finder, and counts in the published figure alone."""
    result = judge({"main.py": "import ext\n"}, python=FULL)

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

    result = judge({"main.py": "import flash_attn\n"}, snapshot=snapshot)

    assert result.evidence["missing_published"] == []
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
touch "kernels$(python3 -c 'import sysconfig; print(sysconfig.get_config_var("EXT_SUFFIX"))')"
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
            "empty.py": "",
            "main.py": "import build.c\n",
        }
    )

    assert result.evidence["missing"] == ["absent_b"]
    assert result.evidence["total"] == 3
    assert result.evidence["unparsable"] == ["null.py", "old.py"]
    assert result.evidence["missing_published"] == ["absent_b", "absent_e", "absent_f"]


def test_unsatisfiable_names_count_in_the_published_figure_alone(judge: Judge) -> None:
    """What `repo.toml` lists is no failure."""
    result = judge({"main.py": "import flash_attn\n"}, unsatisfiable={"flash_attn": "CUDA only"})

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


def test_an_interpreter_that_finds_everything_is_broken(judge: Judge, freeze: Freeze, image: str) -> None:
    """A finder that answers for every name cannot make imports resolve."""
    finder = """\
import sys
from importlib.machinery import ModuleSpec
class Everything:
    @staticmethod
    def find_spec(name, path=None, target=None):
        return ModuleSpec(name, Everything())
    def create_module(self, spec):
        return None
    def exec_module(self, module):
        pass
sys.meta_path.append(Everything)
"""
    script = "cd /opt/bare/lib/python3*/site-packages && mv /everything.py . && echo import everything > e.pth"
    snapshot = freeze(image, {"everything.py": finder}, script)

    result = judge({"main.py": "import absent\n"}, snapshot=snapshot)

    assert (result.verdict, result.cause) == (Verdict.FAILED, Cause.BROKEN_ENVIRONMENT)
    assert "modules that do not exist" in result.reason


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
        with pytest.raises(InfrastructureError, match="nor does pyright run in the base image"):
            judge({"main.py": "import json\n"}, volume=Mount("researchenv-test-c0-empty", TARGET))
    finally:
        volume.remove()
