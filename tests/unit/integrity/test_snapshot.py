"""A snapshot as checks see it: links, trees, what an agent changed, and what cannot be read. No Docker.

What becomes of the archives that the engine makes of folders is tested in `test_files.py`.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import IO, NoReturn

import pytest

from pytest_researchenv.errors import SandboxError, UnknownChangesError
from pytest_researchenv.integrity import snapshot as module
from pytest_researchenv.integrity._layer import Layer
from pytest_researchenv.integrity.protocol import HEAD_BYTES, KEPT_BYTES, Kind
from pytest_researchenv.integrity.snapshot import ImageSnapshot
from pytest_researchenv.sandbox.fake import FakeContainer, FakeFiles, FakeSandbox, Folder, Link
from pytest_researchenv.sandbox.protocol import Change, ChangeKind, Container, ContainerSpec
from tests.unit.integrity.images import opened_image


Node = bytes | Link | Folder

BASE: dict[str, Node] = {"/researchenv": Folder(), "/etc/profile": b"old", "/usr/bin/tool": b"tool", "/opt": Folder()}

NODES: dict[str, Node] = {
    "/data/file": b"content",
    "/data/link": Link("file"),
    "/data/far": Link("/over/file"),
    "/data/dangling": Link("nowhere"),
    "/data/loop": Link("loop"),
    "/data/deep/er/file": b"deep",
    "/data/bad\udcff/in": b"odd",
    "/data/new\nline": b"",
    "/over": Link("data"),
}


@contextmanager
def opened(
    nodes: dict[str, Node],
    *,
    changes: Callable[[], Iterable[Change]] | None = None,
    failing: Callable[[str], bool] = lambda _: False,
    base_fails: bool = False,
) -> Iterator[ImageSnapshot]:
    """A snapshot over a fake engine, which refuses to read some paths of it."""
    sandbox = FakeSandbox()
    before, after = FakeFiles(BASE), FakeFiles({**BASE, **nodes})
    made = changes or (lambda: [Change(kind, path) for path, kind in after.compared(before).items()])

    class Failing(FakeContainer):
        def stat(self, path: str) -> None:
            """It cannot tell."""

        @contextmanager
        def get(self, path: str) -> Iterator[IO[bytes] | None]:
            if failing(path):
                raise SandboxError(f"cannot read {path}: no")
            with super().get(path) as stream:
                yield stream

    with (
        sandbox.opened(ContainerSpec(sandbox.add_image("a", {**BASE, **nodes}), argv=("/bin/true",))) as container,
        sandbox.opened(ContainerSpec(sandbox.add_image("b", dict(BASE)), argv=("/bin/true",))) as base,
    ):
        container.__class__ = Failing
        if base_fails:
            base.__class__ = Failing
        yield ImageSnapshot(lambda: container, lambda: base, made)


def test_links_are_followed_to_what_they_lead_to() -> None:
    """Through links on the way and at the end; a path is the one without links."""
    with opened(NODES) as snapshot:
        for path in ("/data/file", "/data/link", "/data/far", "/over/link", "/over/../data/./file"):
            entry = snapshot.entry(path)

            assert entry is not None
            assert (entry.path, entry.kind, entry.content) == ("/data/file", Kind.FILE, b"content")
            assert entry.sha256 == hashlib.sha256(b"content").hexdigest()
            assert entry.head == b"content"
            assert snapshot.resolved(path) == "/data/file"
        assert snapshot.problems == ()


def test_a_link_is_returned_only_where_it_leads_nowhere() -> None:
    """Or by whoever asks for the link itself."""
    with opened(NODES) as snapshot:
        dangling, loop, link = (snapshot.entry(f"/data/{name}") for name in ("dangling", "loop", "link"))
        itself = snapshot.link("/over/link")

        assert (dangling.kind, dangling.link) == (Kind.LINK, "nowhere")  # type: ignore[union-attr]
        assert (loop.kind, snapshot.resolved("/data/loop")) == (Kind.LINK, "")  # type: ignore[union-attr]
        assert link.kind is Kind.FILE  # type: ignore[union-attr]
        assert (itself.path, itself.link) == ("/data/link", "file")  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "path", ["/nowhere", "/data/file/below", "/data/dangling/below", "data/file", "", "/a\0b", f"/{'x' * 5000}"]
)
def test_where_nothing_is_nothing_is_found(path: str) -> None:
    """Nor where nothing can be; that is no problem."""
    with opened(NODES) as snapshot:
        assert (snapshot.entry(path), snapshot.link(path), snapshot.resolved(path)) == (None, None, "")
        assert list(snapshot.tree(path)) == []
        assert snapshot.problems == ()


@pytest.mark.parametrize("folder", ["/data", "/over", "/over/deep/.."])
def test_a_tree_is_everything_below_a_folder(folder: str) -> None:
    """By real paths, names that are no UTF-8 among them; links are not followed."""
    with opened(NODES) as snapshot:
        found = {entry.path: entry for entry in snapshot.tree(folder)}

    assert {path for path, entry in found.items() if entry.kind is not Kind.FOLDER} == {
        path for path in NODES if path.startswith("/data/")
    }
    assert found["/data/link"].link == "file"
    assert found["/data/deep/er"].is_folder
    assert found["/data/file"].sha256 == hashlib.sha256(b"content").hexdigest()
    assert {entry.content for entry in found.values()} == {None}


def test_the_whole_image_is_a_tree() -> None:
    """Paths begin at its root."""
    with opened(NODES) as snapshot:
        found = {entry.path for entry in snapshot.tree("/")}

    assert {"/data", "/data/file", "/usr/bin/tool", "/over"} <= found
    assert "/" not in found


def test_content_is_kept_of_what_is_wanted() -> None:
    """Also when a folder was read before for other content, and of as many files as there are."""
    nodes: dict[str, Node] = {f"/data/{number}.txt": b"%d" % number for number in range(100)}
    with opened({**nodes, "/data/x.pth": b"import x", "/data/large.txt": bytes(KEPT_BYTES + 1)}) as snapshot:
        first = {entry.path: entry.content for entry in snapshot.tree("/data", lambda path: path.endswith("/7.txt"))}
        second = {entry.path: entry.content for entry in snapshot.tree("/data", lambda path: path.endswith(".txt"))}
        third = {entry.path: entry.content for entry in snapshot.tree("/data", lambda path: path.endswith(".pth"))}

    assert {path for path, content in first.items() if content is not None} == {"/data/7.txt"}
    assert {path for path, content in second.items() if content is not None} == set(nodes)
    assert second["/data/99.txt"] == b"99"
    assert {path: content for path, content in third.items() if content is not None} == {"/data/x.pth": b"import x"}


def test_what_is_large_has_a_digest_and_a_head() -> None:
    """No content; a check must not have to hold it."""
    large = b"#!/bin/sh\n" + bytes(KEPT_BYTES)
    with opened({"/data/large": large}) as snapshot:
        entry = snapshot.entry("/data/large")

    assert entry is not None
    assert (entry.content, entry.head, entry.size) == (None, large[:HEAD_BYTES], len(large))
    assert entry.sha256 == hashlib.sha256(large).hexdigest()


def test_snapshots_may_be_asked_while_a_tree_is_read() -> None:
    """An engine that is reading keeps all others out until it is done."""
    with opened(NODES) as snapshot:
        inner = [snapshot.entry(entry.path) for entry in snapshot.tree("/data")]
        nested = [len(list(snapshot.tree("/data"))) for _ in snapshot.tree("/data")]

    assert all(inner)
    assert len(set(nested)) == 1


def test_the_base_image_is_asked_apart() -> None:
    """What an agent put there is not in it."""
    with opened({"/etc/profile": b"new", "/data/file": b""}) as snapshot:
        assert snapshot.base("/etc/profile").content == b"old"  # type: ignore[union-attr]
        assert snapshot.entry("/etc/profile").content == b"new"  # type: ignore[union-attr]
        assert snapshot.base("/data/file") is None


def test_trees_that_were_read_are_remembered() -> None:
    """A site folder is wanted by several checks; reading torch's takes half a minute."""
    asked: list[str] = []

    def watched(path: str) -> bool:
        asked.append(path)
        return False

    with opened(NODES, failing=watched) as snapshot:
        list(snapshot.tree("/data"))
        before = len(asked)
        list(snapshot.tree("/over", lambda path: path.endswith("/file")))

        assert len(asked) <= before + 6


def test_a_folder_is_told_without_an_archive_of_it() -> None:
    """The engine would begin to pack all that is in it."""

    class Unread(FakeContainer):
        def get(self, path: str) -> NoReturn:
            pytest.fail(f"an archive of {path} was asked for")

    sandbox = FakeSandbox()
    with sandbox.opened(ContainerSpec(sandbox.add_image("a", {**BASE, **NODES}), argv=("/bin/true",))) as container:
        container.__class__ = Unread
        snapshot = ImageSnapshot(lambda: container, lambda: container, list)

        assert snapshot.resolved("/data/deep/er") == "/data/deep/er"


# --- what an agent changed --------------------------------------------------------------------------------


def test_what_an_agent_touched_is_told_by_folder() -> None:
    """Added, changed and removed; folders only where they were added."""
    nodes = {"/etc/profile": "new", "/etc/made/file": "", "/usr/bin/tool": None, "/opt/x": "", "/usr/lib/y": ""}
    with opened_image(nodes, base=dict(BASE)) as (_, snapshot):
        assert snapshot.touched("/etc") == {"/etc/profile": "C", "/etc/made": "A", "/etc/made/file": "A"}
        assert snapshot.touched("/etc/profile") == {"/etc/profile": "C"}
        assert snapshot.touched("/usr/bin", "/opt") == {"/usr/bin/tool": "D", "/opt/x": "A"}
        assert snapshot.touched("/et") == {}
        assert set(snapshot.touched("/")) == {
            *("/etc/profile", "/etc/made", "/etc/made/file", "/usr/bin/tool", "/opt/x", "/usr/lib", "/usr/lib/y"),
        }


def test_folders_of_which_only_the_content_changed_are_left_out() -> None:
    """Few are looked at one by one, many in one go; what became a link is told."""
    few = [*("/opt", "/usr/bin", "/etc/profile"), *(f"/f/{number}" for number in range(5))]
    many = [*few, *(f"/f/{number}" for number in range(5, 50))]
    nodes: dict[str, Node] = {f"/f/{number}": Folder() for number in range(50)}
    for paths in (few, many):
        made = [
            Change(ChangeKind.ADDED, "/f"),
            *(Change(ChangeKind.CHANGED, path) for path in (*paths, "/f/link")),
        ]
        with opened({**nodes, "/f/link": Link("0")}, changes=made.copy) as snapshot:
            assert snapshot.touched("/") == {"/etc/profile": "C", "/f": "A", "/f/link": "C"}
            assert snapshot.touched("/f", "/opt") == {"/f": "A", "/f/link": "C"}


def test_what_is_not_known_to_be_changed_is_a_problem() -> None:
    """The agent is to blame where it could not be told."""

    def unknown() -> Iterator[Change]:
        yield Change(ChangeKind.ADDED, "/data/file")
        raise UnknownChangesError("nested too deep\x1b[2J")

    with opened(NODES, changes=unknown) as snapshot:
        assert snapshot.touched("/data") == {"/data/file": "A"}
        (problem,) = snapshot.problems

    assert "nested too deep" in problem
    assert problem.isprintable()


def test_what_was_touched_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A million files take no more memory than is allowed, and are no secret."""
    monkeypatch.setattr(module, "_MOST_TOUCHED", 10)
    with opened({f"/data/{number}": b"" for number in range(20)}) as snapshot:
        assert len(snapshot.touched("/data")) == 10
        assert "more than 10 paths changed below /data" in snapshot.problems


# --- what cannot be read ----------------------------------------------------------------------------------


def test_what_only_the_snapshot_makes_unreadable_is_a_problem() -> None:
    """Nothing is raised for what an agent left; it is known, and the rest can be read."""
    with opened(NODES, failing=lambda path: path.startswith("/data/deep")) as snapshot:
        assert snapshot.entry("/data/deep/er/file") is None
        assert snapshot.resolved("/data/deep/er") == ""
        assert snapshot.entry("/data/file") is not None
        assert all("/data/deep" in problem and problem.isprintable() for problem in snapshot.problems)
        assert snapshot.problems


def test_an_engine_that_reads_nothing_is_an_error() -> None:
    """It is no finding against an agent."""
    with (
        opened(NODES, failing=lambda _: True, base_fails=True) as snapshot,
        pytest.raises(SandboxError, match="cannot read"),
    ):
        snapshot.entry("/data/file")


def test_a_hiccup_of_the_engine_is_none() -> None:
    """It is asked twice."""
    failures = iter([True])
    with opened(NODES, failing=lambda path: path == "/data/file" and next(failures, False)) as snapshot:
        assert snapshot.entry("/data/file") is not None
        assert snapshot.problems == ()


# --- names that are no UTF-8 ------------------------------------------------------------------------------


class Picky(FakeContainer):
    """As Docker is: asked for what has such a name itself, it answers with an empty archive."""

    asked = 0

    @contextmanager
    def get(self, path: str) -> Iterator[IO[bytes] | None]:
        """What is there, unless its own name is odd."""
        self.asked += 1
        with super().get(path) as stream:
            odd = not path.rpartition("/")[2].isascii()
            yield io.BytesIO(bytes(10240)) if stream is not None and odd else stream


ODD: dict[str, Node] = {
    "/o/bad\udcff": b"one",
    "/o/bad\udcff.pth": b"two",
    "/o/dir\udcff/in": b"three",
    "/o/dir\udcff/deep\udcfe/x/y\udcfd": b"four",
    "/o/link\udcff": Link("dir\udcff/in"),
    "/\udcff": b"five",
}


@contextmanager
def picky(nodes: dict[str, Node]) -> Iterator[tuple[ImageSnapshot, Picky]]:
    """A snapshot over such a container."""
    with opened(nodes) as snapshot:
        container = snapshot._files._container()
        container.__class__ = Picky
        assert isinstance(container, Picky)
        yield snapshot, container


def test_names_that_are_no_text_hide_nothing() -> None:
    """Files, folders and links of such names are found among their neighbours."""
    with picky(ODD) as (snapshot, _):
        for path, node in ODD.items():
            entry = snapshot.entry(path)
            assert entry is not None
            assert entry.content == (node if isinstance(node, bytes) else b"three")
        trees = {
            folder: {one.path: one.content for one in snapshot.tree(folder, lambda _: True)}
            for folder in ("/o/dir\udcff", "/o/dir\udcff/deep\udcfe", "/o")
        }

        assert trees["/o/dir\udcff"]["/o/dir\udcff/in"] == b"three"
        assert trees["/o/dir\udcff/deep\udcfe"]["/o/dir\udcff/deep\udcfe/x/y\udcfd"] == b"four"
        assert len(trees["/o"]) == 8
        assert snapshot.link("/o/link\udcff").link == "dir\udcff/in"  # type: ignore[union-attr]
        assert snapshot.entry("/o/none\udcff") is None
        assert snapshot.problems == ()


def test_many_such_names_are_not_looked_for_one_by_one() -> None:
    """Each would take as long as the whole folder."""
    deep = "/a\udcff" * 300
    with picky({f"{deep}/x": b"", **{f"/p/{number}\udcff.pth": b"import x" for number in range(300)}}) as (
        snapshot,
        container,
    ):
        assert snapshot.entry(f"{deep}/x") is not None
        names = [entry.path for entry in snapshot.tree("/p")]
        assert all(snapshot.entry(name).content == b"import x" for name in names)  # type: ignore[union-attr]
        assert container.asked < 20


# --- what is as the base image has it ---------------------------------------------------------------------


def test_what_nobody_changed_is_read_from_the_base_image() -> None:
    """One container of the base image serves many audits; of the snapshot only what changed is read."""
    asked: list[str] = []
    with opened_image({"/etc/profile": "new", "/opt/x": "added"}, base=dict(BASE)) as (_, snapshot):
        assert isinstance(snapshot, ImageSnapshot)
        made = snapshot._files._container

        def container() -> Container:
            asked.append("")
            return made()

        snapshot._files._container = container
        assert snapshot.entry("/data/file") is None
        assert not asked
        assert snapshot.entry("/etc/profile").content == b"new"  # type: ignore[union-attr]
        assert snapshot.entry("/opt/x").content == b"added"  # type: ignore[union-attr]
        assert asked


@pytest.mark.parametrize(
    ("path", "untouched"),
    [
        ("/usr/bin/python3", True),
        ("/usr/lib/python3.11/os.py", True),
        ("/etc/profile", False),
        ("/etc/made/file", False),
        ("/etc/made/deep/file", False),
        ("/gone/file", False),
        ("/etc", False),
        ("/etc/hosts", True),
        ("/caf\udce9", False),
    ],
)
def test_only_what_the_engine_names_counts_as_changed(path: str, untouched: bool) -> None:  # noqa: FBT001 - a parameter
    """A path is untouched when neither it was changed nor a folder above it was added or removed."""
    kinds = {"/etc": "C", "/etc/profile": "C", "/etc/made": "A", "/gone": "D"}
    layer = Layer(Change(ChangeKind(kind), path) for path, kind in kinds.items())

    assert layer.untouched(path) is untouched


def test_a_folder_is_untouched_when_nothing_below_it_is() -> None:
    """Its neighbours' changes do not matter, whatever their names begin with."""
    layer = Layer([Change(ChangeKind.CHANGED, "/usr/lib"), Change(ChangeKind.ADDED, "/usr/lib/python3.11-evil")])

    assert layer.untouched_below("/usr/lib/python3.11")
    assert not layer.untouched_below("/usr")
    assert not layer.untouched_below("/usr/lib")


def test_where_changes_are_not_known_everything_counts_as_changed() -> None:
    """Nothing is taken from the base image then."""

    def unknown() -> Iterator[Change]:
        yield Change(ChangeKind.CHANGED, "/etc")
        raise UnknownChangesError("the engine broke")

    assert not Layer(unknown()).untouched("/usr/bin/python3")
