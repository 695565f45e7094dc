"""What an agent did at a research task, step by step, read from its trajectory: which may be anything."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from pytest_researchenv.agents.trajectory import shell_command


__all__ = ["Phase", "Worked", "phase_of", "worked_steps"]

#: More steps, and longer texts, are not looked at.
_MOST_STEPS, _LONGEST = 50_000, 200_000

#: Of a command, as much says what it is for.
_LONGEST_COMMAND = 20_000


class Phase(StrEnum):
    """What a step is for, by the commands in it."""

    READING = "reading"
    INSTALLING = "installing"
    WRITING = "writing"
    RUNNING = "running"
    WAITING = "waiting"
    THINKING = "thinking"


@dataclass(frozen=True, slots=True)
class Worked:
    """One step.

    Attributes:
        at: seconds from the beginning of the work until it began.
        took: seconds until the next one, or until the end of the work.
        phase: what it is for.
        commands: shell commands of it.
        output: what they printed.
        message: what the agent said.
        tokens: tokens of the model's answer and question, where its tool tells; else 0.
        wrote: whether it changed a file, as far as commands tell.
    """

    at: float
    took: float
    phase: Phase
    commands: tuple[str, ...] = ()
    output: str = ""
    message: str = ""
    tokens: int = 0
    wrote: bool = False


#: First words of commands, by what they are for. What is in none runs something.
_WORDS = {
    Phase.READING: re.compile(
        r"ls|cat|head|tail|less|more|[ef]?grep|rg|find|tree|wc|stat|file|diff|cd|pwd|echo|printf|which|env|du|df|git|free"
        r"|ps|pgrep|jobs|top|uname|date|test|\[|true|jq|sort|uniq|cut|awk|export|source|set|nvidia-smi|sed|perl"
    ),
    Phase.INSTALLING: re.compile(r"pip3?|uv|conda|mamba|apt|apt-get|npm|poetry|pipx|gdown|wget|curl|unzip|tar"),
    Phase.WRITING: re.compile(r"tee|touch|mkdir|cp|mv|rm|patch|apply_patch|ed|chmod|ln|truncate"),
    Phase.WAITING: re.compile(r"sleep|wait|watch"),
}

#: The later ones win, where a step has several commands.
_STRENGTH = (Phase.THINKING, Phase.READING, Phase.WAITING, Phase.WRITING, Phase.INSTALLING, Phase.RUNNING)

#: Tools that are no shells, by what is in their name.
_TOOLS = ((Phase.WRITING, ("write", "edit", "patch", "create", "replace", "notebook")), (Phase.READING, ("",)))

_SEPARATORS = re.compile(r"&&|\|\||[;|\n]|(?<![<>&\d])&(?![>&\d])")
_QUOTED = re.compile(r"'[^']*'|\"(?:[^\"\\]|\\.)*\"", re.DOTALL)
_REDIRECTED = re.compile(r"(?<![0-9&<>=-])>{1,2}\s*(?!&|/dev/null)[^\s;&|>]")
_EDITS = re.compile(r"^\s*(sed\s+(-\w*\s+)*-\w*i|perl\s+-\w*i)|<<-?\s*['\"]?\w+")
_PREFIXES = frozenset(("sudo", "nohup", "time", "timeout", "nice", "setsid", "exec", "command", "stdbuf"))
_PIP = re.compile(r"\s-m\s+(pip|venv|virtualenv)\b")


def worked_steps(document: object, *, wall_s: float | None = None) -> tuple[Worked, ...]:
    """Read the steps of a trajectory (`agents/trajectory.py` has the format); what is none is passed over.

    Args:
        document: the JSON document.
        wall_s: how long the work took, where that is known: the last step lasts until then.
    """
    steps = document.get("steps") if isinstance(document, dict) else None
    known = [one for one in steps[:_MOST_STEPS] if isinstance(one, dict)] if isinstance(steps, list) else []
    times = [_time(one.get("timestamp")) for one in known]
    began = next((time for time in times if time is not None), None)
    if began is None:
        return ()
    made: list[Worked] = []
    # A clock that was set back does not make time run backwards.
    seconds = list(_rising(0.0 if time is None else (time - began).total_seconds() for time in times))
    end = max(seconds[-1], wall_s or 0.0)
    for index, (step, at) in enumerate(zip(known, seconds, strict=True)):
        following = seconds[index + 1] if index + 1 < len(known) else end
        if step.get("source") == "agent":
            made.append(_step(step, at, following - at))
    return tuple(made)


def _step(step: Mapping[str, object], at: float, took: float) -> Worked:
    calls = [one for one in _list(step.get("tool_calls")) if isinstance(one, dict)]
    every = [shell_command(call.get("arguments")) for call in calls]
    commands = tuple(one[:_LONGEST_COMMAND] for one in every if one is not None)
    phases = [phase_of(command) for command in commands]
    for call in calls:
        if shell_command(call.get("arguments")) is None:
            name = str(call.get("function_name") or "").lower()
            phases.append(next(phase for phase, words in _TOOLS if any(word in name for word in words)))
    observation = step.get("observation")
    results = _list(observation.get("results")) if isinstance(observation, dict) else []
    output = "\n".join(str(one.get("content") or "") for one in results if isinstance(one, dict))
    metrics = step.get("metrics")
    counts = [metrics.get(name) for name in ("prompt_tokens", "completion_tokens")] if isinstance(metrics, dict) else []
    return Worked(
        at,
        took,
        max(phases, key=_STRENGTH.index, default=Phase.THINKING),
        commands,
        output[-_LONGEST:],
        str(step.get("message") or "")[:_LONGEST],
        sum(count for count in counts if isinstance(count, int) and not isinstance(count, bool) and count > 0),
        Phase.WRITING in phases or any(map(_writes, commands)),
    )


def phase_of(command: str) -> Phase:
    """What a shell command is for: the strongest of its parts, as `cd x && python train.py` runs something."""
    bare = _QUOTED.sub("''", _without_texts(command[:_LONGEST_COMMAND]))
    phases = [_part(part) for part in _SEPARATORS.split(bare)]
    if _writes(command):
        phases.append(Phase.WRITING)
    return max(phases, key=_STRENGTH.index, default=Phase.THINKING)


def _part(text: str) -> Phase:
    words = text.split()
    while words and (words[0] in _PREFIXES or "=" in words[0] or re.fullmatch(r"[-\d.]+[smh]?|-\w+", words[0])):
        words = words[1:]
    if not words:
        return Phase.THINKING
    first = words[0].rpartition("/")[2]
    if first.startswith("python") and _PIP.search(text):
        return Phase.INSTALLING
    return next((phase for phase, known in _WORDS.items() if known.fullmatch(first)), Phase.RUNNING)


def _writes(command: str) -> bool:
    return bool(_REDIRECTED.search(command) and "<<" in command) or any(
        _EDITS.search(part) for part in re.split(r"&&|;|\n", command.partition("<<")[0] or command)
    )


def _without_texts(command: str) -> str:
    """Without the lines of here-documents, which are no commands."""
    lines: list[str] = []
    ends: list[str] = []
    for line in command.splitlines():
        if ends:
            if line.strip() == ends[0]:
                ends.pop(0)
            continue
        lines.append(line)
        ends += re.findall(r"<<-?\s*['\"]?(\w+)", line)
    return "\n".join(lines)


def _rising(values: Iterable[float]) -> Iterator[float]:
    latest = 0.0
    for value in values:
        latest = max(latest, value)
        yield latest


def _list(value: object) -> Sequence[object]:
    return value if isinstance(value, list) else []


def _time(value: object) -> datetime | None:
    try:
        found = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    # Times with and without a zone cannot be compared.
    return found.replace(tzinfo=None) if found and found.utcoffset() is None else found and _utc(found)


def _utc(time: datetime) -> datetime:
    offset = time.utcoffset()
    return time.replace(tzinfo=None) - offset if offset is not None else time
