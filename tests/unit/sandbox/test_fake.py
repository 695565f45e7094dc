"""The fake's own parts; what it shares with Docker is in the contract."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from pytest_researchenv.sandbox.fake import FakeFiles, FakeOutOfMemoryError, FakeSandbox, Folder, Link
from pytest_researchenv.sandbox.protocol import ContainerSpec, Termination


def _hog(_files: FakeFiles, _argv: tuple[str, ...], _environment: Mapping[str, str]) -> tuple[int, bytes]:
    raise FakeOutOfMemoryError


def test_files_follow_links_as_a_program_does() -> None:
    """Reading and writing go through links; asking what is there does not."""
    files = FakeFiles({"/etc/passwd": b"root", "/link": Link("etc"), "/other": Link("/link/passwd")})

    files.write("/other", b"changed")

    assert files.read("/etc/passwd") == b"changed"
    assert files.node("/other") == Link("/link/passwd")
    assert files.node("/link/nosuch") is None
    assert files.node("/etc") == Folder()


def test_links_in_a_circle_are_an_error() -> None:
    """A circle ends as it does in the kernel."""
    files = FakeFiles({"/a": Link("/b"), "/b": Link("/a")})

    with pytest.raises(OSError, match="symbolic links"):
        files.read("/a")


def test_removing_a_folder_removes_what_is_below_and_no_namesake() -> None:
    """`/a` goes with `/a/b`, and `/ab` stays."""
    files = FakeFiles({"/a/b": b"1", "/ab": b"2"})

    files.remove("/a")

    assert files.node("/a/b") is None
    assert files.read("/ab") == b"2"


def test_the_program_added_last_runs() -> None:
    """A test overrides what its fixture set up; names, whole commands and functions match."""
    sandbox = FakeSandbox()
    image = sandbox.add_image("base", environment={"PATH": "/bin"})
    sandbox.program("python", lambda _files, _argv, environment: (0, environment["PATH"].encode()))
    sandbox.program(["python", "-V"], lambda _files, _argv, _environment: (0, b"3"))
    sandbox.program(lambda argv: "-c" in argv, _hog)

    with sandbox.opened(ContainerSpec(image)) as container:
        container.start()
        plain = container.exec(["python"], timeout_s=1)
        version = container.exec(["python", "-V"], timeout_s=1)
        hog = container.exec(["python", "-c", "x"], timeout_s=1)

    assert (plain.output.text(), version.output.text()) == ("/bin", "3")
    assert hog.termination is Termination.OUT_OF_MEMORY
    assert [argv for argv, _ in container.commands] == [("python",), ("python", "-V"), ("python", "-c", "x")]
    assert not sandbox.containers
    assert sandbox.created == 1
