"""Workers in allocations of Slurm, started by the script of docs/slurm.md: a real slurmctld, slurmd and munged."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from docker import DockerClient
from junitparser import JUnitXml

from pytest_researchenv.sandbox.labels import PREFIX
from tests.integration.cluster import PROGRAMS, Cluster, cluster
from tests.integration.workplace import remove_frozen
from tests.simulated import NAMES, TIERS, stored, write_suite


ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "docs/scripts/pytest-slurm"
LIMIT_S = 300.0
QUICKSTART_S = 3600.0


@pytest.fixture(scope="module")
def slurm() -> Iterator[Cluster]:
    """A cluster of one node with four processors and two accelerators."""
    path = f"{os.environ['PATH']}:/usr/sbin"
    missing = [program for program in PROGRAMS if not shutil.which(program, path=path)]
    if missing:
        pytest.skip(f"needs {', '.join(missing)}: apt-get install slurm-wlm munge")
    # Not pytest's own folder, whose path is too long for a socket.
    with tempfile.TemporaryDirectory(prefix="slurm-") as folder:
        # munged wants every user to come to its socket.
        Path(folder).chmod(0o755)
        with cluster(Path(folder)) as made:
            yield made
            assert not made.left()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the simulated suite."""
    write_suite(tmp_path)
    return tmp_path


def _pytest(
    folder: Path,
    command: list[str],
    *arguments: str,
    environ: Mapping[str, str] | None = None,
    limit_s: float = LIMIT_S,
) -> tuple[int, str]:
    """Run pytest in some way, with a JUnit file; return its exit code and what it printed."""
    variables = {**os.environ, "PYTHON": sys.executable, "PYTHONPATH": str(ROOT), "PATIENCE": "120", **(environ or {})}
    rest = ["-c", "/dev/null", "--rootdir=.", "-v", "--junitxml=out.xml", *arguments]
    (folder / "out.xml").unlink(missing_ok=True)
    done = subprocess.run(
        [*command, *rest], cwd=folder, env=variables, check=False, capture_output=True, text=True, timeout=limit_s
    )
    return done.returncode, done.stdout + done.stderr


def _outcomes(folder: Path) -> dict[str, str]:
    cases = [case for tests in JUnitXml.fromfile(str(folder / "out.xml")) for case in tests]
    return {case.name: str(case.result[0]._tag) if case.result else "passed" for case in cases}


def _on_slurm(workers: int, *options: str) -> list[str]:
    return [str(SCRIPT), str(workers), *options, "--"]


def test_workers_in_allocations_do_what_others_do(slurm: Cluster, folder: Path) -> None:
    """Each has an accelerator of its own, every environment stays with one, and nothing is left in the queue."""
    chosen = ["mine", "--researchenv-agent=oracle"]

    code, text = _pytest(folder, _on_slurm(2, "--gpus=1"), *chosen, environ=slurm.environ)

    assert code == 0, text
    assert stored(folder) == {f"{name}/attempt-001": [f"{tier}-001" for tier in TIERS] for name in NAMES}
    with_slurm = _outcomes(folder)
    devices = {
        name: {
            found
            for log in (folder / "researchenv-results").rglob(f"{name}/*/C?-001.log")
            for found in re.findall(r"CUDA_VISIBLE_DEVICES=(\S+)", log.read_text(errors="replace"))
        }
        for name in NAMES
    }
    assert all(len(seen) == 1 for seen in devices.values()), devices
    assert {device for seen in devices.values() for device in seen} == {"0", "1"}
    assert slurm.left() == []

    # Without Slurm.
    code, text = _pytest(folder, [sys.executable, "-m", "pytest"], *chosen, "--researchenv-results=without")

    assert code == 0, text
    assert _outcomes(folder) == with_slurm


def test_a_worker_that_dies_is_told_from_a_verdict(slurm: Cluster, folder: Path) -> None:
    """Its test is no failure of an agent, and all others are run by the worker in its place."""
    dying = {**slurm.environ, "DIES": "mine/long C1"}

    code, text = _pytest(folder, _on_slurm(2), "mine", "--researchenv-agent=oracle", environ=dying)

    assert code == 1, text
    assert re.search(r"worker 'gw\d' crashed while running \S+test_c1_x\[oracle-long\]", text)
    bad = {name for name, outcome in _outcomes(folder).items() if outcome != "passed"}
    assert bad == {"test_c1_x[oracle-long]"}
    expected = {f"{name}/attempt-001": [f"{tier}-001" for tier in TIERS] for name in NAMES}
    assert stored(folder) == {**expected, "long/attempt-001": ["C0-001", "C3-001"]}
    assert slurm.left() == []


def test_an_allocation_that_cannot_be_had_ends_the_call(slurm: Cluster, folder: Path) -> None:
    """With the reason that Slurm gives, and no worker left that waits."""
    arguments = ["mine", "--researchenv-agent=oracle"]
    command = _on_slurm(2, "--gpus=2")

    code, text = _pytest(folder, command, *arguments, environ={**slurm.environ, "PATIENCE": "5"})

    assert code not in (0, 1), text
    assert "Unable to allocate resources" in text
    assert not stored(folder)
    assert slurm.left() == []


def test_inside_a_job_workers_are_steps_of_it(slurm: Cluster, folder: Path) -> None:
    """As `salloc` and `sbatch` have it: no further job is asked for."""
    salloc = ["salloc", "--ntasks=2", "--gpus=2", "--quiet"]

    code, text = _pytest(
        folder, [*salloc, *_on_slurm(2, "--gpus=1")], "mine", "--researchenv-agent=oracle", environ=slurm.environ
    )

    assert code == 0, text
    assert len(stored(folder)) == len(NAMES)
    assert slurm.left() == []


@pytest.mark.parametrize(("workers", "message"), [("0", "WORKERS"), ("", "WORKERS"), ("2", "WORKERS")])
def test_a_wrong_call_tells_how_it_is_used(workers: str, message: str) -> None:
    """Without a number of workers, or without the `--` before pytest's own arguments."""
    done = subprocess.run([SCRIPT, *filter(None, [workers])], check=False, capture_output=True, text=True)

    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("agent", ["noop", "oracle"])
def test_a_whole_quickstart_by_workers_of_slurm(
    slurm: Cluster, tmp_path: Path, docker_client: DockerClient, agent: str
) -> None:
    """Every repository, tier and audit has the verdict that it has without Slurm; no job and no container is left."""
    outcomes: list[dict[str, str]] = []
    for name, command in (("with", _on_slurm(2)), ("without", [sys.executable, "-m", "pytest", "-n", "2"])):
        folder = tmp_path / name
        folder.mkdir()
        arguments = [
            "--researchenv-suite=quickstart",
            f"--researchenv-agent={agent}",
            f"--researchenv-run=slurm-{agent}",
        ]
        try:
            code, text = _pytest(folder, command, *arguments, environ=slurm.environ, limit_s=QUICKSTART_S)
        finally:
            remove_frozen(docker_client, folder)

        assert code == (0 if agent == "oracle" else 1), text
        outcomes.append(_outcomes(folder))

    assert len(outcomes[0]) == 28
    assert outcomes[0] == outcomes[1]
    assert slurm.left() == []
    assert not docker_client.containers.list(all=True, filters={"label": f"{PREFIX}run=slurm-{agent}"})
