"""A user's own agent: what its command gets, what is refused, and what shapes its environments."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from pytest_researchenv.agents.command import CommandAgent, FilesTool
from pytest_researchenv.agents.protocol import AgentTask, Needs
from pytest_researchenv.errors import ConfigurationError, SandboxError
from pytest_researchenv.gateway.protocol import Api, Auth, GatewayAddress, ModelService
from pytest_researchenv.model import PathSource, Repository
from pytest_researchenv.sandbox.fake import FakeFiles, FakeSandbox, FakeTimeoutError
from pytest_researchenv.sandbox.protocol import ContainerSpec


REPOSITORY = Repository("project", PathSource("."))
SERVICE = ModelService(Api.CHAT, "https://models.example.org/v1", Auth.BEARER, "EXAMPLE_KEY", "a-model")
ADDRESS = GatewayAddress("http://gateway:4000/v1", "a-token")
PROMPT_FILE = "/researchenv/scratch/prompt.md"


@dataclass
class Bench:
    """A container in which the command is `tool`, and what came of it."""

    sandbox: FakeSandbox = field(default_factory=FakeSandbox)
    prompt: str = ""
    calls: list[tuple[tuple[str, ...], Mapping[str, str]]] = field(default_factory=list)
    printed: bytes = b""

    def shell(self, _files: FakeFiles, argv: tuple[str, ...], environment: Mapping[str, str]) -> tuple[int, bytes]:
        """Append to the prompt's file, or begin it anew."""
        assert argv[-1] == PROMPT_FILE
        self.prompt = (self.prompt if ">>" in argv[2] else "") + environment["PART"]
        return 0, b""

    def tool(self, _files: FakeFiles, argv: tuple[str, ...], environment: Mapping[str, str]) -> tuple[int, bytes]:
        """Note how it was called."""
        self.calls.append((argv, environment))
        return 0, b"built\n"

    def work(self, agent: CommandAgent, prompt: str = "Build it.", **changes: object) -> tuple[str, bool]:
        """Let it work; return how it ended, and whether well."""
        self.sandbox.program("/bin/sh", self.shell)
        with self.sandbox.opened(ContainerSpec(self.sandbox.add_image("base"))) as container:
            container.start()
            task = AgentTask(
                REPOSITORY, container, {"PIP_INDEX_URL": "i", "OWN": "theirs"}, 60, self._print, prompt, ADDRESS
            )
            telemetry = agent.work(replace(task, **changes))  # type: ignore[arg-type]
        return telemetry.ended, telemetry.ok

    def _print(self, chunk: bytes) -> None:
        self.printed += chunk


@pytest.fixture
def bench() -> Bench:
    """A bench whose tool notes how it was called."""
    bench = Bench()
    bench.sandbox.program("tool", bench.tool)
    return bench


def _agent(*command: str, **environment: str) -> CommandAgent:
    needs = Needs(service=SERVICE, tool=FilesTool(Path(__file__)))
    return CommandAgent(name="own", command=command or ("tool",), environment=environment, needs=needs)


def test_the_command_runs_and_what_it_prints_is_kept(bench: Bench) -> None:
    """An agent is no more than a command: it ran, ended, and its words are the transcript."""
    assert bench.work(_agent("tool", "--now")) == ("exited with code 0", True)

    assert [argv for argv, _ in bench.calls] == [("tool", "--now")]
    assert bench.printed == b"built\n"


def test_it_finds_its_task_in_a_file_and_in_variables(bench: Bench) -> None:
    """What every agent must know is there without a word in the profile; the host's variables are, too."""
    bench.work(_agent(), prompt="Build it: ünïcode, $HOME, %s and 'quotes'.\n")

    environment = bench.calls[0][1]
    assert bench.prompt == "Build it: ünïcode, $HOME, %s and 'quotes'.\n"
    assert environment["RESEARCHENV_PROMPT_FILE"] == PROMPT_FILE
    assert environment["RESEARCHENV_REPORT"] == "/researchenv/report.json"
    assert environment["RESEARCHENV_WORKDIR"] == REPOSITORY.workdir
    assert (environment["HOME"], environment["PIP_INDEX_URL"]) == ("/root", "i")


def test_a_prompt_of_any_length_arrives_whole(bench: Bench) -> None:
    """The kernel's limit on a variable is not the prompt's."""
    prompt = "€" * 100_000 + "."

    bench.work(_agent(), prompt=prompt)

    assert bench.prompt == prompt


def test_braces_stand_for_what_is_known_at_the_start(bench: Bench) -> None:
    """Arguments and variables may name the task, the places and the model."""
    agent = _agent(
        "tool",
        "{prompt}",
        "{prompt_file}",
        "{report}:{workdir}",
        "{files}{scratch}",
        BASE="{url}",
        KEY="{token}",
        MODEL="x/{model}",
    )

    bench.work(agent, prompt="Say {url}")

    argv, environment = bench.calls[0]
    assert argv[1:] == (
        "Say {url}",
        PROMPT_FILE,
        f"/researchenv/report.json:{REPOSITORY.workdir}",
        "/researchenv/agent/test_command.py/researchenv/scratch",
    )
    assert (environment["BASE"], environment["KEY"], environment["MODEL"]) == (ADDRESS.url, ADDRESS.token, "x/a-model")


@pytest.mark.parametrize("text", ["${model}", "{'prompt': 1}", "{ url }", "{unknown}", "{}", "{{"])
def test_other_braces_are_left_alone(bench: Bench, text: str) -> None:
    """The shell's, Python's and JSON's braces need no escape."""
    bench.work(_agent("tool", text))

    assert bench.calls[0][0] == ("tool", text)


def test_the_profiles_variables_win_over_the_hosts(bench: Bench) -> None:
    """What a user writes for one agent is more special than what holds for all; what it must know cannot be hidden."""
    bench.work(_agent(OWN="mine", HOME="/tmp/home", RESEARCHENV_REPORT="/dev/null"))  # noqa: S108

    environment = bench.calls[0][1]
    assert (environment["OWN"], environment["HOME"]) == ("mine", "/tmp/home")  # noqa: S108
    assert environment["RESEARCHENV_REPORT"] == "/researchenv/report.json"


def test_a_command_that_fails_did_not_end_well(bench: Bench) -> None:
    """Its exit code says whether it did."""
    bench.sandbox.program("fails", lambda _files, _argv, _environment: (3, b""))

    assert bench.work(_agent("fails")) == ("exited with code 3", False)
    assert bench.work(_agent("missing"))[1] is False


def _hang(_files: FakeFiles, _argv: tuple[str, ...], _environment: Mapping[str, str]) -> tuple[int, bytes]:
    raise FakeTimeoutError


def test_it_ends_at_the_deadline_and_when_told(bench: Bench) -> None:
    """Neither is a good end, and each is told in its own words."""
    bench.sandbox.program("hangs", _hang)

    assert bench.work(_agent("hangs"), timeout_s=7) == ("timed out after 7 s", False)
    assert bench.work(_agent("hangs"), stop=lambda: True) == ("stopped", False)


def test_a_prompt_that_cannot_be_written_is_no_fault_of_the_agents(bench: Bench) -> None:
    """Then something outside the agent broke."""
    bench.sandbox.program("/bin/sh", lambda _files, _argv, _environment: (1, b"no space"))
    with bench.sandbox.opened(ContainerSpec(bench.sandbox.add_image("base"))) as container:
        container.start()

        with pytest.raises(SandboxError, match=r"prompt\.md.*no space"):
            _agent().work(AgentTask(REPOSITORY, container, {}, 60, print, "Build it.", ADDRESS))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: CommandAgent(name="own", command=()), "own has no command"),
        (lambda: CommandAgent(name="own", command=("",)), "own has no command: give it"),
        (lambda: _agent("tool", "--key={token}"), "put it into a variable"),
        (
            lambda: CommandAgent(name="own", command=("tool",), environment={"A": "{url}"}),
            r"asks for \{url\}.*no model",
        ),
        (lambda: CommandAgent(name="own", command=("{files}/run",)), r"asks for \{files\}.*names none"),
    ],
)
def test_what_cannot_work_is_refused_at_once(make: Callable[[], CommandAgent], message: str) -> None:
    """A profile's mistake is told before anything is built, with what to do."""
    with pytest.raises(ConfigurationError, match=message):
        make()


def test_inputs_change_with_all_that_shapes_an_environment(tmp_path: Path) -> None:
    """Another command, variable, file or model is another agent; where a model is served is not."""
    (tmp_path / "run").write_text("one")
    needs = Needs(service=SERVICE, tool=FilesTool(tmp_path / "run"))
    agents = [
        CommandAgent(name="own", command=("tool",), needs=needs),
        CommandAgent(name="own", command=("tool", "-v"), needs=needs),
        CommandAgent(name="own", command=("tool",), environment={"A": "b"}, needs=needs),
        CommandAgent(name="own", command=("tool",), needs=replace(needs, service=replace(SERVICE, model="other"))),
        CommandAgent(name="own", command=("tool",), needs=replace(needs, tool=None)),
    ]
    elsewhere = replace(SERVICE, endpoint="http://127.0.0.1:1", key="OTHER")
    same = CommandAgent(name="own", command=("tool",), needs=replace(needs, service=elsewhere))

    found = [dict(agent.inputs(REPOSITORY)) for agent in agents]

    assert all(one != other for at, one in enumerate(found) for other in found[at + 1 :])
    assert dict(same.inputs(REPOSITORY)) == found[0]
    (tmp_path / "run").write_text("two")
    changed = CommandAgent(name="own", command=("tool",), needs=replace(needs, tool=FilesTool(tmp_path / "run")))
    assert dict(changed.inputs(REPOSITORY)) != found[0]


def test_it_is_free_only_without_a_model() -> None:
    """An environment that cost money is not built again unasked."""
    assert CommandAgent(name="own", command=("tool",)).free
    assert not _agent().free


def test_it_has_no_trajectory(tmp_path: Path) -> None:
    """What a command prints is kept as it is."""
    (tmp_path / "transcript").write_bytes(b"words")

    assert _agent().trajectory(tmp_path / "transcript") is None


def _filled(tool: FilesTool) -> dict[str, tarfile.TarInfo]:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        tool.fill(archive, architecture="amd64")
    buffer.seek(0)
    with tarfile.open(fileobj=buffer) as archive:
        return {member.name: member for member in archive}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a program, a folder, a link that leads out, and caches."""
    folder = tmp_path / "my agent"
    (folder / "lib/__pycache__").mkdir(parents=True)
    (folder / "lib/a.py").write_text("a = 1\n")
    (folder / "lib/__pycache__/a.pyc").write_text("x")
    (folder / "run").write_text("true\n")
    (folder / "run").chmod(0o755)
    (folder / "link").symlink_to("/etc/passwd")
    return folder


def test_files_of_the_host_arrive_as_they_are(folder: Path) -> None:
    """A folder comes with all that is in it, links as links, caches left out, owned by root."""
    found = _filled(FilesTool(folder))

    assert sorted(found) == ["lib", "lib/a.py", "link", "run"]
    assert found["link"].linkname == "/etc/passwd"
    assert found["run"].mode & 0o111
    assert {member.uname for member in found.values()} == {"root"}
    assert list(_filled(FilesTool(folder / "run"))) == ["run"]


def test_files_that_are_not_there_are_the_profiles_mistake(tmp_path: Path) -> None:
    """Nothing begins without them, and the path is named."""
    with pytest.raises(ConfigurationError, match="nowhere"):
        _ = FilesTool(tmp_path / "nowhere").key


def _content(folder: Path) -> None:
    (folder / "run").write_text("fals\n")


def _mode(folder: Path) -> None:
    (folder / "run").chmod(0o644)


def _rename(folder: Path) -> None:
    (folder / "run").rename(folder / "ran")


def _relink(folder: Path) -> None:
    (folder / "link").unlink()
    (folder / "link").symlink_to("/etc/shadow")


@pytest.mark.parametrize("change", [_content, _mode, _rename, _relink])
def test_every_change_of_the_files_gives_another_volume(folder: Path, change: Callable[[Path], None]) -> None:
    """The key follows names, modes, contents and links, and nothing else, so that no stale copy is used."""
    before = FilesTool(folder).key
    os.utime(folder / "run", (0, 0))
    (folder / "lib/__pycache__/b.pyc").write_text("y")
    assert FilesTool(folder).key == before

    change(folder)

    assert FilesTool(folder).key != before
    assert before.startswith("my-agent-")


def test_a_folder_brings_no_keys_and_no_results(tmp_path: Path) -> None:
    """What lies beside an agent by chance is not for agents, and does not change with every run."""
    for name in ("agent.py", ".env", ".env.local", "researchenv-results/x", ".git/config", ".venv/x", "sub/.env"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")

    assert sorted(_filled(FilesTool(tmp_path))) == ["agent.py", "sub"]


def test_a_folder_below_one_that_is_left_out_is_whole(tmp_path: Path) -> None:
    """Only names within the folder count, not where it lies."""
    folder = tmp_path / ".git" / "agent"
    folder.mkdir(parents=True)
    (folder / "agent.py").write_text("x")

    assert sorted(_filled(FilesTool(folder))) == ["agent.py"]


@pytest.mark.parametrize("word", ["fils", "prompt_fil", "reports"])
def test_a_word_that_stands_for_nothing_is_refused(word: str) -> None:
    """A slip of the pen is told before any agent works; braces that mean something else are left alone."""
    with pytest.raises(ConfigurationError, match="did you mean"):
        CommandAgent(name="own", command=("tool", f"{{{word}}}"))
    CommandAgent(name="own", command=("awk", "{print}", "${model}", "{else}"))
