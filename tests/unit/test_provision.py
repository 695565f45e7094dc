"""Provisioning: what differs from the pinned tree is seen from outside."""

from __future__ import annotations

import io
import os
import tarfile
import tracemalloc
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_researchenv.agents.protocol import REPORT_PATH, AgentTask, Needs, Telemetry
from pytest_researchenv.agentwork import Order
from pytest_researchenv.engine import Engine
from pytest_researchenv.errors import InfrastructureError, NoRoomError, SandboxError
from pytest_researchenv.model import UNFREEZABLE, Cause, Environment, PathSource, Repository
from pytest_researchenv.probes.protocol import Tree
from pytest_researchenv.probes.reported import reported_python
from pytest_researchenv.provision import changed_paths, provision
from pytest_researchenv.sandbox.fake import FakeContainer, FakeFiles, FakeSandbox, Folder
from pytest_researchenv.sandbox.protocol import ContainerSpec, Limits, Mount
from pytest_researchenv.store import Store


if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """Three tracked files: plain, executable and a link."""
    root = tmp_path / "tree"
    (root / "pkg").mkdir(parents=True)
    (root / "pkg/a.py").write_text("a = 1\n")
    (root / "run.sh").write_text("true\n")
    (root / "run.sh").chmod(0o755)
    (root / "link").symlink_to("pkg/a.py")
    return Tree(root=root, files=("link", "pkg/a.py", "run.sh"), digest="")


def _archive(root: Path) -> io.BytesIO:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.add(root, arcname=root.name)
    buffer.seek(0)
    return buffer


def test_the_pinned_tree_itself_differs_in_nothing(tree: Tree) -> None:
    """An untouched tree is untouched, whatever else lies in it."""
    (tree.root / "untracked.py").write_text("x")

    assert changed_paths(_archive(tree.root), tree) == ()


def _to_folder(root: Path) -> None:
    (root / "pkg/a.py").unlink()
    (root / "pkg/a.py").mkdir()


def _folder_to_link(root: Path) -> None:
    (root / "pkg").rename(root / "elsewhere")
    (root / "pkg").symlink_to("elsewhere")


def _to_fifo(root: Path) -> None:
    (root / "pkg/a.py").unlink()
    os.mkfifo(root / "pkg/a.py")


@pytest.mark.parametrize(
    ("change", "path"),
    [
        (lambda root: (root / "pkg/a.py").write_text("a = 2\n"), "pkg/a.py"),
        (lambda root: (root / "pkg/a.py").write_text("a = 1\n\n"), "pkg/a.py"),
        (lambda root: (root / "pkg/a.py").unlink(), "pkg/a.py"),
        (lambda root: (root / "run.sh").chmod(0o644), "run.sh"),
        (_to_folder, "pkg/a.py"),
        (_folder_to_link, "pkg/a.py"),
        (_to_fifo, "pkg/a.py"),
        (lambda root: ((root / "link").unlink(), (root / "link").symlink_to("/etc/passwd")), "link"),
        (lambda root: ((root / "link").unlink(), (root / "link").write_text("a = 1\n")), "link"),
    ],
    ids=["edited", "longer", "deleted", "mode", "folder", "linked-folder", "fifo", "retargeted", "link-to-file"],
)
def test_every_kind_of_change_is_seen(tree: Tree, tmp_path: Path, change: Callable[[Path], object], path: str) -> None:
    """Content, length, absence, execute bit and kind each count as a change, of that file alone."""
    copy = tmp_path / "copy"
    with tarfile.open(fileobj=_archive(tree.root)) as archive:
        archive.extractall(copy, filter="tar")

    change(copy / "tree")

    assert changed_paths(_archive(copy / "tree"), tree) == (path,)


def test_a_name_that_stands_twice_counts_as_its_last_entry(tree: Tree) -> None:
    """A stream cannot hide a change behind an honest first entry."""
    buffer = _archive(tree.root)
    with tarfile.open(fileobj=buffer, mode="a") as archive:
        second = tarfile.TarInfo("tree/pkg/a.py")
        second.size = 4
        archive.addfile(second, io.BytesIO(b"evil"))
    buffer.seek(0)

    assert changed_paths(buffer, tree) == ("pkg/a.py",)


def test_a_repository_that_became_something_else_differs_in_everything(tree: Tree) -> None:
    """A link in place of the folder leaves no tracked file where it was."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        link = tarfile.TarInfo("tree")
        link.type = tarfile.SYMTYPE
        link.linkname = "/etc"
        archive.addfile(link)
    buffer.seek(0)

    assert changed_paths(buffer, tree) == tree.files


def _linked(tree: Tree, *links: tuple[str, str]) -> io.BytesIO:
    """The tree with some files as hard links to others, as the engine sends them."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for path in (name for name in tree.files if name not in dict(links)):
            archive.add(tree.root / path, arcname=f"tree/{path}")
        for path, target in links:
            member = tarfile.TarInfo(f"tree/{path}")
            member.type, member.linkname = tarfile.LNKTYPE, f"tree/{target}"
            archive.addfile(member)
    buffer.seek(0)
    return buffer


def test_a_hard_link_counts_by_the_content_it_leads_to(tree: Tree) -> None:
    """Two tracked files may share their content; a link to anything else is a change."""
    for name in ("same", "other"):
        (tree.root / name).write_text("a = 1\n" if name == "same" else "a = 2\n")
    wider = Tree(tree.root, ("link", "other", "pkg/a.py", "run.sh", "same"), "")

    assert changed_paths(_linked(wider, ("same", "pkg/a.py")), wider) == ()
    assert changed_paths(_linked(wider, ("other", "pkg/a.py")), wider) == ("other",)
    assert changed_paths(_linked(wider, ("same", "untracked")), wider) == ("same",)
    assert changed_paths(_linked(wider, ("same", "same")), wider) == ("same",)


def test_a_link_is_compared_as_it_is_written(tree: Tree) -> None:
    """A target is not normalised on either side."""
    (tree.root / "link").unlink()
    (tree.root / "link").symlink_to("./pkg//a.py")

    assert changed_paths(_archive(tree.root), tree) == ()


def test_reading_has_a_limit(tree: Tree) -> None:
    """A sparse file of exabytes takes no room in a container, and would be sent in full."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as archive:
        huge = tarfile.TarInfo("tree/huge")
        huge.size = 1 << 60
        archive.addfile(huge)
    buffer.seek(0)

    assert changed_paths(buffer, tree) == tree.files
    assert changed_paths(_archive(tree.root), tree, limit=5) == tree.files
    assert changed_paths(_archive(tree.root), tree, limit=100) == ()


@pytest.mark.parametrize("cut", [1, 512, 700, 2048])
def test_a_damaged_archive_leaves_nothing_unchanged(tree: Tree, cut: int) -> None:
    """What cannot be read cannot be said to be as it was."""
    whole = _archive(tree.root).getvalue()

    assert changed_paths(io.BytesIO(whole[:cut]), tree) == tree.files
    assert changed_paths(io.BytesIO(b"\xff" * 10240), tree) == tree.files


class Endless(io.RawIOBase):
    """An archive of so many empty files, made while it is read."""

    def __init__(self, files: int) -> None:
        super().__init__()
        self._entries = (tarfile.TarInfo(f"tree/untracked-{number}").tobuf() for number in range(files))
        self._rest = b""

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """Give the next entries."""
        view = memoryview(buffer).cast("B")
        while len(self._rest) < len(view) and (entry := next(self._entries, None)):
            self._rest += entry
        size = min(len(view), len(self._rest))
        view[:size], self._rest = self._rest[:size], self._rest[size:]
        return size


def test_memory_does_not_grow_with_untracked_files(tree: Tree) -> None:
    """Entries are let go of as they pass; tarfile alone would keep some 600 bytes of each."""
    tracemalloc.start()
    try:
        changed_paths(io.BufferedReader(Endless(1_000)), tree)
        _, few = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        changed_paths(io.BufferedReader(Endless(12_000)), tree)
        _, many = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert many < few + 4_000_000


# --- freezing ---------------------------------------------------------------------------------------------


class Stubborn(FakeContainer):
    """A container that the engine refuses to freeze so many times."""

    refusals = 0
    answer = "cannot freeze: file name too long"

    def freeze(self, reference: str, *, labels: Mapping[str, str]) -> str:
        """Refuse at first."""
        if self.refusals:
            self.refusals -= 1
            raise SandboxError(self.answer)
        return super().freeze(reference, labels=labels)


class StubbornSandbox(FakeSandbox):
    """Makes one stubborn container, and honest ones after it."""

    def __init__(self, refusals: int, answer: str = Stubborn.answer, *, control: bool = True) -> None:
        super().__init__()
        self.refusals, self.answer, self.control = refusals, answer, control

    def create(self, spec: ContainerSpec) -> FakeContainer:
        """Create a container."""
        container = Stubborn(self, spec, self._image(spec.image))
        self.containers[container.id] = container
        container.refusals, container.answer = self.refusals, self.answer
        if self.control:
            self.refusals = 0
        return container


@dataclass
class Idler:
    """An agent that writes an honest report and a file of some size."""

    size: int = 0
    name: str = "idler"
    free: bool = True
    needs: Needs = field(default_factory=lambda: Needs(prompted=False))

    def inputs(self, repository: Repository) -> Mapping[str, str]:
        """Nothing shapes what it does."""
        del repository
        return {}

    def work(self, task: AgentTask) -> Telemetry:
        """Write."""
        task.container.exec(["work"], timeout_s=1)
        return Telemetry("exited with code 0", {})

    def trajectory(self, transcript: Path) -> None:
        """It prints nothing."""


def _provisioned(sandbox: FakeSandbox, tree: Tree, folder: Path, *, size: int = 0) -> Environment:
    def work(files: FakeFiles, _argv: tuple[str, ...], _environment: Mapping[str, str]) -> tuple[int, bytes]:
        files.write(REPORT_PATH, b'{"python_path": "/usr/bin/python3"}')
        files.write("/big", bytes(size))
        return 0, b""

    sandbox.program("work", work)
    base = sandbox.add_image("base", {"/researchenv": Folder(), "/workspace": Folder()})
    agent = Idler()
    return provision(
        Engine(sandbox, base, "", (), {}, Mount("tools", "/tools")),
        Order(agent, agent.needs, Repository("project", PathSource(".")), 1, Limits(disk_bytes=100_000)),
        attempt=Store(folder / "results", "run").begin("idler", "project", "session"),
        tree=tree,
        inputs={},
    )


@pytest.fixture
def committed(tree: Tree) -> Tree:
    """The tree with something where Git keeps its own files."""
    (tree.root / ".git").mkdir()
    return tree


def test_a_freeze_that_fails_once_is_made_again(committed: Tree, tmp_path: Path) -> None:
    """A hiccup of the engine is nobody's fault."""
    environment = _provisioned(StubbornSandbox(1), committed, tmp_path)

    assert environment.report is not None


def test_what_cannot_be_frozen_is_the_agents_failure(committed: Tree, tmp_path: Path) -> None:
    """The base image can be frozen, so the engine is not to blame; every tier fails and says why."""
    sandbox = StubbornSandbox(2)
    environment = _provisioned(sandbox, committed, tmp_path)

    assert environment.report is None
    assert environment.report_problem == f"{UNFREEZABLE}: cannot freeze: file name too long"
    assert reported_python(environment) == (Cause.BROKEN_ENVIRONMENT, environment.report_problem)
    assert sandbox.image_files(environment.image).size == 0
    assert environment.image != environment.base_image
    assert not sandbox.containers


def test_what_is_larger_than_the_limit_is_not_frozen(committed: Tree, tmp_path: Path) -> None:
    """A sparse file is written out in full when it is frozen."""
    environment = _provisioned(FakeSandbox(), committed, tmp_path, size=200_000)

    assert environment.report_problem.startswith(f"{UNFREEZABLE}: its files have 200")
    assert _provisioned(FakeSandbox(), committed, tmp_path / "other", size=10_000).report is not None


@pytest.mark.parametrize(
    ("sandbox", "error"),
    [
        (StubbornSandbox(4, control=False), SandboxError),
        (StubbornSandbox(2, "cannot freeze: write /big: no space left on device"), NoRoomError),
    ],
    ids=["the base image neither", "the engine's disk is full"],
)
def test_an_engine_that_cannot_freeze_is_an_error(
    sandbox: FakeSandbox, error: type[InfrastructureError], committed: Tree, tmp_path: Path
) -> None:
    """Then no verdict is possible, and the agent is not blamed."""
    with pytest.raises(error):
        _provisioned(sandbox, committed, tmp_path)


def test_an_agent_cannot_make_its_failure_look_like_a_full_disk(committed: Tree, tmp_path: Path) -> None:
    """Paths stand within an engine's answer, its reason at the end."""
    sandbox = StubbornSandbox(2, "cannot freeze: lstat /no space left on device/x: file name too long")

    assert _provisioned(sandbox, committed, tmp_path).report_problem.startswith(UNFREEZABLE)
