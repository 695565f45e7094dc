"""The real package index of this host says what pip installed from it."""

from __future__ import annotations

import base64
import csv
import importlib.metadata
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
import requests

from pytest_researchenv._packageindex import configured_index, session_for
from pytest_researchenv.integrity._ranges import RangeReader
from pytest_researchenv.integrity.published import PublishedRecords, Unknown


@pytest.fixture(scope="module", autouse=True)
def _reachable() -> None:
    """Skip where no index answers: that is no defect of ours."""
    index = configured_index()
    if not index.urls:
        pytest.skip("no package index that is reached over HTTP is configured for pip")
    try:
        with session_for(index) as session:
            session.get(f"{index.urls[0].rstrip('/')}/packaging/", timeout=10).raise_for_status()
    except requests.RequestException as error:
        pytest.skip(f"no package index answers: {error}")


def _hexadecimal(recorded: str) -> str:
    digest = recorded.removeprefix("sha256=")
    return base64.urlsafe_b64decode(digest + "=" * (-len(digest) % 4)).hex()


def _known(found: Mapping[str, str] | Unknown) -> Mapping[str, str]:
    assert not isinstance(found, Unknown), found.reason
    return found


@pytest.mark.parametrize("name", ["packaging", "pydantic-core", "requests"])
def test_what_pip_installed_here_is_what_was_published(tmp_path: Path, name: str) -> None:
    """Pure Python and compiled code alike: every file that both records name has the same hash."""
    installed = importlib.metadata.distribution(name)
    tags = [line.removeprefix("Tag: ") for line in (installed.read_text("WHEEL") or "").splitlines() if "Tag: " in line]

    files = _known(PublishedRecords(tmp_path).of(name, installed.version, tags))

    own = {
        path: hashed for path, hashed, *_ in csv.reader((installed.read_text("RECORD") or "").splitlines()) if hashed
    }
    both = files.keys() & own.keys()
    assert {path: files[path] for path in both} == {path: _hexadecimal(own[path]) for path in both}
    assert len(both) > 0.9 * len(files)


def test_of_a_wheel_of_a_gigabyte_little_is_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Torch 2.7.1 has 821 MB: 1.6 MB of it, and a tenth of a second (measured)."""
    fetched: list[int] = []
    fetch = RangeReader._fetch

    def counted(reader: RangeReader, start: int, stop: int) -> None:
        fetch(reader, start, stop)
        fetched.append(stop - start)

    monkeypatch.setattr(RangeReader, "_fetch", counted)
    started = time.monotonic()

    files = _known(PublishedRecords(tmp_path).of("torch", "2.7.1", ["cp311-cp311-manylinux_2_28_x86_64"]))

    assert len(files) == 11009
    assert sum(fetched) < 4_000_000
    assert time.monotonic() - started < 60


def test_sources_of_an_old_release_are_there(tmp_path: Path) -> None:
    """This one has no wheel at all, and every environment with hydra has built it on the spot."""
    records = PublishedRecords(tmp_path)

    sources = _known(records.sources_of("antlr4-python3-runtime", "4.9.3"))

    assert "src/antlr4/BufferedTokenStream.py" in sources
    assert isinstance(records.of("antlr4-python3-runtime", "4.9.3", ["py3-none-any"]), Unknown)


def test_what_nobody_published_is_unknown(tmp_path: Path) -> None:
    """And is said so in words."""
    found = PublishedRecords(tmp_path).of("torch", "2.7.1+nobody", ["cp311-cp311-manylinux_2_28_x86_64"])

    assert isinstance(found, Unknown)
    assert found.reason.startswith("the published torch 2.7.1+nobody is not known: ")
