"""The recipe of the base image, and where its parts come from."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from docker.errors import APIError, ImageNotFound

from pytest_researchenv.errors import ImageError
from pytest_researchenv.sandbox import _bootstrap, _recipe, images
from pytest_researchenv.sandbox._bootstrap import Distribution, bootstrap, host_distribution, mirror_lines
from pytest_researchenv.sandbox._recipe import Recipe, download_wheel, host_certificates
from pytest_researchenv.sandbox.labels import Owner


BOOKWORM = Distribution("debian", "bookworm")
RECIPE = Recipe("debian bookworm", "amd64", (("corp.crt", b"-----BEGIN "),))


@pytest.mark.parametrize(
    "other",
    [
        Recipe("debian trixie", "amd64", RECIPE.certificates),
        Recipe("debian bookworm", "arm64", RECIPE.certificates),
        Recipe("debian bookworm", "amd64", ()),
        Recipe("debian bookworm", "amd64", (("corp.crt", b"-----BEGIN another"),)),
    ],
)
def test_the_key_follows_everything_that_shapes_the_image(other: Recipe) -> None:
    """Another origin, architecture or certificate makes another image; the same recipe makes the same key."""
    assert Recipe(RECIPE.origin, RECIPE.architecture, RECIPE.certificates).key == RECIPE.key
    assert other.key != RECIPE.key


@pytest.mark.parametrize(
    ("name", "value"), [("PACKAGES", ("git",)), ("UV", "uv==0"), ("_layer_script", lambda: "true")]
)
def test_the_key_follows_the_layer(name: str, value: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another package list, uv or script is another image."""
    before = RECIPE.key
    monkeypatch.setattr(_recipe, name, value)

    assert RECIPE.key != before


def test_the_hosts_certificates_are_found_by_content(tmp_path: Path) -> None:
    """Only certificates are taken, under names that the image's update-ca-certificates reads."""
    (tmp_path / "corp").mkdir()
    (tmp_path / "corp" / "root.pem").write_bytes(b"-----BEGIN CERTIFICATE-----")
    (tmp_path / "key.crt").write_bytes(b"not a certificate")
    (tmp_path / "README").write_bytes(b"-----BEGIN CERTIFICATE-----")

    assert host_certificates([tmp_path, tmp_path / "missing"]) == (("corp-root.crt", b"-----BEGIN CERTIFICATE-----"),)


def test_a_private_key_beside_the_certificates_stays_on_the_host(tmp_path: Path) -> None:
    """A file with a private key in it is no certificate to bake into an image."""
    (tmp_path / "both.pem").write_bytes(b"-----BEGIN CERTIFICATE-----\n-----BEGIN PRIVATE KEY-----\n")

    assert host_certificates([tmp_path]) == ()


@pytest.mark.parametrize(
    ("release", "expected"),
    [
        ({"ID": "debian", "VERSION_CODENAME": "trixie"}, Distribution("debian", "trixie")),
        ({"ID": "ubuntu", "ID_LIKE": "debian", "VERSION_CODENAME": "noble"}, Distribution("ubuntu", "noble")),
        (
            {"ID": "linuxmint", "ID_LIKE": "ubuntu debian", "VERSION_CODENAME": "wilma", "UBUNTU_CODENAME": "noble"},
            Distribution("ubuntu", "noble"),
        ),
        ({"ID": "debian"}, None),
        ({"ID": "fedora"}, None),
    ],
)
def test_host_distribution(release: dict[str, str], expected: Distribution | None) -> None:
    """A derivative counts as what it is derived from; without a release name nothing can be bootstrapped."""
    assert host_distribution(release) == expected


def test_mirrors_are_the_hosts_own(tmp_path: Path) -> None:
    """Both formats of apt's sources are read; third parties, source packages and disabled entries are left out."""
    (tmp_path / "sources.list").write_text(
        "# deb http://comment.example bookworm main\n"
        "deb [arch=amd64 signed-by=/k.gpg] http://m.example/debian bookworm main contrib\n"
        "deb-src http://src.example bookworm main\n"
    )
    parts = tmp_path / "sources.list.d"
    parts.mkdir()
    (parts / "a.sources").write_text(
        "Types: deb\nURIs: http://sec.example/s\nSuites: bookworm-security\n  bookworm-updates\nComponents: main\n\n"
        "Types: deb\nURIs: http://off.example\nSuites: bookworm\nComponents: main\nEnabled: no\n"
    )
    (parts / "b.list").write_text("deb https://third.example/apt cloud-sdk main\n")
    (parts / "c.list.disabled").write_text("deb http://disabled.example bookworm main\n")

    assert mirror_lines(BOOKWORM, BOOKWORM, tmp_path) == (
        "deb http://m.example/debian bookworm main",
        "deb http://sec.example/s bookworm-security main",
        "deb http://sec.example/s bookworm-updates main",
    )


def test_another_release_comes_from_the_same_mirrors(tmp_path: Path) -> None:
    """A newer Debian host makes the older release from its own mirrors; without sources mmdebstrap chooses."""
    (tmp_path / "sources.list").write_text("deb http://m.example/debian trixie main\n")

    assert mirror_lines(BOOKWORM, Distribution("debian", "trixie"), tmp_path) == (
        "deb http://m.example/debian bookworm main",
    )
    assert mirror_lines(BOOKWORM, BOOKWORM, tmp_path / "none") == ()


def _program(folder: Path, name: str, script: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def _run(tmp_path: Path) -> None:
    layer = tmp_path / "layer"
    layer.mkdir()
    with (tmp_path / "out").open("wb") as output:
        bootstrap(
            BOOKWORM,
            host=BOOKWORM,
            architecture="amd64",
            layer=layer,
            output=output,
            environment={"PATH": os.environ["PATH"]},
            say=lambda _: None,
        )


def test_a_missing_mmdebstrap_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says what to install."""
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(ImageError, match="apt-get install mmdebstrap"):
        _run(tmp_path)


def test_a_failing_mmdebstrap_is_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error holds its exit code and what it said last."""
    _program(tmp_path, "mmdebstrap", "echo 'E: no such mirror' >&2; exit 25")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    with pytest.raises(ImageError, match=r"code 25(?s:.*)no such mirror"):
        _run(tmp_path)


def test_a_hanging_mmdebstrap_is_ended_politely(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the deadline it gets the signal on which it unmounts and removes its folder."""
    _program(tmp_path, "mmdebstrap", f"trap 'echo > {tmp_path}/clean; exit 1' TERM; sleep 30 & wait")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(_bootstrap, "_LIMIT_S", 0.5)

    with pytest.raises(ImageError, match=r"did not end within"):
        _run(tmp_path)
    assert (tmp_path / "clean").exists()


def test_an_unknown_architecture_is_an_error(tmp_path: Path) -> None:
    """No wheel is known for it: the error lists what is."""
    with pytest.raises(ImageError, match="amd64, arm64"):
        download_wheel("uv==1", architecture="s390x", folder=tmp_path)


def test_a_wheel_that_pip_does_not_get_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What pip says is quoted."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")

    with pytest.raises(ImageError, match=r"No matching distribution found for uv==0\.0\.0"):
        download_wheel("uv==0.0.0", architecture="amd64", folder=tmp_path)


def test_a_missing_pip_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A virtual environment made by uv has no pip: the error says how to get it."""
    _program(tmp_path, "python", 'echo "$0: No module named pip" >&2; exit 1')
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))

    with pytest.raises(ImageError, match="ensurepip"):
        download_wheel("uv==1", architecture="amd64", folder=tmp_path)


class EngineWithoutImages:
    """A fake engine that has no image and no registry."""

    def __init__(self, error: Exception | None = None) -> None:
        """Answer every question to the registry with the error."""
        self.api = self
        self.images = self
        self.timeout = 60
        self.patience: list[int] = []
        self.error = error or APIError("registry: no such host")

    def version(self) -> dict[str, str]:
        """Its version."""
        return {"Arch": "amd64"}

    def get(self, reference: str) -> object:
        """No image is there."""
        raise ImageNotFound(reference)

    def inspect_distribution(self, reference: str) -> object:
        """The registry does not answer."""
        self.patience.append(self.timeout)
        raise self.error from ConnectionError(reference)

    def pull(self, reference: str) -> object:
        """The registry does not answer."""
        raise self.error from ConnectionError(reference)


def _ensure(engine: EngineWithoutImages, tmp_path: Path, wanted: str = "") -> None:
    images.ensure_base_image(
        engine,  # type: ignore[arg-type]  # a fake
        owner=Owner.current("tests"),
        wanted=wanted,
        say=lambda _: None,
        cache=tmp_path,
    )


def test_without_registry_and_debian_the_error_says_what_helps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The registry is asked with a short limit, which is put back; the error has its reason and the option."""
    monkeypatch.setattr(images, "host_distribution", lambda: None)
    engine = EngineWithoutImages()

    with pytest.raises(ImageError, match=r"no such host.*--researchenv-image"):
        _ensure(engine, tmp_path)

    assert engine.patience == [8]
    assert engine.timeout == 60


def test_an_image_that_cannot_be_pulled_is_named(tmp_path: Path) -> None:
    """The error has the reference and the engine's reason."""
    with pytest.raises(ImageError, match=r"pulling nowhere/image:1 .*no such host"):
        _ensure(EngineWithoutImages(), tmp_path, "nowhere/image:1")


def test_the_layer_script_is_valid_shell() -> None:
    """It parses in the plainest shell there is."""
    subprocess.run(["sh", "-n"], input=_recipe._layer_script().encode(), check=True)
