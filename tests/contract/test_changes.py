"""What a container differs in from its image, told alike by the fake and by Docker."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import pytest

from pytest_researchenv.errors import SandboxError
from pytest_researchenv.sandbox.fake import FakeFiles, FakeSandbox, Folder, Link
from pytest_researchenv.sandbox.protocol import ChangeKind, Container, ContainerSpec, Sandbox


ADDED, CHANGED, REMOVED = ChangeKind.ADDED, ChangeKind.CHANGED, ChangeKind.REMOVED

#: The engine's init, and the folders above it.
ENGINES = frozenset(("/usr", "/usr/sbin", "/usr/sbin/docker-init"))

#: What Debian has in this folder.
SKELETON = {"/etc/skel/.bashrc": b"1", "/etc/skel/.profile": b"2", "/etc/skel/.bash_logout": b"3"}


@dataclass(frozen=True, slots=True)
class Deed:
    """Something done to a container's files, and what is to be told of it."""

    script: str
    fake: Callable[[FakeFiles], object]
    told: Mapping[str, ChangeKind]


def _added(files: FakeFiles) -> None:
    files.write("/made/deep/file", b"\n")
    files.place("/made/link", Link("nowhere"))


def _replaced(files: FakeFiles) -> None:
    files.remove("/etc/skel")
    files.write("/etc/skel/new", b"")


def _odd(files: FakeFiles) -> None:
    for name in ("new\nline", "quo\"te'", "back\\slash", "<&>", "ümlaut", "bad\udcff"):
        files.write(f"/odd/{name}", b"")


DEEDS = {
    "nothing": Deed("true", lambda _: None, {}),
    "added": Deed(
        "mkdir -p /made/deep && echo > /made/deep/file && ln -s nowhere /made/link",
        _added,
        {"/made": ADDED, "/made/deep": ADDED, "/made/deep/file": ADDED, "/made/link": ADDED},
    ),
    "changed": Deed(
        "echo >> /etc/profile",
        lambda files: files.write("/etc/profile", b"other\n"),
        {"/etc/profile": CHANGED},
    ),
    "removed": Deed(
        "rm /etc/skel/.profile",
        lambda files: files.remove("/etc/skel/.profile"),
        {"/etc/skel/.profile": REMOVED, "/etc/skel": CHANGED, "/etc": CHANGED},
    ),
    "folder removed": Deed(
        "rm -r /etc/skel",
        lambda files: files.remove("/etc/skel"),
        {"/etc/skel": REMOVED, "/etc": CHANGED},
    ),
    "folder became a file": Deed(
        "rm -r /etc/skel && echo > /etc/skel",
        lambda files: files.place("/etc/skel", b"\n"),
        {"/etc/skel": CHANGED},
    ),
    "folder became a link": Deed(
        "rm -r /etc/skel && ln -s /root /etc/skel",
        lambda files: files.place("/etc/skel", Link("/root")),
        {"/etc/skel": CHANGED},
    ),
    "folder replaced": Deed(
        "rm -r /etc/skel && mkdir /etc/skel && echo > /etc/skel/new",
        _replaced,
        {"/etc/skel/new": ADDED},
    ),
    "odd names": Deed(
        "mkdir /odd && cd /odd"
        " && touch 'new\nline' \"quo\\\"te'\" 'back\\slash' '<&>' 'ümlaut'"
        " && touch \"$(printf 'bad\\377')\"",
        _odd,
        {
            "/odd": ADDED,
            "/odd/new\nline": ADDED,
            "/odd/quo\"te'": ADDED,
            "/odd/back\\slash": ADDED,
            "/odd/<&>": ADDED,
            "/odd/ümlaut": ADDED,
            "/odd/bad\ufffd": ADDED,
        },
    ),
}


def _does(deed: Deed) -> Callable[[FakeFiles, tuple[str, ...], Mapping[str, str]], tuple[int, bytes]]:
    def run(files: FakeFiles, _argv: tuple[str, ...], _environment: Mapping[str, str]) -> tuple[int, bytes]:
        deed.fake(files)
        return 0, b""

    return run


@pytest.fixture(params=["fake", "docker"])
def container(request: pytest.FixtureRequest) -> Iterator[Container]:
    """A started container of each sandbox in turn."""
    sandbox: Sandbox
    if request.param == "fake":
        sandbox = fake = FakeSandbox()
        for deed in DEEDS.values():
            fake.program(("sh", "-c", deed.script), _does(deed))
        image = fake.add_image("base", {"/etc/profile": b"#\n", "/root": Folder(), **SKELETON})
    else:
        sandbox, image = request.getfixturevalue("docker_sandbox"), request.getfixturevalue("base_image")
    with sandbox.opened(ContainerSpec(image)) as container:
        container.start()
        yield container


def told(container: Container) -> dict[str, ChangeKind]:
    """All that is told of a container, but for where the engine mounts its own."""
    with container.changes() as changes:
        return {change.path: change.kind for change in changes if change.path not in ENGINES}


@pytest.mark.parametrize("deed", DEEDS.values(), ids=DEEDS)
def test_every_difference_from_the_image_is_told(container: Container, deed: Deed) -> None:
    """What was added, changed or removed, by its name; folders that hold such, and nothing else."""
    done = container.exec(("sh", "-c", deed.script), timeout_s=60)
    assert done.ok, done.output.text()
    container.stop()

    found = told(container)

    assert deed.told.items() <= found.items()
    for path in set(found) - set(deed.told):
        # Folders above, or what was in one that is no more.
        assert any(other.startswith(f"{path}/") for other in deed.told) or path in SKELETON, path
        assert found[path] is (REMOVED if path in SKELETON else CHANGED), path


def test_what_was_in_a_replaced_folder_is_told_to_be_gone(container: Container) -> None:
    """One by one, or with the folder that held it."""
    container.exec(("sh", "-c", DEEDS["folder replaced"].script), timeout_s=60)
    container.stop()

    found = told(container)

    assert found.get("/etc/skel") is REMOVED or all(found.get(path) is REMOVED for path in SKELETON)


def test_reading_may_end_early(container: Container) -> None:
    """Whoever wants only the first leaves nothing behind that hangs."""
    container.exec(("sh", "-c", DEEDS["odd names"].script), timeout_s=60)
    container.stop()

    with container.changes() as changes:
        next(changes)

    assert len(told(container)) == 7


def test_a_container_that_is_gone_has_no_changes(container: Container) -> None:
    """It is an error, and not an answer."""
    container.remove()

    with pytest.raises(SandboxError), container.changes():
        pass
