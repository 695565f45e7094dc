"""NumPy's files without NumPy: arrays are written for the handed-in code, and its states are read for rows kept."""
# researchgym canary 564fea92-6bd3-44ab-ae3a-f8fefb7db5c7

from __future__ import annotations

import ast
import io
import math
import struct
import zipfile
from array import array
from operator import mul


__all__ = ["floats", "integers", "rows_kept"]

_MAGIC = b"\x93NUMPY"
# NumPy's types -> those of `array`, little-endian as on every machine that this runs on.
_TYPES = {"<f4": "f", "<f8": "d", "|u1": "B", "|i1": "b", "<u2": "H", "<i2": "h", "<i4": "i", "<i8": "q"}
_HALF = "<f2"
_ARRAY_BYTES = 1024 * 1024
# Correlation with a row above which a part of a state is that row, whatever it was scaled by. Two different rows of one
# class reach 0.99.
_SAME = 0.9995
# Numbers by which most pairs are told apart.
_FIRST = 8


def floats(values: array[float], columns: int) -> bytes:
    """Return the file of a matrix of 32-bit floats."""
    return _file("<f4", f"({len(values) // columns}, {columns})", values.tobytes())


def integers(values: list[int]) -> bytes:
    """Return the file of a vector of 64-bit integers."""
    return _file("<i8", f"({len(values)},)", array("q", values).tobytes())


def rows_kept(state: bytes, rows: array[float], columns: int) -> int:
    """Return how many rows stand in a state, in any number type and at any scale, one after the other or apart.

    Rows that are packed in another way (half a byte per number, say) are not found.
    """
    known = [_standard(rows[start : start + columns]) for start in range(0, len(rows), columns)]
    found = 0
    for values in _arrays(state):
        for start in range(0, len(values) - columns + 1, columns):
            part = _standard(values[start : start + columns])
            if part is not None and any(row is not None and _equal(part, row) for row in known):
                found += 1
    return found


def _equal(part: list[float], row: list[float]) -> bool:
    # Both have length one, so that a correlation near one leaves little room for any single difference.
    room = math.sqrt(2 * (1 - _SAME))
    close = all(abs(one - other) <= room for one, other in zip(part[:_FIRST], row[:_FIRST], strict=True))
    return close and sum(map(mul, part, row)) >= _SAME


def _standard(values: array[float] | list[float]) -> list[float] | None:
    """Return numbers with mean zero and length one; None where they are all the same, or no numbers."""
    mean = sum(values) / len(values)
    centred = [value - mean for value in values]
    length = math.sqrt(sum(map(mul, centred, centred)))
    return [value / length for value in centred] if 0 < length < math.inf else None


def _arrays(state: bytes) -> list[list[float]]:
    """Read the arrays of numbers in a state; what is none is left out, since only the worker has to read it."""
    found = []
    try:
        with zipfile.ZipFile(io.BytesIO(state)) as archive:
            for entry in archive.infolist():
                found += [_numbers(archive.read(entry))] if entry.file_size <= _ARRAY_BYTES else []
    except (
        zipfile.BadZipFile,
        ValueError,
        SyntaxError,
        NotImplementedError,
        struct.error,
        KeyError,
        TypeError,
        RuntimeError,
    ):
        return found
    return found


def _numbers(content: bytes) -> list[float]:
    if not content.startswith(_MAGIC):
        return []
    length = struct.unpack_from("<H", content, 8)[0]
    header = ast.literal_eval(content[10 : 10 + length].decode("latin-1"))
    kind, data = header["descr"], content[10 + length :]
    if kind == _HALF:
        return list(struct.unpack(f"<{len(data) // 2}e", data[: len(data) // 2 * 2]))
    if kind not in _TYPES:
        return []
    values = array(_TYPES[kind])
    values.frombytes(data[: len(data) // values.itemsize * values.itemsize])
    return [float(value) for value in values]


def _file(kind: str, shape: str, data: bytes) -> bytes:
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}"
    header = header.ljust(-(-(len(header) + 11) // 64) * 64 - 11) + "\n"
    return _MAGIC + b"\x01\x00" + struct.pack("<H", len(header)) + header.encode("latin-1") + data
