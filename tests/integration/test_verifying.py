"""A real run is verified: its verdicts come out again from the frozen images, and what was edited is told."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from docker import DockerClient

from pytest_researchenv.provenance import seal_of
from tests.integration.workplace import FIXTURES, Ran, Workplace


#: No verification of a whole quickstart takes longer, in seconds.
_LIMIT_S = 7200

#: No other test's, whose containers may be there at the same time.
_RUN = f"verified-{secrets.token_hex(4)}"
_ATTEMPT = f"{_RUN}/noop/tiny/needy/attempt-001"


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory, docker_client: DockerClient) -> Iterator[Ran]:
    """A finished run of the tiny suite by both script agents; what it froze is removed in the end."""
    place = Workplace(tmp_path_factory.mktemp("verified"), docker_client)
    yield place.run(
        f"--researchenv-run={_RUN}", "--researchenv-agent=oracle", "--researchenv-agent=noop", "-k", "needy"
    )
    place.clean()


@pytest.fixture
def results(ran: Ran, tmp_path: Path) -> Path:
    """A copy of its results."""
    return Path(shutil.copytree(ran.folder / "researchenv-results", tmp_path / "results"))


@pytest.fixture
def verify(ran: Ran, results: Path) -> Callable[..., tuple[int, dict[str, Any]]]:
    """Verify the copy: the command's exit code, and what it says as JSON."""
    suite = ran.folder / "fixtures/suites/tiny"

    def run(*arguments: str) -> tuple[int, dict[str, Any]]:
        return _verified(results, _RUN, "--suite", str(suite), *arguments)

    return run


def _verified(results: Path, *arguments: str) -> tuple[int, dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, "-m", "pytest_researchenv.cli", "verify", "--json", "--results", str(results), *arguments],
        check=False,
        capture_output=True,
        text=True,
        timeout=_LIMIT_S,
        # Whoever verifies has no key and no agent's settings.
        env={name: value for name, value in os.environ.items() if not name.startswith(("RESEARCHENV_", "ANTHROPIC"))},
    )
    assert done.stdout.startswith("{"), done.stderr
    return done.returncode, json.loads(done.stdout)


def _digests(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.mark.slow
def test_a_run_comes_out_again(
    verify: Callable[..., tuple[int, dict[str, Any]]], results: Path, docker_client: DockerClient
) -> None:
    """Nothing flips, nothing is written into the results, and no container is left."""
    before = _digests(results)

    code, said = verify()

    assert code == 0, said
    assert said["counts"] == {
        "attempts": 2,
        "altered": 0,
        "verdicts": 6,
        "same": 6,
        "flipped": 0,
        "unverifiable": 0,
    }
    assert _digests(results) == before
    keys = [attempt["attempt"] for attempt in said["attempts"]]
    for key in keys:
        assert not docker_client.containers.list(all=True, filters={"label": f"researchenv.attempt={key}"})


@pytest.mark.parametrize("sealed", [False, True], ids=["edited", "sealed again"])
def test_an_edited_verdict_is_told(
    verify: Callable[..., tuple[int, dict[str, Any]]],
    results: Path,
    sealed: bool,  # noqa: FBT001 - a parameter
) -> None:
    """A failure that was made a pass flips, however well its record was edited."""
    path = results / _ATTEMPT / "C1-001.json"
    record = json.loads(path.read_text())
    record.update(verdict="passed", cause="none", reason="exited with code 0")
    if sealed:
        record["seal"] = seal_of(record)
    path.write_text(json.dumps(record))

    code, said = verify("--agent", "noop", "--tier", "C1")

    attempt = said["attempts"][0]
    assert code == 1
    assert bool(attempt["altered"]) is not sealed
    assert [verdict["again"] for verdict in attempt["verdicts"]] == ["flipped"]
    assert "No module named" in attempt["verdicts"][0]["why"] or "exited with code 1" in attempt["verdicts"][0]["why"]


def test_an_image_of_somebody_else_is_told(verify: Callable[..., tuple[int, dict[str, Any]]], results: Path) -> None:
    """The oracle's image in place of the bare one passes, and is labelled as the oracle's."""
    other = json.loads((results / _ATTEMPT.replace("noop", "oracle") / "environment.json").read_text())
    path = results / _ATTEMPT / "environment.json"
    record = json.loads(path.read_text())
    record.update(image=other["image"], report=other["report"])
    path.write_text(json.dumps({**record, "seal": seal_of(record)}))

    code, said = verify("--agent", "noop", "--no-rejudge")

    assert code == 1
    assert any(f"the frozen image is that of {_RUN}/oracle" in text for text in said["attempts"][0]["altered"])
    assert any("another self-report" in text for text in said["attempts"][0]["altered"])


@pytest.mark.slow
def test_a_quickstart_run_comes_out_again_three_times(tmp_path: Path, docker_client: DockerClient) -> None:
    """Every verdict of all four repositories, with the oracle: no flip in three repetitions. About an hour."""
    place = Workplace(tmp_path, docker_client)
    try:
        results = _quickstart(tmp_path)
        for _ in range(3):
            code, said = _verified(results)
            print(said["counts"], said["digest"])  # noqa: T201 - quoted in the documentation
            assert code == 0, json.dumps(said, indent=1)
            assert said["counts"]["verdicts"] == said["counts"]["same"] >= 20
            assert said["counts"]["attempts"] == 4
    finally:
        place.clean()


def _quickstart(folder: Path) -> Path:
    results = folder / "researchenv-results"
    root = FIXTURES.parent
    subprocess.run(
        [
            *(sys.executable, "-m", "pytest", str(root / "suites/quickstart"), "-c", str(root / "pyproject.toml")),
            *("--researchenv-agent=oracle", f"--researchenv-results={results}", "-p", "no:cacheprovider"),
        ],
        cwd=folder,
        # Whatever its verdicts are, they must come out again.
        check=False,
        timeout=_LIMIT_S,
    )
    return results
