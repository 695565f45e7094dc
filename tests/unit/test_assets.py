"""Assets: what was pinned, or an error; never something else."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from pytest_researchenv.assets import fetch_asset
from pytest_researchenv.errors import AssetError, InfrastructureError
from pytest_researchenv.model import Asset


CONTENT = b"weights" * 1000


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def asset(tmp_path: Path) -> Iterator[Asset]:
    """A file on a server of this test's own, on loopback."""
    (tmp_path / "served").mkdir()
    (tmp_path / "served" / "weights.bin").write_bytes(CONTENT)
    handler = partial(_Quiet, directory=str(tmp_path / "served"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}/weights.bin"
        yield Asset(url, hashlib.sha256(CONTENT).hexdigest(), len(CONTENT))
        server.shutdown()


def test_an_asset_is_fetched_once(asset: Asset, tmp_path: Path) -> None:
    """Afterwards it comes from the cache, whether the server is there or not."""
    first = fetch_asset("weights.bin", asset, cache=tmp_path / "cache")
    again = fetch_asset("weights.bin", replace(asset, url="http://127.0.0.1:9/gone"), cache=tmp_path / "cache")

    assert first == again
    assert first.read_bytes() == CONTENT


def test_one_that_was_changed_in_the_cache_is_fetched_again(asset: Asset, tmp_path: Path) -> None:
    """The digest is looked at each time."""
    place = fetch_asset("weights.bin", asset, cache=tmp_path / "cache")
    place.write_bytes(b"something else")

    assert fetch_asset("weights.bin", asset, cache=tmp_path / "cache").read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("sha256", "size", "says"),
    [
        ("0" * 64, len(CONTENT), "is not the asset weights.bin: it has 7000 bytes and the sha256"),
        ("", 10, "it has more than 10 bytes"),
        ("", 8000, "it has 7000 bytes"),
    ],
)
def test_what_is_not_what_was_pinned_is_refused(
    asset: Asset, tmp_path: Path, sha256: str, size: int, says: str
) -> None:
    """Digest or size: nothing of it stays."""
    wrong = replace(asset, sha256=sha256 or asset.sha256, size_bytes=size)

    with pytest.raises(AssetError, match=says):
        fetch_asset("weights.bin", wrong, cache=tmp_path / "cache")
    assert [path.suffix for path in (tmp_path / "cache" / "assets").iterdir()] == [".lock"]


@pytest.mark.parametrize("path", ["/gone.bin", None])
def test_one_that_cannot_be_had_is_no_verdict(asset: Asset, tmp_path: Path, path: str | None) -> None:
    """A missing file and a server that does not answer are trouble of the infrastructure, with a way out."""
    url = asset.url.replace("/weights.bin", path) if path else "http://127.0.0.1:9/weights.bin"

    with pytest.raises(InfrastructureError, match=r"cannot be fetched from .*or put the file there by hand"):
        fetch_asset("weights.bin", replace(asset, url=url), cache=tmp_path / "cache")


@pytest.mark.parametrize(
    ("url", "sha256", "size", "says"),
    [
        ("https://host.example/x", "abc", 1, "sha256 must be 64"),
        ("file:///etc/passwd", "0" * 64, 1, "url must begin with https://"),
        ("https://host.example/x", "0" * 64, 0, "size_bytes must be positive"),
    ],
)
def test_what_cannot_be_an_asset_is_refused(url: str, sha256: str, size: int, says: str) -> None:
    """Files of this machine, too: a suite is not to read them."""
    with pytest.raises(ValueError, match=says):
        Asset(url, sha256, size)
