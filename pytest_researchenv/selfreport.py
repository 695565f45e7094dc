"""Take in an agent's self-report, which may be anything at all.

The agent had root where it wrote the report, so nothing here trusts it: no form of it raises, loops or costs more
than a fixed amount of memory. What cannot be used comes back as a problem in words, for a person to read.
"""

from __future__ import annotations

import io
import json
import math
import tarfile
from dataclasses import dataclass
from typing import IO

from pytest_researchenv.model import NO_SELF_REPORT, SelfReport


__all__ = ["MAX_BYTES", "SelfReportIntake", "parse_report", "read_report"]

#: Largest report that is read.
MAX_BYTES = 1024 * 1024

# What a tar archive of one file may need beside the file: header, extended headers, padding and end mark.
_ARCHIVE_SLACK = 64 * 1024

_MAX_DEPTH = 16
_MAX_DIGITS = 18
_MAX_STRING = 4096
_SHOWN = 60

_TYPES: dict[str, type] = {
    "python_path": str,
    "python_version": str,
    "torch_version": str,
    "cuda_available": bool,
    "gpu_count": int,
    "ddp_expected_ok": bool,
    "env_tool": str,
    "env_name": str,
    "notes": str,
}

_TYPE_NAMES = {str: "a string", bool: "true or false", int: "an integer"}

_KINDS = {
    tarfile.DIRTYPE: "a folder",
    tarfile.FIFOTYPE: "a FIFO",
    tarfile.CHRTYPE: "a character device",
    tarfile.BLKTYPE: "a block device",
    tarfile.SYMTYPE: "a symbolic link",
    tarfile.LNKTYPE: "a hard link",
}


@dataclass(frozen=True, slots=True)
class SelfReportIntake:
    """What came of reading a self-report.

    Attributes:
        report: the report, or None when there is no usable one.
        problem: why there is none; empty when there is one.
        raw: the file as the agent wrote it; empty when it was not a regular file of an acceptable size.
        remarks: what is odd about a usable report: fields left out (read as null), fields it should not have.
    """

    report: SelfReport | None
    problem: str
    raw: bytes
    remarks: tuple[str, ...] = ()


class _UnusableError(Exception):
    """The report cannot be used; the message says why."""


def read_report(stream: IO[bytes] | None) -> SelfReportIntake:
    """Read a self-report from the tar stream that `Container.get` gives for its path.

    Every field may be null; a field that is left out counts as null, but a report with none of the nine is no report.

    Args:
        stream: the archive; None where there was nothing at the path. At most about 1 MiB of it is read.

    Returns:
        The report, or the problem with it. Only errors of the stream itself are raised.
    """
    if stream is None:
        return SelfReportIntake(report=None, problem=NO_SELF_REPORT, raw=b"")
    archive = _read_up_to(stream, MAX_BYTES + _ARCHIVE_SLACK)
    try:
        raw = _regular_file(archive)
    except _UnusableError as unusable:
        return SelfReportIntake(report=None, problem=f"the self-report {unusable}", raw=b"")
    return parse_report(raw)


def parse_report(raw: bytes) -> SelfReportIntake:
    """Read a self-report from the bytes of its file."""
    try:
        values = _parse(raw)
        report = _report(values)
    except _UnusableError as unusable:
        return SelfReportIntake(report=None, problem=f"the self-report {unusable}", raw=raw)
    return SelfReportIntake(report=report, problem="", raw=raw, remarks=_remarks(values))


def _read_up_to(stream: IO[bytes], limit: int) -> bytes:
    chunks: list[bytes] = []
    remaining = limit
    while remaining and (chunk := stream.read(remaining)):
        chunks.append(chunk)
        remaining -= len(chunk)
    return b"".join(chunks)


def _regular_file(archive: bytes) -> bytes:
    try:
        with tarfile.open(fileobj=io.BytesIO(archive), mode="r:") as members:
            member = members.next()
            if member is None:
                raise _UnusableError("came as an empty archive")
            # A sparse member's blocks are where its own header says, so only plain files are read.
            if member.type not in {tarfile.REGTYPE, tarfile.AREGTYPE}:
                kind = _KINDS.get(member.type, f"a special file (tar type {member.type!r})")
                raise _UnusableError(f"is {kind}, not a regular file")
            if member.size > MAX_BYTES:
                raise _UnusableError(f"has {member.size} bytes; at most {MAX_BYTES} are read")
            body = archive[member.offset_data : member.offset_data + member.size]
            if len(body) != member.size:
                raise _UnusableError(f"ends early: {len(body)} of {member.size} bytes came")
            return body
    except (tarfile.TarError, ValueError, OverflowError, EOFError) as error:
        raise _UnusableError(f"came as an unreadable archive: {error}") from error


def _parse(raw: bytes) -> dict[str, object]:
    if not raw.strip():
        raise _UnusableError("is empty")
    if raw.startswith((b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")):
        raise _UnusableError("starts with a byte-order mark; it must be plain UTF-8")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _UnusableError(f"is not UTF-8: byte {raw[error.start]:#04x} at offset {error.start}") from error
    _check_depth(text)
    try:
        value = json.loads(
            text,
            object_pairs_hook=_distinct,
            parse_constant=_no_constant,
            parse_int=_integer,
            parse_float=_finite,
        )
    except json.JSONDecodeError as error:
        raise _UnusableError(f"is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise _UnusableError(f"must be a JSON object, not {_shown(value)}")
    return value


def _check_depth(text: str) -> None:
    # By hand, since the parser recurses, and in one pass: a regular expression that skips strings is quadratic on a
    # long row of quotes.
    depth = 0
    in_string = escaped = False
    for character in text:
        if in_string:
            if escaped:
                escaped = False
            elif character == "\\":
                escaped = True
            elif character == '"':
                in_string = False
        elif character == '"':
            in_string = True
        elif character in "[{":
            depth += 1
            if depth > _MAX_DEPTH:
                raise _UnusableError(f"is nested deeper than {_MAX_DEPTH} levels")
        elif character in "]}":
            depth -= 1


def _distinct(pairs: list[tuple[str, object]]) -> dict[str, object]:
    values: dict[str, object] = {}
    for key, value in pairs:
        if key in values:
            raise _UnusableError(f"has the key {_shown(key)} twice")
        values[key] = value
    return values


def _no_constant(name: str) -> object:
    raise _UnusableError(f"holds {name}, which is not JSON")


def _integer(digits: str) -> int:
    if len(digits.lstrip("-")) > _MAX_DIGITS:
        raise _UnusableError(f"holds a number with more than {_MAX_DIGITS} digits")
    return int(digits)


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise _UnusableError(f"holds a number that is too large: {digits[:_SHOWN]}")
    return value


def _report(values: dict[str, object]) -> SelfReport:
    if not _TYPES.keys() & values.keys():
        raise _UnusableError(f"has none of the nine fields: {', '.join(_TYPES)}")
    wrong = [problem for name in _TYPES if (problem := _wrong(name, values.get(name)))]
    if wrong:
        raise _UnusableError("has wrong values: " + "; ".join(wrong))
    # Each value's type was compared with the field's just now.
    return SelfReport(**{name: values.get(name) for name in _TYPES})  # type: ignore[arg-type]


def _wrong(name: str, value: object) -> str:
    """Say what is wrong with a field's value; nothing when it is null or fine."""
    expected = _TYPES[name]
    if value is None:
        return ""
    # `True` is an `int` to Python and not to JSON.
    if type(value) is not expected:
        return f"{name} must be {_TYPE_NAMES[expected]} or null, not {_shown(value)}"
    if isinstance(value, str):
        return _wrong_string(name, value)
    if name == "gpu_count" and isinstance(value, int) and value < 0:
        return f"gpu_count must not be negative: {value} (null means unknown)"
    return ""


def _wrong_string(name: str, value: str) -> str:
    if any("\ud800" <= character <= "\udfff" for character in value):
        return f"{name} holds half of a surrogate pair, which is no character"
    if name == "notes":
        return ""
    if len(value) > _MAX_STRING:
        return f"{name} has {len(value)} characters; at most {_MAX_STRING} are allowed"
    if not value.isprintable():
        return f"{name} holds control characters: {_shown(value)}"
    return _wrong_path(name, value) if name == "python_path" else ""


def _wrong_path(name: str, value: str) -> str:
    if not value.startswith("/"):
        return f"{name} must be absolute, not {_shown(value)}"
    if ".." in value.split("/"):
        return f"{name} must not go through '..': {_shown(value)}"
    return ""


def _remarks(values: dict[str, object]) -> tuple[str, ...]:
    remarks = []
    if missing := [name for name in _TYPES if name not in values]:
        remarks.append("left out, read as null: " + ", ".join(missing))
    if extra := [name for name in values if name not in _TYPES]:
        more = f" and {len(extra) - 5} more" if len(extra) > 5 else ""  # noqa: PLR2004 - five names make the point
        remarks.append("not a field, ignored: " + ", ".join(map(_shown, extra[:5])) + more)
    return tuple(remarks)


def _shown(value: object) -> str:
    """Return a value as JSON, in ASCII and cut: it goes into messages and reports."""
    text = json.dumps(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
