"""Run mini-swe-agent as a library; every command goes to the parent process, which runs it in the agent's container.

Started by `mini_swe.py` as `python -I mini_swe_runner.py REQUESTS_FD ANSWERS_FD`, with the settings as one line of JSON
on stdin. Each message is printed as one line of JSON the moment it comes. To REQUESTS_FD go lines
`{"command": …, "timeout_s": …}`, each answered by a line of ANSWERS_FD, and at the end one `{"ended": …}`.
"""

import json
import os
import platform
import queue
import sys
import threading
from collections.abc import Callable
from importlib import import_module
from typing import Any


#: What mini-swe-agent takes as the end of the work when a command prints it first.
SUBMIT = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"


class Relay:
    """The pipes to the parent. When the parent ends, so does this process, whatever it waits for."""

    def __init__(self, requests: int, answers: int) -> None:
        """Begin to listen."""
        self._requests = os.fdopen(requests, "w", encoding="utf-8")
        self._answers = os.fdopen(answers, encoding="utf-8")
        self._queue: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        for line in self._answers:
            self._queue.put(json.loads(line))
        os._exit(1)

    def tell(self, value: dict[str, Any]) -> None:
        """Send one line to the parent."""
        print(json.dumps(value), file=self._requests, flush=True)

    def ask(self, value: dict[str, Any]) -> dict[str, Any]:
        """Send one line to the parent, and wait for its answer."""
        self.tell(value)
        return self._queue.get()


class RelayedEnvironment:
    """mini-swe-agent's environment: what executes commands."""

    def __init__(self, relay: Relay, settings: dict[str, Any], submitted: type[Exception]) -> None:
        """Keep the relay, mini-swe-agent's settings of the environment, and its exception for the end of the work."""
        self.config = settings
        self._relay = relay
        self._submitted = submitted

    def execute(self, action: dict[str, Any], cwd: str = "") -> dict[str, Any]:
        """Run a command; the result has the keys that mini-swe-agent's templates use."""
        del cwd
        result = self._relay.ask({"command": action.get("command", ""), "timeout_s": self.config.get("timeout")})
        lines = result["output"].lstrip().splitlines(keepends=True)
        if result["returncode"] == 0 and lines and lines[0].strip() == SUBMIT:
            said = "".join(lines[1:])
            raise self._submitted(
                {"role": "exit", "content": said, "extra": {"exit_status": "Submitted", "submission": said}}
            )
        return result

    def get_template_vars(self, **more: object) -> dict[str, Any]:
        """What templates may use; nothing of this process's environment."""
        return {**self.config, **platform.uname()._asdict(), **more}

    def serialize(self) -> dict[str, Any]:
        """Nothing: no trajectory is written to a file."""
        return {}


def printable(message: dict[str, Any]) -> dict[str, Any]:
    """A message without what it says twice: the service's whole answer, and output that was not shown to the model."""
    extra = dict(message.get("extra") or {})
    extra.pop("raw_output", None)
    extra.pop("traceback", None)
    response = extra.pop("response", None)
    if isinstance(response, dict):
        extra["usage"] = response.get("usage")
        extra["model"] = response.get("model")
    return {**message, "extra": extra}


def said_without_calls(response: object) -> str | None:
    """What a model said in an answer of its own accord that holds no call; None for any other answer."""
    if not isinstance(response, dict):
        return None
    if response.get("object") == "response":
        if response.get("status") != "completed" or any(i.get("type") == "function_call" for i in response["output"]):
            return None
        parts = (part for item in response["output"] for part in item.get("content") or ())
        return "".join(part.get("text") or "" for part in parts)
    choice = (response.get("choices") or [{}])[0]
    message = choice.get("message") or {}
    if choice.get("finish_reason") != "stop" or message.get("tool_calls"):
        return None
    return str(message.get("content") or "")


def agent_class(base: type) -> Any:  # noqa: ANN401 - of a library that is not there where this is checked.
    """Return mini-swe-agent's agent, made to print its messages."""

    class PrintingAgent(base):  # type: ignore[misc] # Likewise.
        #: Whether the model's last answer held no call, as when it thinks that it is done.
        silent: bool = False

        def add_messages(self, *messages: dict[str, Any]) -> Any:  # noqa: ANN401 - likewise.
            for message in messages:
                extra = message.get("extra") or {}
                if extra.get("interrupt_type") == "FormatError":
                    said = said_without_calls(extra.get("response"))
                    self.silent = said is not None
                    if said:
                        print(json.dumps({"role": "assistant", "content": said}, default=str), flush=True)
                print(json.dumps(printable(message), default=str), flush=True)
            return super().add_messages(*messages)

    return PrintingAgent


class QuotaUsedUpError(Exception):
    """The service refuses for good, which it says with the status of a passing rate limit."""


def ending_with_the_quota(query: Callable[..., Any], limited: type[Exception]) -> Callable[..., Any]:
    """Return a way to ask the model that tells a used-up quota from a rate limit, which passes."""

    def ask(*arguments: Any, **options: Any) -> Any:  # noqa: ANN401 - of a library that is not there where this is checked.
        try:
            return query(*arguments, **options)
        except limited as error:
            if "insufficient_quota" in codes(error):
                raise QuotaUsedUpError(str(error)) from error
            raise

    return ask


def codes(error: BaseException | None) -> list[str]:
    """Return the services' own codes of an error and of those that led to it: litellm keeps them in the first only."""
    found = []
    while error is not None:
        found.append(str(getattr(error, "code", "")))
        error = error.__cause__ or error.__context__
    return found


def main() -> None:
    """Work on the task that stdin names."""
    relay = Relay(int(sys.argv[1]), int(sys.argv[2]))
    task = json.loads(sys.stdin.readline())
    # Slow to load (4 s), and only there in mini-swe-agent's own environment.
    litellm: Any = import_module("litellm")
    agents = import_module("minisweagent.agents.default")
    configuration = import_module("minisweagent.config")
    submitted = import_module("minisweagent.exceptions").Submitted
    get_model = import_module("minisweagent.models").get_model
    merge = import_module("minisweagent.utils.serialize").recursive_merge

    litellm.suppress_debug_info = True
    specs = ["mini.yaml", *task["settings"]]
    settings = merge(*(configuration.get_config_from_spec(spec) for spec in specs), task["fixed"])
    model = get_model(config=settings["model"])
    # The same request would be refused again.
    model.abort_exceptions = [*model.abort_exceptions, litellm.exceptions.BadRequestError, QuotaUsedUpError]
    model._query = ending_with_the_quota(model._query, litellm.exceptions.RateLimitError)  # noqa: SLF001 - no other way
    environment = RelayedEnvironment(relay, settings.get("environment") or {}, submitted)
    known = {key: value for key, value in settings["agent"].items() if key in agents.AgentConfig.model_fields}
    agent = agent_class(agents.DefaultAgent)(model, environment, **known)
    ended = {"message": ""}
    try:
        status = agent.run(task["prompt"]).get("exit_status", "")
    except Exception as error:  # noqa: BLE001 - the library has printed it; which kind it is decides how the work ended.
        status, ended["message"] = type(error).__name__, str(error)
    relay.tell({**ended, "ended": status, "silent": agent.silent, "turns": agent.n_calls})


if __name__ == "__main__":
    main()
