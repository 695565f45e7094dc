"""What the sidecar tells the harness: one JSON object a line on stdout, never with a secret in it.

Runs in the sidecar, under any Python from 3.11 on, with the standard library alone.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass, field


__all__ = ["Reporter", "Scrubber"]

#: Between two signs of life, in seconds.
_ACTIVITY_S = 1.0

_MESSAGE_CHARACTERS = 300

#: Shorter values would be found by accident.
_LEAST_SECRET = 6


@dataclass(slots=True)
class Scrubber:
    """Takes secrets out of a body while it passes, whole or split over pieces; the length stays the same.

    Attributes:
        secrets: what must not pass.
    """

    secrets: tuple[bytes, ...]
    _rest: bytes = b""

    def feed(self, chunk: bytes) -> bytes:
        """Take a piece and return what can go on: what may be the beginning of a secret is kept back."""
        data = self._rest + chunk
        for secret in self.secrets:
            data = data.replace(secret, b"*" * len(secret))
        keep = max((_beginning(data, secret) for secret in self.secrets), default=0)
        self._rest = data[len(data) - keep :] if keep else b""
        return data[: len(data) - keep]

    def close(self) -> bytes:
        """What was kept back at the end."""
        rest, self._rest = self._rest, b""
        return rest


def _beginning(data: bytes, secret: bytes) -> int:
    """How many bytes at the end of `data` could begin a secret."""
    for length in range(min(len(secret) - 1, len(data)), 0, -1):
        if data.endswith(secret[:length]):
            return length
    return 0


@dataclass(slots=True)
class Reporter:
    """Prints events.

    Attributes:
        secrets: values that are taken out of everything that is printed.
    """

    secrets: tuple[str, ...] = ()
    _active: float = field(default=0.0)

    def __post_init__(self) -> None:
        self.secrets = tuple(secret for secret in self.secrets if len(secret) >= _LEAST_SECRET)

    def send(self, event: str, **values: object) -> None:
        """Print one event."""
        line = json.dumps({"event": event, **values}, separators=(",", ":"))
        sys.stdout.write(f"{self.clean(line)}\n")
        sys.stdout.flush()

    def activity(self) -> None:
        """Something passes; told once a second at most."""
        now = time.monotonic()
        if now - self._active >= _ACTIVITY_S:
            self._active = now
            self.send("activity")

    def clean(self, text: str) -> str:
        """The text without secrets."""
        for secret in self.secrets:
            text = text.replace(secret, "***")
        return text

    def message(self, text: str) -> str:
        """One line of a foreign text, cut to a useful length."""
        return self.clean(" ".join(text.split()))[:_MESSAGE_CHARACTERS]

    def scrubber(self) -> Scrubber:
        """For one body."""
        return Scrubber(tuple(secret.encode() for secret in self.secrets))
