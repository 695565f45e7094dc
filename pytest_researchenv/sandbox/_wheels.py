"""Packages for containers, installed into a folder of this host by its own pip, for the engine's machine."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterable
from pathlib import Path

from pytest_researchenv.errors import ImageError
from pytest_researchenv.sandbox._recipe import WHEEL_PLATFORMS


__all__ = ["add_installed", "install_wheels"]

_INSTALL_LIMIT_S = 600


def install_wheels(
    requirements: Iterable[str], folder: Path, *, architecture: str, what: str, options: Iterable[str] = ()
) -> None:
    """Install wheels for Python 3.11, Debian 12's, so that this host's index, proxy and certificates hold.

    Args:
        requirements: what to install.
        folder: where to.
        architecture: the engine's, as Docker names it (`amd64`).
        what: what they are, for people.
        options: further options of pip's.

    Raises:
        ImageError: they cannot be had.
    """
    platforms = WHEEL_PLATFORMS.get(architecture)
    if platforms is None:
        raise ImageError(
            f"{what} has no wheels for the container engine's architecture {architecture}: use an engine on one of: "
            f"{', '.join(WHEEL_PLATFORMS)}"
        )
    argv = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
    argv += ["--only-binary=:all:", "--python-version=3.11", "--implementation=cp", f"--target={folder}"]
    argv += [*options, *(f"--platform={platform}" for platform in platforms)]
    try:
        done = subprocess.run(
            [*argv, *requirements], capture_output=True, check=False, timeout=_INSTALL_LIMIT_S, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired as error:
        raise ImageError(f"pip did not install {what} within {_INSTALL_LIMIT_S} s: check the network") from error
    if done.returncode:
        output = (done.stdout + done.stderr).decode(errors="replace")
        reason = "\n".join(output.strip().splitlines()[-5:])
        fix = "install pip here by `python -m ensurepip`" if "No module named pip" in output else "check pip's index"
        raise ImageError(f"pip (of {sys.executable}) could not install {what}; {fix}:\n{reason}")


def add_installed(
    archive: tarfile.TarFile,
    folder: Path,
    *,
    below: str = "",
    wanted: Callable[[str], bool] = lambda _: True,
    mode: Callable[[bool], int] = lambda is_folder: 0o755 if is_folder else 0o644,
) -> None:
    """Add the plain files and folders of a folder to an archive, owned by root, whoever installed them on the host.

    Args:
        archive: where to.
        folder: what.
        below: path in the archive.
        wanted: says of a path relative to the folder whether it is added.
        mode: says of a folder (true) or a file which permissions it gets.
    """
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if not wanted(name) or path.is_symlink() or not (path.is_file() or path.is_dir()):
            continue
        member = archive.gettarinfo(path, f"{below}/{name}" if below else name)
        member.uid = member.gid = 0
        member.uname = member.gname = ""
        member.mode = mode(member.isdir())
        if member.isdir():
            archive.addfile(member)
        else:
            with path.open("rb") as file:
                archive.addfile(member, file)
