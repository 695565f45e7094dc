"""What every sandbox must do about networks, stdin, memory folders and stops; run against the fake and Docker."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pytest

from pytest_researchenv.errors import SandboxError
from pytest_researchenv.sandbox.fake import FakeFiles, FakeSandbox
from pytest_researchenv.sandbox.protocol import Container, ContainerSpec, Join, Limits, Sandbox, Termination


# A vocabulary that both understand: Docker runs the shell line, the fake has a function for each.

SHOW_STDIN = ("cat",)
WAIT = ("sh", "-c", "sleep 300")
FLOOD = ("yes",)
STUBBORN = (
    "sh",
    "-c",
    "trap '' TERM INT HUP; setsid sh -c 'while :; do echo x; sleep 0.1; done' & while :; do sleep 1; done",
)
SILENCED = ("sh", "-c", "exec >&- 2>&-; sleep 300")
FILL_SCRATCH = ("sh", "-c", "echo secret > /scratch/file && printf content > /made")
PRINT = ("sh", "-c", "echo hello")

SMALL = Limits(memory_bytes=256 * 1024**2)


@dataclass(frozen=True, slots=True)
class Engine:
    """A sandbox, and an image in it that has a shell."""

    sandbox: Sandbox
    image: str


def _wait(_files: FakeFiles, _argv: tuple[str, ...], _environment: Mapping[str, str]) -> tuple[int, Iterator[bytes]]:
    def silence() -> Iterator[bytes]:
        while True:
            time.sleep(0.01)
            yield b""

    return 0, silence()


def _flood(_files: FakeFiles, _argv: tuple[str, ...], _environment: Mapping[str, str]) -> tuple[int, Iterator[bytes]]:
    return 0, iter(lambda: b"y\n", b"")


def _fill_scratch(files: FakeFiles, _argv: tuple[str, ...], _environment: Mapping[str, str]) -> tuple[int, bytes]:
    files.write("/scratch/file", b"secret\n")
    files.write("/made", b"content")
    return 0, b""


def _fake() -> Engine:
    sandbox = FakeSandbox()
    sandbox.program(SHOW_STDIN, lambda files, _argv, _environment: (0, files.read("/dev/stdin")))
    sandbox.program(PRINT, lambda _files, _argv, _environment: (0, b"hello\n"))
    sandbox.program(FILL_SCRATCH, _fill_scratch)
    sandbox.program(FLOOD, _flood)
    for argv in (WAIT, STUBBORN, SILENCED):
        sandbox.program(argv, _wait)
    return Engine(sandbox, sandbox.add_image("base", {"/etc/passwd": b"root:x:0:0\n"}))


@pytest.fixture(params=["fake", "docker"])
def engine(request: pytest.FixtureRequest) -> Engine:
    """Each sandbox in turn."""
    if request.param == "fake":
        return _fake()
    return Engine(request.getfixturevalue("docker_sandbox"), request.getfixturevalue("base_image"))


@pytest.fixture
def container(engine: Engine) -> Iterator[Container]:
    """A started idle container."""
    with engine.sandbox.opened(ContainerSpec(engine.image, limits=SMALL)) as container:
        container.start()
        yield container


@pytest.fixture
def snapshot(engine: Engine) -> Iterator[str]:
    """A reference to freeze under; removed afterwards."""
    reference = f"researchenv-test-a:{uuid.uuid4().hex[:12]}"
    yield reference
    engine.sandbox.remove_image(reference)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(None, id="nothing given"),
        pytest.param(b"", id="nothing"),
        pytest.param(b"\x00\xff no newline", id="a few bytes"),
        pytest.param(bytes(range(256)) * 12_288, id="three megabytes"),
    ],
)
def test_a_main_process_reads_exactly_what_it_is_given(engine: Engine, content: bytes | None) -> None:
    """Every byte arrives, then the end of the file; so does every byte of the answer."""
    with engine.sandbox.opened(ContainerSpec(engine.image, argv=SHOW_STDIN)) as container:
        done = container.run(timeout_s=30, stdin=content)

    assert done.termination is Termination.EXITED
    assert done.output.head == (content or b"")


def test_a_process_that_reads_nothing_does_not_outlive_its_deadline(engine: Engine) -> None:
    """What nobody reads holds nobody up."""
    with engine.sandbox.opened(ContainerSpec(engine.image, argv=WAIT)) as container:
        started = time.monotonic()
        done = container.run(timeout_s=1, stdin=bytes(3_000_000))

    assert done.termination is Termination.TIMED_OUT
    assert time.monotonic() - started < 20


@pytest.mark.parametrize("argv", [WAIT, FLOOD, STUBBORN, SILENCED])
def test_a_command_is_stopped_when_asked(container: Container, argv: tuple[str, ...]) -> None:
    """Silent, flooding, deaf to signals or with its output closed: it ends soon, and the container is of use."""
    started = time.monotonic()

    done = container.exec(argv, timeout_s=60, capture_bytes=1024, stop=lambda: time.monotonic() > started + 2)

    assert (done.termination, done.ok) == (Termination.STOPPED, False)
    assert 2 <= time.monotonic() - started < 2 + 1 + 5, "asked once a second, killed within five"
    assert container.exec(PRINT, timeout_s=30).output.text() == "hello\n"


def test_a_stop_that_is_not_wanted_changes_nothing(container: Container) -> None:
    """A command that ends by itself, or at its deadline, says so."""
    ended = container.exec(PRINT, timeout_s=30, stop=lambda: False)
    overdue = container.exec(WAIT, timeout_s=1, stop=lambda: False)

    assert (ended.termination, ended.output.text()) == (Termination.EXITED, "hello\n")
    assert overdue.termination is Termination.TIMED_OUT


def test_what_is_in_memory_is_not_frozen(engine: Engine, snapshot: str) -> None:
    """Files beside the folder in memory are frozen, those in it are not."""
    with engine.sandbox.opened(ContainerSpec(engine.image, scratch="/scratch")) as container:
        container.start()
        assert container.exec(FILL_SCRATCH, timeout_s=30).ok
        container.stop()
        image = container.freeze(snapshot, labels={})

    with engine.sandbox.opened(ContainerSpec(image)) as frozen:
        with frozen.get("/made") as stream:
            assert stream is not None
        with frozen.get("/scratch/file") as stream:
            assert stream is None


@pytest.mark.parametrize("path", ["/scratch", "/scratch/below"])
def test_the_engine_is_not_asked_for_what_is_in_memory(engine: Engine, path: str) -> None:
    """It would put files below the mount point, where they are frozen."""
    with (
        engine.sandbox.opened(ContainerSpec(engine.image, scratch="/scratch")) as container,
        pytest.raises(ValueError, match="in memory"),
        container.get(path),
    ):
        pass


def test_a_published_port_has_a_number(engine: Engine) -> None:
    """Only a running container that was created with it has one."""
    with (
        engine.sandbox.private_network(outward=True, labels={}) as network,
        engine.sandbox.opened(ContainerSpec(engine.image, joins=(Join(network),), publish=80)) as container,
    ):
        container.start()
        assert 0 < container.published() < 65536
        container.stop()

        with pytest.raises(SandboxError, match="port 80"):
            container.published()


def test_a_port_that_was_not_asked_for_is_not_published(container: Container) -> None:
    """Asking for it is the caller's mistake."""
    with pytest.raises(ValueError, match="publish"):
        container.published()


def test_a_network_is_gone_after_its_block(engine: Engine) -> None:
    """Nothing can be created in it any more, and nothing that is not there can be joined."""
    with engine.sandbox.private_network(outward=False, labels={}) as network:
        engine.sandbox.create(ContainerSpec(engine.image, joins=(Join(network),))).remove()

    with pytest.raises(SandboxError, match=network):
        engine.sandbox.create(ContainerSpec(engine.image, joins=(Join(network),)))


def test_a_network_that_was_taken_away_is_missed(engine: Engine) -> None:
    """From outside: in the container it looks as if the other end did not answer."""
    with engine.sandbox.private_network(outward=False, labels={}) as network:
        container = engine.sandbox.create(ContainerSpec(engine.image, joins=(Join(network),), limits=SMALL))
        container.start()
        assert container.connected()

    assert not container.connected()
    container.remove()


def test_a_network_goes_though_a_container_is_still_in_it(engine: Engine) -> None:
    """The order in which things are removed does not matter."""
    with engine.sandbox.private_network(outward=False, labels={}) as network:
        container = engine.sandbox.create(ContainerSpec(engine.image, joins=(Join(network, "a"),), limits=SMALL))
        container.start()

    container.remove()
    with pytest.raises(SandboxError, match=network):
        engine.sandbox.create(ContainerSpec(engine.image, joins=(Join(network),)))


@pytest.mark.parametrize(
    "spec",
    [ContainerSpec("base", publish=80), ContainerSpec("base", scratch="here"), ContainerSpec("base", scratch="/")],
)
def test_what_cannot_be_is_refused(engine: Engine, spec: ContainerSpec) -> None:
    """A port without a network, or a folder without a place, is the caller's mistake."""
    with pytest.raises(ValueError, match=r"network|absolute"):
        engine.sandbox.create(spec)
