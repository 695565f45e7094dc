"""An agent's self-report may be anything at all; reading it never raises and never costs much."""

from __future__ import annotations

import io
import json
import tarfile
import time
from dataclasses import asdict, fields
from typing import IO

import pytest

from pytest_researchenv.model import SelfReport
from pytest_researchenv.selfreport import MAX_BYTES, SelfReportIntake, read_report


GOOD: dict[str, object] = {
    "python_path": "/opt/venv/bin/python",
    "python_version": "3.11.2",
    "torch_version": "2.13.0+cpu",
    "cuda_available": False,
    "gpu_count": 0,
    "ddp_expected_ok": None,
    "env_tool": "uv",
    "env_name": "kvpress",
    "notes": "line one\nline two",
}


def archive(raw: bytes, *, kind: bytes = tarfile.REGTYPE, size: int | None = None, link: str = "") -> IO[bytes]:
    """Make the stream that a container engine gives for one path."""
    member = tarfile.TarInfo("report.json")
    member.type = kind
    member.linkname = link
    member.size = len(raw) if size is None else size
    padding = b"\0" * (-len(raw) % tarfile.BLOCKSIZE)
    return io.BytesIO(member.tobuf() + raw + padding + b"\0" * 2 * tarfile.BLOCKSIZE)


def read(raw: bytes) -> SelfReportIntake:
    """Read a report of these bytes."""
    return read_report(archive(raw))


def read_with(**changes: object) -> SelfReportIntake:
    """Read a good report with some fields changed."""
    return read(json.dumps(GOOD | changes).encode())


class CountingStream(io.RawIOBase):
    """A file that never ends, delivered in small pieces, and counts what was taken of it."""

    def __init__(self, head: bytes) -> None:
        self.taken = 0
        self._head = head

    def readable(self) -> bool:
        """It can be read."""
        return True

    def read(self, size: int = -1, /) -> bytes:
        """Give at most 4096 bytes."""
        piece = self._head[self.taken : self.taken + min(size, 4096)] or b"\0" * min(size, 4096)
        self.taken += len(piece)
        return piece


def test_a_good_report_comes_back_with_its_values_and_its_bytes() -> None:
    """Nine fields of the right types make a report; the bytes are kept as they were."""
    raw = json.dumps(GOOD).encode()

    intake = read(raw)

    assert (intake.problem, intake.remarks, intake.raw) == ("", (), raw)
    assert intake.report is not None
    assert asdict(intake.report) == GOOD


def test_every_field_of_the_model_is_taken_in() -> None:
    """A field that the model has is read: none is forgotten here when the model grows."""
    assert set(GOOD) == {field.name for field in fields(SelfReport)}
    for name, value in GOOD.items():
        assert read(json.dumps({name: value}).encode()).report is not None


@pytest.mark.parametrize("name", sorted(GOOD))
def test_every_field_may_be_null(name: str) -> None:
    """Null means "I don't know" and is always allowed."""
    intake = read_with(**{name: None})

    assert intake.problem == ""
    assert getattr(intake.report, name) is None


def test_a_field_left_out_counts_as_null_and_is_remarked() -> None:
    """An agent that forgets a field loses that claim, not its environment."""
    intake = read(json.dumps({key: value for key, value in GOOD.items() if key != "env_name"}).encode())

    assert intake.report is not None
    assert intake.report.env_name is None
    assert intake.remarks == ("left out, read as null: env_name",)


def test_a_field_too_many_is_ignored_and_remarked() -> None:
    """Fields of another format do no harm, and nobody misses that they were there."""
    intake = read_with(cuda_version="12.4", **{f"extra{index}": index for index in range(9)})

    assert intake.report is not None
    assert intake.remarks == (
        'not a field, ignored: "cuda_version", "extra0", "extra1", "extra2", "extra3" and 5 more',
    )


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (tarfile.DIRTYPE, "a folder"),
        (tarfile.FIFOTYPE, "a FIFO"),
        (tarfile.CHRTYPE, "a character device"),
        (tarfile.BLKTYPE, "a block device"),
        (tarfile.SYMTYPE, "a symbolic link"),
        (tarfile.LNKTYPE, "a hard link"),
        (tarfile.CONTTYPE, "a special file"),
        (b"Z", "a special file"),
    ],
)
def test_only_a_regular_file_is_read(kind: bytes, said: str) -> None:
    """A link is not followed and a device is not opened, whatever stands behind its entry."""
    intake = read_report(archive(b"", kind=kind, link="/etc/passwd"))

    assert intake.report is None
    assert f"is {said}" in intake.problem
    assert intake.raw == b""


def test_a_sparse_file_is_not_expanded() -> None:
    """GNU tar's own sparse format ends as a problem: its block map comes from the archive."""
    intake = read_report(archive(b"", kind=tarfile.GNUTYPE_SPARSE))

    assert intake.report is None
    assert intake.problem


def test_a_file_of_2_gb_is_refused_by_its_header() -> None:
    """At most about 1 MiB of a huge file is ever taken from the stream."""
    member = tarfile.TarInfo("report.json")
    member.size = 2 * 1024**3
    stream = CountingStream(member.tobuf())

    intake = read_report(stream)  # type: ignore[arg-type] # a raw stream has all of IO[bytes] that is used

    assert intake.report is None
    assert "has 2147483648 bytes; at most 1048576 are read" in intake.problem
    assert stream.taken <= 2 * MAX_BYTES


def test_a_header_that_promises_more_than_comes_is_a_problem() -> None:
    """A cut stream is not read as a shorter report."""
    raw = json.dumps(GOOD).encode()

    intake = read_report(io.BytesIO(archive(raw, size=MAX_BYTES).read()))

    assert intake.report is None
    assert "ends early" in intake.problem


def test_a_report_of_exactly_the_limit_is_read() -> None:
    """The limit itself is allowed, one byte more is not, and pieces of any size add up."""
    raw = json.dumps(GOOD | {"notes": ""}).encode()
    full = raw.replace(b'"notes": ""', b'"notes": "' + b"x" * (MAX_BYTES - len(raw)) + b'"')
    stream = CountingStream(archive(full).read())

    intake = read_report(stream)  # type: ignore[arg-type] # as above

    assert len(full) == MAX_BYTES
    assert intake.problem == ""
    assert "1048577 bytes" in read(full + b" ").problem


@pytest.mark.parametrize(
    "stream",
    [b"", b"\0" * 10240, b"not a tar archive" * 100, b"\xff" * 2048],
    ids=["empty", "no-member", "text", "bytes"],
)
def test_what_is_no_archive_is_a_problem(stream: bytes) -> None:
    """A stream that tarfile cannot read does not raise."""
    intake = read_report(io.BytesIO(stream))

    assert intake.report is None
    assert intake.problem


def test_every_broken_header_is_a_problem() -> None:
    """No single changed byte of a header, and no extended header of rubbish, makes reading raise."""
    good = archive(json.dumps(GOOD).encode()).read()
    for offset in range(tarfile.BLOCKSIZE):
        for byte in (0x00, 0x2D, 0x35, 0x4C, 0x53, 0x78, 0x80, 0xFF):
            data = bytearray(good)
            data[offset] = byte
            header = bytes(data[:148]) + b" " * 8 + bytes(data[156:512])
            data[148:156] = b"%06o\0 " % sum(header)
            read_report(io.BytesIO(bytes(data)))
    for rubbish in (b"99999999999999999999 x=y\n", b"0 =\n", b"\xff\xfe", b"25 size=notanumber______\n", b"1" * 500):
        member = tarfile.TarInfo("x")
        member.type = tarfile.XHDTYPE
        member.size = len(rubbish)
        block = member.tobuf() + rubbish.ljust(512, b"\0")
        read_report(io.BytesIO(block + good))


def test_no_file_is_a_problem() -> None:
    """Nothing at the path says so."""
    assert read_report(None).problem == "the agent left no self-report"


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"", "is empty"),
        (b" \n\t ", "is empty"),
        (b"\xef\xbb\xbf{}", "byte-order mark"),
        ('{"notes": "x"}'.encode("utf-16"), "byte-order mark"),
        (b'{"notes": "\xff"}', "is not UTF-8: byte 0xff at offset 11"),
        (b"{'notes': 1}", "is not JSON"),
        (b'{"notes": "x",}', "is not JSON"),
        (b'{"notes": "x"} {}', "is not JSON"),
        (b'{"notes": "x" // comment\n}', "is not JSON"),
        (b'{"notes": "a\nb"}', "is not JSON"),
        (b'{"notes": "x"', "is not JSON"),
        (b"{}", "has none of the nine fields"),
        (b'{"python": "/usr/bin/python3"}', "has none of the nine fields"),
        (b"null", "must be a JSON object, not null"),
        (b'["python_path"]', "must be a JSON object"),
        (b'"text"', "must be a JSON object"),
        (b'{"notes": null, "notes": "x"}', 'has the key "notes" twice'),
        (b'{"extra": {"a": 1, "a": 2}, "notes": "x"}', 'has the key "a" twice'),
        (b'{"gpu_count": NaN}', "holds NaN"),
        (b'{"gpu_count": -Infinity}', "holds -Infinity"),
        (b'{"extra": 1e999, "notes": "x"}', "too large"),
        (b'{"gpu_count": ' + b"9" * 5000 + b"}", "more than 18 digits"),
        (b'{"extra": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested deeper than 16"),
        (b'{"extra": ' + b'{"a":' * 17 + b"1" + b"}" * 18, "nested deeper than 16"),
        (b"[" * 500_000, "nested deeper than 16"),
    ],
)
def test_only_strict_json_is_read(raw: bytes, said: str) -> None:
    """Whatever other readers tolerate ends as a problem that names it; the bytes are kept."""
    intake = read(raw)

    assert intake.report is None
    assert said in intake.problem
    assert intake.raw == raw


def test_brackets_in_strings_are_not_depth() -> None:
    """Text that looks nested is text."""
    assert read_with(notes='[[[[[["' * 50 + "\\").problem == ""


@pytest.mark.parametrize(
    "raw",
    [b'"' * (MAX_BYTES - 1), b'\\"' * (MAX_BYTES // 2), b'{"notes": "' + b"\\" * 1_000_000, b"{" + b'"a":1,' * 150_000],
    ids=["quotes", "escaped-quotes", "backslashes", "keys"],
)
def test_no_report_takes_long(raw: bytes) -> None:
    """Work grows with the size and not with its square (a quadratic scan of 1 MiB takes hours)."""
    begin = time.process_time()

    intake = read(raw)

    assert intake.report is None
    assert time.process_time() - begin < 5


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("python_path", 3, "python_path must be a string or null, not 3"),
        ("python_path", "", "python_path must be absolute"),
        ("python_path", "bin/python", 'python_path must be absolute, not "bin/python"'),
        ("python_path", "~/venv/bin/python", "python_path must be absolute"),
        ("python_path", "/opt/../etc/python", "python_path must not go through '..'"),
        ("python_path", "/opt/venv/..", "python_path must not go through '..'"),
        ("python_path", "/opt/a\0b", "python_path holds control characters"),
        ("python_path", "/opt/a\nb", "python_path holds control characters"),
        ("python_path", "/" + "x" * 5000, "python_path has 5001 characters"),
        ("python_version", 3.11, "python_version must be a string or null, not 3.11"),
        ("torch_version", ["2.13.0"], 'torch_version must be a string or null, not ["2.13.0"]'),
        ("torch_version", "\ud800", "torch_version holds half of a surrogate pair"),
        ("env_tool", "\x1b[2J", "env_tool holds control characters"),
        ("cuda_available", "true", 'cuda_available must be true or false or null, not "true"'),
        ("cuda_available", 1, "cuda_available must be true or false or null, not 1"),
        ("ddp_expected_ok", 0, "ddp_expected_ok must be true or false or null, not 0"),
        ("gpu_count", True, "gpu_count must be an integer or null, not true"),
        ("gpu_count", 1.0, "gpu_count must be an integer or null, not 1.0"),
        ("gpu_count", "2", 'gpu_count must be an integer or null, not "2"'),
        ("gpu_count", -1, "gpu_count must not be negative: -1"),
        ("notes", {"a": "b"}, "notes must be a string or null"),
        ("notes", "\udfff", "notes holds half of a surrogate pair"),
    ],
)
def test_a_value_of_the_wrong_kind_is_a_problem(field: str, value: object, said: str) -> None:
    """Nothing is converted: a string is no number, 1 is not true."""
    intake = read_with(**{field: value})

    assert intake.report is None
    assert said in intake.problem


def test_all_wrong_values_are_named_at_once() -> None:
    """A person sees every field that is wrong."""
    problem = read_with(gpu_count="2", cuda_available="no").problem

    assert "gpu_count" in problem
    assert "cuda_available" in problem


def test_a_problem_stays_short_and_printable() -> None:
    """What the agent wrote is shown cut and escaped."""
    problem = read_with(gpu_count="\x1b[31m" + "é" * 100_000).problem

    assert len(problem) < 300
    assert problem.replace("…", "").isascii()
    assert problem.replace("…", "").isprintable()
