"""Claude Code, in the agent's container: print mode, streamed as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

from pytest_researchenv.agents._cli import excerpt, model_of, run_tool
from pytest_researchenv.agents._lines import documents, mapping, mappings, number, text, when
from pytest_researchenv.agents._tool_agent import ToolAgent
from pytest_researchenv.agents.protocol import SCRATCH, TOOL_TARGET, AgentTask, Telemetry, Tool
from pytest_researchenv.agents.tools import NpmPackage, NpmTool
from pytest_researchenv.agents.trajectory import AgentInfo, FinalMetrics, Metrics, Steps, ToolCall, Trajectory
from pytest_researchenv.gateway.protocol import Api, Auth, GatewayAddress, Reach
from pytest_researchenv.model import Repository
from pytest_researchenv.sandbox.protocol import Completed, Termination


__all__ = ["VERSION", "ClaudeCodeAgent"]

#: The version that is used where a profile names none.
VERSION = "2.1.332"

_PROGRAM = f"{TOOL_TARGET}/bin/claude"

#: Architecture of an engine → npm's name for it, and the digest of the package of `VERSION`.
_PLATFORMS = {
    "amd64": (
        "x64",
        "sha512-f4JWhzwYutJIHScC7/dYOPX6s28tt7ZADhsOi8zwOHq5fFPEuUeChh2NMfinSg0GrUckYxaeebC4h0DqiKzLcw==",
    ),
    "arm64": (
        "arm64",
        "sha512-BlHNEtK38KBPWU31F4lUSS9sHclCyfWbThT1CErvxxH8+XcljYLZlQwdyXBkTD62rw1TgfE1u1a+quMWS0NSJg==",
    ),
}

_ARGUMENTS = (
    "--print",
    "--output-format=stream-json",
    # The former asks for it.
    "--verbose",
    "--dangerously-skip-permissions",
    # None that a repository's `.mcp.json` would start on the side.
    "--strict-mcp-config",
    "--no-session-persistence",
)

#: Tools that wait for another time, work in the background, or build in another place than the repository's folder.
_UNFIT = ("EnterWorktree", "Monitor", "ScheduleWakeup", "Workflow")

#: Tools that reach the web from elsewhere, past what the container may reach. The second asks a service of Anthropic's
#: whether a host is safe, and refuses where that cannot be reached.
_OUTWARD = ("WebSearch", "WebFetch")

#: What a profile may set otherwise.
_DEFAULTS = {
    # In the foreground, a command may take as long as it needs: `work` sets the most.
    "BASH_DEFAULT_TIMEOUT_MS": "600000",
    # Measured against 401, 500 and 529 without end: the tool's own 10 retries end after 186 s.
    "CLAUDE_CODE_MAX_RETRIES": "7",
    # Seconds of silence in a streamed answer; then it is asked for once more, in one piece.
    "CLAUDE_BYTE_STREAM_IDLE_TIMEOUT_MS": "180000",
    "API_TIMEOUT_MS": "300000",
}

#: What holds whatever a profile says.
_FIXED = {
    # As root it refuses to work without permissions being asked for, but in a sandbox.
    "IS_SANDBOX": "1",
    # Everything of its own goes to the folder that is never frozen. Without the second: /tmp/claude-0, /tmp/cc-socks.
    "CLAUDE_CONFIG_DIR": f"{SCRATCH}/claude",
    "CLAUDE_CODE_TMPDIR": f"{SCRATCH}/tmp",  # noqa: S108 - in the container
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_TELEMETRY": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1",
    "CLAUDE_CODE_DISABLE_CRON": "1",
    "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1",
    # Or claude-opus-4-1 becomes another model in silence.
    "CLAUDE_CODE_DISABLE_LEGACY_MODEL_REMAP": "1",
}

#: Models that the tool calls by role, above all for its subagents.
_ROLES = ("ANTHROPIC_DEFAULT_OPUS_MODEL", "ANTHROPIC_DEFAULT_SONNET_MODEL", "ANTHROPIC_DEFAULT_FABLE_MODEL")
_SMALL = ("ANTHROPIC_DEFAULT_HAIKU_MODEL", "ANTHROPIC_SMALL_FAST_MODEL")

#: Who speaks where the tool itself does.
_SYNTHETIC = "<synthetic>"


@final
class ClaudeCodeAgent(ToolAgent):
    """Runs Claude Code.

    What it keeps for itself lies in the folder that is never frozen, and it is not on PATH. Whatever role it calls a
    model by, it asks the profile's: its small one is the first of `ModelService.also`, if there is any. Unless its
    container may reach everything, it has no tools that search the web from elsewhere.

    Args:
        name: the name users select it by.
        needs: what must be there for it to work; it adds its tool.
        version: of the tool; empty for `VERSION`.
        arguments: further arguments of its command line.
        environment: further variables, which win over those that can be set otherwise.

    Raises:
        ConfigurationError: the profile names no model, or one that is served in another protocol.
    """

    kind = "claude-code"
    tested = VERSION
    api = Api.MESSAGES

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
            "arguments": self._command,
            "environment": {**_DEFAULTS, **self._environment, **_FIXED},
        }

    def work(self, task: AgentTask) -> Telemetry:
        """Let it work until it ends, or until the deadline.

        Raises:
            SandboxError: the engine failed.
        """
        variables = self._variables(model_of(self._name, task), task.timeout_s)
        completed = run_tool(task, (_PROGRAM, *self._command), variables)
        return _telemetry(completed)

    def trajectory(self, transcript: Path) -> Trajectory | None:
        """Read what the tool printed; None where nothing of it can be read."""
        read = _Reading(self._service.model)
        for line in documents(transcript):
            read.line(line)
        steps = read.finished()
        if not steps.steps:
            return None
        return Trajectory(
            AgentInfo("claude-code", read.version or self._version, read.model),
            steps.steps,
            session_id=read.session,
            final_metrics=read.final,
        )

    @property
    def _command(self) -> tuple[str, ...]:
        """Its arguments."""
        unfit = _UNFIT if self._needs.reach is Reach.OPEN else (*_UNFIT, *_OUTWARD)
        # With `=`: its value may have several words, and would take what follows.
        return (f"--disallowedTools={','.join(unfit)}", *_ARGUMENTS, *self._arguments)

    def _variables(self, address: GatewayAddress, timeout_s: float) -> dict[str, str]:
        service = self._service
        small = service.also[0] if service.also else service.model
        header = "ANTHROPIC_API_KEY" if service.auth is Auth.API_KEY else "ANTHROPIC_AUTH_TOKEN"
        return {
            **_DEFAULTS,
            "BASH_MAX_TIMEOUT_MS": str(int(timeout_s * 1000)),
            **self._environment,
            **_FIXED,
            "ANTHROPIC_MODEL": service.model,
            **dict.fromkeys(_ROLES, service.model),
            **dict.fromkeys(_SMALL, small),
            "ANTHROPIC_BASE_URL": address.url,
            header: address.token,
        }


def _tool(version: str) -> NpmTool:
    packages = {
        architecture: NpmPackage(
            f"@anthropic-ai/claude-code-linux-{platform}",
            version,
            {"package/claude": "bin/claude"},
            integrity if version == VERSION else "",
        )
        for architecture, (platform, integrity) in _PLATFORMS.items()
    }
    return NpmTool("claude-code", version, packages)


def _telemetry(completed: Completed) -> Telemetry:
    numbers = {"wall_s": round(completed.duration_s, 3)}
    if completed.termination is not Termination.EXITED:
        return Telemetry(completed.how, numbers, ok=False)
    captured = completed.stdout
    lines = (captured.tail or captured.head).splitlines()
    result = next((line for line in documents(reversed(lines)) if line.get("type") == "result"), None)
    if result is None:
        return Telemetry(f"{completed.how}: {excerpt(completed)}", numbers, ok=False)
    if (turns := number(result.get("num_turns"))) is not None:
        numbers["turns"] = turns
    # On errors of the model's, too, `subtype` is "success".
    if completed.ok and not result.get("is_error"):
        return Telemetry("finished", numbers)
    reason = text(result.get("terminal_reason")) or text(result.get("subtype")) or completed.how
    said = " ".join(text(result.get("result")).split())[:300]
    return Telemetry(f"{reason}: {said}" if said else reason, numbers, ok=False)


@dataclass(slots=True)
class _Reading:
    """What has been read of a transcript. A message comes in several lines, with results of its calls between them."""

    model: str
    version: str = ""
    session: str | None = None
    final: FinalMetrics | None = None
    _steps: Steps = field(default_factory=Steps)
    _seen: set[str] = field(default_factory=set)
    _current: dict[str, Any] = field(default_factory=dict)
    _said: dict[str, list[Any]] = field(default_factory=dict)
    _results: list[tuple[str, str]] = field(default_factory=list)

    def line(self, line: Mapping[str, Any]) -> None:
        """Take one line."""
        match line.get("type"):
            case "system" if line.get("subtype") == "init":
                self.version = self.version or text(line.get("claude_code_version"))
                self.model = text(line.get("model")) or self.model
                self.session = self.session or text(line.get("session_id")) or None
            case "assistant":
                self._assistant(line)
            case "user":
                self._user(line)
            case "result":
                self.final = _final(line)

    def finished(self) -> Steps:
        """Everything, once the last line was taken."""
        self._flush()
        return self._steps

    def _assistant(self, line: Mapping[str, Any]) -> None:
        message = mapping(line.get("message"))
        identity = text(message.get("id"))
        if not self._current or identity != self._current["id"]:
            self._flush()
            self._current = {"id": identity, "message": message, "timestamp": when(line.get("timestamp"))}
            self._said = {"text": [], "thinking": [], "tool_use": []}
        for block in mappings(message.get("content")):
            match block.get("type"):
                case "text" | "thinking" as kind:
                    self._said[kind].append(text(block.get(kind)))
                case "tool_use":
                    call = ToolCall(text(block.get("id")), text(block.get("name")), mapping(block.get("input")))
                    self._said["tool_use"].append(call)

    def _user(self, line: Mapping[str, Any]) -> None:
        for block in mappings(mapping(line.get("message")).get("content")):
            if block.get("type") == "tool_result":
                self._results.append((text(block.get("tool_use_id")), _printed(block.get("content"))))

    def _flush(self) -> None:
        if self._current:
            self._add(self._current["message"], self._current["timestamp"])
        for call, content in self._results:
            self._steps.result(call, content)
        self._current, self._results = {}, []

    def _add(self, message: Mapping[str, Any], timestamp: str | None) -> None:
        words = "\n\n".join(filter(None, self._said["text"]))
        if message.get("model") == _SYNTHETIC:
            self._steps.add("system", words, timestamp=timestamp)
            return
        # Messages of subagents can stand between the lines of one: its tokens are counted where it begins.
        identity = self._current["id"]
        metrics = None if identity in self._seen else _metrics(mapping(message.get("usage")))
        self._seen.add(identity)
        self._steps.add(
            "agent",
            words,
            calls=self._said["tool_use"],
            timestamp=timestamp,
            model_name=text(message.get("model")) or None,
            reasoning_content="\n\n".join(filter(None, self._said["thinking"])) or None,
            metrics=metrics,
        )


def _metrics(usage: Mapping[str, Any]) -> Metrics | None:
    """Input of one message. What it printed of the output is what was known when the message began."""
    prompt = _input(usage)
    return None if prompt is None else Metrics(prompt_tokens=prompt, cached_tokens=_whole(usage, "cache_read"))


def _final(line: Mapping[str, Any]) -> FinalMetrics:
    usage = mapping(line.get("usage"))
    cost = number(line.get("total_cost_usd"))
    return FinalMetrics(
        total_prompt_tokens=_input(usage),
        total_completion_tokens=_whole(usage, "output"),
        total_cached_tokens=_whole(usage, "cache_read"),
        total_cost_usd=cost,
    )


def _input(usage: Mapping[str, Any]) -> int | None:
    parts = [_whole(usage, kind) for kind in ("input", "cache_creation", "cache_read")]
    known = [part for part in parts if part is not None]
    return sum(known) if known else None


def _whole(usage: Mapping[str, Any], kind: str) -> int | None:
    name = f"{kind}_tokens" if kind in {"input", "output"} else f"{kind}_input_tokens"
    value = number(usage.get(name))
    return None if value is None else int(value)


def _printed(content: object) -> str:
    """What came of a call, as text; of images and the like, what kind they are."""
    if isinstance(content, str):
        return content
    parts = (text(block.get("text")) or f"[{text(block.get('type'))}]" for block in mappings(content))
    return "\n".join(parts)
