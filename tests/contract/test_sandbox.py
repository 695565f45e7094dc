"""What every implementation of the sandbox protocol must do; run against the fake and against Docker."""

from __future__ import annotations

import io
import tarfile
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pytest

from pytest_researchenv.errors import ImageError, SandboxError
from pytest_researchenv.sandbox.fake import FakeFiles, FakeSandbox, FakeTimeoutError, Folder, Link
from pytest_researchenv.sandbox.protocol import Container, ContainerSpec, Sandbox, Termination


# A vocabulary that both understand: Docker runs the shell line, the fake has a function for each.

PRINT = ("sh", "-c", "echo hello; exit 3")
SHOW_VARIABLE = ("sh", "-c", 'printf %s "$SECRET"')
HANG = ("sh", "-c", "sleep 300")
FLOOD = ("sh", "-c", "i=0; while [ $i -lt 1000 ]; do echo line-$i; i=$((i+1)); done")
WRITE = ("sh", "-c", "mkdir -p /made && printf content > /made/file")
PLANT_FOLDER_LINK = ("sh", "-c", "mkdir -p /workspace && ln -s /etc /workspace/repo")
PLANT_FILE_LINK = ("sh", "-c", "mkdir -p /workspace/repo && ln -s /etc/passwd /workspace/repo/file")
PLANT_FOLDER = ("sh", "-c", "mkdir -p /workspace/repo/file/inner")


@dataclass(frozen=True, slots=True)
class Engine:
    """A sandbox, and an image in it that has a shell and `/etc/passwd`."""

    sandbox: Sandbox
    image: str


def _hang(_files: FakeFiles, _argv: tuple[str, ...], _environment: Mapping[str, str]) -> tuple[int, bytes]:
    raise FakeTimeoutError


def _write(files: FakeFiles, _argv: tuple[str, ...], _environment: Mapping[str, str]) -> tuple[int, bytes]:
    files.write("/made/file", b"content")
    return 0, b""


def _plant_folder_link(files: FakeFiles, _argv: tuple[str, ...], _environment: Mapping[str, str]) -> tuple[int, bytes]:
    files.place("/workspace/repo", Link("/etc"))
    return 0, b""


def _plant_file_link(files: FakeFiles, _argv: tuple[str, ...], _environment: Mapping[str, str]) -> tuple[int, bytes]:
    files.place("/workspace/repo/file", Link("/etc/passwd"))
    return 0, b""


def _plant_folder(files: FakeFiles, _argv: tuple[str, ...], _environment: Mapping[str, str]) -> tuple[int, bytes]:
    files.place("/workspace/repo/file/inner", Folder())
    return 0, b""


def _fake() -> Engine:
    sandbox = FakeSandbox()
    sandbox.program(PRINT, lambda _files, _argv, _environment: (3, b"hello\n"))
    sandbox.program(SHOW_VARIABLE, lambda _files, _argv, environment: (0, environment.get("SECRET", "").encode()))
    sandbox.program(FLOOD, lambda _files, _argv, _environment: (0, b"".join(b"line-%d\n" % i for i in range(1000))))
    sandbox.program(HANG, _hang)
    sandbox.program(WRITE, _write)
    sandbox.program(PLANT_FOLDER_LINK, _plant_folder_link)
    sandbox.program(PLANT_FILE_LINK, _plant_file_link)
    sandbox.program(PLANT_FOLDER, _plant_folder)
    return Engine(sandbox, sandbox.add_image("base", {"/etc/passwd": b"root:x:0:0\n", "/tmp": Folder()}))  # noqa: S108


@pytest.fixture(params=["fake", "docker"])
def engine(request: pytest.FixtureRequest) -> Engine:
    """Each sandbox in turn."""
    if request.param == "fake":
        return _fake()
    return Engine(request.getfixturevalue("docker_sandbox"), request.getfixturevalue("base_image"))


@pytest.fixture
def container(engine: Engine) -> Iterator[Container]:
    """A started idle container."""
    with engine.sandbox.opened(ContainerSpec(engine.image)) as container:
        container.start()
        yield container


@pytest.fixture
def snapshot(engine: Engine) -> Iterator[str]:
    """A reference to freeze under; removed afterwards."""
    reference = f"researchenv-test-a:{uuid.uuid4().hex[:12]}"
    yield reference
    engine.sandbox.remove_image(reference)


def pack(*members: str | tuple[str, bytes]) -> io.BytesIO:
    """A tar stream of folders (a name) and files (name and content), in order."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for member in members:
            name, content = (member, b"") if isinstance(member, str) else member
            info = tarfile.TarInfo(name)
            if isinstance(member, str):
                info.type, info.mode = tarfile.DIRTYPE, 0o755
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    buffer.seek(0)
    return buffer


def read(container: Container, path: str) -> dict[str, bytes | str | None]:
    """What `get` gives: name → content, the target of a link, or None for a folder."""
    found: dict[str, bytes | str | None] = {}
    with container.get(path) as stream:
        assert stream is not None, f"{path} is not there"
        with tarfile.open(fileobj=stream, mode="r|") as archive:
            for member in archive:
                file = archive.extractfile(member) if member.isreg() else None
                found[member.name] = file.read() if file else member.linkname if member.issym() else None
    return found


def test_files_come_back_as_they_were_put(container: Container) -> None:
    """What was put can be got, by file and by folder."""
    container.put("/", pack("data/", ("data/a", b"\x00\xff"), "data/sub/", ("data/sub/b", b"b")))

    assert read(container, "/data/a") == {"a": b"\x00\xff"}
    assert read(container, "/data/") == {"data": None, "data/a": b"\x00\xff", "data/sub": None, "data/sub/b": b"b"}


def test_files_can_be_put_before_the_start(engine: Engine) -> None:
    """A container that was created, but not started, takes files."""
    with engine.sandbox.opened(ContainerSpec(engine.image, argv=PRINT)) as container:
        container.put("/", pack("data/", ("data/a", b"a")))

        assert read(container, "/data/a") == {"a": b"a"}


@pytest.mark.parametrize("path", ["/nosuch", "/nosuch/below", "/etc/passwd/below"])
def test_what_is_not_there_reads_as_none(container: Container, path: str) -> None:
    """A missing path is an answer, not an error."""
    with container.get(path) as stream:
        assert stream is None


def test_a_link_is_read_as_a_link(container: Container) -> None:
    """Nobody is lured into reading another file by a link."""
    container.exec(PLANT_FILE_LINK, timeout_s=30)

    assert read(container, "/workspace/repo/file") == {"file": "/etc/passwd"}


def test_paths_are_looked_at_without_being_read(container: Container) -> None:
    """Kind, size and time are told; a link is not followed, and what is not there is None."""
    container.put("/", pack("data/", ("data/a", b"four"), ("data/b", b"other")))
    container.exec(PLANT_FILE_LINK, timeout_s=30)

    file, other = container.stat("/data/a"), container.stat("/data/b")
    folder, link = container.stat("/data"), container.stat("/workspace/repo/file")

    assert file
    assert other
    assert folder
    assert link
    assert (file.regular, file.folder, file.link, file.size) == (True, False, "", 4)
    assert (folder.regular, folder.folder, folder.link) == (False, True, "")
    assert (link.regular, link.folder, link.link) == (False, False, "/etc/passwd")
    assert container.stat("/data/a") == file
    assert container.stat("/nosuch/below") is None
    container.put("/", pack("data/", ("data/a", b"four more")))
    assert container.stat("/data/a") != file


def test_a_path_that_is_no_text_is_looked_at(container: Container) -> None:
    """Names of files are bytes, and agents choose them."""
    container.put("/", pack("data/", "data/\udcfe/", ("data/\udcfe/a", b"four")))

    found = container.stat("/data/\udcfe/a")

    assert found
    assert found.size == 4
    assert container.stat("/data/\udcfe/b") is None


def test_putting_below_a_missing_folder_is_an_error(container: Container) -> None:
    """`put` does not guess where files should go."""
    with pytest.raises(SandboxError, match="/nosuch"):
        container.put("/nosuch", pack(("a", b"a")))


@pytest.mark.parametrize("plant", [PLANT_FOLDER_LINK, PLANT_FILE_LINK, PLANT_FOLDER])
def test_what_was_planted_gives_way_and_is_never_followed(container: Container, plant: tuple[str, ...]) -> None:
    """An archive from `/` that names every folder replaces planted links and folders, and touches nothing else."""
    passwd = read(container, "/etc/passwd")
    container.exec(plant, timeout_s=30)

    container.put("/", pack("workspace/", "workspace/repo/", ("workspace/repo/file", b"ours")))

    assert read(container, "/workspace/repo") == {"repo": None, "repo/file": b"ours"}
    assert read(container, "/etc/passwd") == passwd
    with container.get("/etc/file") as stream:
        assert stream is None


def test_exec_reports_code_and_output(container: Container) -> None:
    """A command's exit code and output are told as they were."""
    parts: list[bytes] = []

    done = container.exec(PRINT, timeout_s=30, on_output=parts.append)

    assert (done.termination, done.exit_code, done.ok) == (Termination.EXITED, 3, False)
    assert done.output.text() == "hello\n"
    assert b"".join(parts) == b"hello\n"


def test_run_reports_code_and_output(engine: Engine) -> None:
    """So it is for a main process."""
    with engine.sandbox.opened(ContainerSpec(engine.image, argv=PRINT)) as container:
        done = container.run(timeout_s=30)

    assert (done.termination, done.exit_code, done.output.text()) == (Termination.EXITED, 3, "hello\n")


def test_run_leaves_files_to_read(engine: Engine) -> None:
    """What a main process wrote can be read after its end."""
    with engine.sandbox.opened(ContainerSpec(engine.image, argv=WRITE)) as container:
        assert container.run(timeout_s=30).ok

        assert read(container, "/made/file") == {"file": b"content"}


def test_a_missing_command_is_the_commands_failure(container: Container) -> None:
    """A command that is not there fails; it is no fault of the engine."""
    done = container.exec(("no-such-command",), timeout_s=30)

    assert done.termination is Termination.EXITED
    assert done.exit_code in {126, 127}
    assert "no-such-command" in done.output.text()


def test_exec_ends_at_its_deadline(container: Container) -> None:
    """A command that hangs is ended, said to have timed out, and the container can be used on."""
    done = container.exec(HANG, timeout_s=1)

    assert done.termination is Termination.TIMED_OUT
    assert 1 <= done.duration_s < 20
    assert container.exec(PRINT, timeout_s=30).exit_code == 3


def test_run_ends_at_its_deadline(engine: Engine) -> None:
    """A main process that hangs is ended and said to have timed out."""
    with engine.sandbox.opened(ContainerSpec(engine.image, argv=HANG)) as container:
        done = container.run(timeout_s=1)

    assert done.termination is Termination.TIMED_OUT
    assert 1 <= done.duration_s < 20


def test_long_output_keeps_head_and_tail(container: Container) -> None:
    """Of long output the beginning and the end are kept, and what is left out is counted."""
    done = container.exec(FLOOD, timeout_s=30, capture_bytes=50)

    whole = "".join(f"line-{i}\n" for i in range(1000))
    assert done.output.head.decode() == whole[:50]
    assert done.output.tail.decode() == whole[-50:]
    assert done.output.total == len(whole)
    assert f"{len(whole) - 100} bytes left out" in done.output.text()


def test_a_frozen_image_has_the_files_and_not_the_environment(
    engine: Engine, container: Container, snapshot: str
) -> None:
    """Freezing keeps what was written, and nothing of the environment that commands got."""
    shown = container.exec(SHOW_VARIABLE, timeout_s=30, environment={"SECRET": "token"})
    container.exec(WRITE, timeout_s=30, environment={"SECRET": "token"})
    container.stop()
    image = container.freeze(snapshot, labels={})

    with engine.sandbox.opened(ContainerSpec(image, argv=SHOW_VARIABLE)) as frozen:
        done = frozen.run(timeout_s=30)

        assert shown.output.text() == "token"
        assert done.output.text() == ""
        assert read(frozen, "/made/file") == {"file": b"content"}


def test_a_frozen_image_does_not_change_with_its_container(engine: Engine, container: Container, snapshot: str) -> None:
    """An image is a copy, and so is each container."""
    container.stop()
    image = container.freeze(snapshot, labels={})
    container.start()
    container.exec(WRITE, timeout_s=30)

    with engine.sandbox.opened(ContainerSpec(image, argv=PRINT)) as other, other.get("/made") as stream:
        assert stream is None


def test_what_was_written_is_measured(engine: Engine, container: Container, snapshot: str) -> None:
    """Files beyond the image count, those of the image do not."""
    assert container.written() < 1000

    container.put("/", pack(("big", bytes(100_000))))

    assert 100_000 <= container.written() < 101_000

    container.stop()
    with engine.sandbox.opened(ContainerSpec(container.freeze(snapshot, labels={}))) as frozen:
        assert frozen.written() < 1000


def test_only_a_stopped_container_is_frozen(container: Container, snapshot: str) -> None:
    """While the agent's processes run, nothing is frozen."""
    with pytest.raises(SandboxError, match="Stop it first"):
        container.freeze(snapshot, labels={})


def test_a_stopped_container_runs_nothing(container: Container) -> None:
    """After `stop`, `exec` is an error until the next `start`."""
    container.stop()

    with pytest.raises(SandboxError, match="start it first"):
        container.exec(PRINT, timeout_s=30)


def test_removing_twice_is_no_error(engine: Engine) -> None:
    """Clean-up can be repeated; a removed container answers nothing else."""
    container = engine.sandbox.create(ContainerSpec(engine.image))
    container.remove()
    container.remove()

    with pytest.raises(SandboxError), container.get("/etc"):
        pass


def test_images_can_be_looked_for_and_removed(engine: Engine, container: Container, snapshot: str) -> None:
    """An image is there once frozen, has a size, and is gone once removed; removing twice is no error."""
    container.stop()
    image = container.freeze(snapshot, labels={})

    assert engine.sandbox.image_exists(image)
    assert engine.sandbox.image_exists(snapshot)
    assert engine.sandbox.image_size(image) > 0

    container.remove()
    engine.sandbox.remove_image(image)
    engine.sandbox.remove_image(image)

    assert not engine.sandbox.image_exists(image)
    assert not engine.sandbox.image_exists(snapshot)


def test_an_image_tells_what_it_grew_from(engine: Engine, container: Container, snapshot: str) -> None:
    """Its id, the labels that it was frozen with, and its base image's layers below its own."""
    container.stop()
    image = container.freeze(snapshot, labels={"researchenv.attempt": "mine"})

    base, found = engine.sandbox.find_image(engine.image), engine.sandbox.find_image(snapshot)

    assert base is not None
    assert found is not None
    assert (found.id, found.labels["researchenv.attempt"]) == (image, "mine")
    assert found.layers[: len(base.layers)] == base.layers
    assert found.layers != base.layers
    assert engine.sandbox.find_image("researchenv-test-a:no-such") is None


def test_a_missing_image_is_named(engine: Engine) -> None:
    """A container from an image that is not there is refused with its name; nothing is pulled."""
    with pytest.raises(ImageError, match="researchenv-test-a:no-such"):
        engine.sandbox.create(ContainerSpec("researchenv-test-a:no-such"))


@pytest.mark.parametrize(
    "spec",
    [
        ContainerSpec("base", argv=()),
        ContainerSpec("base", environment={"A": "b"}),
        ContainerSpec("base", workdir="/tmp"),  # noqa: S108 - a path in the container.
    ],
)
def test_what_would_be_frozen_by_accident_is_refused(engine: Engine, spec: ContainerSpec) -> None:
    """An idle container takes no environment and no folder of its own, and a command is never empty."""
    with pytest.raises(ValueError, match=r"argv|frozen"):
        engine.sandbox.create(spec)
