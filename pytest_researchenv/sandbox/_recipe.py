"""What a base image is made of, and the key under which one is found again."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from pytest_researchenv.errors import ImageError


__all__ = ["PACKAGES", "Recipe", "download_wheel", "host_certificates", "write_layer"]

#: Debian and Ubuntu packages in every base image.
PACKAGES = (
    "build-essential",
    "ca-certificates",
    "cmake",
    "curl",
    "git",
    "ninja-build",
    "python3",
    "python3-dev",
    "python3-pip",
    "python3-venv",
)

#: Pinned, so that the same recipe makes the same image tomorrow.
UV = "uv==0.13.9"

#: Where the distributions keep the certificates that an administrator added.
CERTIFICATE_FOLDERS = (
    Path("/usr/local/share/ca-certificates"),  # Debian, Ubuntu, Alpine
    Path("/etc/pki/ca-trust/source/anchors"),  # Fedora, RHEL
    Path("/etc/ca-certificates/trust-source/anchors"),  # Arch
)

#: Architecture as Docker and Debian name it → platforms of wheels, best first.
WHEEL_PLATFORMS = {
    "amd64": ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64"),
    "arm64": ("manylinux_2_28_aarch64", "manylinux_2_17_aarch64", "manylinux2014_aarch64"),
}

_DOWNLOAD_LIMIT_S = 600


def _layer_script() -> str:
    return resources.files("pytest_researchenv.sandbox").joinpath("recipe", "layer.sh").read_text()


@dataclass(frozen=True, slots=True)
class Recipe:
    """All that decides what a base image holds.

    Attributes:
        origin: what it grows from: `debian bookworm`, or the id of an image.
        architecture: as Docker names it (`amd64`).
        certificates: the host's extra certificates, file name → PEM.
    """

    origin: str
    architecture: str
    certificates: tuple[tuple[str, bytes], ...]

    @property
    def key(self) -> str:
        """Content key: 16 hexadecimal digits."""
        content = {
            "origin": self.origin,
            "architecture": self.architecture,
            "certificates": [(name, hashlib.sha256(pem).hexdigest()) for name, pem in self.certificates],
            "packages": PACKAGES,
            "uv": UV,
            "layer": _layer_script(),
        }
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def host_certificates(folders: Iterable[Path] = CERTIFICATE_FOLDERS) -> tuple[tuple[str, bytes], ...]:
    """The certificates that this host's administrator added, as unique file name (ending in `.crt`) and PEM, sorted.

    An unreadable file is left out: the host's own tools do not trust it either. So is one that holds a private key.
    """
    found = {}
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            if path.suffix not in {".crt", ".pem"} or not path.is_file():
                continue
            try:
                pem = path.read_bytes()
            except PermissionError:
                continue
            if b"-----BEGIN CERTIFICATE-----" in pem and b"PRIVATE KEY-----" not in pem:
                found["-".join(path.relative_to(folder).with_suffix(".crt").parts)] = pem
    return tuple(sorted(found.items()))


def download_wheel(requirement: str, *, architecture: str, folder: Path) -> Path:
    """Fetch one wheel for Linux by the host's own pip, so that its index, proxy and CA settings hold.

    Raises:
        ImageError: pip is missing, or does not get it.
    """
    platforms = WHEEL_PLATFORMS.get(architecture)
    if platforms is None:
        raise ImageError(
            f"the container engine runs on {architecture}, for which {requirement} has no known wheel; "
            f"use an engine on one of: {', '.join(WHEEL_PLATFORMS)}"
        )
    argv = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    argv += ["--only-binary=:all:", "--python-version=3.11", f"--dest={folder}"]
    argv += [f"--platform={platform}" for platform in platforms]
    try:
        done = subprocess.run(
            [*argv, requirement], capture_output=True, check=False, timeout=_DOWNLOAD_LIMIT_S, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired as error:
        raise ImageError(f"pip did not fetch {requirement} within {_DOWNLOAD_LIMIT_S} s: check the network") from error
    wheels = list(folder.glob("*.whl"))
    if done.returncode or len(wheels) != 1:
        output = (done.stdout + done.stderr).decode(errors="replace")
        reason = "\n".join(output.strip().splitlines()[-5:])
        fix = "install pip here by `python -m ensurepip`" if "No module named pip" in output else "check pip's index"
        raise ImageError(f"pip (of {sys.executable}) could not fetch {requirement}; {fix}:\n{reason}")
    return wheels[0]


def write_layer(recipe: Recipe, folder: Path, *, say: Callable[[str], None]) -> None:
    """Put the layer's script and all that it reads into an empty folder."""
    wheels = folder / "wheels"
    wheels.mkdir()
    say(f"fetching {UV}")
    download_wheel(UV, architecture=recipe.architecture, folder=wheels)
    (folder / "ca").mkdir()
    for name, pem in recipe.certificates:
        (folder / "ca" / name).write_bytes(pem)
    (folder / "packages").write_text("".join(f"{package}\n" for package in PACKAGES))
    (folder / "layer.sh").write_text(_layer_script())
