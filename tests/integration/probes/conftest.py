"""Real environments.

One is for a small training repository, built once by its own recipe and found again by its content. Small ones, made of
files, are for C0.
"""

from __future__ import annotations

import hashlib
import io
import logging
import secrets
import tarfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_researchenv.agents.protocol import AgentTask
from pytest_researchenv.agents.script import ScriptAgent, oracle_script
from pytest_researchenv.model import (
    Environment,
    EnvironmentKey,
    ImportPolicy,
    PathSource,
    Repository,
    SelfReport,
    TierResult,
)
from pytest_researchenv.probes.c0 import C0Probe
from pytest_researchenv.probes.protocol import ProbeTask, Tree
from pytest_researchenv.sandbox.protocol import ContainerSpec, Mount, Network
from pytest_researchenv.source import fetch, tree_tar
from pytest_researchenv.suite import load_suite


if TYPE_CHECKING:
    from docker import DockerClient

    from pytest_researchenv.sandbox.docker import DockerSandbox
    from pytest_researchenv.sandbox.labels import Owner

_log = logging.getLogger(__name__)

_SUITE = Path(__file__).parents[3] / "suites/quickstart"
_BUILD_S = 600


@pytest.fixture(scope="session")
def tinyddp() -> Repository:
    """The repository as the quickstart describes it."""
    return next(repository for repository in load_suite(_SUITE).repositories if repository.name == "tinyddp")


@pytest.fixture(scope="session")
def tinyddp_tree(tinyddp: Repository, tmp_path_factory: pytest.TempPathFactory) -> Tree:
    """Its pinned tree."""
    return fetch(tinyddp, cache=tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="session")
def tinyddp_environment(  # noqa: PLR0917 - fixtures come by name.
    docker_client: DockerClient,
    docker_sandbox: DockerSandbox,
    owner: Owner,
    base_image: str,
    tinyddp: Repository,
    tinyddp_tree: Tree,
) -> str:
    """Reference of a frozen image that the recipe built; kept for later sessions, as base images are."""
    from pytest_researchenv.sandbox.hostsettings import host_settings  # noqa: PLC0415 - only when it is built.

    agent = ScriptAgent("oracle", oracle_script)
    content = [tinyddp_tree.digest, base_image, *agent.inputs(tinyddp).values()]
    reference = f"researchenv/test-tinyddp:{hashlib.sha256(' '.join(content).encode()).hexdigest()[:16]}"
    if docker_sandbox.image_exists(reference):
        return reference
    settings = host_settings(docker_client, owner=owner, image=base_image, say=_log.info)
    mounts = (settings.mount,) if settings.mount else ()
    spec = ContainerSpec(base_image, network=Network.OPEN, mounts=mounts)
    printed = bytearray()
    with docker_sandbox.opened(spec) as container:
        with tree_tar(tinyddp_tree, prefix=tinyddp.workdir) as archive:
            container.put("/", archive)
        container.start()
        ended = agent.work(AgentTask(tinyddp, container, settings.environment, _BUILD_S, printed.extend)).ended
        assert ended == "exited with code 0", printed.decode(errors="replace")
        container.stop()
        container.freeze(reference, labels={})
    return reference


# --- C0 ---------------------------------------------------------------------------------------------------

#: A bare interpreter, and one that has setuptools.
BARE = "/opt/bare/bin/python"

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


@pytest.fixture(scope="session")
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
            made.append(container.freeze(f"researchenv-test-c0:{secrets.token_hex(8)}", labels={}))
        return made[-1]

    yield make
    for image in reversed(made):
        docker_sandbox.remove_image(image)


@pytest.fixture(scope="session")
def image(freeze: Freeze, base_image: str) -> str:
    """An environment with a bare interpreter, and one with an editable install."""
    return freeze(base_image, EDITABLE, PREPARE)


@pytest.fixture(scope="session")
def tools(docker_client: DockerClient, owner: Owner, base_image: str) -> Mount:
    """The volume with node and pyright."""
    from pytest_researchenv.sandbox.tools import ensure_tools  # noqa: PLC0415 - docker is only for who wants it.

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
            "someone/project", PathSource("."), imports=ImportPolicy(unsatisfiable=dict(unsatisfiable or {}))
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
