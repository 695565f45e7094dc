"""A research suite as users run it: pytest, two agents, and what the reports say; with real containers."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from docker.errors import APIError, ImageNotFound
from junitparser import Properties
from junitparser.xunit2 import JUnitXml

from tests.unit.research.own_tasks import SUITE, bench


if TYPE_CHECKING:
    from docker import DockerClient

_ALL = ("steps2", "steps5", "steps10")


@pytest.fixture
def place(tmp_path: Path, docker_client: DockerClient) -> Iterator[Path]:
    """A folder with a suite of one task that asks for two seeds; what it froze is removed afterwards."""
    suite = bench("digits-continual", tmp_path).task.parent
    for name in ("suite.toml", "test_research.py"):
        shutil.copy(SUITE / name, suite / name)
    for recipe in ("oracle.sh", "baseline.sh"):
        path = suite / "digits-continual" / recipe
        path.write_text(path.read_text(encoding="utf-8").replace("0 1 2 3 4", "0 1"), encoding="utf-8")
    before = {volume.name for volume in docker_client.volumes.list()}
    yield tmp_path
    for record in (tmp_path / "researchenv-results").rglob("environment.json"):
        with suppress(ImageNotFound):
            docker_client.images.remove(json.loads(record.read_text())["image"], force=True)
    for volume in docker_client.volumes.list():
        if volume.name.startswith("researchenv-scripts-") and volume.name not in before:
            # Another worker's evaluations may be using it.
            with suppress(APIError):
                volume.remove()


def ran(place: Path, *arguments: str) -> tuple[int, str]:
    """Run pytest there; returns its exit code and what it printed."""
    argv = [sys.executable, "-m", "pytest", "-c", "/dev/null", "--rootdir", str(place), "--junitxml=out.xml"]
    argv += ["--researchenv-suite", str(place / "suite"), "--researchenv-accelerator=cpu", *arguments]
    done = subprocess.run(
        argv, cwd=place, env=dict(os.environ), check=False, timeout=3000, capture_output=True, text=True
    )
    return done.returncode, done.stdout + done.stderr


def properties(place: Path) -> dict[str, dict[str, str]]:
    """Test id in brackets → property without our prefix → value."""
    found = {}
    for tests in JUnitXml.fromfile(str(place / "out.xml")):
        for case in tests:
            every = [item for group in case.iterchildren(Properties) for item in group]  # type: ignore[no-untyped-call] # its stubs say less than it does
            values = {str(item.name).removeprefix("researchenv_"): str(item.value) for item in every}
            found[case.name.partition("[")[2].rstrip("]")] = values
    return found


@pytest.mark.slow
def test_oracle_baseline_and_noop_come_to_what_they_are(place: Path) -> None:
    """On two workers: the oracle passes, the baseline completes and does not pass, noop neither. Then all stands."""
    count = len(_ALL)
    agents = [f"--researchenv-agent={name}" for name in ("oracle", "baseline", "noop")]
    agents += ["-k", " or ".join(_ALL)]

    code, text = ran(place, *agents, "-n", "2", "--researchenv-run=line")

    assert code == 1, text
    assert f"{2 * count} failed, {count} passed" in text, text
    came = {
        name: (values["verdict"], values["completed"], values["cause"]) for name, values in properties(place).items()
    }
    assert came == {
        **{f"oracle-digits_continual-{name}": ("passed", "true", "none") for name in _ALL},
        **{f"baseline-digits_continual-{name}": ("failed", "true", "no improvement") for name in _ALL},
        **{f"noop-digits_continual-{name}": ("failed", "false", "nothing handed in") for name in _ALL},
    }
    assert f"oracle: {count} of {count} sub-tasks passed, {count} of {count} completed" in text
    assert f"baseline: 0 of {count} sub-tasks passed, {count} of {count} completed" in text
    attempts = sorted(path.parent for path in (place / "researchenv-results").rglob("attempt.json"))
    assert len(attempts) == 3
    records = {path: path.read_bytes() for one in attempts for path in one.glob("research-*.json")}
    assert len(records) == 3 * count

    code, again = ran(place, *agents, "--researchenv-run=line")

    assert f"{2 * count} failed, {count} passed" in again, again
    assert {path: path.read_bytes() for one in attempts for path in one.glob("research-*.json")} == records
