"""proxpi in a volume that its sidecar mounts read-only. It runs on the Python of our own base image."""

from __future__ import annotations

import hashlib
import io
import tarfile
import tempfile
from collections.abc import Callable
from importlib import resources
from pathlib import Path

import docker

from pytest_researchenv.sandbox._engine import architecture, ensure_volume
from pytest_researchenv.sandbox._wheels import add_installed, install_wheels
from pytest_researchenv.sandbox.labels import Owner
from pytest_researchenv.sandbox.protocol import Mount


__all__ = ["SCRIPT", "TARGET", "ensure_proxpi"]

#: Where the volume is mounted.
TARGET = "/researchenv/packages"

#: What its container runs.
SCRIPT = f"{TARGET}/researchenv_serve.py"

#: proxpi with all that it asks for, and the server that its authors run it in.
_PACKAGES = (
    "proxpi==1.3.1",
    "blinker==1.9.0",
    "certifi==2024.12.14",
    "charset-normalizer==3.4.1",
    "click==8.1.8",
    "flask==3.1.0",
    "gunicorn==23.0.0",
    "idna==3.10",
    "itsdangerous==2.2.0",
    "jinja2==3.1.5",
    "lxml==5.3.0",
    "markupsafe==3.0.2",
    "packaging==24.2",
    "requests==2.32.3",
    "urllib3==2.3.0",
    "werkzeug==3.1.3",
)


def ensure_proxpi(
    client: docker.DockerClient, *, owner: Owner, image: str, say: Callable[[str], None], cache: Path | None = None
) -> Mount:
    """The volume with proxpi and the script that serves it, filled when it is not there yet.

    Args:
        client: the engine.
        owner: whose labels the volume gets.
        image: any image that exists; a container is created from it, none is started.
        say: told what happens.
        cache: folder of the lock; None: the user's cache folder.

    Raises:
        ImageError: the packages cannot be had, or the engine refuses.
    """
    engine = architecture(client)
    script = resources.files("pytest_researchenv.packagecache").joinpath("inside", "serve.py").read_bytes()
    key = hashlib.sha256(" ".join((engine, *_PACKAGES)).encode() + script).hexdigest()[:16]

    def fill(archive: tarfile.TarFile) -> None:
        with tempfile.TemporaryDirectory() as folder:
            say("installing proxpi for the package cache")
            install_wheels(_PACKAGES, Path(folder), architecture=engine, what="proxpi", options=("--no-deps",))
            add_installed(archive, Path(folder), wanted=lambda name: not name.startswith("bin/"))
        member = tarfile.TarInfo(Path(SCRIPT).name)
        member.size, member.mode = len(script), 0o644
        archive.addfile(member, io.BytesIO(script))

    mount = Mount(f"researchenv-proxpi-{key}", TARGET)
    return ensure_volume(client, mount, owner=owner, image=image, fill=fill, cache=cache, say=say)
