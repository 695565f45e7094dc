"""What may come back for one request to the outside."""

from __future__ import annotations

import gzip

import pytest

from pytest_researchenv.gateway.inside.passage import OWN_TEXT, WHOLE_BYTES, Passage, in_parts, readable
from pytest_researchenv.gateway.inside.search import BodySearch


CANARY = "mine canary 5b2f77f0-9c1d-4e0a-8d65-6a6f0d3c9e11"


def passage(length: int | None = None) -> Passage:
    """One whose answer begins."""
    made = Passage("GET", "a.example", "/x")
    made.answer_begins((CANARY,), length)
    return made


def test_an_answer_passes_until_something_is_found() -> None:
    """And nothing of it after that; what passed is counted."""
    one = passage()

    assert one.passes(b"x" * 100)
    assert not one.passes(f"y {CANARY}".encode())
    assert not one.passes(b"z")
    assert one.down == 100
    assert one.cut == f"{OWN_TEXT} (mine)"


def test_an_answer_without_canaries_passes() -> None:
    """Also one that is compressed, and one whose search was never begun."""
    assert passage().passes(gzip.compress(b"nothing" * 1000))
    assert Passage("GET", "a.example", "/x").passes(CANARY.encode())


@pytest.mark.parametrize(("length", "whole"), [(0, True), (WHOLE_BYTES, True), (WHOLE_BYTES + 1, False), (None, False)])
def test_small_answers_are_looked_at_as_a_whole(length: int | None, whole: bool) -> None:  # noqa: FBT001 - a parameter
    """Before any of it is passed on; what is large, or of no known size, is passed on while it comes."""
    assert Passage("GET", "a.example", "/x").answer_begins((CANARY,), length) is whole


def test_a_search_that_fails_stops_no_download(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a host sends: it is not searched any further."""

    def broken(*_: object) -> bool:
        raise RuntimeError

    monkeypatch.setattr(BodySearch, "feed", broken)
    one = passage()

    assert one.passes(b"x")
    assert one.passes(CANARY.encode())
    assert one.down == 1 + len(CANARY)


@pytest.mark.parametrize(
    ("asked", "left"),
    [
        ("gzip, deflate, br, zstd", "gzip, deflate"),
        ("br", "identity"),
        ("GZIP;q=1.0, *;q=0.5", "gzip;q=1.0"),
        ("identity", "identity"),
        ("x-gzip", "x-gzip"),
        (" , ", "identity"),
    ],
)
def test_only_codings_that_can_be_looked_into_are_asked_for(asked: str, left: str) -> None:
    """Without any, the answer comes as it is."""
    assert readable(asked) == left


@pytest.mark.parametrize(
    ("path", "parts"),
    [
        ("/torch-2.0.whl", True),
        ("/model.safetensors?download=true", True),
        ("/x/oracle.sh", False),
        ("/x/probe.PY?raw=1", False),
        ("/x.py/y", True),
    ],
)
def test_sources_come_as_a_whole(path: str, parts: bool) -> None:  # noqa: FBT001 - a parameter
    """A part of one may lack its canary; large files may be asked for in parts."""
    assert in_parts(path) is parts
