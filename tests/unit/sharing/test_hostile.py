"""Exports that somebody made to do harm, or that were damaged: a clear error, and nothing is written."""

from __future__ import annotations

import gzip
import json
import os
import random
import tarfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_researchenv.cli import main
from pytest_researchenv.sharing import unpacking
from pytest_researchenv.sharing.contents import TABLE, is_run_file
from tests.unit.sharing.parcels import PLACE, files_in, packed, parcel, plain, table


_FILES = {f"{PLACE}/attempt.json": b'{"session": "s"}', f"{PLACE}/error.txt": b"the registry did not answer"}


def _refused(source: Path, results: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Import what must be refused; returns what is said. Nothing is left, and nothing was written beside."""
    before = files_in(results.parent)

    assert main(["import", str(source), "--results", str(results)]) == 1

    assert files_in(results.parent) == before
    assert not results.exists() or list(results.iterdir()) == []
    return capsys.readouterr().err


def test_the_same_without_harm_is_taken(tmp_path: Path) -> None:
    """What the other tests change is fine as it is."""
    source = parcel(tmp_path / "x.tar.gz", _FILES)

    assert main(["import", str(source), "--results", str(tmp_path / "results")]) == 0
    assert files_in(tmp_path / "results") == {f"default/{PLACE[4:]}/{Path(k).name}": v for k, v in _FILES.items()}


@pytest.mark.parametrize(
    "name",
    [
        *("/etc/cron.d/x", "../x", "run/../../x", "run/agent/../../../x", f"{PLACE}/../../x", "run/./x", "run//x"),
        *("x", "run/x", "run/agent/attempt-001/x", "run/agent/suite/repo/attempt-1/x", f"{PLACE}/deeper/x"),
        *(f"{PLACE}/.hidden", "run/.lock", "run/agent/.lock", f"{PLACE}/a\\b", f"{PLACE}/a\nb", f"{PLACE}/\x1b[2J"),
        *("run/agent/suite/attempt-001/attempt-001/x", f"{PLACE}/{'x' * 256}", f"run/{'a/' * 9}attempt-001/x", ""),
        *("run/manifest-a/b.json", "run/journal-.jsonl/x", "run/.spending.json.lock", "images.tar", f"{PLACE}/"),
    ],
)
def test_a_path_that_has_no_place_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    """In the table, and in the archive: absolute, upwards, hidden, deeper, or none of a run at all."""
    results = tmp_path / "results"
    assert not is_run_file(name)

    said = _refused(parcel(tmp_path / "x.tar.gz", {**_FILES, name: b"x"}), results, capsys)
    assert "has no place" in said or "names images" in said
    assert "\x1b" not in said

    alone = [plain(TABLE, table(_FILES)), *(plain(one, content) for one, content in _FILES.items()), plain(name, b"x")]
    assert "not in its table" in _refused(packed(tmp_path / "y.tar.gz", alone), results, capsys)


@pytest.mark.parametrize(
    "kind",
    [
        *(tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE),
        *(tarfile.CONTTYPE, tarfile.GNUTYPE_SPARSE, b"Z"),
    ],
)
def test_what_is_no_plain_file_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: bytes) -> None:
    """Links, devices, pipes and folders, under a name that would be fine."""
    name = f"{PLACE}/report.json"
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, "/etc/passwd"
    files = {**_FILES, name: b""}
    source = packed(
        tmp_path / "x.tar.gz", [plain(TABLE, table(files)), *(plain(*one) for one in _FILES.items()), (member, b"")]
    )

    assert "no plain file" in _refused(source, tmp_path / "results", capsys)


def test_headers_that_grow_without_bounds_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Extended headers are read into memory whole, so that none is read: a gigabyte in a megabyte takes no memory."""
    header = tarfile.TarInfo("././@PaxHeader")
    header.type, header.size = tarfile.XHDTYPE, 2**30
    long = tarfile.TarInfo("././@LongLink")
    long.type, long.size = tarfile.GNUTYPE_LONGNAME, 2**30
    for number, member in enumerate((header, long)):
        source = tmp_path / f"{number}.tar.gz"
        with gzip.open(source, "wb", compresslevel=1) as file:
            file.write(member.tobuf(tarfile.GNU_FORMAT))
            for _ in range(256):
                file.write(bytes(2**20))
        tracemalloc.start()

        assert "no plain file" in _refused(source, tmp_path / "results", capsys)

        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert most < 32 * 2**20


def test_a_bomb_is_refused_by_what_it_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """More than is taken, more than there is room for, and a file larger than any record; what it says is compared."""
    name = f"{PLACE}/transcript.log"
    big = json.loads(table({name: b""}))
    for size, says in ((30 * 2**30, "--most-gib"), (2**30 + 1, "larger than any record")):
        big["members"][name]["bytes"] = size
        source = packed(tmp_path / f"{size}.tar.gz", [plain(TABLE, json.dumps(big).encode())])
        assert says in _refused(source, tmp_path / "results", capsys)

    source = packed(tmp_path / "x.tar.gz", [plain(TABLE, table({name: b""})), plain(name, bytes(2**20))])
    assert "has 1048576 bytes, and 0 in the table" in _refused(source, tmp_path / "results", capsys)


def test_no_room_is_said_before_anything_is_unpacked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the numbers."""
    source = parcel(tmp_path / "x.tar.gz", _FILES)
    monkeypatch.setattr(unpacking, "_FLOOR_BYTES", 2**60)

    assert "are free: make room" in _refused(source, tmp_path / "results", capsys)


def test_a_file_that_comes_twice_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither the first nor the last one wins."""
    members = [plain(TABLE, table(_FILES)), *(plain(*one) for one in (*_FILES.items(), *_FILES.items()))]

    assert "is in it twice" in _refused(packed(tmp_path / "x.tar.gz", members), tmp_path / "results", capsys)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"schema": 2}, "another version"),
        ({"schema": "1"}, "another version"),
        ({"kind": "other"}, "no export"),
        ({"run": "../x"}, "cannot have a folder"),
        ({"run": ".hidden"}, "cannot have a folder"),
        ({"run": ""}, "cannot have a folder"),
        ({"members": {}, "images": ["sha256:" + "0" * 64]}, "names images"),
        ({"images": ["python:3.11"]}, "no export"),
        ({"members": {f"{PLACE}/attempt.json": {"bytes": -1, "sha256": "0" * 64}}}, "no export"),
        ({"members": {f"{PLACE}/attempt.json": {"bytes": 16, "sha256": "0" * 63}}}, "no export"),
        ({"members": {f"{PLACE}/attempt.json": {"bytes": 16, "sha256": "0" * 64}}}, "not what the export's table says"),
        ({"unknown": 1}, "no export"),
    ],
)
def test_a_wrong_table_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], changes: dict[str, object], says: str
) -> None:
    """Another version is said to be one; digests count."""
    source = parcel(tmp_path / "x.tar.gz", _FILES, **changes)

    assert says in _refused(source, tmp_path / "results", capsys)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no archive",
        gzip.compress(b"no archive"),
        gzip.compress(b""),
        gzip.compress(bytes(10240)),
        b"\x1f\x8b\x08",
    ],
    ids=["nothing", "text", "packed text", "packed nothing", "end of archive", "begun"],
)
def test_what_is_no_archive_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes) -> None:
    """By its path."""
    (tmp_path / "x.tar.gz").write_bytes(content)

    assert "x.tar.gz" in _refused(tmp_path / "x.tar.gz", tmp_path / "results", capsys)


def test_what_is_not_there_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A path that leads nowhere."""
    assert "No such file" in _refused(tmp_path / "x.tar.gz", tmp_path / "results", capsys)
    (tmp_path / "folder").mkdir()
    assert TABLE in _refused(tmp_path / "folder", tmp_path / "results", capsys)


def test_a_missing_file_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An archive that ends early, at a file's border, too."""
    members = [plain(TABLE, table(_FILES)), plain(*next(iter(_FILES.items())))]

    assert "ends too early" in _refused(packed(tmp_path / "x.tar.gz", members), tmp_path / "results", capsys)


def test_no_damage_comes_in(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One bit or a torn end: refused, or it is what was exported all the same."""
    whole = parcel(tmp_path / "x.tar.gz", {**_FILES, f"{PLACE}/report.json": os.urandom(3000)}).read_bytes()
    chance = random.Random(8)  # noqa: S311 - no secret
    source = tmp_path / "y.tar.gz"
    for number in range(150):
        damaged = bytearray(whole)
        if number % 3:
            place = chance.randrange(len(whole))
            damaged[place] ^= 1 << chance.randrange(8)
        else:
            del damaged[chance.randrange(len(whole)) :]
        source.write_bytes(damaged)
        results = tmp_path / f"results-{number}"

        if main(["import", str(source), "--results", str(results)]):
            assert not results.exists() or list(results.iterdir()) == []
        else:
            # Bits of the packed archive's head say nothing of its content.
            main(["import", str(tmp_path / "x.tar.gz"), "--results", str(tmp_path / "whole")])
            assert files_in(results) == files_in(tmp_path / "whole")
    capsys.readouterr()


# --- folders of environments ------------------------------------------------------------------------------


def _folder(tmp_path: Path) -> Path:
    folder = tmp_path / "environment"
    for name, content in _FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    (folder / TABLE).write_bytes(table(_FILES, kind="environment"))
    return folder


def _link_the_file(folder: Path) -> None:
    (folder / PLACE / "error.txt").rename(folder / "elsewhere")
    (folder / PLACE / "error.txt").symlink_to(folder / "elsewhere")


def _link_the_way(folder: Path) -> None:
    (folder / "run/agent").rename(folder.parent / "elsewhere")
    (folder / "run/agent").symlink_to(folder.parent / "elsewhere")


def _pipe(folder: Path) -> None:
    (folder / PLACE / "error.txt").unlink()
    os.mkfifo(folder / PLACE / "error.txt")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (_link_the_file, "no plain file"),
        (_link_the_way, "no plain file"),
        (_pipe, "no plain file"),
        (lambda folder: (folder / PLACE / "error.txt").unlink(), "no plain file"),
        (lambda folder: (folder / PLACE / "error.txt").write_bytes(b"short"), "not what the export's table says"),
        (lambda folder: (folder / PLACE / "error.txt").write_bytes(b"x" * 100), "not what the export's table says"),
        (lambda folder: (folder / TABLE).write_bytes(b"{"), "no export"),
    ],
    ids=["link", "linked folder", "pipe", "gone", "shorter", "longer", "no table"],
)
def test_a_folder_is_looked_at_as_closely(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: Callable[[Path], object], says: str
) -> None:
    """Links lead nowhere, pipes are not waited for, and every file is what the table says."""
    folder = _folder(tmp_path)
    change(folder)
    said = []

    assert main(["import", str(folder), "--results", str(tmp_path / "results")]) == 1
    said.append(capsys.readouterr().err)

    assert says in said[0]
    assert list((tmp_path / "results").iterdir()) == []


def test_only_what_the_table_names_is_taken_of_a_folder(tmp_path: Path) -> None:
    """Its README, its recipe, and whatever lies there beside them are no records."""
    folder = _folder(tmp_path)
    (folder / PLACE / "environment.json").write_text("{}")

    assert main(["import", str(folder), "--results", str(tmp_path / "results")]) == 0
    assert len(files_in(tmp_path / "results")) == len(_FILES)


def test_what_was_spent_is_a_number(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Otherwise sums would break, or a limit on money be worth nothing."""
    entry = {"session": "s", "process": "p", "host": "h", "until": 0.0, "reserved": 0.0, "spent": 1.0}
    for wrong in (b"{", b"[]", b'{"a": {}}', *(_spent({**entry, "spent": bad}) for bad in (-1, "1", float("inf")))):
        source = parcel(tmp_path / "x.tar.gz", {**_FILES, "run/.spending.json": wrong})
        assert "spent" in _refused(source, tmp_path / "results", capsys)
        source.unlink()


def _spent(entry: dict[str, object]) -> bytes:
    return json.dumps({"a": entry}).encode()
