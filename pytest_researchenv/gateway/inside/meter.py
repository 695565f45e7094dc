"""Reads usage and errors out of a model's answer while it passes. Pure: knows nothing of the proxy.

Runs in the sidecar, under any Python from 3.11 on, with the standard library alone.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace


__all__ = ["Meter", "Problem", "Tokens", "priced"]

#: A larger answer in one piece, or event of a stream, is not read: no service sends one.
_LIMIT_BYTES = 32 * 1024 * 1024

_MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Tokens:
    """Tokens of one answer; the input is the sum of the first three.

    Attributes:
        tokens_in: input that was neither read from nor written to a cache.
        cache_read: input that was read from a cache.
        cache_write: input that was written to a cache.
        tokens_out: output, reasoning included.
        reasoning: output that was reasoning, where the service tells.
        cache_write_long: the part of `cache_write` that is kept for an hour, at a price of its own.
    """

    tokens_in: int = 0
    cache_read: int = 0
    cache_write: int = 0
    tokens_out: int = 0
    reasoning: int = 0
    cache_write_long: int = 0

    @property
    def input(self) -> int:
        """All input."""
        return self.tokens_in + self.cache_read + self.cache_write

    @property
    def total(self) -> int:
        """Input and output together."""
        return self.input + self.tokens_out

    def largest(self, other: Tokens) -> Tokens:
        """The larger of each number: services repeat the sums so far, and some repeat only a part."""
        mine, others = asdict(self), asdict(other)
        return Tokens(**{name: max(count, others[name]) for name, count in mine.items()})


@dataclass(frozen=True, slots=True)
class Problem:
    """An error that a service reports.

    Attributes:
        type: its type or code, as the service names it; empty where it names none.
        message: what it says; empty where it says nothing.
    """

    type: str = ""
    message: str = ""


def priced(tokens: Tokens, price: dict[str, float | None]) -> float:
    """What tokens cost in US dollars, by the prices per million of `Price`."""
    fresh, out = price["tokens_in"] or 0.0, price["tokens_out"] or 0.0
    read = _else(price.get("cache_read"), fresh)
    write = _else(price.get("cache_write"), fresh)
    long = _else(price.get("cache_write_long"), write)
    short = tokens.cache_write - tokens.cache_write_long
    sums = (
        (tokens.tokens_in, fresh),
        (tokens.cache_read, read),
        (short, write),
        (tokens.cache_write_long, long),
        (tokens.tokens_out, out),
    )
    return sum(count * each for count, each in sums) / _MILLION


def _else(value: float | None, default: float) -> float:
    return default if value is None else value


@dataclass(slots=True)
class Meter:
    """Is fed an answer's body in pieces of any size; tells what was in it so far.

    Attributes:
        api: value of `Api`.
        tokens: usage so far.
        counted: whether the service reported all of its usage.
        ended: whether the answer said that it is over.
        malformed: what is wrong with the body; empty while nothing is.
        problem: the error that it reports.
        passed: bytes so far.
    """

    api: str
    tokens: Tokens = field(default_factory=Tokens)
    counted: bool = False
    ended: bool = False
    malformed: str = ""
    problem: Problem | None = None
    passed: int = 0
    _streamed: bool | None = None
    _rest: bytearray = field(default_factory=bytearray)
    _data: list[bytes] = field(default_factory=list)
    _events: int = 0

    def feed(self, chunk: bytes) -> None:
        """Take the next piece."""
        self.passed += len(chunk)
        if self.malformed or not chunk:
            return
        begin = len(self._rest)
        self._rest += chunk
        if self._streamed is None:
            start = bytes(self._rest[:1024]).lstrip(b"\xef\xbb\xbf \t\r\n")
            if not start:
                return
            # By what it is, not by what its header says: some services name the wrong type.
            self._streamed = start[:1] not in {b"{", b"["}
            begin = 0
        if self._streamed:
            self._lines(begin)
        if len(self._rest) > _LIMIT_BYTES:
            self.malformed = f"more than {_LIMIT_BYTES} bytes in one piece"
            self._rest.clear()

    def close(self) -> None:
        """The body is complete."""
        if self.malformed:
            return
        if self._streamed:
            self._lines(0, last=True)
            if not self._events:
                self.malformed = "neither JSON nor a stream of events"
            return
        content = bytes(self._rest)
        self._rest.clear()
        try:
            answer = json.loads(content)
        except (ValueError, RecursionError):
            self.malformed = "no JSON" if content.strip() else "an empty body"
            return
        if not isinstance(answer, dict):
            self.malformed = "no JSON object"
            return
        self.ended = True
        self._read(answer)

    # --- Server-sent events ---------------------------------------------------------------------------------

    def _lines(self, begin: int, *, last: bool = False) -> None:
        """Take the complete lines; `begin` is where what is new starts."""
        if last:
            self._rest += b"\n\n"
        cut = self._rest.rfind(b"\n", begin)
        if cut < 0:
            return
        lines = bytes(self._rest[:cut]).split(b"\n")
        del self._rest[: cut + 1]
        for line in lines:
            text = line.rstrip(b"\r")
            if not text:
                self._event()
            elif text.startswith(b"data:"):
                self._data.append(text[5:].strip())

    def _event(self) -> None:
        data, self._data = b"\n".join(self._data), []
        if not data:
            return
        self._events += 1
        if data == b"[DONE]":
            self.ended = True
            return
        try:
            event = json.loads(data)
        except (ValueError, RecursionError):
            self.malformed = "an event that is no JSON"
            return
        if isinstance(event, dict):
            self._read(event)

    # --- What the three protocols say -----------------------------------------------------------------------

    def _read(self, said: dict[str, object]) -> None:
        match self.api:
            case "anthropic-messages":
                self._messages(said)
            case "openai-responses":
                self._responses(said)
            case _:
                self._chat(said)

    def _messages(self, said: dict[str, object]) -> None:
        kind = _word(said, "type")
        if kind == "error" or (not kind and "error" in said):
            self.problem = _problem(said.get("error"))
        elif kind == "message_start":
            # Its output is what came so far: the end of the stream has the sum.
            self._usage(_messages_usage(_table(_table(said, "message"), "usage")), counted=False)
        elif kind in {"message_delta", "message"}:
            usage = _table(said, "usage")
            self._usage(_messages_usage(usage), counted="output_tokens" in usage)
        elif kind == "message_stop":
            self.ended = True

    def _responses(self, said: dict[str, object]) -> None:
        kind = _word(said, "type")
        if kind == "error" or (not kind and said.get("error") and said.get("object") != "response"):
            self.problem = _problem(said.get("error") or said)
            return
        if said.get("object") == "response":
            answer = said
        elif kind in {"response.completed", "response.incomplete", "response.failed", "response.cancelled"}:
            answer = _table(said, "response")
            self.ended = True
        else:
            return
        if answer.get("status") == "failed" or kind == "response.failed":
            self.problem = _problem(answer.get("error"))
        usage = _table(answer, "usage")
        self._usage(_openai_usage(usage, "input_tokens", "output_tokens"), counted="output_tokens" in usage)

    def _chat(self, said: dict[str, object]) -> None:
        if said.get("error"):
            self.problem = _problem(said["error"])
            return
        usage = _table(said, "usage")
        if usage:
            # Some services repeat the sum so far in every piece; only the last one counts.
            self._usage(_openai_usage(usage, "prompt_tokens", "completion_tokens"), counted=True)
        choices = said.get("choices")
        if isinstance(choices, list) and any(isinstance(one, dict) and one.get("finish_reason") for one in choices):
            # Not every service sends [DONE].
            self.ended = True

    def _usage(self, tokens: Tokens, *, counted: bool) -> None:
        self.tokens = self.tokens.largest(tokens)
        self.counted = self.counted or counted


def _table(where: dict[str, object], name: str) -> dict[str, object]:
    value = where.get(name)
    return value if isinstance(value, dict) else {}


def _word(where: dict[str, object], name: str) -> str:
    value = where.get(name)
    return value if isinstance(value, str) else ""


def _number(where: dict[str, object], *names: str) -> int:
    for name in names:
        value = where.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return 0


def _problem(said: object) -> Problem:
    if not isinstance(said, dict):
        return Problem("", said if isinstance(said, str) else "")
    # OpenAI's code is finer than its type; Anthropic has a type alone.
    names = [value for value in (said.get("code"), said.get("type")) if isinstance(value, str) and value != "error"]
    message = said.get("message")
    return Problem(names[0] if names else "", message if isinstance(message, str) else "")


def _messages_usage(usage: dict[str, object]) -> Tokens:
    """Anthropic's `input_tokens` leave out what went through a cache."""
    write = _number(usage, "cache_creation_input_tokens")
    kept = _table(usage, "cache_creation")
    return Tokens(
        tokens_in=_number(usage, "input_tokens"),
        cache_read=_number(usage, "cache_read_input_tokens"),
        cache_write=write,
        tokens_out=_number(usage, "output_tokens"),
        reasoning=_number(_table(usage, "output_tokens_details"), "thinking_tokens", "reasoning_tokens"),
        cache_write_long=min(write, _number(kept, "ephemeral_1h_input_tokens")),
    )


def _openai_usage(usage: dict[str, object], given: str, made: str) -> Tokens:
    """OpenAI's input holds what was cached, its output the reasoning."""
    prompt, output, total = _number(usage, given), _number(usage, made), _number(usage, "total_tokens")
    details = _table(usage, f"{given}_details")
    read = min(prompt, _number(details, "cached_tokens") or _number(usage, "prompt_cache_hit_tokens"))
    write = min(prompt - read, _number(details, "cache_write_tokens", "cache_creation_tokens"))
    tokens = Tokens(
        tokens_in=prompt - read - write,
        cache_read=read,
        cache_write=write,
        tokens_out=output,
        reasoning=_number(_table(usage, f"{made}_details"), "reasoning_tokens"),
    )
    # Some services leave the reasoning out of the output, but not out of the sum.
    return replace(tokens, tokens_out=total - prompt) if total > prompt + output else tokens
