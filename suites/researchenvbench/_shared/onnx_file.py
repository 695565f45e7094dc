"""Small networks as ONNX files, written without the package `onnx`: ONNX Runtime reads them, and it alone is needed.

The format is protobuf; the numbers of its fields are those of the ONNX standard.
"""  # researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4

from __future__ import annotations

from typing import TYPE_CHECKING


if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    import numpy as np


_KINDS = {"float32": 1, "int64": 7}


def _varint(value: int) -> bytes:
    """Encode a whole number that is not negative: seven bits a byte, the lowest first."""
    high, low = value >> 7, value & 127
    return bytes([low | 128]) + _varint(high) if high else bytes([low])


def _message(*fields: tuple[int, int | str | bytes]) -> bytes:
    """Encode fields, each a number and a value."""
    encoded = b""
    for number, value in fields:
        if isinstance(value, int):
            encoded += _varint(number << 3) + _varint(value)
        else:
            data = value.encode() if isinstance(value, str) else value
            encoded += _varint(number << 3 | 2) + _varint(len(data)) + data
    return encoded


def node(operator: str, inputs: str, output: str, **attributes: int | list[int]) -> bytes:
    """Make a node; its inputs are separated by spaces, its attributes are whole numbers or lists of them."""
    fields = [*((1, name) for name in inputs.split()), (2, output), (4, operator)]
    for name, value in attributes.items():
        given = [(3, value), (20, 2)] if isinstance(value, int) else [*((8, one) for one in value), (20, 7)]
        fields.append((5, _message((1, name), *given)))
    return _message(*fields)


def _value(name: str, kind: str, shape: Iterable[int]) -> bytes:
    """Describe an input or output of the network."""
    sizes = _message(*((1, _message((1, size))) for size in shape))
    return _message((1, name), (2, _message((1, _message((1, _KINDS[kind]), (2, sizes))))))


def write(
    path: Path,
    nodes: list[bytes],
    constants: dict[str, np.ndarray],
    inputs: dict[str, tuple[str, Iterable[int]]],
    outputs: dict[str, tuple[str, Iterable[int]]],
) -> None:
    """Write a network; inputs and outputs are given by name, kind of number and shape, in their order."""
    tensors = [
        _message(*((1, size) for size in array.shape), (2, _KINDS[str(array.dtype)]), (8, name), (9, array.tobytes()))
        for name, array in constants.items()
    ]
    graph = _message(
        *((1, one) for one in nodes),
        (2, "network"),
        *((5, one) for one in tensors),
        *((11, _value(name, *form)) for name, form in inputs.items()),
        *((12, _value(name, *form)) for name, form in outputs.items()),
    )
    path.write_bytes(_message((1, 8), (8, _message((1, ""), (2, 13))), (7, graph)))
