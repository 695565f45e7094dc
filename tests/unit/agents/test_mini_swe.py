"""mini-swe-agent: how its commands reach the container, how its end is told, and how its transcript is read."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from pytest_researchenv.agents.mini_swe import MiniSweAgent
from pytest_researchenv.agents.protocol import AgentTask, Needs, Telemetry
from pytest_researchenv.agents.trajectory import Metrics, dump, problems
from pytest_researchenv.errors import ConfigurationError, InfrastructureError
from pytest_researchenv.gateway.protocol import Api, Auth, ModelService
from pytest_researchenv.sandbox.fake import FakeSandbox
from pytest_researchenv.sandbox.protocol import Captured, Completed, Container, ContainerSpec, Termination
from tests.unit.agents.bench import ADDRESS, RECORDINGS, REPOSITORY


SERVICE = ModelService(Api.CHAT, "https://api.example.org", Auth.BEARER, "EXAMPLE_KEY", "a-model")

#: A Python that has the library acts like this: it is started as `python -I RUNNER REQUESTS ANSWERS`.
_ACT = """#!{python}
import json, os, subprocess, sys, time
task = json.loads(sys.stdin.readline())
requests, answers = os.fdopen(int(sys.argv[3]), "w"), os.fdopen(int(sys.argv[4]))
def tell(**values):
    print(json.dumps(values), file=requests, flush=True)
def run(command, timeout_s=None):
    tell(command=command, timeout_s=timeout_s)
    return json.loads(answers.readline())
def end(status, message="", silent=False):
    tell(ended=status, message=message, silent=silent, turns=3)
{act}
"""


def finished(
    argv: tuple[str, ...],
    output: bytes = b"hello\n",
    code: int = 0,
    termination: Termination = Termination.EXITED,
    took: float = 1.0,
) -> Completed:
    """A command that has ended."""
    return Completed(argv, termination, code, Captured(output, b"", len(output)), took)


@dataclass
class Scene:
    """An act of the tool, and what came of it.

    Attributes:
        folder: where its program lies.
        completed: what becomes of a command in the container.
        ran: commands that came there, with what they were run with.
        printed: what the tool printed.
    """

    folder: Path
    completed: Callable[[tuple[str, ...]], Completed] = finished
    ran: list[tuple[tuple[str, ...], dict[str, Any]]] = field(default_factory=list)
    printed: bytes = b""

    def play(
        self,
        act: str,
        *,
        timeout_s: float = 30,
        stop: Callable[[], bool] = lambda: False,
        api: Api = Api.CHAT,
        **options: Any,  # noqa: ANN401 - what it takes
    ) -> Telemetry:
        """Let the tool play an act."""
        program = self.folder / "python"
        program.write_text(_ACT.format(python=sys.executable, act=act))
        program.chmod(0o755)
        needs = Needs(service=replace(SERVICE, api=api))
        agent = MiniSweAgent(name="mini", needs=needs, python=lambda _: program, **options)
        sandbox = FakeSandbox()
        with sandbox.opened(ContainerSpec(sandbox.add_image("base"))) as container:
            container.start()
            theirs = {"PIP_INDEX_URL": "https://index"}
            task = AgentTask(
                REPOSITORY, _Relayed(container, self), theirs, timeout_s, self._print, "Build it.", ADDRESS, stop
            )
            return agent.work(task)

    def _print(self, chunk: bytes) -> None:
        self.printed += chunk


class _Relayed:
    """A container that notes what is run in it."""

    def __init__(self, container: Container, scene: Scene) -> None:
        self._container = container
        self._scene = scene

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever a container has
        return getattr(self._container, name)

    def exec(self, argv: Sequence[str], **options: Any) -> Completed:  # noqa: ANN401 - what it is run with
        """Note it."""
        self._scene.ran.append((tuple(argv), options))
        return self._scene.completed(tuple(argv))


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    """Before the act."""
    return Scene(tmp_path)


def test_its_commands_run_in_the_container(scene: Scene) -> None:
    """In the repository's folder, by a shell that keeps the image's PATH, with the task's variables."""
    telemetry = scene.play('print(run("make")); end("Submitted")', environment={"JOBS": "2", "MSWEA_X": "1"})

    ((argv, options),) = scene.ran
    assert argv[-3:] == ("bash", "-c", "make")
    assert argv[0] == "timeout"
    assert options["workdir"] == REPOSITORY.workdir
    assert options["environment"]["PIP_INDEX_URL"] == "https://index"
    assert options["environment"]["JOBS"] == "2"
    assert options["environment"]["HOME"] == "/root"
    assert "MSWEA_X" not in options["environment"]
    assert b"{'output': 'hello\\n', 'returncode': 0, 'exception_info': ''}" in scene.printed
    assert telemetry.ok
    assert telemetry.numbers["turns"] == 3
    assert telemetry.numbers["commands"] == 1


def test_it_is_given_the_token_and_nothing_else_of_ours(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a key of this host's nor a proxy comes with it."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-real")
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy")

    scene.play('print(json.dumps(dict(os.environ))); end("Submitted")')

    variables = json.loads(scene.printed)
    assert variables["OPENAI_API_KEY"] == ADDRESS.token
    assert "HTTPS_PROXY" not in variables
    assert "sk-real" not in str(variables)


@pytest.mark.parametrize(
    ("api", "model", "kind"),
    [
        (Api.MESSAGES, "anthropic/a-model", "litellm"),
        (Api.CHAT, "openai/a-model", "litellm"),
        (Api.RESPONSES, "openai/a-model", "litellm_response"),
    ],
)
def test_its_model_is_behind_the_gateway(scene: Scene, api: Api, model: str, kind: str) -> None:
    """In the service's protocol, whatever the profile's settings say; its own limits are off."""
    scene.play('print(json.dumps(task)); end("Submitted")', api=api, arguments=("model.model_kwargs.api_base=x",))

    task = json.loads(scene.printed)
    assert task["prompt"] == "Build it."
    assert task["fixed"]["model"]["model_name"] == model
    assert task["fixed"]["model"]["model_class"] == kind
    assert task["fixed"]["model"]["model_kwargs"] == {"api_base": ADDRESS.url}
    assert task["fixed"]["agent"]["cost_limit"] == 0
    assert task["settings"][-1] == "model.model_kwargs.api_base=x"


@pytest.mark.parametrize(("most", "limit"), [("None", 500), ("30", 30), ("5000", 500)])
def test_a_command_may_take_half_of_the_time_that_is_left(scene: Scene, most: str, limit: int) -> None:
    """Or what the profile says, if that is less; so that after one that hangs something can still be done."""
    scene.play(f'run("make", {most}); end("Submitted")', timeout_s=1000)

    ((argv, options),) = scene.ran
    assert limit - 2 <= int(argv[3]) <= limit
    assert 990 < options["timeout_s"] <= 1000


def test_a_command_that_was_ended_is_told_so(scene: Scene) -> None:
    """The model reads why; a command that exits with 124 by itself is left alone."""
    scene.completed = lambda argv: finished(argv, code=124, took=600 if "slow" in argv else 1)

    scene.play('print(run("slow"), run("quick")); end("Submitted")', timeout_s=1000)

    slow, quick = scene.printed.decode().split("} {")
    assert "it ran longer than" in slow
    assert "'returncode': 124, 'exception_info': ''" in quick


def test_a_command_beyond_a_command_line_is_not_run(scene: Scene) -> None:
    """The model reads why."""
    scene.play('print(run("x" * 200_000)); end("Submitted")')

    assert scene.ran == []
    assert b"write it to a file in pieces" in scene.printed


@pytest.mark.parametrize(
    ("act", "ok", "words"),
    [
        ('end("Submitted")', True, "submitted"),
        ('end("RepeatedFormatError", silent=True)', True, "done"),
        ('end("RepeatedFormatError")', False, "three times"),
        ('end("AuthenticationError", "wrong\\nkey")', False, "AuthenticationError: wrong key"),
        ("", False, "without a word"),
        ('sys.exit("no such module")', False, "without a word"),
    ],
)
def test_its_end_is_told(scene: Scene, act: str, ok: bool, words: str) -> None:  # noqa: FBT001 - a parameter
    """Only what it submitted, or said that it had done, is a good end."""
    telemetry = scene.play(act)

    assert telemetry.ok is ok
    assert words in telemetry.ended


def test_the_deadline_ends_it_with_its_children(scene: Scene) -> None:
    """Whatever it waits for; what it printed until then is kept."""
    mark = scene.folder / "mark"
    started = time.monotonic()

    telemetry = scene.play(
        f'print("begun", flush=True); subprocess.run(["sh", "-c", "sleep 4; touch {mark}"])', timeout_s=2
    )

    assert 2 <= time.monotonic() - started < 4
    assert not telemetry.ok
    assert "timed out" in telemetry.ended
    assert scene.printed == b"begun\n"
    time.sleep(3)
    assert not mark.exists()


@pytest.mark.parametrize("termination", [Termination.TIMED_OUT, Termination.STOPPED, Termination.DISK_FULL])
def test_a_container_that_was_ended_ends_it(scene: Scene, termination: Termination) -> None:
    """No command is run after that."""
    scene.completed = lambda argv: finished(argv, termination=termination, code=137)

    telemetry = scene.play('run("make"); run("make again"); time.sleep(60)')

    assert len(scene.ran) == 1
    assert not telemetry.ok


def test_it_ends_when_told(scene: Scene) -> None:
    """Within a second or two, in words that say so."""
    started = time.monotonic()

    telemetry = scene.play("time.sleep(60)", stop=lambda: time.monotonic() > started + 1)

    assert time.monotonic() - started < 5
    assert not telemetry.ok
    assert "stopped" in telemetry.ended


def test_a_python_that_is_not_there_is_no_fault_of_the_agents(tmp_path: Path) -> None:
    """The message names it."""
    agent = MiniSweAgent(name="mini", needs=Needs(service=SERVICE), python=lambda _: tmp_path / "none")
    sandbox = FakeSandbox()

    with sandbox.opened(ContainerSpec(sandbox.add_image("base"))) as container:
        task = AgentTask(REPOSITORY, container, {}, 10, lambda _: None, "Build it.", ADDRESS)
        with pytest.raises(InfrastructureError, match="none cannot be started"):
            agent.work(task)
        with pytest.raises(ConfigurationError, match="no model"):
            MiniSweAgent(name="mini", needs=Needs()).work(task)


def _read(name: str) -> Any:  # noqa: ANN401 - it is looked into
    agent = MiniSweAgent(name="mini", needs=Needs(service=SERVICE))
    trajectory = agent.trajectory(RECORDINGS / name)
    assert trajectory is not None
    assert problems(dump(trajectory)) == []
    return trajectory


@pytest.mark.parametrize("protocol", ["anthropic-messages", "openai-responses"])
def test_its_messages_become_steps(protocol: str) -> None:
    """In whichever form its library has them: words, calls, what came of them, tokens, model and time."""
    steps = _read(f"mini-swe-{protocol}.log").steps

    assert [step.source for step in steps] == ["system", "user", "agent", "agent", "agent", "agent"]
    first, last = steps[2], steps[-1]
    assert first.message == "I look at the repository."
    assert [(call.function_name, call.arguments) for call in first.tool_calls] == [("bash", {"command": "pwd"})]
    assert "/researchenv/work" in first.observation.results[0].content
    assert first.model_name == "some-model"
    assert first.timestamp.endswith("Z")
    assert steps[3].metrics == Metrics(prompt_tokens=1300, completion_tokens=40, cached_tokens=1200)
    assert last.message == "The environment is ready and the report is written."


def test_a_refused_key_leaves_the_beginning() -> None:
    """Nothing of an agent's stands in it."""
    assert [step.source for step in _read("mini-swe-unauthorized.log").steps] == ["system", "user"]


def test_numbers_that_nobody_counted_are_left_out(tmp_path: Path) -> None:
    """An agent can write what it likes."""
    path = tmp_path / "transcript.log"
    extra: Mapping[str, Any] = {"timestamp": 1e300, "usage": {"prompt_tokens": -1, "completion_tokens": "many"}}
    path.write_text(json.dumps({"role": "assistant", "content": "Hi.", "extra": extra}))

    trajectory = MiniSweAgent(name="mini", needs=Needs(service=SERVICE)).trajectory(path)

    assert trajectory is not None
    assert problems(dump(trajectory)) == []
    assert trajectory.steps[0].timestamp is None
