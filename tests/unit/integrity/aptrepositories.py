"""A repository of packages as apt knows them, and packages in it."""

from __future__ import annotations

import gzip
import hashlib
import importlib
import io
import lzma
import shutil
import subprocess
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pytest_researchenv._apt import Source
from pytest_researchenv.integrity.archives import Archive
from tests.unit.integrity.packageindexes import Server, sha256


__all__ = ["ZSTD", "Keys", "archive_of", "deb", "needs_gpg", "new_keys", "publish"]

#: Signing takes gpg, which hosts of users need not have; to verify takes gpgv, which comes with apt.
needs_gpg = pytest.mark.skipif(
    not (shutil.which("gpg") and shutil.which("gpgv")), reason="gpg and gpgv are not installed"
)


def _zstd() -> Any:  # noqa: ANN401 - one of two modules
    for name in ("compression.zstd", "backports.zstd"):
        with suppress(ImportError):
            return importlib.import_module(name)
    return None


#: What packs by Zstandard, where this Python has it.
ZSTD = _zstd()

DATED = "Sat, 01 Mar 2025 10:00:00 UTC"


@dataclass(frozen=True)
class Keys:
    """A key pair.

    Attributes:
        folder: where gpg keeps it.
        public: its public half, as apt keeps keys.
        armoured: the same, as text.
    """

    folder: Path
    public: bytes
    armoured: bytes

    def signed(self, text: str) -> bytes:
        """A text with a signature around it."""
        return _gpg(self.folder, "--clearsign", given=text.encode())


@contextmanager
def new_keys(folder: Path) -> Iterator[Keys]:
    """Make a key pair; what holds its secret half ends in the end."""
    folder.mkdir(mode=0o700)
    _gpg(folder, "--passphrase", "", "--quick-gen-key", "test@example.org", "ed25519", "sign", "never")
    yield Keys(folder, _gpg(folder, "--export"), _gpg(folder, "--armor", "--export"))
    subprocess.run(["gpgconf", "--homedir", str(folder), "--kill", "gpg-agent"], check=True)


def _gpg(folder: Path, *argv: str, given: bytes = b"") -> bytes:
    done = subprocess.run(
        ["gpg", "--homedir", str(folder), "--batch", "--quiet", "--pinentry-mode", "loopback", *argv],
        input=given,
        capture_output=True,
        check=True,
    )
    return done.stdout


def deb(files: Mapping[str, bytes], *, packing: str = ".xz", linked: Mapping[str, str] | None = None) -> bytes:
    """Make a package: path in it → content; and hard links: path → path."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for path, content in files.items():
            member = tarfile.TarInfo(f".{path}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
        for path, other in (linked or {}).items():
            member = tarfile.TarInfo(f".{path}")
            member.type, member.linkname = tarfile.LNKTYPE, f".{other}"
            tar.addfile(member)
    packed = _packed(buffer.getvalue(), packing)
    members = {"debian-binary": b"2.0\n", "control.tar.xz": b"odd", f"data.tar{packing}": packed}
    whole = b"!<arch>\n"
    for name, content in members.items():
        whole += f"{name:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(content):<10}`\n".encode() + content
        whole += b"\n" * (len(content) % 2)
    return whole


def _packed(content: bytes, packing: str) -> bytes:
    if packing == ".xz":
        return lzma.compress(content)
    if packing == ".zst" and ZSTD is not None:
        return bytes(ZSTD.compress(content))
    return gzip.compress(content) if packing else content


def publish(
    server: Server,
    keys: Keys,
    packages: Mapping[tuple[str, str], bytes],
    *,
    suite: str = "stable",
    packing: str = ".xz",
) -> None:
    """Put a repository on a server: name and version → package."""
    paragraphs = []
    for (name, version), content in packages.items():
        path = f"pool/{name}_{version.partition(':')[2] or version}_amd64.deb"
        server.files[path] = content
        paragraphs.append(
            f"Package: {name}\nVersion: {version}\nArchitecture: amd64\n"
            f"Filename: {path}\nSize: {len(content)}\nSHA256: {sha256(content)}\n"
        )
    index = _packed("\n".join(paragraphs).encode(), packing)
    path = f"main/binary-amd64/Packages{packing}"
    release = f"Suite: {suite}\nDate: {DATED}\nSHA256:\n {hashlib.sha256(index).hexdigest()} {len(index)} {path}\n"
    server.files[f"dists/{suite}/{path}"] = index
    server.files[f"dists/{suite}/InRelease"] = keys.signed(release)


def archive_of(server: Server, keys: Keys) -> Archive:
    """That repository, as a base image is configured for it."""
    return Archive((Source(f"{server.url}/f", "stable", ("main",)),), (keys.public,), "amd64")
