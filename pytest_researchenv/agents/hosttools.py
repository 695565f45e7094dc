"""Agents' tools that are Python programs: installed on this host once, at a pinned version, by pip and its settings."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import final

from pytest_researchenv._cache import cache_folder, locked
from pytest_researchenv.errors import ImageError


__all__ = ["PythonArchive", "PythonTool", "ensure_venv"]

#: Written last into a folder; one without it was filled only in part.
_MARKER = ".researchenv-complete"

#: How long an installation may take, in seconds.
_INSTALL_S = 1800

#: How much of what pip printed is shown when it failed, in characters.
_SHOWN = 2000

#: How many requirements are named when they cannot be installed.
_NAMED = 10

_MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}

_BLOCK = 1 << 20


def _silent(text: str) -> None:
    del text


def ensure_venv(
    name: str,
    requirements: Sequence[str],
    *,
    alone: Sequence[str] = (),
    cache: Path | None = None,
    say: Callable[[str], object] = _silent,
) -> Path:
    """Return the Python program of a virtual environment of its own, made when it is not there yet.

    Args:
        name: what the folder is called; its requirements' digest is added.
        requirements: what is installed with all that it depends on.
        alone: what is installed without what it says that it depends on.
        cache: folder that holds such environments; None: in the user's cache folder.
        say: told what happens.

    Raises:
        ImageError: it could not be made.
    """
    key = _digest(sys.version, *requirements, "alone", *alone)
    folder = (cache or cache_folder() / "venvs") / f"{name}-{key}"
    python = folder / "bin" / "python"
    with locked(folder.name, folder.parent, say):
        if (folder / _MARKER).is_file():
            return python
        # Scripts in it hold its path, so that it cannot be made elsewhere and moved.
        shutil.rmtree(folder, ignore_errors=True)
        say(f"installing {name} into {folder}; this is done once")
        own = importlib.util.find_spec("pip") is not None
        _run([sys.executable, "-m", "venv", *(["--without-pip"] if own else []), str(folder)], f"make {folder}")
        pip = [sys.executable, "-m", "pip", "--python", str(python)] if own else [str(python), "-m", "pip"]
        _pip([*pip, "install"], requirements)
        _pip([*pip, "install", "--no-deps"], alone)
        (folder / _MARKER).touch()
    return python


@dataclass(frozen=True, slots=True)
class PythonArchive:
    """A Python that runs wherever it is unpacked, as the project python-build-standalone makes them.

    Attributes:
        url: where it is had; `{machine}` stands for `x86_64` or `aarch64`.
        digests: machine → SHA-256 of the archive.
    """

    url: str
    digests: tuple[tuple[str, str], ...]

    def fetch(self, machine: str, path: Path) -> None:
        """Put the archive at `path`.

        Raises:
            ImageError: it could not be had, or is another one.
        """
        expected = dict(self.digests).get(machine)
        if expected is None:
            raise ImageError(f"no Python is known for engines of the architecture {machine}")
        url = self.url.format(machine=machine)
        digest = hashlib.sha256()
        try:
            with urllib.request.urlopen(url, timeout=60) as answer, path.open("wb") as file:  # noqa: S310 - a constant.
                while block := answer.read(_BLOCK):
                    digest.update(block)
                    file.write(block)
        except (OSError, ValueError) as error:
            raise ImageError(f"{url} cannot be had: {error}; is the network there?") from error
        if digest.hexdigest() != expected:
            raise ImageError(f"{url} is not what was expected: SHA-256 {digest.hexdigest()}, not {expected}")


#: What the tools that need Python 3.12 get.
PYTHON = PythonArchive(
    "https://github.com/astral-sh/python-build-standalone/releases/download/20260414/"
    "cpython-3.12.13%2B20260414-{machine}-unknown-linux-gnu-install_only.tar.gz",
    (
        ("x86_64", "cdcf8724d46e4857f8db5ee9f4252dc2f5da34f7940294ec6b312389dd3f41e0"),
        ("aarch64", "355d981eafb9b2870af79ddc106ced7266b6f6d2101d8fbcb05620fa386642b9"),
    ),
)


@final
@dataclass(frozen=True, slots=True)
class PythonTool:
    """A Python program with a Python of its own, for agents' containers whatever Python they have, or none.

    In a container its interpreter is `TOOL_TARGET/python/bin/python3`. It needs glibc there.

    Attributes:
        name: what it is called, with its version.
        requirements: what is installed with all that it depends on.
        alone: what is installed without what it says that it depends on.
        archive: the Python.
    """

    name: str
    requirements: tuple[str, ...] = ()
    alone: tuple[str, ...] = ()
    archive: PythonArchive = PYTHON

    @property
    def key(self) -> str:
        """Name, version and digest of what is installed."""
        parts = (self.archive.url, repr(self.archive.digests), *self.requirements, "alone", *self.alone)
        return f"{self.name}-{_digest(*parts)}"

    def fill(self, archive: tarfile.TarFile, *, architecture: str) -> None:
        """Install it on this host, and add it.

        The Python that goes into containers installs into itself, so that what fits it is chosen: the host must be
        able to run it.

        Raises:
            ImageError: it could not be installed.
        """
        machine = _MACHINES.get(architecture, architecture)
        if (platform.system(), platform.machine()) != ("Linux", machine):
            raise ImageError(
                f"{self.name} for engines of the architecture {architecture} can only be installed on a Linux host of "
                f"the same architecture, and this one is {platform.system()} on {platform.machine()}"
            )
        with tempfile.TemporaryDirectory() as folder:
            packed = Path(folder, "python.tar.gz")
            self.archive.fetch(machine, packed)
            try:
                with tarfile.open(packed) as tar:
                    tar.extractall(folder, filter="tar")
            except (tarfile.TarError, OSError) as error:
                raise ImageError(f"the Python for {self.name} cannot be unpacked: {error}") from error
            packed.unlink()
            python = Path(folder, "python", "bin", "python3")
            install = [str(python), "-m", "pip", "install", "--no-warn-script-location"]
            _pip(install, self.requirements)
            _pip([*install, "--no-deps"], self.alone)
            archive.add(python.parents[1], "python", filter=_plain)


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Owned by root, whoever installed it on the host; without what no program needs."""
    if PurePosixPath(member.name).parts[1:2] in {("include",), ("share",)}:
        return None
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
    return member


def _pip(install: Sequence[str], requirements: Sequence[str]) -> None:
    if requirements:
        shown = " ".join(requirements[:_NAMED]) + (" …" if len(requirements) > _NAMED else "")
        # No question can be answered.
        _run([*install, "--no-input", "--disable-pip-version-check", *requirements], f"install {shown}")


def _run(argv: Sequence[str], doing: str) -> None:
    # A PYTHONPATH of ours would let pip take for installed what is not. What may be built on the way gets no keys.
    variables = {name: value for name, value in os.environ.items() if not _WITHHELD.search(name)}
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=variables,
            timeout=_INSTALL_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ImageError(f"cannot {doing}: {error}") from error
    if done.returncode:
        said = done.stdout.decode(errors="replace")[-_SHOWN:].strip()
        raise ImageError(f"cannot {doing}: {argv[0]} exited with code {done.returncode}: {said}")


#: Variables that installers do not get. Their own settings may hold passwords, which they need.
_WITHHELD = re.compile(r"^PYTHON(PATH|HOME)$|^(?!PIP_|UV_).*(KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL)", re.IGNORECASE)


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]
