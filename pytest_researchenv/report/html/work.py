"""What an agent did, from its trajectory: which may be anything, and of any size."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from pytest_researchenv.agents.trajectory import shell_command
from pytest_researchenv.report.html.environment_view import Call, Turn, Work
from pytest_researchenv.report.html.text import cut, without_terminal
from pytest_researchenv.report.html.words import amount, duration, size


__all__ = ["MOST_BYTES", "read_work"]

#: Larger trajectories are not read.
MOST_BYTES = 16 * 1024**2

#: Of a longer trajectory, how many steps of its beginning and of its end are shown.
_FIRST, _LAST = 120, 40

#: How much of a message, of a command and of an output is shown.
_MESSAGE, _COMMAND, _OUTPUT = 2000, 2000, 3000


def read_work(path: Path) -> Work:
    """Read a trajectory."""
    try:
        length = path.stat().st_size
        if length > MOST_BYTES:
            return Work(problem=f"The trajectory has {size(length)}, which is too much for a page: {path.name}")
        document = json.loads(path.read_bytes())
    except FileNotFoundError:
        return Work(problem="No trajectory was recorded.")
    # Also what is no JSON, or too deep.
    except (OSError, ValueError, RecursionError) as error:
        return Work(problem=f"The trajectory cannot be read: {cut(str(error), 200)}")
    steps = document.get("steps") if isinstance(document, dict) else None
    if not isinstance(steps, list):
        return Work(problem="The trajectory has no steps.")
    return _work([step if isinstance(step, dict) else {} for step in steps])


def _work(steps: Sequence[Mapping[str, Any]]) -> Work:
    times = [_time(step.get("timestamp")) for step in steps]
    began = next((time for time in times if time), None)
    omitted = max(0, len(steps) - _FIRST - _LAST)
    shown = [*range(min(_FIRST, len(steps)))] if omitted else [*range(len(steps))]
    if omitted:
        shown += range(len(steps) - _LAST, len(steps))
    turns = tuple(_turn(number, steps[number], times, began) for number in shown)
    return Work(turns, omitted, _FIRST if omitted else 0)


def _turn(number: int, step: Mapping[str, Any], times: Sequence[datetime | None], began: datetime | None) -> Turn:
    then = times[number]
    following = times[number + 1] if number + 1 < len(times) else None
    return Turn(
        number=number + 1,
        source=cut(_text(step.get("source")), 40),
        after=_between(began, then, "after "),
        took=_between(then, following, ""),
        tokens=_tokens(step.get("metrics")),
        message=cut(without_terminal(_text(step.get("message"))), _MESSAGE),
        thought=cut(without_terminal(_text(step.get("reasoning_content"))), _MESSAGE),
        calls=tuple(_calls(step)),
    )


def _calls(step: Mapping[str, Any]) -> Iterator[Call]:
    observation = step.get("observation")
    results = _mappings(observation.get("results") if isinstance(observation, dict) else None)
    outputs: dict[str, str] = {}
    apart: list[str] = []
    for result in results:
        content = _text(result.get("content"))
        known = result.get("source_call_id")
        if isinstance(known, str):
            outputs[known] = content
        else:
            apart.append(content)
    for call in _mappings(step.get("tool_calls")):
        output = outputs.pop(_text(call.get("tool_call_id")), "")
        shell, command = _command(call.get("arguments"))
        tool = cut(_text(call.get("function_name")), 200)
        yield Call(tool, command, shell, _ends(without_terminal(output)))
    for content in (*outputs.values(), *apart):
        yield Call("observed", "", shell=False, output=_ends(without_terminal(content)))


def _command(arguments: object) -> tuple[bool, str]:
    if (found := shell_command(arguments)) is not None:
        return True, cut(found, _COMMAND)
    return False, cut(json.dumps(arguments, ensure_ascii=False, indent=1), _COMMAND)


def _mappings(found: object) -> Iterable[Mapping[str, Any]]:
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _text(value: object) -> str:
    """Return a text; of contents of several parts, their texts."""
    if isinstance(value, list):
        return "\n".join(_text(part.get("text")) for part in value if isinstance(part, dict))
    return "" if value is None else str(value)


def _ends(text: str) -> str:
    if len(text) <= _OUTPUT:
        return text
    half = _OUTPUT // 2
    return f"{text[:half]}\n… {len(text) - 2 * half:,} characters left out …\n{text[-half:]}"


def _tokens(metrics: object) -> str:
    if not isinstance(metrics, dict):
        return ""
    used = [metrics.get(name) for name in ("prompt_tokens", "completion_tokens")]
    return " + ".join(amount(number) for number in used if isinstance(number, int)) + " tokens" if any(used) else ""


def _time(value: object) -> datetime | None:
    try:
        return datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None


def _between(first: datetime | None, then: datetime | None, word: str) -> str:
    try:
        seconds = (then - first).total_seconds() if first and then else 0.0
    # One of them names its time zone, and the other does not.
    except TypeError:
        return ""
    return f"{word}{duration(seconds)}" if seconds > 0 else ""
