"""Provisioning: what differs from the pinned tree is seen from outside."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_researchenv.probes.protocol import Tree
from pytest_researchenv.provision import changed_paths


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
