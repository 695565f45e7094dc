"""mitmproxy in a volume that gateways mount read-only. It runs on the Python of our own base image."""

from __future__ import annotations

import compileall
import hashlib
import py_compile
import sys
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path

import docker

from pytest_researchenv.sandbox._engine import architecture, ensure_volume
from pytest_researchenv.sandbox._wheels import add_installed, install_wheels
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
            add_installed(archive, Path(folder), wanted=lambda name: not name.startswith(_NOT_NEEDED))

    mount = Mount(f"researchenv-proxy-{key}", TARGET)
    return ensure_volume(client, mount, owner=owner, image=image, fill=fill, cache=cache, say=say)


def _install(folder: Path, engine: str) -> None:
    install_wheels(_PACKAGES, folder, architecture=engine, what="mitmproxy", options=("--no-deps",))
    (folder / _EMPTIED).write_bytes(b"")
    if sys.version_info[:2] == (3, 11):
        # Compiled by the same version, every start takes 2 s less (tried). They name no path of this host.
        mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
        compileall.compile_dir(folder, quiet=2, invalidation_mode=mode, stripdir=folder, prependdir=TARGET)
