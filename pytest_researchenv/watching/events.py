"""What happens in a run, as lines for logs: for people, and as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum

from pytest_researchenv.probes.lookup import printable


__all__ = ["Event", "Kind", "clock_time", "duration", "json_line", "plain_line"]

_LONGEST = 600

#: No duration is shown as longer, in seconds: some thirty years.
_LONGEST_S = 1e9


class Kind(StrEnum):
    """What kind of thing has happened; the words stay what they are."""

    SESSION_BEGAN = "session began"
    COLLECTED = "collected"
    ATTEMPT_BEGAN = "attempt began"
    PHASE = "phase"
    FROZEN = "frozen"
    ATTEMPT_FAILED = "attempt failed"
    VERDICT = "verdict"
    COST = "cost"
    WORKER_DIED = "worker died"
    SESSION_SILENT = "session silent"
    SESSION_HEARD = "session heard again"
    SESSION_ENDED = "session ended"
    SESSION_DIED = "session died"


@dataclass(frozen=True, slots=True)
class Event:
    """Something that has happened.

    Attributes:
        at: seconds since 1970, UTC.
        kind: what kind of thing.
        words: what exactly, for people; they may hold anything.
        facts: the same for programs: name → value.
    """

    at: float
    kind: Kind
    words: str
    facts: Mapping[str, object] = field(default_factory=dict)


def plain_line(event: Event) -> str:
    """Return an event as a line for people, without its end."""
    return printable(f"{clock_time(event.at)} {event.kind}: {event.words}", _LONGEST)


def json_line(event: Event) -> str:
    """Return an event as a line of JSON, without its end; ASCII alone."""
    return json.dumps({"at": clock_time(event.at), "event": str(event.kind), **event.facts})


def clock_time(at: float) -> str:
    """A time, UTC, as ISO 8601 has it."""
    try:
        return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%M:%SZ}"
    except (ValueError, OverflowError, OSError):
        # A record may hold any number.
        return "0000-00-00T00:00:00Z"


def duration(seconds: float) -> str:
    """A duration: `0:07`, `12:34`, `1:02:03`."""
    # A record may hold any number.
    whole = int(min(max(0.0, seconds), _LONGEST_S)) if math.isfinite(seconds) else 0
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
