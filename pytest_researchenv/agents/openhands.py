"""OpenHands, by its command line without a screen (`openhands --headless --json`), with a Python of its own."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any, final

from pytest_researchenv.agents._cli import model_of, run_command
from pytest_researchenv.agents._lines import documents, when
from pytest_researchenv.agents._scratch import write_text
from pytest_researchenv.agents._tool_agent import ToolAgent
from pytest_researchenv.agents.hosttools import PythonTool
from pytest_researchenv.agents.protocol import SCRATCH, TOOL_TARGET, AgentTask, Telemetry, Tool
from pytest_researchenv.agents.trajectory import Steps, ToolCall, Trajectory
from pytest_researchenv.errors import ConfigurationError
from pytest_researchenv.gateway.protocol import Api
from pytest_researchenv.model import Repository
from pytest_researchenv.sandbox.protocol import Completed


__all__ = ["OpenHandsAgent"]

#: Of the package `openhands` on PyPI. It wants Python 3.12; pip gives up on its dependencies ("resolution too deep"),
#: so that they are locked.
_VERSION = "1.16.0"

_PYTHON = f"{TOOL_TARGET}/python/bin/python3"
_FOLDER = f"{SCRATCH}/openhands"

#: The kernel takes arguments of up to 128 KiB.
_LONGEST_PROMPT = 120_000

#: Read by the shell that its commands run in, which has the tool's variables; it is an interactive one. With its home
#: elsewhere, caches and histories of the tool are not frozen; what the commands build in their home is.
_SHELL = """export HOME=/root
unset HISTFILE LLM_API_KEY GIT_CONFIG_COUNT GIT_CONFIG_KEY_0 GIT_CONFIG_VALUE_0
"""

#: It would take advice for all kinds of tasks from the newest state of a repository, which changes from day to day.
_ADVICE = "https://github.com/OpenHands/extensions"

#: What terminals print beside text.
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07|\r(?=\n)")


@final
class OpenHandsAgent(ToolAgent):
    """Runs OpenHands.

    `arguments` are further ones of its command line. A model of OpenAI's is asked in the protocol that OpenHands has
    for its name, whatever the profile says: Responses for GPT-5, else Chat Completions.
    """

    kind = "openhands"
    tested = _VERSION

    __slots__ = ()

    @classmethod
    def _tool(cls, version: str) -> Tool:
        """Return its program, in a volume."""
        return _tool(version)

    def _shape(self, repository: Repository) -> Mapping[str, object]:
        """Digest of its program, its arguments and its variables."""
        del repository
        service = self._service
        return {
            "tool": self._needs.tool.key if self._needs.tool else None,
            "arguments": self._arguments,
            "environment": self._environment,
            "shell": _SHELL,
            "model": [service.api, *service.models],
        }

    def work(self, task: AgentTask) -> Telemetry:
        """Let it work until it ends, or until the deadline.

        Raises:
            InfrastructureError: the container engine failed.
        """
        service, address = self._service, model_of(self._name, task)
        if len(task.prompt.encode()) > _LONGEST_PROMPT:
            raise ConfigurationError(
                f"the prompt for {self._name} has {len(task.prompt.encode())} bytes, and its command line takes "
                f"{_LONGEST_PROMPT}: shorten it"
            )
        home = f"{_FOLDER}/home"
        for file in (".bashrc", ".bash_profile"):
            write_text(task.container, f"{home}/{file}", _SHELL)
        provider = "anthropic" if service.api is Api.MESSAGES else "openai"
        completed = run_command(
            task,
            # Isolated: else modules in the repository's folder would be its own.
            [
                *(_PYTHON, "-I", "-W", "ignore", "-m", "openhands_cli.entrypoint"),
                *("--headless", "--json", "--override-with-envs", *self._arguments, "--task", task.prompt),
            ],
            {
                **self._environment,
                "HOME": home,
                "OPENHANDS_PERSISTENCE_DIR": f"{_FOLDER}/state",
                "OPENHANDS_SUPPRESS_BANNER": "1",
                # Else a list of prices is downloaded.
                "LITELLM_LOCAL_MODEL_COST_MAP": "True",
                "GIT_CONFIG_COUNT": "1",
                "GIT_CONFIG_KEY_0": "url.file:///dev/null/.insteadOf",
                "GIT_CONFIG_VALUE_0": _ADVICE,
                "LLM_MODEL": f"{provider}/{service.model}",
                "LLM_BASE_URL": address.url,
                "LLM_API_KEY": address.token,
            },
        )
        return _telemetry(completed)

    def trajectory(self, transcript: Path) -> Trajectory | None:
        """Read the events it printed; None where there are none."""
        reading = _Reading()
        for event in _events(transcript):
            with contextlib.suppress(AttributeError, KeyError, TypeError, ValueError):
                reading.take(event)
        reading.flush()
        return self._told("openhands", reading.steps.steps)


def _tool(version: str) -> PythonTool:
    if version != _VERSION:
        return PythonTool(f"openhands-{version}", requirements=(f"openhands=={version}",))
    lock = (resources.files("pytest_researchenv.agents") / "locks" / "openhands.txt").read_text(encoding="utf-8")
    return PythonTool(f"openhands-{version}", alone=tuple(lock.split()))


def _events(lines: Iterator[bytes] | Path) -> Iterator[dict[str, Any]]:
    return (document for document in documents(lines) if "kind" in document)


def _telemetry(completed: Completed) -> Telemetry:
    """Say how it ended. Its exit code is 0 whatever happened (1.16.0: refused keys and crashes, too)."""
    numbers = {"wall_s": round(completed.duration_s, 3)}
    if not completed.ok:
        return Telemetry(completed.how, numbers, ok=False)
    last: dict[str, Any] = {}
    turns: set[str] = set()
    for event in _events(iter(completed.output.text().encode().splitlines())):
        if event["kind"] == "ConversationErrorEvent":
            said = " ".join(str(event.get("detail")).split())[:300]
            return Telemetry(f"{event.get('code')}: {said}", numbers, ok=False)
        if event.get("source") == "agent":
            last = event
            turns.add(str(event.get("llm_response_id")))
    numbers["turns"] = float(len(turns))
    if last.get("tool_name") == "finish" or last.get("kind") == "MessageEvent":
        return Telemetry("finished", numbers)
    return Telemetry("OpenHands ended without saying that it was done", numbers, ok=False)


@dataclass(slots=True)
class _Reading:
    """Makes steps of events: each call is an event of its own, with the same answer's id as its siblings."""

    steps: Steps = field(default_factory=Steps)
    _key: str = ""
    _said: list[str] = field(default_factory=list)
    _thought: str = ""
    _at: str | None = None
    _calls: list[ToolCall] = field(default_factory=list)

    def take(self, event: Mapping[str, Any]) -> None:
        """Take an event."""
        match event["kind"]:
            case "MessageEvent" if event["source"] == "user":
                self.flush()
                self.steps.add("user", _text(event["llm_message"]["content"]), timestamp=when(event.get("timestamp")))
            case "MessageEvent":
                self.flush()
                self._begin(
                    event, _text(event["llm_message"]["content"]), event["llm_message"].get("reasoning_content")
                )
                self.flush()
            case "ActionEvent":
                if event["llm_response_id"] != self._key:
                    self.flush()
                    self._begin(event, "", event.get("reasoning_content"))
                self._call(event)
            case "ObservationEvent":
                self.flush()
                observation = event["observation"]
                self.steps.result(str(event["tool_call_id"]), _plain(_text(observation["content"])))
            case "AgentErrorEvent":
                self.flush()
                self.steps.result(str(event["tool_call_id"]), str(event["error"]))

    def flush(self) -> None:
        """Make a step of the answer so far."""
        if self._said or self._thought or self._calls:
            self.steps.add(
                "agent",
                "\n".join(dict.fromkeys(self._said)),
                calls=self._calls,
                timestamp=self._at,
                reasoning_content=self._thought or None,
            )
        self._key, self._said, self._thought, self._at, self._calls = "", [], "", None, []

    def _begin(self, event: Mapping[str, Any], said: str, thought: object) -> None:
        self._key = str(event.get("llm_response_id"))
        self._said = [said] if said else []
        self._thought = thought if isinstance(thought, str) else ""
        self._at = when(event.get("timestamp"))

    def _call(self, event: Mapping[str, Any]) -> None:
        if said := _text(event["thought"]):
            self._said.append(said)
        call = event["tool_call"]
        arguments: dict[str, object] = {"arguments": str(call["arguments"])}
        with contextlib.suppress(ValueError, TypeError, RecursionError):
            values = json.loads(call["arguments"])
            arguments = values if isinstance(values, dict) else arguments
        self._calls.append(ToolCall(str(event["tool_call_id"]), str(event["tool_name"]), arguments))
        if event["tool_name"] == "finish" and isinstance(message := arguments.get("message"), str):
            self._said.append(message)


def _text(content: object) -> str:
    if not isinstance(content, list):
        return ""
    return "".join(str(part.get("text") or "") for part in content if isinstance(part, dict))


def _plain(text: str) -> str:
    return _CONTROL.sub("", text)
