"""No shipped probe passes on nothing: an interpreter without packages, and a repository without files.

The probes really run, as processes of this machine; the real judges see what they leave. No Docker.
"""

from __future__ import annotations

import io
import subprocess
import tarfile
import tempfile
import venv
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_researchenv.model import (
    Cause,
    Environment,
    EnvironmentKey,
    Evidence,
    JsonEvidence,
    PathSource,
    Repository,
    SelfReport,
    Tier,
    TierResult,
    TierSpec,
    Verdict,
)
from pytest_researchenv.probes.protocol import ProbeTask, Tree
from pytest_researchenv.probes.table import PROBES
from pytest_researchenv.sandbox.fake import FakeFiles, FakeSandbox, FakeTimeoutError, Folder, Link
from pytest_researchenv.sandbox.protocol import Mount
from pytest_researchenv.suite import find_suite, load_suite, suite_names


_PYTHON = "/opt/venv/bin/python"
_TIERS = (Tier.C1, Tier.C3, Tier.C4)
_DEADLINE_S = 60


def _shipped() -> Iterator[tuple[Repository, Tier]]:
    """Every repository and tier for which a shipped suite has something to run."""
    for name in suite_names(of_tasks=False):
        for repository in load_suite(find_suite(name)).repositories:
            for tier in _TIERS:
                if (spec := repository.tiers.get(tier)) and (spec.probe or spec.argv):
                    yield repository, tier


def _named(value: Repository | Tier) -> str:
    return f"{value.suite}-{value.slug}" if isinstance(value, Repository) else str(value)


@pytest.fixture(scope="session")
def interpreter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment's interpreter that finds the standard library alone."""
    folder = tmp_path_factory.mktemp("bare") / "venv"
    venv.create(folder, symlinks=True)
    return folder / "bin/python"


def _judged(repository: Repository, tier: Tier, interpreter: Path) -> TierResult:
    """Judge a tier of an empty repository, on the CPU also where that is not foreseen."""
    sandbox = FakeSandbox()
    base = sandbox.add_image("base", {"/bin/sh": b""})
    nodes: dict[str, bytes | Link | Folder] = {_PYTHON: b"", "/opt/venv/pyvenv.cfg": b"", repository.workdir: Folder()}
    sandbox.program("/bin/sh", lambda _files, _argv, _environment: (0, b""))

    def run(files: FakeFiles, argv: tuple[str, ...], environment: Mapping[str, str]) -> tuple[int, bytes]:
        with tempfile.TemporaryDirectory() as root:
            return _run(files, (str(interpreter), *argv[1:]), environment, Path(root), repository.workdir)

    sandbox.program(_PYTHON, run)
    environment = Environment(
        key=EnvironmentKey("run", "agent", repository.slug, 1),
        image=sandbox.add_image("snapshot", nodes),
        base_image=base,
        workdir=repository.workdir,
        report=SelfReport(python_path=_PYTHON),
        report_problem="",
        changed=(),
        inputs={},
        telemetry={},
        ended="exited with code 0",
        created="",
    )
    spec = replace(repository.tiers[tier], needs_cuda=False)
    task = ProbeTask(
        environment=environment,
        repository=replace(repository, tiers={tier: spec}),
        tree=Tree(Path("unused"), (), "digest"),
        sandbox=sandbox,
        tools=Mount("unused", "/unused"),
        log=len,
        settings={},
    )
    return PROBES[tier].judge(task)


def _run(
    files: FakeFiles, argv: tuple[str, ...], environment: Mapping[str, str], root: Path, workdir: str
) -> tuple[int, bytes]:
    """Run a command on what a container holds, with its folders below another root."""

    def here(text: str) -> str:
        return text.replace("/researchenv/", f"{root}/researchenv/").replace(workdir, f"{root}{workdir}")

    (root / workdir.lstrip("/")).mkdir(parents=True)
    with tarfile.open(fileobj=io.BytesIO(files.pack("/researchenv") or b"")) as archive:
        archive.extractall(root, filter="data")
    world = {name: here(value) for name, value in environment.items()} | {"HOME": str(root)}
    try:
        done = subprocess.run(
            [here(argument) for argument in argv],
            cwd=here(workdir),
            env=world,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_DEADLINE_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise FakeTimeoutError from error
    for file in (root / "researchenv").rglob("*"):
        if file.is_file():
            files.write(f"/{file.relative_to(root)}", file.read_bytes())
    return done.returncode, done.stdout


@pytest.mark.parametrize(("repository", "tier"), list(_shipped()), ids=_named)
def test_no_probe_passes_on_nothing(repository: Repository, tier: Tier, interpreter: Path) -> None:
    """It ends with another exit code than 0, or what it leaves is no evidence."""
    result = _judged(repository, tier, interpreter)

    assert result.verdict is Verdict.FAILED
    assert result.cause in {Cause.EXIT_CODE, Cause.NO_EVIDENCE}, result


def test_a_probe_that_needs_nothing_passes_here(interpreter: Path, tmp_path: Path) -> None:
    """The test above would notice one: what it runs on lacks nothing but packages and the repository."""
    (tmp_path / "_shared").mkdir()
    (tmp_path / "_shared/kit.py").write_text("ANSWER = 42\n")
    (tmp_path / "one/probes").mkdir(parents=True)
    (tmp_path / "one/probes/run.py").write_text(
        "import json, os, kit\nfrom pathlib import Path\n"
        "assert not list(Path(os.environ['RESEARCHENV_REPO']).iterdir())\n"
        "Path(os.environ['RESEARCHENV_OUT'], 'seen.json').write_text(json.dumps({'answer': kit.ANSWER}))\n"
    )
    spec = TierSpec(probe="probes/run.py", evidence=Evidence(json=(JsonEvidence("{out}/seen.json", "answer", 42),)))
    repository = Repository("owner/one", PathSource("."), folder=str(tmp_path / "one"), tiers={Tier.C1: spec})

    result = _judged(repository, Tier.C1, interpreter)

    assert result.verdict is Verdict.PASSED, result
