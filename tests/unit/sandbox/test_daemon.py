"""Which engine is used, and what is said when none answers."""

from __future__ import annotations

import hashlib
import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_researchenv.errors import DaemonUnavailableError
from pytest_researchenv.sandbox import daemon


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home without Docker's settings, and none in the environment."""
    for name in ("DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH", "XDG_RUNTIME_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / ".docker"))
    return tmp_path


@pytest.fixture
def silent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A socket that takes connections and never answers."""
    monkeypatch.setattr(daemon, "_PING_S", 0.2)
    path = tmp_path / "silent.sock"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        yield f"unix://{path}"


def _addresses(monkeypatch: pytest.MonkeyPatch, *urls: str) -> None:
    found = [daemon.Address(url, "a test") for url in urls]
    monkeypatch.setattr(daemon, "usual_addresses", lambda _environ: iter(found))


def test_every_address_is_named_with_its_failure(monkeypatch: pytest.MonkeyPatch, silent: str, tmp_path: Path) -> None:
    """When nothing answers, the message lists what was tried, why it failed, and what to do."""
    _addresses(monkeypatch, f"unix://{tmp_path}/missing.sock", silent, "tcp://127.0.0.1:1")

    with pytest.raises(DaemonUnavailableError) as caught:
        daemon.connect()

    lines = str(caught.value).splitlines()
    assert lines[1] == f"  - unix://{tmp_path}/missing.sock (a test): no such socket"
    assert lines[2] == f"  - {silent} (a test): no answer within 0.2 s"
    assert lines[3] == "  - tcp://127.0.0.1:1 (a test): nothing listens there"
    assert "docker.io" in str(caught.value)
    assert "usermod -aG docker" in str(caught.value)


@pytest.mark.parametrize("host", ["unix:///nowhere/docker.sock", "tcp://127.0.0.1:1", "garbage"])
def test_a_chosen_engine_that_does_not_answer_is_the_error(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    """With DOCKER_HOST set nothing else is tried, though another engine may answer."""
    monkeypatch.setenv("DOCKER_HOST", host)
    monkeypatch.setattr(daemon, "usual_addresses", lambda _environ: pytest.fail("fell through"))

    with pytest.raises(DaemonUnavailableError, match="DOCKER_HOST") as caught:
        daemon.connect()

    assert host in str(caught.value)


def test_the_current_context_is_a_choice(home: Path) -> None:
    """`docker context use NAME` decides as DOCKER_HOST does."""
    _context(home, "lab", "unix:///nowhere/lab.sock", current="lab")

    with pytest.raises(DaemonUnavailableError, match="the current docker context, 'lab'") as caught:
        daemon.connect()

    assert "unix:///nowhere/lab.sock" in str(caught.value)


def test_a_context_can_be_chosen_by_variable(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """DOCKER_CONTEXT names a context; DOCKER_HOST wins over it, as with Docker's own client."""
    _context(home, "lab", "unix:///nowhere/lab.sock")
    monkeypatch.setenv("DOCKER_CONTEXT", "lab")

    by_context = daemon.explicit_address()
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/other.sock")
    by_host = daemon.explicit_address()

    assert by_context is not None
    assert by_host is not None
    assert (by_context.url, by_host.url) == ("unix:///nowhere/lab.sock", "unix:///nowhere/other.sock")


def test_a_context_that_does_not_exist_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A misspelt context is not passed over."""
    monkeypatch.setenv("DOCKER_CONTEXT", "nosuch")

    with pytest.raises(DaemonUnavailableError, match="nosuch"):
        daemon.connect()


def test_without_a_choice_the_usual_places_are_tried(home: Path) -> None:
    """Docker, rootless Docker, Docker Desktop and Podman, in that order."""
    urls = [address.url for address in daemon.usual_addresses({"HOME": str(home), "XDG_RUNTIME_DIR": "/run/user/7"})]

    assert daemon.explicit_address() is None
    assert urls == [
        "unix:///var/run/docker.sock",
        "unix:///run/user/7/docker.sock",
        f"unix://{home}/.docker/run/docker.sock",
        f"unix://{home}/.docker/desktop/docker.sock",
        "unix:///run/user/7/podman/podman.sock",
        "unix:///run/podman/podman.sock",
    ]


def _context(home: Path, name: str, host: str, *, current: str = "default") -> None:
    settings = home / ".docker"
    folder = settings / "contexts" / "meta" / hashlib.sha256(name.encode()).hexdigest()
    folder.mkdir(parents=True)
    # docker-py looks for contexts beside config.json.
    (settings / "config.json").write_text(json.dumps({"currentContext": current}))
    meta = {"Name": name, "Metadata": {}, "Endpoints": {"docker": {"Host": host, "SkipTLSVerify": False}}}
    (folder / "meta.json").write_text(json.dumps(meta))
