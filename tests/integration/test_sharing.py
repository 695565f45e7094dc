"""Real environments leave a container engine, and come back as they were."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from docker import DockerClient

from pytest_researchenv.sharing.contents import TABLE
from tests.integration.workplace import Ran, Workplace


_LIMIT_S = 900
_ATTEMPTS = tuple(f"default/{agent}/tiny/needy/attempt-001" for agent in ("noop", "oracle"))


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory, docker_client: DockerClient) -> Iterator[Ran]:
    """A finished run of the tiny suite by both script agents; what it froze, or was loaded again, is removed."""
    place = Workplace(tmp_path_factory.mktemp("shared"), docker_client)
    yield place.run("--researchenv-agent=oracle", "--researchenv-agent=noop", "-k", "needy")
    place.clean()


def _command(ran: Ran, *arguments: object, code: int = 0) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "pytest_researchenv.cli", *map(str, arguments)],
        cwd=ran.folder,
        check=False,
        capture_output=True,
        text=True,
        timeout=_LIMIT_S,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stderr if code else done.stdout


def _remove(ran: Ran, client: DockerClient) -> list[str]:
    images = [str(ran.environment(attempt)["image"]) for attempt in _ATTEMPTS]
    for image in images:
        client.images.remove(image, force=True)
    return images


def _size_of(client: DockerClient, image: str) -> int:
    return int(client.images.get(image).attrs["Size"])


@pytest.mark.slow  # The sessions of docs/sharing.md do it, too.
def test_a_run_with_its_images_is_judged_again_elsewhere(ran: Ran, tmp_path: Path, docker_client: DockerClient) -> None:
    """Layers that images share are in the archive once, and all verdicts come out again from what was loaded."""
    whole = sum(_size_of(docker_client, str(ran.environment(attempt)["image"])) for attempt in _ATTEMPTS)
    archive = tmp_path / "run.tar.gz"

    said = json.loads(_command(ran, "export", "run", "-o", archive, "--images", "--json"))
    images = _remove(ran, docker_client)
    _command(ran, "import", archive, "--results", tmp_path / "here")

    assert len(said["images"]) == 3
    assert archive.stat().st_size < said["bytes"] < 0.75 * whole
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
    for image in images:
        (name,) = docker_client.images.get(image).tags
        assert name.startswith("researchenv/tiny/needy:default-")
    suite = ran.folder / "fixtures/suites/tiny"
    counts = json.loads(_command(ran, "verify", "--json", "--results", tmp_path / "here", "--suite", suite))["counts"]
    assert counts == {"attempts": 2, "altered": 0, "verdicts": 6, "same": 6, "flipped": 0, "unverifiable": 0}


@pytest.mark.slow
def test_an_environment_is_one_for_everybody(ran: Ran, tmp_path: Path, docker_client: DockerClient) -> None:
    """Packed, it is loaded by Docker's own command, and is the image that its record names."""
    attempt = ran.folder / "researchenv-results" / _ATTEMPTS[1]
    image = ran.environment(_ATTEMPTS[1])["image"]
    _command(ran, "export", "environment", attempt, "-o", tmp_path / "needy", "--gzip")
    docker_client.images.remove(image, force=True)

    subprocess.run(["docker", "load", "-i", tmp_path / "needy/images.tar.gz"], check=True, timeout=_LIMIT_S)

    assert docker_client.images.get(image).id == image
    assert "docker load -i images.tar.gz" in (tmp_path / "needy/README.md").read_text()
    assert "already there" in _command(ran, "import", tmp_path / "needy")
    assert "is gone" in _command(ran, "export", "environment", _gone(ran, attempt), "-o", tmp_path / "x", code=1)


def _gone(ran: Ran, attempt: Path) -> Path:
    """A copy of an attempt whose image is nowhere."""
    copy = ran.folder / "gone/default/oracle/tiny/needy/attempt-001"
    copy.mkdir(parents=True)
    record = json.loads((attempt / "environment.json").read_text())
    (copy / "environment.json").write_text(json.dumps({**record, "image": f"sha256:{'0' * 64}"}))
    return copy


@pytest.mark.slow
def test_no_archive_takes_a_name_of_the_users(ran: Ran, tmp_path: Path, docker_client: DockerClient) -> None:
    """What an engine itself has saved under a name is refused, and nothing comes in."""
    attempt = ran.folder / "researchenv-results" / _ATTEMPTS[0]
    image = ran.environment(_ATTEMPTS[0])["image"]
    _command(ran, "export", "environment", attempt, "-o", tmp_path / "needy")
    docker_client.images.get(image).tag("researchenv-test/mine:1")
    try:
        saved = tmp_path / "needy/images.tar"
        subprocess.run(["docker", "save", "-o", saved, "researchenv-test/mine:1"], check=True, timeout=_LIMIT_S)
    finally:
        docker_client.images.remove("researchenv-test/mine:1")
    table = json.loads((tmp_path / "needy" / TABLE).read_text())
    with saved.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    table["members"]["images.tar"] = {"bytes": saved.stat().st_size, "sha256": digest}
    (tmp_path / "needy" / TABLE).write_text(json.dumps({**table, "images": [image]}))

    said = _command(ran, "import", tmp_path / "needy", "--results", tmp_path / "here", code=1)

    assert "the name researchenv-test/mine:1" in said
    assert list((tmp_path / "here").iterdir()) == []
    assert not docker_client.images.list(name="researchenv-test/mine")
