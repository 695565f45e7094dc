"""Codex, in the agent's container: `codex exec`, with events as JSON lines."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

from pytest_researchenv.agents._cli import excerpt, model_of, run_tool
from pytest_researchenv.agents._lines import documents, mapping, number, text
from pytest_researchenv.agents._tool_agent import ToolAgent
from pytest_researchenv.agents.protocol import SCRATCH, TOOL_TARGET, AgentTask, Telemetry, Tool
from pytest_researchenv.agents.tools import NpmPackage, NpmTool
from pytest_researchenv.agents.trajectory import AgentInfo, FinalMetrics, Steps, ToolCall, Trajectory
from pytest_researchenv.gateway.protocol import Api, Reach
from pytest_researchenv.model import Repository
from pytest_researchenv.sandbox.protocol import Completed, Termination


__all__ = ["VERSION", "CodexAgent"]

#: The version that is used where a profile names none.
VERSION = "0.171.0"

_PROGRAM = f"{TOOL_TARGET}/bin/codex"

#: Architecture of an engine → npm's name for it, Rust's, and the digest of the package of `VERSION`.
_PLATFORMS = {
    "amd64": (
        "x64",
        "x86_64-unknown-linux-musl",
        "sha512-l66NZkQgdk2C3pbcfULDz42yEUB581MVA6I+Y43Wp4OIqEy73HCdmZ0GTjeAHY2ycuH4N00d9VsLrwT1jxshTw==",
    ),
    "arm64": (
        "arm64",
        "aarch64-unknown-linux-musl",
        "sha512-9z17t4bbUJ9UCIb49O4PoA+ki+45q3rd8nZ8PeH6sYnlKkBld/Xpo/OS3h3Ti954+foshX4o7k5TCU8N7zzqQA==",
    ),
}

#: The second runs the JavaScript by which newer models call all tools; without it they can run no command.
_PROGRAMS = ("codex", "codex-code-mode-host")

_HOME = f"{SCRATCH}/codex"

#: Makes the tool's folder before it starts, since it wants it to be there.
_START = ("/bin/sh", "-c", f'mkdir -p {_HOME} && exec "$@"', "sh")

#: The variable that holds what it shows in place of a key; kept from the commands that it runs.
_TOKEN = "RESEARCHENV_MODEL_TOKEN"  # noqa: S105 - a name

_ARGUMENTS = (
    "exec",
    "--json",
    "--ephemeral",
    "--skip-git-repo-check",
    "--dangerously-bypass-approvals-and-sandbox",
)

_PROVIDER = "model_providers.researchenv"

#: What a profile may set otherwise, by arguments `-c NAME=VALUE`.
_DEFAULTS: Mapping[str, object] = {
    # Measured: the second governs all but 500, where the two multiply (the tool's own 4 and 5: 30 requests). Trouble
    # without end ends after 54 s; what a service says of when to come again is heeded.
    f"{_PROVIDER}.request_max_retries": 2,
    f"{_PROVIDER}.stream_max_retries": 8,
    # Between two events of an answer. For its beginning it waits without end.
    f"{_PROVIDER}.stream_idle_timeout_ms": 180_000,
}

#: What holds whatever a profile says.
_FIXED: Mapping[str, object] = {
    # Its own provider listens to no variable for its address.
    "model_provider": "researchenv",
    f"{_PROVIDER}.name": "researchenv",
    f"{_PROVIDER}.env_key": _TOKEN,
    f"{_PROVIDER}.wire_api": "responses",
    "shell_environment_policy.exclude": [_TOKEN],
    "check_for_update_on_startup": False,
    "analytics.enabled": False,
    "feedback.enabled": False,
    "history.persistence": "none",
    # It clones a repository of plugins at every start, and asks for connectors.
    "features.plugins": False,
    "features.apps": False,
}

#: Items of which only what is said counts.
_WORDS = frozenset({"agent_message", "reasoning"})


@final
class CodexAgent(ToolAgent):
    """Runs Codex.

    What it keeps for itself lies in the folder that is never frozen, and it is not on PATH. Unless its container may
    reach everything, its model has no search of the web.

    Args:
        name: the name users select it by.
        needs: what must be there for it to work; it adds its tool.
        version: of the tool; empty for `VERSION`.
        arguments: further arguments of its command line, after `exec`.
        environment: further variables.

    Raises:
        ConfigurationError: the profile names no model, or one that is served in another protocol.
    """

    kind = "codex"
    tested = VERSION
    api = Api.RESPONSES

    __slots__ = ()

    @classmethod
    def _tool(cls, version: str) -> Tool:
        """Return its program, in a volume."""
        return _tool(version)

    def _shape(self, repository: Repository) -> Mapping[str, object]:
        """Digest of its version, its model, and all that is set of it."""
        del repository
        return {
            "version": self._version,
            "model": [self._service.endpoint, self._service.models],
            "arguments": self._command(self._service.endpoint),
            "environment": self._environment,
        }

    def work(self, task: AgentTask) -> Telemetry:
        """Let it work until it ends, or until the deadline.

        Raises:
            SandboxError: the engine failed.
        """
        address = model_of(self._name, task)
        variables = {**self._environment, "CODEX_HOME": _HOME, _TOKEN: address.token}
        completed = run_tool(task, (*_START, _PROGRAM, *self._command(address.url)), variables)
        return _telemetry(completed)

    def trajectory(self, transcript: Path) -> Trajectory | None:
        """Read what the tool printed; None where nothing of it can be read."""
        read = _Reading()
        for line in documents(transcript):
            read.line(line)
        steps = read.finished()
        if not steps.steps:
            return None
        return Trajectory(
            AgentInfo("codex", self._version, self._service.model),
            steps.steps,
            session_id=read.session,
            final_metrics=read.final,
        )

    def _command(self, url: str) -> tuple[str, ...]:
        """Its arguments, the last of which has it read the prompt from stdin."""
        fixed = {**_FIXED, f"{_PROVIDER}.base_url": url}
        if self._needs.reach is not Reach.OPEN:
            fixed["web_search"] = "disabled"
        model = ("--model", self._service.model)
        return (*_ARGUMENTS, *model, *_settings(_DEFAULTS), *self._arguments, *_settings(fixed), "-")


def _settings(values: Mapping[str, object]) -> tuple[str, ...]:
    """Arguments that set these values; JSON of a text, a number, a truth value or a list is TOML, too."""
    return tuple(part for name, value in values.items() for part in ("-c", f"{name}={json.dumps(value)}"))


def _tool(version: str) -> NpmTool:
    packages = {
        architecture: NpmPackage(
            "@openai/codex",
            f"{version}-linux-{platform}",
            {f"package/vendor/{target}/bin/{program}": f"bin/{program}" for program in _PROGRAMS},
            integrity if version == VERSION else "",
        )
        for architecture, (platform, target, integrity) in _PLATFORMS.items()
    }
    return NpmTool("codex", version, packages)


def _telemetry(completed: Completed) -> Telemetry:
    numbers = {"wall_s": round(completed.duration_s, 3)}
    if completed.termination is not Termination.EXITED:
        return Telemetry(completed.how, numbers, ok=False)
    captured = completed.stdout
    lines = (captured.tail or captured.head).splitlines()
    kinds = ("turn.completed", "turn.failed", "error")
    last = next((line for line in documents(reversed(lines)) if line.get("type") in kinds), None)
    if last is None:
        return Telemetry(f"{completed.how}: {excerpt(completed)}", numbers, ok=False)
    if completed.ok and last.get("type") == "turn.completed":
        return Telemetry("finished", numbers)
    said = text(mapping(last.get("error")).get("message")) or text(last.get("message")) or completed.how
    return Telemetry(f"failed: {' '.join(said.split())[:300]}", numbers, ok=False)


@dataclass(slots=True)
class _Reading:
    """What has been read of a transcript. A step is what was thought and said, and the calls that follow."""

    session: str | None = None
    final: FinalMetrics | None = None
    _steps: Steps = field(default_factory=Steps)
    _thought: list[str] = field(default_factory=list)
    _said: list[str] = field(default_factory=list)
    _calls: dict[str, ToolCall] = field(default_factory=dict)
    _results: list[tuple[str, str]] = field(default_factory=list)

    def line(self, line: Mapping[str, Any]) -> None:
        """Take one line."""
        match line.get("type"):
            case "thread.started":
                self.session = self.session or text(line.get("thread_id")) or None
            case "item.started" | "item.completed" as event:
                self._item(mapping(line.get("item")), ended=event == "item.completed")
            case "turn.completed":
                self.final = _final(mapping(line.get("usage")))
            case "turn.failed":
                self._trouble(text(mapping(line.get("error")).get("message")))

    def finished(self) -> Steps:
        """Everything, once the last line was taken."""
        self._flush()
        return self._steps

    def _item(self, item: Mapping[str, Any], *, ended: bool) -> None:
        kind = text(item.get("type"))
        if kind == "error":
            if ended:
                self._trouble(text(item.get("message")))
        elif kind not in _WORDS:
            self._call(kind, item, ended=ended)
        elif ended:
            # It speaks again: this is its next turn.
            if self._calls or (self._said and kind == "reasoning"):
                self._flush()
            (self._said if kind == "agent_message" else self._thought).append(text(item.get("text")))

    def _call(self, kind: str, item: Mapping[str, Any], *, ended: bool) -> None:
        identity = text(item.get("id"))
        if identity not in self._calls:
            self._calls[identity] = ToolCall(identity, kind, _arguments(item))
        if ended:
            self._results.append((identity, _outcome(item)))

    def _trouble(self, message: str) -> None:
        self._flush()
        self._steps.add("system", message)

    def _flush(self) -> None:
        if self._thought or self._said or self._calls:
            self._steps.add(
                "agent",
                "\n\n".join(self._said),
                calls=self._calls.values(),
                reasoning_content="\n\n".join(filter(None, self._thought)) or None,
            )
        for call, content in self._results:
            self._steps.result(call, content)
        self._thought, self._said, self._calls, self._results = [], [], {}, []


#: What of an item came out of it.
_OUTCOME = ("aggregated_output", "exit_code", "result", "error", "status")


def _arguments(item: Mapping[str, Any]) -> Mapping[str, object]:
    return {name: value for name, value in item.items() if name not in {"id", "type", *_OUTCOME}}


def _outcome(item: Mapping[str, Any]) -> str:
    """What came of a call: what a command printed, with its exit code unless that is 0; else how it ended."""
    if item.get("type") == "command_execution":
        printed, code = text(item.get("aggregated_output")), item.get("exit_code")
        return printed if code == 0 else f"{printed}\n[exit code {code}]".lstrip()
    said = item.get("result") or item.get("error") or item.get("status")
    return said if isinstance(said, str) else json.dumps(said, default=str)


def _final(usage: Mapping[str, Any]) -> FinalMetrics:
    return FinalMetrics(
        total_prompt_tokens=_whole(usage, "input_tokens"),
        total_completion_tokens=_whole(usage, "output_tokens"),
        total_cached_tokens=_whole(usage, "cached_input_tokens"),
    )


def _whole(usage: Mapping[str, Any], name: str) -> int | None:
    value = number(usage.get(name))
    return None if value is None else int(value)
