"""mitmproxy in a volume that gateways mount read-only. It runs on the Python of our own base image."""

from __future__ import annotations

import compileall
import hashlib
import py_compile
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path

import docker

from pytest_researchenv.errors import ImageError
from pytest_researchenv.sandbox._engine import architecture, ensure_volume
from pytest_researchenv.sandbox._recipe import WHEEL_PLATFORMS
from pytest_researchenv.sandbox.labels import Owner
from pytest_researchenv.sandbox.protocol import Mount


__all__ = ["TARGET", "ensure_proxy"]

#: Where the volume is mounted.
TARGET = "/researchenv/proxy"

#: mitmproxy 11.0.2 is the newest for Python 3.11, Debian 12's. Of what it asks for this is what its proxy imports: the
#: rest serves its consoles. All pinned, and installed without looking for more: `pyperclip`, for one, has no wheel.
_PACKAGES = (
    "mitmproxy==11.0.2",
    "mitmproxy-rs==0.10.7",
    "aioquic==1.2.0",
    "attrs==25.1.0",
    "Brotli==1.1.0",
    "certifi==2024.12.14",
    "cffi==1.17.1",
    "cryptography==44.0.3",
    "h11==0.14.0",
    "h2==4.1.0",
    "hpack==4.0.0",
    "hyperframe==6.0.1",
    "kaitaistruct==0.10",
    "pyasn1==0.6.1",
    "pylsqpack==0.3.18",
    "pyOpenSSL==24.3.0",
    "pyparsing==3.2.0",
    "ruamel.yaml==0.18.6",
    "ruamel.yaml.clib==0.2.12",
    "service-identity==24.2.0",
    "wsproto==1.2.0",
    "zstandard==0.23.0",
)

#: Folders and files that the proxy never reads: the web page of mitmweb alone is 3 MB.
_NOT_NEEDED = (
    "bin",
    "mitmproxy/tools",
    "mitmproxy/test",
    "mitmproxy/contrib/wbxml",
    "mitmproxy/contentviews",
    "zstandard/_cffi.",
)

#: Imports every add-on, and with them Flask, LDAP, tornado; the proxy imports the four that it uses by themselves.
_EMPTIED = "mitmproxy/addons/__init__.py"

#: To be raised when what is put into the volume changes while the versions do not.
_LAYOUT = 1

_INSTALL_LIMIT_S = 600


def ensure_proxy(
    client: docker.DockerClient, *, owner: Owner, image: str, say: Callable[[str], None], cache: Path | None = None
) -> Mount:
    """The volume with mitmproxy, filled when it is not there yet.

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
    content = " ".join((str(_LAYOUT), engine, *_PACKAGES, *_NOT_NEEDED, _EMPTIED))
    key = hashlib.sha256(content.encode()).hexdigest()[:16]

    def fill(archive: tarfile.TarFile) -> None:
        with tempfile.TemporaryDirectory() as folder:
            say("installing mitmproxy for the gateway")
            _install(Path(folder), engine)
            _add(archive, Path(folder))

    mount = Mount(f"researchenv-proxy-{key}", TARGET)
    return ensure_volume(client, mount, owner=owner, image=image, fill=fill, cache=cache, say=say)


def _install(folder: Path, engine: str) -> None:
    """Install by this host's pip, so that its index, proxy and certificates hold, and for the engine's machine."""
    platforms = WHEEL_PLATFORMS.get(engine)
    if platforms is None:
        raise ImageError(
            f"mitmproxy has no wheels for the container engine's architecture {engine}: use an engine on one of: "
            f"{', '.join(WHEEL_PLATFORMS)}"
        )
    argv = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    argv += ["--no-compile", "--only-binary=:all:", "--python-version=3.11", "--implementation=cp"]
    argv += [f"--target={folder}", *(f"--platform={platform}" for platform in platforms)]
    try:
        done = subprocess.run(
            [*argv, *_PACKAGES], capture_output=True, check=False, timeout=_INSTALL_LIMIT_S, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired as error:
        raise ImageError(f"pip did not install mitmproxy within {_INSTALL_LIMIT_S} s: check the network") from error
    if done.returncode:
        output = (done.stdout + done.stderr).decode(errors="replace")
        reason = "\n".join(output.strip().splitlines()[-5:])
        fix = "install pip here by `python -m ensurepip`" if "No module named pip" in output else "check pip's index"
        raise ImageError(f"pip (of {sys.executable}) could not install mitmproxy; {fix}:\n{reason}")
    (folder / _EMPTIED).write_bytes(b"")
    if sys.version_info[:2] == (3, 11):
        # Compiled by the same version, every start takes 2 s less (tried). They name no path of this host.
        mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
        compileall.compile_dir(folder, quiet=2, invalidation_mode=mode, stripdir=folder, prependdir=TARGET)


def _add(archive: tarfile.TarFile, folder: Path) -> None:
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if name.startswith(_NOT_NEEDED) or path.is_symlink() or not (path.is_file() or path.is_dir()):
            continue
        member = archive.gettarinfo(path, name)
        # Owned by root, whoever installed it on the host.
        member.uid = member.gid = 0
        member.uname = member.gname = ""
        member.mode = 0o755 if member.isdir() else 0o644
        if member.isdir():
            archive.addfile(member)
        else:
            with path.open("rb") as file:
                archive.addfile(member, file)
