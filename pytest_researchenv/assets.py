"""Files that probes cannot do without: pinned, fetched once by the harness, checked, and kept."""

from __future__ import annotations

import hashlib
from pathlib import Path

import requests
from filelock import FileLock

from pytest_researchenv.errors import AssetError
from pytest_researchenv.model import Asset


__all__ = ["HOME", "fetch_asset"]

#: Where probes find assets: the file `HOME/NAME/NAME`.
HOME = "/researchenv/assets"

_TIMEOUT_S = (10.0, 60.0)
_BLOCK_BYTES = 1 << 20


def fetch_asset(name: str, asset: Asset, *, cache: Path) -> Path:
    """Have an asset on this machine.

    What was fetched before is taken from the cache, unless somebody changed it there. Several processes may call this
    at once: one works, the others wait.

    Args:
        name: its name, for messages.
        asset: what is fetched.
        cache: folder that keeps assets; made when it is not there.

    Returns:
        The file, whose content has the pinned size and digest.

    Raises:
        AssetError: it cannot be had, or is not what was pinned; the message says why.
    """
    place = cache / "assets" / asset.sha256
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(place.with_suffix(".lock")):
            if not place.exists() or _digest(place) != asset.sha256:
                _download(name, asset, place)
    except AssetError:
        raise
    except OSError as error:
        raise AssetError(f"the asset {name} cannot be kept in {place.parent}: {error}") from error
    return place


def _download(name: str, asset: Asset, place: Path) -> None:
    part = place.with_suffix(".part")
    read, digest = 0, hashlib.sha256()
    try:
        with requests.get(asset.url, stream=True, timeout=_TIMEOUT_S) as answer, part.open("wb") as file:
            answer.raise_for_status()
            for block in answer.iter_content(_BLOCK_BYTES):
                read += len(block)
                if read > asset.size_bytes:
                    break
                digest.update(block)
                file.write(block)
    except requests.RequestException as error:
        part.unlink(missing_ok=True)
        raise AssetError(
            f"the asset {name} cannot be fetched from {asset.url}: {error}; check the network, or put the file there "
            f"by hand: {place}"
        ) from error
    if read != asset.size_bytes or digest.hexdigest() != asset.sha256:
        part.unlink()
        found = f"more than {asset.size_bytes} bytes" if read > asset.size_bytes else f"{read} bytes"
        raise AssetError(
            f"{asset.url} is not the asset {name}: it has {found} and the sha256 {digest.hexdigest()}, but "
            f"{asset.size_bytes} bytes and {asset.sha256} are pinned"
        )
    part.replace(place)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
