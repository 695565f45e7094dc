"""Archives that the engine makes of folders become listings, within bounds. No Docker."""

from __future__ import annotations

import io
import sys
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

import pytest

from pytest_researchenv.errors import SandboxError
from pytest_researchenv.integrity._files import Bounds, Files
from pytest_researchenv.integrity._listing import Listing
from pytest_researchenv.integrity.protocol import Entry, Kind


class Archive:
    """A container that has one folder, and answers with an archive of it, or of one file in it."""

    def __init__(self, *members: tuple[tarfile.TarInfo, bytes], cut: int = 0) -> None:
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
            for member, content in members:
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
        self._content = buffer.getvalue()[: cut or None]
        self._files = {info.name: content for info, content in members}
        self._names = {info.name: info.linkname or info.name for info, _ in members}

    def stat(self, path: str) -> None:
        """It cannot tell."""

    @contextmanager
    def get(self, path: str) -> Iterator[IO[bytes] | None]:
        """The archive of a folder, or of a file as if it had no other name."""
        if path == "/x":
            yield io.BytesIO(self._content)
            return
        content = self._files[self._names[path.removeprefix("/")]]
        yield io.BytesIO(Archive((member(path.rpartition("/")[2]), content))._content)


def member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    """One entry of an archive."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def tree(container: Archive, **bounds: int) -> tuple[dict[str, tuple[Kind, bytes | None]], list[str]]:
    """What is made of an archive of the folder `/x`, and what is noted of it."""
    notes: list[str] = []
    files = Files(lambda: container, Bounds(notes.append, **bounds))  # type: ignore[arg-type,return-value]
    listing = files.listing("/x", lambda path: path.endswith("wanted"))
    assert listing is not None
    return {entry.path: (entry.kind, entry.content) for entry in listing}, notes


FOLDER = (member("x", tarfile.DIRTYPE), b"")


def test_hard_links_are_files_of_their_own() -> None:
    """Archives name what came before; special files have names as well."""
    found, notes = tree(
        Archive(
            FOLDER,
            (member("x/a"), b"content"),
            (member("x/b.wanted", tarfile.LNKTYPE, "x/a"), b""),
            (member("x/pipe", tarfile.FIFOTYPE), b""),
            (member("x/other", tarfile.LNKTYPE, "x/pipe"), b""),
            (member("x/none", tarfile.LNKTYPE, "x/missing"), b""),
        )
    )

    assert found["/x/a"] == (Kind.FILE, None)
    assert found["/x/b.wanted"] == (Kind.FILE, b"content")
    assert found["/x/other"] == found["/x/pipe"] == (Kind.OTHER, None)
    assert "/x/none" not in found
    assert notes == []


@pytest.mark.parametrize(
    ("bounds", "note"),
    [
        ({"most_entries": 5}, "/x has more than 5 entries"),
        ({"most_bytes": 500}, "/x/f5.wanted has 100 bytes, and at most 0 more are read"),
        ({"most_kept": 500}, "/x has more than 500 bytes that are wanted"),
    ],
)
def test_reading_ends_at_its_bounds_and_says_so(bounds: dict[str, int], note: str) -> None:
    """What was read until then stays."""
    files = [(member(f"x/f{number}.wanted"), bytes(100)) for number in range(20)]
    found, notes = tree(Archive(FOLDER, *files), **bounds)

    assert note in notes
    assert len([content for _, content in found.values() if content is not None]) == 5


def test_a_damaged_archive_is_an_error_of_the_engine() -> None:
    """Who is to blame is found out by whoever asked."""
    whole = Archive(FOLDER, (member("x/file"), bytes(100_000)), cut=50_000)

    with pytest.raises(SandboxError, match="broken"):
        tree(whole)


def test_a_listing_may_be_let_go_of_in_another_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its file is closed there: who collects garbage is chance."""
    raised: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", raised.append)
    held = [Listing()]
    held[0].add(Entry("/a", Kind.FILE))

    releasing = threading.Thread(target=held.clear)
    releasing.start()
    releasing.join()

    assert not raised
