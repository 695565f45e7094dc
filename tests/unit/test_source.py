"""Sources: the pinned tree arrives exactly, once, and nothing in it runs."""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from pytest_researchenv import _gitcommand
from pytest_researchenv.errors import SourceError
from pytest_researchenv.model import GitSource, PathSource, Repository, Source
from pytest_researchenv.probes.protocol import Tree
from pytest_researchenv.source import fetch, tree_tar
from tests.unit.gitting import git


def repository(source: Source, folder: Path | None = None) -> Repository:
    """Make a repository from a source."""
    return Repository(name="owner/toy", source=source, folder=str(folder or ""))


def write(folder: Path, files: Mapping[str, bytes]) -> Path:
    """Write files below a folder."""
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def entries(tree: Tree, *, exclude_git: bool = True) -> dict[str, tarfile.TarInfo]:
    """Return the members of a tree's archive."""
    with (
        tree_tar(tree, prefix="/workspace/toy", exclude_git=exclude_git) as stream,
        tarfile.open(fileobj=stream) as tar,
    ):
        return {member.name: member for member in tar}


# --- folders ----------------------------------------------------------------------------------------------


def test_a_folder_becomes_one_commit_of_everything(tmp_path: Path) -> None:
    """Ignored files, empty files and links are in; a foreign .git at any depth is not."""
    write(
        tmp_path / "src", {"a.py": b"x", ".gitignore": b"*.log", "b.log": b"y", "p/empty": b"", "p/.git/config": b"z"}
    )
    (tmp_path / "src" / "link").symlink_to("p")

    tree = fetch(repository(PathSource("src"), tmp_path), cache=tmp_path / "cache")

    assert tree.files == (".gitignore", "a.py", "b.log", "link", "p/empty")
    assert git(tree.root, "rev-list", "--all", "--count") == "1"
    assert git(tree.root, "status", "--porcelain", "--ignored") == ""
    assert git(tree.root, "rev-parse", "HEAD^{tree}") == tree.digest
    assert (tree.root / "link").is_symlink()


def test_bytecode_in_a_folder_is_not_of_the_tree(tmp_path: Path) -> None:
    """Installers compile what lies in a package: a shipped folder is the same tree in a checkout and installed."""
    (tmp_path / "src/pkg/__pycache__").mkdir(parents=True)
    (tmp_path / "src/pkg/a.py").write_text("A = 1\n")
    (tmp_path / "src/pkg/__pycache__/a.cpython-311.pyc").write_bytes(b"compiled")

    tree = fetch(repository(PathSource("src"), tmp_path), cache=tmp_path / "cache")

    assert tree.files == ("pkg/a.py",)


def test_of_a_checkout_only_tracked_files_are_taken(tmp_path: Path) -> None:
    """What lies about in a developer's checkout is not part of the source; what was deleted there is missing."""
    source = write(tmp_path / "checkout" / "sub", {"a.py": b"x", "gone.py": b"y"}).parent
    git(source, "init", "--quiet")
    git(source, "add", ".")
    write(source, {"sub/untracked.py": b"z", "sub/__pycache__/a.pyc": b"z"})
    (source / "sub" / "gone.py").unlink()

    tree = fetch(repository(PathSource(str(source / "sub"))), cache=tmp_path / "cache")

    assert tree.files == ("a.py",)


def test_a_folder_that_git_ignores_is_taken_whole(tmp_path: Path) -> None:
    """An installed package inside somebody's checkout is not empty."""
    source = write(tmp_path / "checkout", {".gitignore": b"venv/", "venv/toy/a.py": b"x"})
    git(source, "init", "--quiet")

    tree = fetch(repository(PathSource(str(source / "venv" / "toy"))), cache=tmp_path / "cache")

    assert tree.files == ("a.py",)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_checkout_of_another_user_is_taken_like_ones_own(tmp_path: Path) -> None:
    """A checkout that is mounted into a container belongs to somebody else there."""
    source = write(tmp_path / "checkout", {"a.py": b"x"})
    git(source, "init", "--quiet")
    git(source, "add", ".")
    write(source, {"untracked.py": b"z"})
    for folder in (source, source / ".git"):
        os.chown(folder, 12345, 12345)

    tree = fetch(repository(PathSource(str(source))), cache=tmp_path / "cache")

    assert tree.files == ("a.py",)


def test_a_checkout_that_git_cannot_read_is_not_taken_whole(tmp_path: Path) -> None:
    """Only where there is no repository at all does everything count."""
    source = write(tmp_path / "checkout", {"a.py": b"x"})
    git(source, "init", "--quiet")
    write(source, {".git/index": b"nonsense"})

    with pytest.raises(SourceError, match="index file"):
        fetch(repository(PathSource(str(source))), cache=tmp_path / "cache")


def test_a_changed_folder_is_another_tree(tmp_path: Path) -> None:
    """The digest follows the content, and the first tree stays as it was."""
    source = write(tmp_path / "src", {"a.py": b"x"})
    first = fetch(repository(PathSource(str(source))), cache=tmp_path / "cache")
    again = fetch(repository(PathSource(str(source))), cache=tmp_path / "cache")
    write(source, {"a.py": b"y"})

    second = fetch(repository(PathSource(str(source))), cache=tmp_path / "cache")

    assert first == again
    assert first.digest != second.digest
    assert (first.root / "a.py").read_bytes() == b"x"


@pytest.mark.parametrize("path", ["missing", "src/a.py"])
def test_a_path_that_is_no_folder_is_named(tmp_path: Path, path: str) -> None:
    """The message says which key to correct."""
    write(tmp_path / "src", {"a.py": b"x"})

    with pytest.raises(SourceError, match=f"{path} is no folder: correct `path`"):
        fetch(repository(PathSource(path), tmp_path), cache=tmp_path / "cache")


def test_a_fifo_in_a_folder_is_refused_and_not_read(tmp_path: Path) -> None:
    """Opening one would wait for ever."""
    write(tmp_path / "src", {"a.py": b"x"})
    os.mkfifo(tmp_path / "src" / "fifo")

    with pytest.raises(SourceError, match="fifo is neither a file nor a link"):
        fetch(repository(PathSource("src"), tmp_path), cache=tmp_path / "cache")


# --- the commit -------------------------------------------------------------------------------------------


def test_the_same_files_give_the_same_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither time nor umask nor the user's configuration nor a surrounding hook's variables show in it."""
    source = write(tmp_path / "src", {"a.py": b"x", "b/c.sh": b"y"})
    (source / "b" / "c.sh").chmod(0o755)
    first = fetch(repository(PathSource(str(source))), cache=tmp_path / "one")
    write(tmp_path, {"config": b"[user]\nname = me\n[core]\nautocrlf = true\n[commit]\ngpgSign = true\n"})
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "config"))
    monkeypatch.setenv("GIT_AUTHOR_DATE", "2020-01-01T00:00:00Z")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "index"))
    umask = os.umask(0o077)
    try:
        second = fetch(repository(PathSource(str(source))), cache=tmp_path / "two")
    finally:
        os.umask(umask)

    assert first.digest == second.digest
    assert git(first.root, "rev-parse", "HEAD") == git(second.root, "rev-parse", "HEAD")
    modes = {name: (member.mode, member.uid, member.gid) for name, member in entries(second).items()}
    assert modes == {name: (member.mode, member.uid, member.gid) for name, member in entries(first).items()}


@pytest.mark.parametrize(
    "attributes",
    [
        b"* text eol=crlf\n",
        b"* text=auto\n",
        b"* ident\n",
        b"* filter=evil\n",
        b"* working-tree-encoding=nonsense\n",
        b"[attr]m text eol=lf ident\n* m\n",
        b"a.py export-ignore\n",
    ],
)
def test_no_attribute_changes_a_byte(tmp_path: Path, attributes: bytes) -> None:
    """Line ends, keywords and filters of the tree's own .gitattributes do not apply, and do not stop the commit."""
    content = b"one\r\ntwo\n$Id$\n\xff\r\n"
    write(tmp_path / "src", {".gitattributes": attributes, "a.py": content, "p/.gitattributes": attributes})

    tree = fetch(repository(PathSource("src"), tmp_path), cache=tmp_path / "cache")

    assert (tree.root / "a.py").read_bytes() == content
    # As bytes: `git cat-file` gives what was committed.
    blob = subprocess.run(["git", "-C", tree.root, "cat-file", "blob", "HEAD:a.py"], check=True, capture_output=True)
    assert blob.stdout == content
    assert git(tree.root, "status", "--porcelain") == ""


# --- Git --------------------------------------------------------------------------------------------------


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    """A bare repository with two commits, the first of which is on no branch's tip."""
    work = write(tmp_path / "work", {"a.py": b"one\r\n", "run.sh": b"#!/bin/sh\n", ".gitignore": b"*.log\n"})
    (work / "run.sh").chmod(0o755)
    (work / "absolute").symlink_to("/etc/passwd")
    git(work, "init", "--quiet", "--initial-branch=main")
    git(work, "add", ".")
    git(work, "commit", "--quiet", "-m", "one", "--date=2024-05-06T07:08:09Z")
    write(work, {"a.py": b"two\n"})
    git(work, "commit", "--quiet", "-am", "two")
    git(tmp_path, "clone", "--quiet", "--bare", str(work), str(tmp_path / "origin.git"))
    return tmp_path / "origin.git"


def test_exactly_the_pinned_commit_is_fetched(tmp_path: Path, origin: Path) -> None:
    """An older commit comes without its successors, with the upstream's tree hash and its time on every file."""
    commit = git(origin, "rev-parse", "main~1")

    tree = fetch(repository(GitSource(origin.as_uri(), commit)), cache=tmp_path / "cache")

    assert tree.digest == git(origin, "rev-parse", "main~1^{tree}")
    assert tree.files == (".gitignore", "a.py", "absolute", "run.sh")
    assert git(tree.root, "rev-list", "--all", "--count") == "1"
    time = int(git(origin, "show", "--no-patch", "--format=%ct", commit))
    assert {member.mtime for name, member in entries(tree).items() if not member.isdir()} == {time}
    assert (tree.root / "absolute").is_symlink()


def test_a_commit_that_is_not_there_is_named(tmp_path: Path, origin: Path) -> None:
    """A rewritten history is told from a network fault, and leaves nothing behind."""
    with pytest.raises(SourceError, match=f"commit {'0' * 39}1 of file://.*: it is not there; was it rewritten"):
        fetch(repository(GitSource(origin.as_uri(), "0" * 39 + "1")), cache=tmp_path / "cache")

    assert not [path for path in (tmp_path / "cache" / "trees").iterdir() if path.suffix != ".lock"]


def test_an_address_cannot_run_a_command(tmp_path: Path) -> None:
    """Git's `ext::` transport and option-like addresses are refused."""
    for url in (f"ext::sh -c touch% {tmp_path}/ran", f"--upload-pack=touch {tmp_path}/ran"):
        with pytest.raises(SourceError):
            fetch(repository(GitSource(url, "1" * 40)), cache=tmp_path / "cache")

    assert not (tmp_path / "ran").exists()


def test_the_users_configuration_applies_to_the_fetch(
    tmp_path: Path, origin: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mirror that the user configured is used."""
    (tmp_path / "config").write_text(f'[url "{origin.parent.as_uri()}/"]\ninsteadOf = https://host.invalid/\n')
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "config"))
    commit = git(origin, "rev-parse", "main")

    tree = fetch(repository(GitSource("https://host.invalid/origin.git", commit)), cache=tmp_path / "cache")

    assert (tree.root / "a.py").read_bytes() == b"two\n"


def test_nothing_that_a_checkout_configures_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hooks, file monitors and filters of a hostile checkout, and of the user, stay silent."""
    trap = tmp_path / "ran"
    command = f"touch {trap}"
    source = write(tmp_path / "src", {"a.py": b"x", ".gitattributes": b"* filter=evil\n"})
    git(source, "init", "--quiet")
    git(source, "add", "a.py", ".gitattributes")
    for folder in (source / ".git" / "hooks", tmp_path / "hooks"):
        for name in ("pre-commit", "post-commit", "post-checkout", "post-index-change", "reference-transaction"):
            write(folder, {name: f"#!/bin/sh\n{command}\n".encode()})
            (folder / name).chmod(0o755)
    evil = f'[core]\nfsmonitor = "{command}; false"\nhooksPath = {tmp_path}/hooks\n'
    evil += f'[filter "evil"]\nclean = "{command}; cat"\nsmudge = "{command}; cat"\n'
    with (source / ".git" / "config").open("a") as config:
        config.write(evil)
    (tmp_path / "config").write_text(evil)
    commit_of = git(source, "-c", "core.fsmonitor=false", "hash-object", "a.py")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "config"))
    trap.unlink(missing_ok=True)

    tree = fetch(repository(PathSource(str(source))), cache=tmp_path / "cache")
    fetch(repository(PathSource(str(source))), cache=tmp_path / "cache")

    assert tree.files == (".gitattributes", "a.py")
    assert git(tree.root, "rev-parse", "HEAD:a.py") == commit_of
    assert not trap.exists()


def test_a_submodule_is_left_out(tmp_path: Path, origin: Path) -> None:
    """Its folder is empty and nothing is fetched for it."""
    work = tmp_path / "work"
    git(work, "submodule", "--quiet", "add", str(origin), "sub")
    git(work, "commit", "--quiet", "-am", "three")

    tree = fetch(repository(GitSource(work.as_uri(), git(work, "rev-parse", "HEAD"))), cache=tmp_path / "cache")

    assert ".gitmodules" in tree.files
    assert not [name for name in tree.files if name.startswith("sub")]


# --- the cache --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", ["changed", "deleted", "added", "ignored", "no-git", "broken-git", "half"])
def test_a_cached_tree_that_was_changed_is_made_anew(tmp_path: Path, origin: Path, damage: str) -> None:
    """Nobody is judged against a tree that somebody edited, or that a killed process left."""
    source = GitSource(origin.as_uri(), git(origin, "rev-parse", "main"))
    first = fetch(repository(source), cache=tmp_path / "cache")
    root = first.root
    match damage:
        case "changed":
            (root / "a.py").write_bytes(b"new\n")
        case "deleted":
            (root / "a.py").unlink()
        case "added":
            (root / "new.py").write_bytes(b"")
        case "ignored":
            (root / "new.log").write_bytes(b"")
        case "no-git":
            shutil.rmtree(root / ".git")
        case "broken-git":
            (root / ".git" / "HEAD").write_bytes(b"nonsense")
        case "half":
            building = root.with_name(f"{root.name}.building")
            write(building, {"tree/.git/config": b"x", "tree/a.py": b"half"})
            shutil.rmtree(root)

    again = fetch(repository(source), cache=tmp_path / "cache")

    assert again == first
    assert sorted(path.name for path in root.iterdir()) == [".git", *first.files]
    assert (root / "a.py").read_bytes() == b"two\n"
    assert not root.with_name(f"{root.name}.building").exists()


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """The folder is in the message."""
    (tmp_path / "cache").write_bytes(b"")

    with pytest.raises(SourceError, match=r"the tree of owner/toy cannot be kept in .*cache/trees"):
        fetch(repository(PathSource("src"), tmp_path), cache=tmp_path / "cache")


def test_without_git_the_message_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Git is a program that a machine may lack."""
    monkeypatch.setenv("PATH", str(tmp_path))
    write(tmp_path / "src", {"a.py": b"x"})

    with pytest.raises(SourceError, match="git is not installed: install it"):
        fetch(repository(PathSource("src"), tmp_path), cache=tmp_path / "cache")


def test_a_git_that_hangs_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every call has a deadline."""
    write(tmp_path / "bin", {"git": b"#!/bin/sh\nexec sleep 60\n"})
    (tmp_path / "bin" / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin", prepend=os.pathsep)
    monkeypatch.setattr(_gitcommand, "_FETCH_TIMEOUT_S", 0.2)
    monkeypatch.setattr(_gitcommand, "_TIMEOUT_S", 0.2)
    write(tmp_path / "src", {"a.py": b"x"})

    with pytest.raises(SourceError, match="git did not end within 0 s"):
        fetch(repository(PathSource("src"), tmp_path), cache=tmp_path / "cache")


# --- the archive ------------------------------------------------------------------------------------------


def test_every_folder_is_named_before_what_is_in_it(tmp_path: Path) -> None:
    """From the root down, so that no planted link is followed; everything belongs to root."""
    write(tmp_path / "src", {"a/b/c.py": b"x", "d.py": b"y"})
    tree = fetch(repository(PathSource("src"), tmp_path), cache=tmp_path / "cache")

    members = entries(tree)

    names = ["workspace", "workspace/toy", "workspace/toy/a", "workspace/toy/a/b", "workspace/toy/a/b/c.py"]
    assert list(members) == [*names, "workspace/toy/d.py"]
    assert [members[name].isdir() for name in names] == [True, True, True, True, False]
    assert {(entry.uid, entry.gid, entry.uname, entry.gname) for entry in members.values()} == {(0, 0, "", "")}


def test_an_unpacked_archive_is_a_clean_repository(tmp_path: Path) -> None:
    """Git finds the one commit and no change where the archive was unpacked; times and links are kept."""
    write(tmp_path / "src", {"run.sh": b"x", "a" * 200 + "/" + "b" * 200: b"y", "ünïcödé": b"z"})
    write(tmp_path / "src", {os.fsdecode(b"latin-\xe9"): b"1"})
    (tmp_path / "src" / "run.sh").chmod(0o755)
    (tmp_path / "src" / "outside").symlink_to("/etc//passwd")
    os.utime(tmp_path / "src" / "run.sh", (1_000_000_000, 1_000_000_000))
    tree = fetch(repository(PathSource("src"), tmp_path), cache=tmp_path / "cache")

    with tree_tar(tree, prefix="/workspace/toy") as stream:
        subprocess.run(["tar", "--extract", "-C", str(tmp_path)], input=stream.read(), check=True)

    unpacked = tmp_path / "workspace" / "toy"
    assert git(unpacked, "-c", "safe.directory=*", "status", "--porcelain", "--ignored") == ""
    assert git(unpacked, "-c", "safe.directory=*", "rev-parse", "HEAD^{tree}") == tree.digest
    assert (unpacked / "run.sh").stat().st_mtime == 1_000_000_000
    assert os.readlink(unpacked / "outside") == "/etc//passwd"  # noqa: PTH115 - a Path would hide the slashes
    assert os.fsdecode(b"latin-\xe9") in tree.files


def test_git_can_be_left_out(tmp_path: Path) -> None:
    """With `exclude_git` only tracked files come."""
    write(tmp_path / "src", {"a.py": b"x"})
    tree = fetch(repository(PathSource("src"), tmp_path), cache=tmp_path / "cache")

    assert "workspace/toy/.git/HEAD" in entries(tree, exclude_git=False)
    assert not [name for name in entries(tree) if ".git" in name]


def test_a_prefix_that_leads_elsewhere_is_refused(tmp_path: Path) -> None:
    """The archive is unpacked at the root of a container."""
    with pytest.raises(ValueError, match="must not go through"):
        tree_tar(Tree(tmp_path, (), ""), prefix="/workspace/../etc")


def test_a_tree_that_vanished_is_an_error_of_ours(tmp_path: Path) -> None:
    """Somebody may clean the cache while it is read."""
    with pytest.raises(SourceError, match="cannot be read"):
        tree_tar(Tree(tmp_path, ("gone.py",), ""), prefix="/workspace/toy", exclude_git=True)
