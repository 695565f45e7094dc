"""What every kind of agent must do, shown with real containers and real tools against a stand-in of their models.

A kind registers in `KINDS`. Nothing in here knows one from another but by what it says of itself there.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pytest

from pytest_researchenv.agents.claude_code import ClaudeCodeAgent
from pytest_researchenv.agents.codex import CodexAgent
from pytest_researchenv.agents.command import CommandAgent, FilesTool
from pytest_researchenv.agents.mini_swe import MiniSweAgent
from pytest_researchenv.agents.nexau import NexauAgent
from pytest_researchenv.agents.openhands import OpenHandsAgent
from pytest_researchenv.agents.protocol import REPORT_PATH, Agent, Needs, Telemetry
from pytest_researchenv.agents.script import ScriptAgent
from pytest_researchenv.agents.trajectory import Trajectory, dump, problems
from pytest_researchenv.gateway.protocol import Api, Auth
from tests.choosing import mostly_slow
from tests.contract.scenes import COMMANDS, PRINTED, PROMPT, REPOSITORY, Kind, Scene, Workplace, alive, read
from tests.contract.spoiled import SPOILED
from tests.contract.standin import tape


if TYPE_CHECKING:
    from docker import DockerClient

    from pytest_researchenv.sandbox.docker import DockerSandbox
    from pytest_researchenv.sandbox.labels import Owner


_OWN = Path(__file__).parents[2] / "fixtures" / "agents" / "own"
_RECORDED = _OWN.with_name("recorded")

#: How late an agent may be in ending once it must, in seconds.
_LATE_S = 10.0


def _command(*, name: str, needs: Needs, arguments: tuple[str, ...] = ()) -> Agent:
    """A user's own agent: a script of theirs, told by variables where its model is."""
    return CommandAgent(
        name=name,
        command=("python3", "{files}/agent.py", *arguments),
        environment={"MODEL": "{model}", "MODEL_URL": "{url}", "MODEL_KEY": "{token}"},
        needs=Needs(service=needs.service, tool=FilesTool(_OWN)),
    )


def _recipe(*, name: str, needs: Needs) -> Agent:
    del needs
    return ScriptAgent(name, lambda _: "\n".join(COMMANDS))


def _recorded(make: Callable[..., Agent]) -> Callable[..., Agent]:
    """A kind whose tool cannot be installed here: its volume holds what prints as the real one was recorded to."""

    def made(*, name: str, needs: Needs, **options: Any) -> Agent:  # noqa: ANN401 - what each kind takes
        return make(name=name, needs=replace(needs, tool=FilesTool(_RECORDED)), **options)

    return made


#: Every kind of agent: how it is made here, and what else shapes its environments.
KINDS: dict[str, Kind] = {
    "claude-code": Kind(
        ClaudeCodeAgent,
        Api.MESSAGES,
        auth=Auth.API_KEY,
        options={"version": "2.1.0", "arguments": ("--effort=low",), "environment": {"API_TIMEOUT_MS": "60000"}},
    ),
    "codex": Kind(
        CodexAgent,
        Api.RESPONSES,
        options={"version": "0.170.0", "arguments": ("-c", "model_reasoning_effort=low"), "environment": {"A": "b"}},
    ),
    "command": Kind(_command, Api.CHAT, options={"arguments": ("--more",)}, trajectory=False),
    "mini-swe": Kind(
        MiniSweAgent,
        Api.CHAT,
        options={"version": "2.4.5", "arguments": ("agent.step_limit=9",), "environment": {"A": "b"}},
    ),
    "nexau": Kind(
        _recorded(NexauAgent),
        Api.CHAT,
        options={"version": "0" * 40, "arguments": ("max_iterations=9",), "environment": {"A": "b"}},
        recorded="its repository cannot be reached",
    ),
    "openhands": Kind(
        _recorded(OpenHandsAgent),
        Api.CHAT,
        options={"version": "1.15.0", "arguments": ("--always-approve",), "environment": {"A": "b"}},
        recorded="it needs Python 3.12",
    ),
    "recipe": Kind(_recipe, api=None, trajectory=False),
}

_ASKING = {name: kind for name, kind in KINDS.items() if kind.api}

#: How work ends is tried with two of them for every change.
_FEW_OF_THEM = mostly_slow(_ASKING, but={"claude-code", "command"})


@dataclass(frozen=True)
class Finished:
    """An agent that has done what a good tape has it do, and what was found afterwards."""

    kind: Kind
    agent: Agent
    telemetry: Telemetry
    printed: bytes
    transcript: Path
    made: bytes
    report: bytes
    asked: list[dict[str, Any]]
    bodies: list[str]
    changes: Mapping[str, int]
    untouched: Mapping[str, int]
    token: str
    content: bytes
    shown: str
    image: Mapping[str, Any]


@pytest.fixture(scope="module")
def workplace(
    docker_client: DockerClient,
    docker_sandbox: DockerSandbox,
    base_image: str,
    owner: Owner,
    tmp_path_factory: pytest.TempPathFactory,
) -> Workplace:
    """Where agents work."""
    return Workplace(docker_client, docker_sandbox, base_image, owner, tmp_path_factory.mktemp("agents"))


@pytest.fixture(scope="module", params=KINDS)
def finished(request: pytest.FixtureRequest, workplace: Workplace) -> Finished:
    """Each kind in turn, after good work."""
    kind = KINDS[request.param]
    with workplace.scene(kind, tape("good", commands=list(COMMANDS))) as scene:
        telemetry = scene.work()
        shown = workplace.shown(scene.container)
        scene.container.stop()
        changes = workplace.changes(scene.container)
        return Finished(
            kind=kind,
            agent=scene.agent,
            telemetry=telemetry,
            printed=scene.transcript.read_bytes(),
            transcript=scene.transcript,
            made=read(scene.container, "/opt/made/file"),
            report=read(scene.container, REPORT_PATH),
            asked=scene.standin.log(),
            bodies=scene.standin.bodies(),
            changes=changes,
            untouched=_untouched(workplace, scene.agent),
            token=scene.token,
            content=b"".join(read(scene.container, path) for path, how in changes.items() if how != _GONE),
            shown=shown,
            image=workplace.frozen(scene.container),
        )


_GONE = 2


def _untouched(workplace: Workplace, agent: Agent) -> Mapping[str, int]:
    """What such a container has beyond its image when the tape's commands were run in it, and nothing else."""
    with workplace.bench(workplace.mounts(agent)) as container:
        for command in ("pwd", *COMMANDS):
            assert container.exec(("bash", "-c", command), timeout_s=60, workdir=REPOSITORY.workdir).ok
        container.stop()
        return workplace.changes(container)


@pytest.fixture(params=_ASKING)
def kind(request: pytest.FixtureRequest) -> Kind:
    """Each kind that asks a model in turn."""
    return _ASKING[request.param]


def test_it_builds_what_its_model_commands(finished: Finished) -> None:
    """The commands ran in the container, one after the other, and the self-report is where it belongs."""
    assert finished.made == b"left-by-the-tape\n"
    assert json.loads(finished.report) == {"python_path": "/usr/bin/python3"}


def test_good_work_ends_well(finished: Finished) -> None:
    """It says that it ended without an error, in words, and how long it took."""
    assert finished.telemetry.ok
    assert finished.telemetry.ended.strip()
    assert finished.telemetry.numbers["wall_s"] > 0


def test_it_asks_its_model_only_with_the_token(finished: Finished) -> None:
    """Every request shows the attempt's token, in the service's header, and names the profile's model."""
    asked = [request for request in finished.asked if request["method"] == "POST"]

    if finished.kind.api is None:
        assert not asked
        return
    service = finished.agent.needs.service
    assert service is not None
    assert {(request["auth"], request["key"]) for request in asked} == {(finished.kind.auth, finished.token)}
    assert {request["model"] for request in asked} <= set(service.models)
    assert any(request["model"] == service.model for request in asked)


def test_its_model_is_told_the_prompt(finished: Finished) -> None:
    """In full, whatever its tool says around it."""
    told = any(json.dumps(PROMPT)[1:-1] in body for body in finished.bodies)

    assert told is bool(finished.kind.api)


def test_the_transcript_holds_what_the_tool_printed(finished: Finished) -> None:
    """What the commands printed can be read there by a person."""
    for words in PRINTED:
        assert words.encode() in finished.printed


def _trajectory(finished: Finished) -> Trajectory:
    trajectory = finished.agent.trajectory(finished.transcript)
    if not finished.kind.trajectory:
        assert trajectory is None
        pytest.skip("what it prints has no form that could be told apart")
    assert trajectory is not None
    return trajectory


def test_its_trajectory_follows_the_format(finished: Finished) -> None:
    """It can be written, and read back without a complaint; it says who worked, with which model."""
    trajectory = _trajectory(finished)

    assert problems(dump(trajectory)) == []
    assert finished.agent.needs.service is not None
    assert trajectory.agent.model_name == finished.agent.needs.service.model
    assert trajectory.agent.version


def test_its_trajectory_holds_each_command_with_its_output(finished: Finished) -> None:
    """Each command stands in one step, in order, and what came of it in the same step."""
    steps = _trajectory(finished).steps

    for command, output in zip(COMMANDS, PRINTED, strict=True):
        (step,) = [step for step in steps if any(_runs(call.arguments, command) for call in step.tool_calls or ())]
        assert step.source == "agent"
        assert step.observation is not None
        assert output in "".join(result.content or "" for result in step.observation.results)


def _runs(arguments: Mapping[str, object], command: str) -> bool:
    # Some tools run a shell line in a shell of theirs, quoted.
    plain = re.sub(r"['\"\\]", "", command)
    return any(plain in re.sub(r"['\"\\]", "", text) for text in _texts(arguments))


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, list | tuple):
        yield " ".join(map(str, value))


def test_its_trajectory_tells_what_the_model_said(finished: Finished) -> None:
    """The model's own words are in it, the last ones too."""
    said = "\n".join(step.message for step in _trajectory(finished).steps if step.source == "agent")

    assert "I look at the repository." in said
    assert "The environment is ready and the report is written." in said


def test_nothing_of_it_is_frozen(finished: Finished) -> None:
    """What is left in the container is what the commands left, to the last path."""
    assert finished.changes == finished.untouched


def test_a_frozen_image_is_the_base_image_with_files(finished: Finished, workplace: Workplace, base_image: str) -> None:
    """It has the base image's environment and start, and no label beyond ours."""
    ours, base = finished.image["Config"], workplace.inspected(base_image)["Config"]

    assert {name: ours.get(name) for name in _CONFIGURED} == {name: base.get(name) for name in _CONFIGURED}
    assert {name for name in ours["Labels"] if not name.startswith("researchenv.")} == set()


_CONFIGURED = ("Env", "Cmd", "Entrypoint", "User", "WorkingDir", "Volumes", "ExposedPorts")


def test_its_token_stands_in_nothing_that_stays(finished: Finished) -> None:
    """Neither in what the engine shows of the container, its commands and the image, nor in any file that is frozen."""
    assert finished.token not in finished.shown
    assert finished.token not in json.dumps(finished.image)
    assert finished.token.encode() not in finished.content
    assert finished.token.encode() not in finished.printed


@dataclass
class _Watcher:
    """Looks on from another thread while an agent works, until it has seen it ask its model so often."""

    workplace: Workplace
    scene: Scene
    requests: int
    begun: float = 0
    processes: list[int] = field(default_factory=list)
    shown: str = ""
    over: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._look)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        assert self._thread is not None
        self._thread.join(timeout=120)

    @property
    def seen(self) -> bool:
        """Whether the agent was at work."""
        return bool(self.begun)

    def _look(self) -> None:
        end = time.monotonic() + 100
        while time.monotonic() < end and not self.over.is_set():
            turns = [request for request in self.scene.standin.log() if request["played"] in {"turn", "fault"}]
            if len(turns) >= self.requests:
                self.processes = alive(self.scene.token)
                self.shown = self.workplace.shown(self.scene.container)
                self.begun = time.monotonic()
                return
            time.sleep(0.2)


def _check_gone(workplace: Workplace, scene: Scene, watcher: _Watcher) -> None:
    assert watcher.processes, "its processes were not seen at work, so that their end would say nothing"
    assert alive(scene.token) == []
    assert workplace.processes(scene.container) == scene.idle
    assert scene.token not in watcher.shown


@pytest.mark.parametrize("kind", _FEW_OF_THEM, indirect=True)
def test_it_ends_at_the_deadline_and_leaves_no_process(kind: Kind, workplace: Workplace) -> None:
    """When the model says nothing any more, the wall clock ends the work from outside, within seconds."""
    # A tool that does not even reach its model by then, on a machine that does much else, is given more time.
    if not _ended_at_the_deadline(kind, workplace, 20):
        assert _ended_at_the_deadline(kind, workplace, 80), "it was not seen at work, so that its end would say nothing"


def _ended_at_the_deadline(kind: Kind, workplace: Workplace, timeout_s: float) -> bool:
    """Whether it was at work until then."""
    with workplace.scene(kind, tape("stall"), timeout_s=timeout_s) as scene:
        with _Watcher(workplace, scene, requests=2) as watcher:
            telemetry = scene.work()
            watcher.over.set()

        assert timeout_s <= scene.wall_s < timeout_s + _LATE_S
        assert not telemetry.ok
        assert "timed out" in telemetry.ended
        if watcher.seen:
            _check_gone(workplace, scene, watcher)
        return watcher.seen


@pytest.mark.parametrize("kind", _FEW_OF_THEM, indirect=True)
def test_it_ends_when_told_and_leaves_no_process(kind: Kind, workplace: Workplace) -> None:
    """A model that never stops is ended by `stop`, within seconds, in the middle of its work."""
    with ExitStack() as stack:
        holder: list[_Watcher] = []
        scene = stack.enter_context(
            workplace.scene(kind, tape("endless"), stop=lambda: bool(holder) and holder[0].seen)
        )
        with _Watcher(workplace, scene, requests=3) as watcher:
            holder.append(watcher)
            telemetry = scene.work()
        ended = time.monotonic()

        assert watcher.seen
        assert ended - watcher.begun < _LATE_S
        assert not telemetry.ok
        assert "stopped" in telemetry.ended
        _check_gone(workplace, scene, watcher)


@pytest.mark.parametrize(("told", "ended"), [(True, "stopped"), (False, "timed out")])
def test_a_recipe_ends_like_any_other(workplace: Workplace, *, told: bool, ended: str) -> None:
    """Agents without a model are ended in the same ways, and have not ended well."""
    script = ScriptAgent("slow", lambda _: "echo begun; sleep 600")
    slow = Kind(lambda **_: script, api=None)
    with workplace.scene(slow, {}, timeout_s=60 if told else 4) as scene:
        begun: Callable[[], bool] = lambda: b"begun" in scene.transcript.read_bytes()  # noqa: E731
        telemetry = script.work(replace(scene.task, stop=begun) if told else scene.task)

        assert telemetry.ended.startswith(ended)
        assert not telemetry.ok
        assert workplace.processes(scene.container) == scene.idle


#: Tools ask again for a minute or more in all but the first.
@pytest.mark.parametrize("kind", _FEW_OF_THEM, indirect=True)
@pytest.mark.parametrize("name", mostly_slow(("quota", "unauthorized", "overloaded", "revoked"), but={"quota"}))
def test_trouble_with_its_model_is_no_good_end(kind: Kind, workplace: Workplace, name: str) -> None:
    """A service that does not serve ends the work by itself, in words that are not a success's."""
    with workplace.scene(kind, tape(name), timeout_s=240) as scene:
        telemetry = scene.work()

        assert not telemetry.ok
        assert telemetry.ended.strip()
        assert "timed out" not in telemetry.ended


@pytest.mark.parametrize("kind", _FEW_OF_THEM, indirect=True)
def test_giving_up_is_a_good_end(kind: Kind, workplace: Workplace) -> None:
    """An agent that says that it cannot has ended of its own accord: the verdict will tell."""
    with workplace.scene(kind, tape("gives-up")) as scene:
        telemetry = scene.work()

        assert telemetry.ok
        assert read(scene.container, REPORT_PATH) == b""


def test_its_inputs_tell_models_and_settings_apart(kind: Kind) -> None:
    """Another model, version or argument is another agent; made again, it is the same."""
    plain = dict(kind.agent().inputs(REPOSITORY))

    assert dict(kind.agent().inputs(REPOSITORY)) == plain
    assert dict(kind.agent(model="another").inputs(REPOSITORY)) != plain
    assert kind.options, "something else must shape what it does"
    for option, value in kind.options.items():
        assert dict(kind.agent(**{option: value}).inputs(REPOSITORY)) != plain, option


@pytest.mark.parametrize("name", SPOILED)
def test_a_hostile_transcript_breaks_nothing(finished: Finished, tmp_path: Path, name: str) -> None:
    """Agents write what they like into it: what cannot be read is left out, soon, and what is made is sound."""
    path = tmp_path / "transcript.log"
    path.write_bytes(SPOILED[name](finished.printed.splitlines()))
    started = time.monotonic()

    trajectory = finished.agent.trajectory(path)

    assert trajectory is None or not trajectory.steps or problems(dump(trajectory)) == []
    assert time.monotonic() - started < 30


def test_what_is_no_transcript_of_its_is_no_trajectory(finished: Finished, tmp_path: Path) -> None:
    """Of nothing that can be read, nothing is told."""
    path = tmp_path / "transcript.log"
    path.write_bytes(b"Segmentation fault\n")

    trajectory = finished.agent.trajectory(path)

    assert trajectory is None or not trajectory.steps
