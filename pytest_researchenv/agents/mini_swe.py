"""mini-swe-agent, as a library on this host: it asks the model from here, and only its commands run in the container.

In the container there is neither the tool nor anything of the model. Between the two stands a child process, which has
the tool's own environment, a token in place of a key, and two pipes to this process.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import Any, final

from pytest_researchenv.agents._child import Child, child_process
from pytest_researchenv.agents._cli import model_of
from pytest_researchenv.agents._lines import documents, number
from pytest_researchenv.agents._tool_agent import ToolAgent
from pytest_researchenv.agents.hosttools import ensure_venv
from pytest_researchenv.agents.protocol import AgentTask, Needs, Telemetry
from pytest_researchenv.agents.trajectory import Metrics, Steps, ToolCall, Trajectory
from pytest_researchenv.gateway.protocol import Api, GatewayAddress, ModelService
from pytest_researchenv.model import Repository
from pytest_researchenv.sandbox.protocol import Completed, Termination


__all__ = ["MiniSweAgent"]

_VERSION = "2.4.6"

#: What it needs at work. Its package also asks for datasets, textual and more (370 of 750 MB), for its other programs.
_LIBRARIES = (
    "litellm==1.110.2",
    "jinja2",
    "openai",
    "platformdirs",
    "pydantic",
    "python-dotenv",
    "pyyaml",
    "requests",
    "rich",
    "tenacity",
)

#: What the model reads after the task. The package's own template speaks of an issue to be solved by editing code.
_INSTANCE = """{{task}}

## How you work here

Every answer of yours must hold at least one call of the tool `bash`, with some words on what it is for. Each command
runs in a new shell in the repository's folder: changes of directory and of variables do not last, files do. A command
must not wait for input.

When all is done, or you can do no more, end the work with this command alone, after which you cannot go on:
`echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT`
"""

#: Bytes of a command's output that are kept at either end; the tool shows the model 5000 characters of each.
_KEPT = 64 * 1024

#: The kernel takes arguments of up to 128 KiB.
_LONGEST_COMMAND = 120_000

#: A command may take this part of the time that is left, so that after one that hangs something can still be done.
_SHARE = 0.5
_LEAST_S = 60.0

#: How long a command that was told to end may take until it is killed, in seconds.
_GRACE_S = 5.0

#: How long it may take to end once it has said how its work ended, in seconds.
_LINGER_S = 3.0

#: What `timeout` exits with when the command had to be told, and when it had to be killed.
_TIMED_OUT = (124, 137)

_POLL_S = 0.5

#: Variables of these names are the tool's; all others are its commands'.
_TOOLS_OWN = ("MSWEA_", "LITELLM_")

_NOT_DONE = {
    "RepeatedFormatError": "the model's answers could not be used three times in a row",
    "LimitsExceeded": "a limit of mini-swe-agent's own was reached",
    "TimeExceeded": "a limit of mini-swe-agent's own was reached",
}


@final
class MiniSweAgent(ToolAgent):
    """Runs mini-swe-agent.

    Of its settings (`arguments`, as its own option `-c` takes them: `model.model_kwargs.temperature=0`) those are fixed
    that would bypass the gateway or the limits. A command may take half of the time that is left, but at least a
    minute; `environment.timeout=SECONDS` limits it further. Variables named MSWEA_… and LITELLM_… are the tool's, all
    others its commands'.
    """

    kind = "mini-swe-agent"
    tested = _VERSION

    __slots__ = ("_python",)

    def __init__(
        self,
        *,
        name: str,
        needs: Needs,
        version: str = "",
        arguments: tuple[str, ...] = (),
        environment: Mapping[str, str] | None = None,
        python: Callable[[Callable[[str], object]], Path] | None = None,
    ) -> None:
        needs = replace(needs, on_host=True)
        super().__init__(name=name, needs=needs, version=version, arguments=arguments, environment=environment)
        self._python = python or self._installed

    def _shape(self, repository: Repository) -> Mapping[str, object]:
        """Digest of its tool, its settings, and what is said to the model around the prompt."""
        del repository
        service = self._service
        return {
            "version": self._version,
            "libraries": _LIBRARIES,
            "runner": _runner_text(),
            "instance": _INSTANCE,
            "arguments": self._arguments,
            "environment": self._environment,
            "model": [service.api, service.models],
        }

    def work(self, task: AgentTask) -> Telemetry:
        """Let it work until it submits, or until the deadline.

        Raises:
            InfrastructureError: it could not be installed, or the container engine failed.
        """
        service, address = self._service, model_of(self._name, task)
        python = self._python(lambda text: task.transcript(f"{text}\n".encode()))
        started = time.monotonic()
        relay = _Relay(task, self._environment, deadline=started + task.timeout_s)
        with (
            tempfile.TemporaryDirectory(prefix="researchenv-mini-") as home,
            resources.as_file(_runner()) as script,
            child_process(python, script, self._variables(service, address.token, home), task.transcript) as child,
        ):
            child.give(self._task(service, address, task))
            relay.serve(child)
        return relay.telemetry(wall_s=time.monotonic() - started)

    def trajectory(self, transcript: Path) -> Trajectory | None:
        """Read the messages it printed; None where there are none."""
        steps = Steps()
        for message in documents(transcript):
            with contextlib.suppress(AttributeError, KeyError, TypeError, ValueError):
                _add(steps, message)
        return self._told("mini-swe-agent", steps.steps)

    def _installed(self, say: Callable[[str], object]) -> Path:
        return ensure_venv("mini-swe-agent", _LIBRARIES, alone=(f"mini-swe-agent=={self._version}",), say=say)

    def _variables(self, service: ModelService, token: str, home: str) -> dict[str, str]:
        """The child's environment: nothing of this process's but where programs are and the language."""
        own = {name: value for name, value in self._environment.items() if name.startswith(_TOOLS_OWN)}
        return {
            "PATH": os.environ.get("PATH", os.defpath),
            "LANG": os.environ.get("LANG", "C.UTF-8"),
            "HOME": home,
            "MSWEA_GLOBAL_CONFIG_DIR": home,
            "MSWEA_SILENT_STARTUP": "1",
            "MSWEA_COST_TRACKING": "ignore_errors",
            # Else a list of prices is downloaded, or an error printed.
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            "LITELLM_TELEMETRY": "False",
            # Two minutes of waits in all, as long as it is not refused for good.
            "MSWEA_MODEL_RETRY_STOP_AFTER_ATTEMPT": "8",
            **own,
            "ANTHROPIC_API_KEY" if service.api is Api.MESSAGES else "OPENAI_API_KEY": token,
        }

    def _task(self, service: ModelService, address: GatewayAddress, task: AgentTask) -> dict[str, object]:
        provider = "anthropic" if service.api is Api.MESSAGES else "openai"
        model: dict[str, object] = {
            "model_name": f"{provider}/{service.model}",
            "model_class": "litellm_response" if service.api is Api.RESPONSES else "litellm",
            "model_kwargs": {"api_base": address.url},
        }
        limits = {"step_limit": 0, "cost_limit": 0, "wall_time_limit_seconds": 0, "output_path": None}
        settings = ("agent.instance_template=" + json.dumps(_INSTANCE), *self._arguments)
        return {"prompt": task.prompt, "settings": settings, "fixed": {"model": model, "agent": limits}}


@dataclass(slots=True)
class _Relay:
    """Runs the tool's commands in the container, until it ends or has to."""

    task: AgentTask
    environment: Mapping[str, str]
    deadline: float
    commands: int = 0
    cut: Termination | None = None
    ended: Mapping[str, Any] | None = None

    def serve(self, child: Child) -> None:
        """Answer its requests."""
        with contextlib.suppress(EOFError):
            while self.ended is None and not self._over():
                request = child.request()
                if request is None:
                    continue
                if "ended" in request:
                    self.ended = request
                else:
                    child.answer(self._run(str(request["command"]), request.get("timeout_s")))
            # It has something to print yet, and ends by itself.
            last = time.monotonic() + _LINGER_S
            while self.ended is not None and time.monotonic() < last:
                child.request()

    def telemetry(self, *, wall_s: float) -> Telemetry:
        """Say how it ended."""
        numbers = {"wall_s": round(wall_s, 3), "commands": float(self.commands)}
        if self.cut is Termination.TIMED_OUT:
            return Telemetry(f"timed out after {wall_s:.0f} s", numbers, ok=False)
        if self.cut is not None:
            return Telemetry(str(self.cut), numbers, ok=False)
        if self.ended is None:
            return Telemetry("mini-swe-agent ended without a word; its transcript may say why", numbers, ok=False)
        numbers["turns"] = float(self.ended["turns"])
        status = str(self.ended["ended"])
        if status == "Submitted":
            return Telemetry("submitted", numbers)
        if status == "RepeatedFormatError" and self.ended["silent"]:
            return Telemetry("the model said that it was done, and gave no more commands", numbers)
        said = " ".join(str(self.ended["message"] or _NOT_DONE.get(status, "")).split())[:300]
        return Telemetry(f"{status}: {said}" if said else status, numbers, ok=False)

    def _over(self) -> bool:
        if self.cut is None and self.task.stop():
            self.cut = Termination.STOPPED
        elif self.cut is None and time.monotonic() >= self.deadline:
            self.cut = Termination.TIMED_OUT
        return self.cut is not None

    def _run(self, command: str, most_s: float | None) -> dict[str, object]:
        """Run a command; the result has the keys that the tool's templates use."""
        self.commands += 1
        if not command.isascii() and _half_character(command):
            return _result("", -1, "the command holds half of a surrogate pair, which is no character")
        if len(command.encode()) > _LONGEST_COMMAND:
            return _result("", -1, f"the command is longer than {_LONGEST_COMMAND} bytes: write it to a file in pieces")
        left = self.deadline - time.monotonic()
        limit = max(_LEAST_S, left * _SHARE)
        limit = max(1.0, min(limit, most_s) if most_s else limit)
        commands_own = {n: v for n, v in self.environment.items() if not n.startswith(_TOOLS_OWN)}
        completed = self.task.container.exec(
            # Not as a login shell, which would set another PATH than the image's.
            ["timeout", "-k", f"{_GRACE_S:.0f}", f"{limit:.0f}", "bash", "-c", command],
            timeout_s=max(0.1, left),
            environment={**_QUIET, **self.task.environment, **commands_own},
            workdir=self.task.repository.workdir,
            capture_bytes=_KEPT,
            stop=self.task.stop,
        )
        return self._answer(completed, limit)

    def _answer(self, completed: Completed, limit: float) -> dict[str, object]:
        output = completed.output.text()
        match completed.termination:
            case Termination.STOPPED | Termination.TIMED_OUT | Termination.DISK_FULL:
                self.cut = completed.termination
                return _result(output, -1, completed.how)
            case Termination.EXITED | Termination.SIGNALLED if (
                completed.exit_code in _TIMED_OUT and completed.duration_s >= limit
            ):
                return _result(output, -1, f"the command was ended: it ran longer than {limit:.0f} s")
            case Termination.OUT_OF_MEMORY:
                return _result(output, completed.exit_code, completed.how)
        return _result(output, completed.exit_code, "")


def _half_character(command: str) -> bool:
    return any("\ud800" <= sign <= "\udfff" for sign in command)


#: As the package has them, and what any agent's commands get.
_QUIET = {
    "HOME": "/root",
    "DEBIAN_FRONTEND": "noninteractive",
    "PAGER": "cat",
    "MANPAGER": "cat",
    "LESS": "-R",
    "PIP_PROGRESS_BAR": "off",
    "TQDM_DISABLE": "1",
}


def _result(output: str, returncode: int, exception: str) -> dict[str, object]:
    return {"output": output, "returncode": returncode, "exception_info": exception}


def _runner() -> Any:  # noqa: ANN401 - a Traversable, whose place among the modules differs by version.
    return resources.files("pytest_researchenv.agents") / "inside" / "mini_swe_runner.py"


def _runner_text() -> str:
    return str(_runner().read_text(encoding="utf-8"))


def _add(steps: Steps, message: Mapping[str, Any]) -> None:
    """Add what a message says: of a service, or of the tool, in the form of Chat Completions or of Responses."""
    extra = message.get("extra") or {}
    content = message.get("content")
    match message.get("role") or message.get("object") or message.get("type"):
        case "system":
            steps.add("system", _text(content))
        case "user":
            steps.add("user", _text(content))
        case "assistant":
            calls = [
                ToolCall(str(call["id"]), str(call["function"]["name"]), _arguments(call["function"]["arguments"]))
                for call in message.get("tool_calls") or ()
            ]
            thought = message.get("reasoning_content")
            _add_answer(steps, _text(content), calls, thought, extra)
        case "response":
            output = [item for item in message["output"] if isinstance(item, dict)]
            calls = [
                ToolCall(str(item["call_id"]), str(item["name"]), _arguments(item["arguments"]))
                for item in output
                if item.get("type") == "function_call"
            ]
            said = "".join(_text(item.get("content")) for item in output if item.get("type") == "message")
            thought = "".join(_text(item.get("summary")) for item in output if item.get("type") == "reasoning")
            extra = {**extra, "usage": message.get("usage"), "model": message.get("model")}
            _add_answer(steps, said, calls, thought, extra)
        case "tool":
            steps.result(str(message["tool_call_id"]), _text(content))
        case "function_call_output":
            steps.result(str(message["call_id"]), _text(message["output"]))


def _add_answer(steps: Steps, said: str, calls: list[ToolCall], thought: object, extra: Mapping[str, Any]) -> None:
    model = extra.get("model")
    steps.add(
        "agent",
        said,
        calls=calls,
        timestamp=_time(extra.get("timestamp")),
        model_name=model if isinstance(model, str) else None,
        reasoning_content=thought if isinstance(thought, str) and thought else None,
        metrics=_metrics(extra.get("usage")),
    )


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    return "".join(str(part.get("text") or "") for part in content if isinstance(part, dict))


def _arguments(text: object) -> dict[str, object]:
    """A call's arguments; what is no JSON object stands under its own name."""
    with contextlib.suppress(ValueError, TypeError, RecursionError):
        values = json.loads(text)  # type: ignore[arg-type] # Which raises a TypeError.
        if isinstance(values, dict):
            return values
    return {"arguments": str(text)}


def _time(seconds: object) -> str | None:
    if not isinstance(seconds, int | float):
        return None
    with contextlib.suppress(ValueError, OverflowError, OSError):
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return None


def _metrics(usage: object) -> Metrics | None:
    """Tokens as litellm gives them, whose names differ between the two forms."""
    if not isinstance(usage, dict):
        return None
    details = usage.get("prompt_tokens_details") or usage.get("input_tokens_details") or {}
    return Metrics(
        prompt_tokens=_number(usage.get("prompt_tokens", usage.get("input_tokens"))),
        completion_tokens=_number(usage.get("completion_tokens", usage.get("output_tokens"))),
        cached_tokens=_number(details.get("cached_tokens")) if isinstance(details, dict) else None,
    )


def _number(value: object) -> int | None:
    counted = number(value)
    return None if counted is None else int(counted)
