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

#: Of a longer text, what comes later is not looked at.
_FOREIGN_CHARACTERS = 4096

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
    _told: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.secrets = tuple(secret for secret in self.secrets if len(secret) >= _LEAST_SECRET)

    def send(self, event: str, **values: object) -> None:
        """Print one event."""
        said = {"event": event, **{name: _whole(value) for name, value in values.items()}}
        line = json.dumps(said, separators=(",", ":"))
        sys.stdout.write(f"{self.clean(line)}\n")
        sys.stdout.flush()

    def activity(self) -> None:
        """The agent asks for something; told once a second at most."""
        self._sometimes("activity")

    def heard(self) -> None:
        """The service sent something; told once a second at most."""
        self._sometimes("heard")

    def clean(self, text: str) -> str:
        """The text without secrets."""
        for secret in self.secrets:
            text = text.replace(secret, "***")
        return text

    def message(self, text: str) -> str:
        """One line of a foreign text, cut to a useful length."""
        return self.text(" ".join(text[:_FOREIGN_CHARACTERS].split()), _MESSAGE_CHARACTERS)

    def text(self, text: str, most: int) -> str:
        """A foreign word, such as a path, of so many characters at most, with the unprintable ones escaped."""
        cut = self.clean(text)[:most]
        return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in cut)[:most]

    def _sometimes(self, event: str) -> None:
        now = time.monotonic()
        if now - self._told.get(event, -_ACTIVITY_S) >= _ACTIVITY_S:
            self._told[event] = now
            self.send(event)

    def scrubber(self) -> Scrubber:
        """For one body."""
        return Scrubber(tuple(secret.encode() for secret in self.secrets))


def _whole(value: object) -> object:
    """A value whose texts can be written in UTF-8: bytes that were no text are in them as halves of characters."""
    match value:
        case str():
            return value.encode(errors="backslashreplace").decode()
        case dict():
            return {str(_whole(name)): _whole(inner) for name, inner in value.items()}
        case list() | tuple():
            return [_whole(inner) for inner in value]
    return value
