"""Whether what a repository of packages says of itself is signed by one of some keys."""

from __future__ import annotations

import base64
import binascii
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path


__all__ = ["verified"]

_TIMEOUT_S = 30.0
_ARMOUR = re.compile(rb"-----BEGIN PGP PUBLIC KEY BLOCK-----.*?\n\r?\n(.*?)\n=?[^\n]*\n-----END", re.DOTALL)
_GOOD = re.compile(r"^\[GNUPG:\] VALIDSIG ", re.MULTILINE)


def verified(content: bytes, keys: Iterable[bytes]) -> str:
    """The text that is signed.

    Args:
        content: text with a signature around it, such as an `InRelease`.
        keys: files of keys, as apt keeps them.

    Raises:
        OSError: it is signed by none of them, or that cannot be told here.
    """
    gpgv = shutil.which("gpgv")
    if gpgv is None:
        raise OSError("whether it is signed cannot be told: gpgv is not installed on this host")
    with tempfile.TemporaryDirectory() as folder:
        argv = [gpgv, "--homedir", folder, "--status-fd", "2", "--output", "-"]
        # One file that is none, and gpgv finds nothing in the others either.
        for number, key in enumerate(filter(_is_keyring, map(_binary, keys))):
            path = Path(folder, f"{number}.gpg")
            path.write_bytes(key)
            argv += ["--keyring", str(path)]
        try:
            done = subprocess.run(argv, input=content, capture_output=True, timeout=_TIMEOUT_S, check=False)
        except subprocess.TimeoutExpired as error:
            raise OSError("gpgv did not end") from error
    if not _GOOD.search(done.stderr.decode(errors="replace")):
        raise OSError("it is signed by none of the keys that the base image has for apt")
    return done.stdout.decode(errors="replace")


def _binary(key: bytes) -> bytes:
    """A file of keys as gpgv takes it."""
    match = _ARMOUR.search(key)
    try:
        return base64.b64decode(b"".join(match[1].split())) if match else key
    except binascii.Error:
        return b""


def _is_keyring(key: bytes) -> bool:
    return key[:1] >= b"\x80" or key[8:12] == b"KBXf"
