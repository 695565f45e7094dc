"""The attempts of an agent at a repository, seen while they are made."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import final

from pytest_researchenv.errors import StoreError
from pytest_researchenv.model import Environment
from pytest_researchenv.packedlogs import plain_name
from pytest_researchenv.store import Attempt, Store
from pytest_researchenv.watching.events import Event, Kind, duration
from pytest_researchenv.watching.tailing import NewLines


__all__ = ["Output", "Place", "Used", "WatchedAttempt"]

#: Logs of an attempt.
_LOG = ".log"


@dataclass(slots=True)
class Used:
    """What an attempt has used of models so far.

    Attributes:
        requests: requests that are over; 0 where no gateway stands between.
        tokens: input and output together.
        cost_usd: what is known of the cost, in US dollars.
        charged_usd: what it took from the budget, in US dollars.
    """

    requests: int = 0
    tokens: float = 0.0
    cost_usd: float = 0.0
    charged_usd: float = 0.0

    def add(self, line: bytes) -> None:
        """Take a line of `requests.jsonl`; one that is none counts for nothing."""
        try:
            said = json.loads(line)
            if said["kind"] != "call":
                return
            usage = said["usage"]
            tokens = sum(float(usage.get(name, 0)) for name in _TOKENS)
            cost, charged = float(said.get("cost_usd") or 0.0), float(said.get("charged_usd") or 0.0)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return
        self.requests += 1
        self.tokens += tokens
        self.cost_usd += cost
        self.charged_usd += charged

    @classmethod
    def told(cls, telemetry: Mapping[str, float]) -> Used:
        """What is recorded of one that is over."""
        tokens = telemetry.get("tokens_in", 0.0) + telemetry.get("tokens_out", 0.0)
        cost = telemetry.get("cost_usd", 0.0)
        return cls(int(telemetry.get("requests", 0)), tokens, cost, cost)


#: Kinds of tokens that a request is counted by.
_TOKENS = ("tokens_in", "cache_read", "cache_write", "tokens_out")


@dataclass(frozen=True, slots=True)
class Output:
    """The newest output of an attempt.

    Attributes:
        path: the log.
        at: when something was written to it, in seconds since 1970.
    """

    path: Path
    at: float


@final
@dataclass(slots=True)
class WatchedAttempt:
    """One attempt.

    Attributes:
        attempt: where it is.
        trial: which of the attempts that were asked for.
        over: whether it has left an environment, or ended in an error.
        used: what it has used of models so far.
    """

    attempt: Attempt
    trial: int
    over: bool = False
    used: Used = field(default_factory=Used)
    _requests: NewLines | None = None

    def look(self) -> list[Event]:
        """Read what is new; return what has happened."""
        if self.over:
            return []
        if event := self._ended():
            self.over = True
            return [event]
        self._requests = self._requests or NewLines(self.attempt.requests)
        for line in self._requests.read():
            self.used.add(line)
        return []

    def began(self) -> Event:
        """That it began."""
        created = self.attempt.start.created
        return Event(
            _exact(created, self.attempt.folder / "attempt.json"),
            Kind.ATTEMPT_BEGAN,
            self._name,
            {**self._facts, "trial": self.trial},
        )

    def newest_output(self) -> Output | None:
        """Its log that was written to last."""
        newest = None
        try:
            with os.scandir(self.attempt.folder) as entries:
                for entry in entries:
                    plain = plain_name(entry.name)
                    if plain.endswith(_LOG) and entry.is_file(follow_symlinks=False):
                        status = entry.stat()
                        if status.st_size and (newest is None or status.st_mtime >= newest.at):
                            newest = Output(self.attempt.folder / plain, status.st_mtime)
        except OSError:
            return None
        return newest

    def _ended(self) -> Event | None:
        folder = self.attempt.folder
        try:
            environment = self.attempt.environment()
            if environment:
                self.used = Used.told(environment.telemetry)
                return self._frozen(environment)
            message = self.attempt.error()
        except (StoreError, UnicodeDecodeError) as error:
            return self._failed(str(error), folder)
        return self._failed(message, folder / "error.txt") if message else None

    def _frozen(self, environment: Environment) -> Event:
        at = _exact(environment.created, self.attempt.folder / "environment.json")
        used = self.used
        took = environment.telemetry.get("wall_s")
        words = [f"{self._name}: {environment.ended}"]
        if took is not None:
            words.append(f"after {duration(took)}")
        if used.requests:
            words.append(f"{used.tokens:,.0f} tokens, ${used.cost_usd:.4f}")
        facts = {"ended": environment.ended, "wall_s": took, "tokens": used.tokens, "cost_usd": used.cost_usd}
        return Event(at, Kind.FROZEN, ", ".join(words), self._facts | facts)

    def _failed(self, message: str, path: Path) -> Event:
        first = next((line for line in message.splitlines() if line.strip()), "without a message")
        return Event(_changed(path), Kind.ATTEMPT_FAILED, f"{self._name}: {first}", {**self._facts, "message": message})

    @property
    def _name(self) -> str:
        key = self.attempt.key
        return f"{key.agent} {key.repository} attempt-{key.attempt:03d}"

    @property
    def _facts(self) -> dict[str, object]:
        key = self.attempt.key
        return {"agent": key.agent, "repository": key.repository, "attempt": key.attempt}


@final
class Place:
    """Where the attempts of an agent at a repository are."""

    def __init__(self, store: Store, agent: str, repository: str) -> None:
        self._store = store
        self._agent = agent
        self._repository = repository
        #: By number.
        self.attempts: dict[int, WatchedAttempt] = {}

    def look(self) -> list[Event]:
        """Read what is new; return what has happened."""
        events = []
        for attempt in self._store.attempts(self._agent, self._repository):
            number = attempt.key.attempt
            if number not in self.attempts:
                self.attempts[number] = WatchedAttempt(attempt, attempt.start.trial)
                events.append(self.attempts[number].began())
        for watched in self.attempts.values():
            events += watched.look()
        return events

    def newest(self, trial: int) -> WatchedAttempt | None:
        """The newest attempt of a trial."""
        numbers = [number for number, watched in self.attempts.items() if watched.trial == trial]
        return self.attempts[max(numbers)] if numbers else None


def _exact(created: str, path: Path) -> float:
    """When a record was written: it says the second, and its file says more where it was not copied."""
    changed = _changed(path)
    try:
        second = datetime.fromisoformat(created).timestamp()
    except ValueError:
        return changed
    return changed if 0 <= changed - second <= _PRECISION_S else second


#: Between a record's own time and that of its file, at most, in seconds.
_PRECISION_S = 2.0


def _changed(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
