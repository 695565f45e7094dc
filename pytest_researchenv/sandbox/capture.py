"""Keeps the head and the tail of a process's output."""

from __future__ import annotations

from collections.abc import Callable

from pytest_researchenv.sandbox.protocol import Captured


__all__ = ["Capture"]


class Capture:
    """Takes output chunk by chunk and keeps at most twice `limit` bytes, and as much again in passing."""

    def __init__(self, limit: int, on_output: Callable[[bytes], object] | None = None) -> None:
        self._limit = limit
        self._on_output = on_output
        self._head = bytearray()
        self._tail = bytearray()
        self._total = 0

    def feed(self, chunk: bytes) -> None:
        """Take the next chunk, and hand it on."""
        self._total += len(chunk)
        room = self._limit - len(self._head)
        self._head += chunk[:room]
        self._tail += chunk[room:]
        # Trimmed only at twice the limit, so that a byte is moved once on average.
        if len(self._tail) > 2 * self._limit:
            self._trim()
        if self._on_output is not None:
            self._on_output(chunk)

    def result(self) -> Captured:
        """What was kept so far."""
        self._trim()
        return Captured(bytes(self._head), bytes(self._tail), self._total)

    def _trim(self) -> None:
        del self._tail[: max(0, len(self._tail) - self._limit)]
