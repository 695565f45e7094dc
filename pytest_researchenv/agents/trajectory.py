"""What an agent did, step by step, in one format for all: the Agent Trajectory Interchange Format (ATIF) 1.7.

The format is Harbor's: https://github.com/harbor-framework/harbor/blob/main/rfcs/0001-trajectory-format.md. Names and
meanings are the format's own. Of its optional fields, those are here that our agents fill.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from datetime import datetime
from typing import Any, ClassVar, Literal, final

from pytest_researchenv._sources import STRICT


__all__ = [
    "AgentInfo",
    "FinalMetrics",
    "Metrics",
    "Step",
    "Steps",
    "ToolCall",
    "Trajectory",
    "dump",
    "problems",
    "shell_command",
]

SCHEMA_VERSION = "ATIF-v1.7"

Source = Literal["system", "user", "agent"]

#: Deeper values of a call's arguments are written as text: an agent chooses them.
_DEEPEST = 50

#: Names of arguments that hold a shell's command.
_SHELL = ("command", "cmd", "script")

#: Fields that only steps of the agent may have.
_AGENTS_OWN = ("model_name", "reasoning_effort", "reasoning_content", "tool_calls", "metrics")


@dataclass(frozen=True, slots=True)
class AgentInfo:
    """Who worked: name of the agent, version of its tool, and its model."""

    __pydantic_config__: ClassVar = STRICT

    name: str
    version: str
    model_name: str | None = None


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One use of a tool: its id, unique among the calls of a step, the tool's name, and its arguments."""

    __pydantic_config__: ClassVar = STRICT

    tool_call_id: str
    function_name: str
    arguments: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class ObservationResult:
    """What one call gave: the id of the call in the same step, if it was one, and what came of it."""

    __pydantic_config__: ClassVar = STRICT

    source_call_id: str | None = None
    content: str | None = None


@dataclass(frozen=True, slots=True)
class Observation:
    """What came of a step's calls."""

    __pydantic_config__: ClassVar = STRICT

    results: tuple[ObservationResult, ...]


@dataclass(frozen=True, slots=True)
class Metrics:
    """Tokens and cost of a step as its tool tells; `prompt_tokens` includes `cached_tokens`."""

    __pydantic_config__: ClassVar = STRICT

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    cost_usd: float | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """One turn; `step_id` counts from 1."""

    __pydantic_config__: ClassVar = STRICT

    step_id: int
    source: Source
    message: str
    timestamp: str | None = None
    model_name: str | None = None
    reasoning_content: str | None = None
    tool_calls: tuple[ToolCall, ...] | None = None
    observation: Observation | None = None
    metrics: Metrics | None = None


@dataclass(frozen=True, slots=True)
class FinalMetrics:
    """Tokens and cost of all steps; the totals of the gateway, where there is one."""

    __pydantic_config__: ClassVar = STRICT

    total_prompt_tokens: int | None = None
    total_completion_tokens: int | None = None
    total_cached_tokens: int | None = None
    total_cost_usd: float | None = None
    total_steps: int | None = None


@dataclass(frozen=True, slots=True)
class Trajectory:
    """The root of the format."""

    __pydantic_config__: ClassVar = STRICT

    agent: AgentInfo
    steps: tuple[Step, ...]
    schema_version: str = SCHEMA_VERSION
    session_id: str | None = None
    notes: str | None = None
    final_metrics: FinalMetrics | None = None


@final
@dataclass(slots=True)
class Steps:
    """Collects steps whose results come later than the calls they belong to, as tools print them."""

    _steps: list[Step] = field(default_factory=list)
    _results: dict[int, dict[str, str]] = field(default_factory=dict)
    _step_of: dict[str, int] = field(default_factory=dict)

    def add(
        self,
        source: Source,
        message: str,
        *,
        calls: Iterable[ToolCall] = (),
        timestamp: str | None = None,
        model_name: str | None = None,
        reasoning_content: str | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        """Begin the next step; of calls with one id, the first is kept."""
        number = len(self._steps) + 1
        own: dict[str, ToolCall] = {}
        for call in calls:
            own.setdefault(call.tool_call_id, call)
        self._step_of |= dict.fromkeys(own, number)
        self._steps.append(
            Step(
                step_id=number,
                source=source,
                message=message,
                timestamp=timestamp,
                model_name=model_name,
                reasoning_content=reasoning_content,
                tool_calls=tuple(own.values()) or None,
                metrics=metrics,
            )
        )

    def result(self, call_id: str, content: str) -> None:
        """Put what came of a call to the newest step with a call of this id; with none, it is left out.

        What comes in several pieces is joined, a line break between them.
        """
        if number := self._step_of.get(call_id):
            known = self._results.setdefault(number, {})
            known[call_id] = f"{known[call_id]}\n{content}" if call_id in known else content

    @property
    def steps(self) -> tuple[Step, ...]:
        """All steps, with what came of their calls."""
        return tuple(
            replace(step, observation=Observation(tuple(ObservationResult(*result) for result in results.items())))
            if (results := self._results.get(step.step_id))
            else step
            for step in self._steps
        )


def dump(trajectory: Trajectory) -> bytes:
    """Return it as JSON; what is not known is left out.

    It can always be written: what is no text of Unicode is replaced, and what is no number of JSON becomes text.
    """
    text = json.dumps(_plain(trajectory), indent=2, ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "replace") + b"\n"


def problems(text: bytes) -> list[str]:
    """Say what is wrong with a trajectory; nothing when it follows the format.

    Fields of the format that are not among ours are passed over, since other tools write them.
    """
    try:
        return list(_problems(json.loads(text)))
    except (ValueError, RecursionError) as error:
        return [f"it is no JSON that can be read: {error}"]


def shell_command(arguments: object) -> str | None:
    """Return the shell's command among the arguments of a call; None where there is none."""
    if isinstance(arguments, dict):
        for name in _SHELL:
            if isinstance(found := arguments.get(name), str):
                return found
    return None


def _plain(value: object, depth: int = 0) -> object:
    plain: object
    if is_dataclass(value) and not isinstance(value, type):
        pairs = ((one.name, getattr(value, one.name)) for one in fields(value))
        plain = {name: _plain(content) for name, content in pairs if content is not None}
    elif value is None or isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value)):
        plain = value
    elif depth >= _DEEPEST:
        plain = "[too deep]"
    elif isinstance(value, Mapping):
        plain = {str(key): _plain(content, depth + 1) for key, content in value.items()}
    elif isinstance(value, list | tuple):
        plain = [_plain(content, depth + 1) for content in value]
    else:
        plain = str(value)
    return plain


# --- what the format asks for -----------------------------------------------------------------------------

#: Fields of the format that are not among ours.
_OTHERS: Mapping[type, tuple[str, ...]] = {
    Trajectory: ("trajectory_id", "continued_trajectory_ref", "subagent_trajectories", "extra"),
    AgentInfo: ("tool_definitions", "extra"),
    Step: ("reasoning_effort", "is_copied_context", "llm_call_count", "extra"),
    ToolCall: ("extra",),
    ObservationResult: ("subagent_trajectory_ref", "extra"),
    Metrics: ("prompt_token_ids", "completion_token_ids", "logprobs", "extra"),
    FinalMetrics: ("extra",),
}

#: What objects hold objects, and in which field.
_PARTS: Mapping[type, Mapping[str, type]] = {
    Trajectory: {"agent": AgentInfo, "steps": Step, "final_metrics": FinalMetrics},
    Step: {"tool_calls": ToolCall, "observation": Observation, "metrics": Metrics},
    Observation: {"results": ObservationResult},
}

_IMAGES = ("image/jpeg", "image/png", "image/gif", "image/webp")


def _problems(raw: object, place: str = "") -> Iterator[str]:
    # pydantic must cost nothing where no agent works.
    from pydantic import TypeAdapter, ValidationError  # noqa: PLC0415 - see above

    try:
        # Through JSON, since only there pydantic's strict mode takes a list for a tuple.
        trajectory = TypeAdapter(Trajectory).validate_json(json.dumps(_ours(raw, Trajectory)), strict=True)
    except ValidationError as error:
        for found in error.errors(include_url=False):
            what = "unknown field" if found["type"] == "unexpected_keyword_argument" else found["msg"]
            yield f"{place}{_dotted(found['loc']) or 'trajectory'}: {what}"
        return
    assert isinstance(raw, dict)  # noqa: S101 - pydantic has seen to it
    yield from (f"{place}{problem}" for problem in _inconsistencies(trajectory, raw))
    yield from _inner_problems(raw.get("subagent_trajectories"), place)


def _inner_problems(inner: object, place: str) -> Iterator[str]:
    if inner is None:
        return
    if not isinstance(inner, list):
        yield f"{place}subagent_trajectories: is no list"
        return
    names = [one.get("trajectory_id") for one in inner if isinstance(one, dict)]
    if not all(isinstance(name, str) for name in names) or len(set(names)) < len(inner):
        yield f"{place}subagent_trajectories: each must have a trajectory_id of its own"
    for index, one in enumerate(inner):
        yield from _problems(one, f"{place}subagent_trajectories[{index}].")


def _ours(raw: object, kind: type) -> object:
    """Leave out what is in the format and not among our fields, and put text for contents of several parts."""
    if isinstance(raw, list):
        return [_ours(one, kind) for one in raw]
    if not isinstance(raw, dict):
        return raw
    parts, others = _PARTS.get(kind, {}), _OTHERS.get(kind, ())
    values = {name: _ours(value, parts[name]) if name in parts else value for name, value in raw.items()}
    for name in ("message", "content"):
        if kind in (Step, ObservationResult) and isinstance(values.get(name), list) and all(map(_is_part, raw[name])):
            values[name] = ""
    return {name: value for name, value in values.items() if name not in others}


def _is_part(part: object) -> bool:
    if not isinstance(part, dict):
        return False
    match part:
        case {"type": "text", "text": str()}:
            return part.keys() == {"type", "text"}
        case {"type": "image", "source": {"media_type": str(kind), "path": str()}}:
            return part.keys() == {"type", "source"} and kind in _IMAGES
    return False


def _dotted(location: Sequence[int | str]) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location).removeprefix(".")


def _inconsistencies(trajectory: Trajectory, raw: Mapping[str, Any]) -> Iterator[str]:
    if not re.fullmatch(r"ATIF-v1\.[0-9]+", trajectory.schema_version):
        yield f"schema_version: is {trajectory.schema_version!r}, not ATIF-v1 and a minor version, as {SCHEMA_VERSION}"
    if not trajectory.steps:
        yield "steps: there is none"
    for index, (step, values) in enumerate(zip(trajectory.steps, raw["steps"], strict=True)):
        place = f"steps[{index}]"
        if step.step_id != index + 1:
            yield f"{place}.step_id: is {step.step_id}, not {index + 1}"
        yield from (f"{place}.{problem}" for problem in _step_problems(step, values))
    total = trajectory.final_metrics.total_steps if trajectory.final_metrics else None
    # The format lets the total be another one, where steps were left out; then the notes say so.
    if total is not None and total != len(trajectory.steps) and not trajectory.notes:
        yield f"final_metrics.total_steps: is {total}, with {len(trajectory.steps)} steps and no notes that say why"


def _step_problems(step: Step, raw: Mapping[str, Any]) -> Iterator[str]:
    if step.timestamp is not None:
        try:
            datetime.fromisoformat(step.timestamp)
        except ValueError:
            yield f"timestamp: {step.timestamp!r} is not ISO 8601"
    if step.source != "agent":
        for name in _AGENTS_OWN:
            if raw.get(name) is not None:
                yield f"{name}: only steps of the agent have it, and this one is the {step.source}'s"
    calls = [call.tool_call_id for call in step.tool_calls or ()]
    for repeated in sorted({call for call in calls if calls.count(call) > 1}):
        yield f"tool_calls: {repeated!r} is the id of several calls"
    for index, result in enumerate(step.observation.results if step.observation else ()):
        if result.source_call_id is not None and result.source_call_id not in calls:
            yield f"observation.results[{index}].source_call_id: {result.source_call_id!r} is no call of this step"
