"""NexAU, by its own runner: `nexau serve stdio AGENT.yaml`, in the agent's container, with a Python of its own.

Its file of settings is made from the profile. All of its state is in the folder that is never frozen.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import Any, final

from pytest_researchenv.agents._cli import model_of, run_command
from pytest_researchenv.agents._lines import documents, number
from pytest_researchenv.agents._scratch import write_text
from pytest_researchenv.agents._tool_agent import ToolAgent
from pytest_researchenv.agents.hosttools import PythonTool
from pytest_researchenv.agents.protocol import SCRATCH, TOOL_TARGET, AgentTask, Needs, Telemetry, Tool
from pytest_researchenv.agents.trajectory import Metrics, Steps, ToolCall, Trajectory
from pytest_researchenv.errors import ConfigurationError
from pytest_researchenv.gateway.protocol import Api, ModelService
from pytest_researchenv.model import Repository
from pytest_researchenv.sandbox.protocol import Completed, Termination


__all__ = ["NexauAgent"]

#: Version 0.4.1 as of 2026-05-22; there are no releases on PyPI. Its lock is made of its repository's own `uv.lock`:
#: with newer libraries (ag-ui-protocol beyond 0.1.10) it cannot be imported.
_COMMIT = "1df3fd24ad054d64b74bd39beb3f33034fb5cbf7"

_PYTHON = f"{TOOL_TARGET}/python/bin/python3"
_FOLDER = f"{SCRATCH}/nexau"

_API_TYPES = {
    Api.MESSAGES: "anthropic_chat_completion",
    Api.RESPONSES: "openai_responses",
    Api.CHAT: "openai_chat_completion",
}

#: It reads a request as one line of at most 64 KiB.
_LONGEST_PROMPT = 60_000

_SYSTEM = (
    "You work alone in a Linux container, by the tools that you are given. Nobody can answer questions: decide for "
    "yourself, and go on until the task is done. Look at what a command printed before you go on. When all is done, or "
    "you can do no more, call complete_task."
)

#: Name → (what it binds to, what it is for, its parameters, those that must be given).
_TOOLS: Mapping[str, tuple[str, str, Mapping[str, tuple[str, str]], tuple[str, ...]]] = {
    "run_shell_command": (
        "shell_tools:run_shell_command",
        "Runs a bash command in a shell of its own, and returns its output and exit code once it has ended.",
        {
            "command": ("string", "the command"),
            "dir_path": ("string", "the folder it runs in; the repository's where none is given"),
            "timeout_ms": ("integer", "milliseconds after which it is ended; 1800000 where none are given"),
        },
        ("command",),
    ),
    "read_file": (
        "file_tools:read_file",
        "Returns what is in a file, or some of its lines.",
        {
            "file_path": ("string", "the file"),
            "offset": ("integer", "the first line to return, counted from 0"),
            "limit": ("integer", "how many lines to return"),
        },
        ("file_path",),
    ),
    "write_file": (
        "file_tools:write_file",
        "Writes a whole file; what was in it is lost.",
        {"file_path": ("string", "the file"), "content": ("string", "all that it will hold")},
        ("file_path", "content"),
    ),
    "replace": (
        "file_tools:replace",
        "Replaces a piece of text in a file.",
        {
            "file_path": ("string", "the file"),
            "old_string": ("string", "the text that is replaced, exactly as it stands there"),
            "new_string": ("string", "the text that takes its place"),
            "expected_replacements": ("integer", "how often it stands there; once where nothing is given"),
        },
        ("file_path", "old_string", "new_string"),
    ),
    "search_file_content": (
        "file_tools:search_file_content",
        "Finds lines that match a regular expression.",
        {
            "pattern": ("string", "the regular expression"),
            "dir_path": ("string", "the folder that is searched"),
            "include": ("string", "files that are searched, as a glob: *.py"),
        },
        ("pattern",),
    ),
    "list_directory": (
        "file_tools:list_directory",
        "Lists what is in a folder.",
        {"dir_path": ("string", "the folder")},
        ("dir_path",),
    ),
    "complete_task": (
        "session_tools:complete_task",
        "Ends the work. Nothing can be done after it.",
        {"result": ("string", "what was done, and what was not")},
        ("result",),
    ),
}


@final
class NexauAgent(ToolAgent):
    """Runs NexAU.

    Its settings can be changed by `arguments` such as `llm_config.max_tokens=16000`, named as in its YAML; those that
    would lead past the gateway are fixed. `version` is a commit of its repository.
    """

    kind = "nexau"
    tested = _COMMIT

    __slots__ = ()

    def __init__(
        self,
        *,
        name: str,
        needs: Needs,
        version: str = "",
        arguments: tuple[str, ...] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        _changed({}, arguments)
        super().__init__(name=name, needs=needs, version=version, arguments=arguments, environment=environment)

    @classmethod
    def _tool(cls, version: str) -> Tool:
        """Return its program, in a volume."""
        return _tool(version)

    def _shape(self, repository: Repository) -> Mapping[str, object]:
        """Digest of its program, its settings and its variables."""
        service = self._service
        return {
            "tool": self._needs.tool.key if self._needs.tool else None,
            "runner": _runner(),
            "files": self._files(service, repository),
            "environment": self._environment,
            "model": [service.api, *service.models],
        }

    def work(self, task: AgentTask) -> Telemetry:
        """Let it work until it has answered, or until the deadline.

        Raises:
            InfrastructureError: the container engine failed.
        """
        service, address = self._service, model_of(self._name, task)
        if len(json.dumps(task.prompt)) > _LONGEST_PROMPT:
            raise ConfigurationError(
                f"the prompt for {self._name} has {len(task.prompt)} characters, and NexAU reads lines of up to "
                "64 KiB: shorten it"
            )
        for path, text in self._files(service, task.repository).items():
            write_text(task.container, path, text)
        write_text(task.container, f"{_FOLDER}/prompt.md", task.prompt)
        write_text(task.container, f"{_FOLDER}/runner.py", _runner())
        completed = run_command(
            task,
            [_PYTHON, "-I", f"{_FOLDER}/runner.py", _PYTHON, f"{_FOLDER}/agent.yaml", f"{_FOLDER}/prompt.md"],
            {
                **self._environment,
                # Its database, and the output of commands, lie there.
                "HOME": f"{_FOLDER}/home",
                "TMPDIR": _FOLDER,
                "LLM_MODEL": service.model,
                "LLM_BASE_URL": address.url,
                "LLM_API_KEY": address.token,
            },
        )
        return _telemetry(completed)

    def trajectory(self, transcript: Path) -> Trajectory | None:
        """Read the events it printed; None where there are none."""
        reading = _Reading()
        for line in documents(transcript):
            with contextlib.suppress(AttributeError, KeyError, TypeError, ValueError):
                reading.take(line)
        reading.flush()
        return self._told("nexau", reading.steps.steps)

    def _files(self, service: ModelService, repository: Repository) -> dict[str, str]:
        """Path → content of its settings; JSON is YAML."""
        files = {f"{_FOLDER}/tools/{name}.yaml": json.dumps(_described(name)) for name in _TOOLS}
        llm: dict[str, Any] = {"stream": True, "api_type": _API_TYPES[service.api]}
        if service.api is Api.MESSAGES:
            # Which that service wants to be told.
            llm["max_tokens"] = 32_000
        settings: dict[str, Any] = {
            "type": "agent",
            "name": "researchenv",
            "system_prompt": _SYSTEM,
            "tool_call_mode": "structured",
            # The attempt's own limits hold.
            "max_iterations": 100_000,
            "llm_config": llm,
            "sandbox_config": {"type": "local"},
            "tools": [
                {"name": name, "yaml_path": f"./tools/{name}.yaml", "binding": f"nexau.archs.tool.builtin.{tool[0]}"}
                for name, tool in _TOOLS.items()
            ],
            "stop_tools": ["complete_task"],
        }
        settings = _changed(settings, self._arguments)
        settings["llm_config"] |= {
            "model": "${env.LLM_MODEL}",
            "base_url": "${env.LLM_BASE_URL}",
            "api_key": "${env.LLM_API_KEY}",
        }
        settings["sandbox_config"] |= {
            "work_dir": repository.workdir,
            # For the commands, whose work is frozen.
            "envs": {"HOME": "/root", "TMPDIR": "/tmp", "LLM_API_KEY": ""},  # noqa: S108 - the container's.
        }
        return {**files, f"{_FOLDER}/agent.yaml": json.dumps(settings)}


def _tool(version: str) -> PythonTool:
    lock = (resources.files("pytest_researchenv.agents") / "locks" / "nexau.txt").read_text(encoding="utf-8")
    source = f"nexau @ https://github.com/nex-agi/NexAU/archive/{version}.tar.gz"
    return PythonTool(f"nexau-{version[:12]}", alone=(*lock.split(), source))


def _runner() -> str:
    return (resources.files("pytest_researchenv.agents") / "inside" / "nexau_runner.py").read_text(encoding="utf-8")


def _described(name: str) -> dict[str, object]:
    _, purpose, parameters, required = _TOOLS[name]
    return {
        "type": "tool",
        "name": name,
        "description": purpose,
        "input_schema": {
            "type": "object",
            "properties": {key: {"type": kind, "description": text} for key, (kind, text) in parameters.items()},
            "required": list(required),
            "additionalProperties": False,
        },
    }


def _changed(settings: dict[str, Any], arguments: tuple[str, ...]) -> dict[str, Any]:
    """Settings with those of a profile: `llm_config.temperature=0`; what is no JSON is text.

    Raises:
        ConfigurationError: an argument is none of these.
    """
    for argument in arguments:
        name, sign, text = argument.partition("=")
        *path, last = name.split(".")
        try:
            value = json.loads(text)
        except ValueError:
            value = text
        place = settings
        for key in path:
            place = place.setdefault(key, {})
            if not isinstance(place, dict):
                break
        if not sign or not last or not isinstance(place, dict):
            raise ConfigurationError(
                f"{argument!r} is no setting of NexAU: write NAME=VALUE, as in `llm_config.temperature=0`"
            )
        place[last] = value
    return settings


def _telemetry(completed: Completed) -> Telemetry:
    numbers = {"wall_s": round(completed.duration_s, 3)}
    if completed.ok:
        return Telemetry("ended the run", numbers)
    if completed.termination is Termination.EXITED:
        for answer in documents(iter(completed.output.text().encode().splitlines())):
            if isinstance(error := answer.get("error"), dict):
                message = " ".join(str(error.get("message")).split())[:300]
                return Telemetry(f"NexAU reported an error: {message}", numbers, ok=False)
    return Telemetry(completed.how, numbers, ok=False)


@dataclass(slots=True)
class _Answer:
    """One answer of the model, as far as it has come."""

    at: object = None
    said: str = ""
    thought: str = ""
    calls: dict[str, list[str]] = field(default_factory=dict)
    model: object = None
    whole: bool = False
    usage: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class _Reading:
    """Makes steps of events, which come in pieces (AG-UI's, with some of NexAU's own)."""

    steps: Steps = field(default_factory=Steps)
    _answer: _Answer | None = None

    def take(self, line: Mapping[str, Any]) -> None:
        """Take a line of the protocol."""
        if line.get("method") == "agent.stream":
            self.steps.add("user", str(line["params"]["messages"]))
            return
        event = line["event"]
        kind = event["type"]
        if kind == "TOOL_CALL_RESULT":
            self.flush()
            self.steps.result(str(event["tool_call_id"]), _result(event["content"]))
        elif kind.startswith("TOOL_CALL_"):
            self._call(kind, event)
        else:
            self._word(kind, event)

    def _call(self, kind: str, event: Mapping[str, Any]) -> None:
        if kind == "TOOL_CALL_START":
            self._of(event).calls[str(event["tool_call_id"])] = [str(event["tool_call_name"]), ""]
        elif kind == "TOOL_CALL_ARGS" and self._answer and event["tool_call_id"] in self._answer.calls:
            self._answer.calls[event["tool_call_id"]][1] += event["delta"]

    def _word(self, kind: str, event: Mapping[str, Any]) -> None:
        match kind:
            case "TEXT_MESSAGE_CONTENT":
                self._of(event).said += event["delta"]
            case "THINKING_TEXT_MESSAGE_CONTENT":
                self._of(event).thought += event["delta"]
            case "MODEL_CALL_FINISHED":
                answer = self._of(event)
                answer.model, answer.whole = event["model_name"], True
            case "USAGE_UPDATE" if self._answer:
                self._answer.usage = event["usage"]

    def flush(self) -> None:
        """Make a step of the answer so far."""
        answer, self._answer = self._answer, None
        if answer is None or not (answer.said or answer.thought or answer.calls):
            return
        self.steps.add(
            "agent",
            answer.said,
            calls=[ToolCall(key, name, _arguments(text)) for key, (name, text) in answer.calls.items()],
            timestamp=_time(answer.at),
            model_name=answer.model if isinstance(answer.model, str) else None,
            reasoning_content=answer.thought or None,
            metrics=_metrics(answer.usage),
        )

    def _of(self, event: Mapping[str, Any]) -> _Answer:
        """The answer that an event is a piece of. Ids do not tell: words and calls of one answer can have several."""
        if self._answer is None or self._answer.whole:
            self.flush()
            self._answer = _Answer(event.get("timestamp"))
        return self._answer


def _result(content: object) -> str:
    """What a tool told the model; most of them wrap it."""
    text = str(content)
    with contextlib.suppress(ValueError, KeyError, TypeError, RecursionError):
        values = json.loads(text)
        return str(values["content"] if "content" in values else values["result"])
    return text


def _arguments(text: str) -> dict[str, object]:
    with contextlib.suppress(ValueError, RecursionError):
        values = json.loads(text)
        if isinstance(values, dict):
            return values
    return {"arguments": text}


def _time(milliseconds: object) -> str | None:
    if not isinstance(milliseconds, int | float):
        return None
    with contextlib.suppress(ValueError, OverflowError, OSError):
        at = datetime.fromtimestamp(milliseconds / 1000, UTC)
        return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return None


def _metrics(usage: object) -> Metrics | None:
    """Tokens as it counts them: its input is what no cache had to do with."""
    if not isinstance(usage, Mapping) or not usage:
        return None
    read = _count(usage.get("cache_read_tokens"))
    return Metrics(
        prompt_tokens=_count(usage.get("input_tokens")) + read + _count(usage.get("cache_creation_tokens")),
        completion_tokens=_count(usage.get("completion_tokens")),
        cached_tokens=read,
    )


def _count(value: object) -> int:
    return int(number(value) or 0)
