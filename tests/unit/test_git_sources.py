"""Git sources: the tag that a version is derived from, what cannot be fetched and why, and what the cache shares."""

from __future__ import annotations

import http.server
import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_researchenv._gitcommand import remote_git
from pytest_researchenv.errors import SourceError
from pytest_researchenv.model import GitSource, Repository
from pytest_researchenv.probes.protocol import Tree
from pytest_researchenv.source import fetch, tree_tar
from tests.unit.gitting import git


COMMIT = "1" * 40


def had(cache: Path, url: str, commit: str = COMMIT, *, tag: str = "", name: str = "owner/toy") -> Tree:
    """Fetch a tree."""
    return fetch(Repository(name, GitSource(url, commit, tag=tag)), cache=cache)


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    """A repository with one commit, and a tag of its own."""
    folder = tmp_path / "origin"
    folder.mkdir()
    (folder / "a.py").write_text("a\n")
    git(folder, "init", "--quiet", "--initial-branch=main")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--message=x")
    git(folder, "tag", "upstream")
    return folder


# --- the tag ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tag", ["v1.2.3", "1.0", "pkg/v0.1.0-rc.1+cu12", "release_2@x"])
def test_the_one_commit_gets_the_tag(tmp_path: Path, origin: Path, tag: str) -> None:
    """`git describe` gives it, plain, with `--tags`, and as setuptools-scm asks; upstream's own tags do not come."""
    tree = had(tmp_path / "cache", origin.as_uri(), git(origin, "rev-parse", "HEAD"), tag=tag)

    assert git(tree.root, "describe") == git(tree.root, "describe", "--tags") == tag
    scm = git(tree.root, "describe", "--dirty", "--tags", "--long", "--match", "*[0-9]*")
    assert scm == f"{tag}-0-g{git(tree.root, 'rev-parse', '--short', 'HEAD')}"
    assert git(tree.root, "tag") == tag
    assert git(tree.root, "rev-list", "--all", "--count") == "1"


def test_the_tag_is_always_the_same_and_goes_into_the_container(
    tmp_path: Path, origin: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever fetches, whenever, it is the same object; the version is there where the archive is unpacked."""
    commit = git(origin, "rev-parse", "HEAD")
    first = had(tmp_path / "one", origin.as_uri(), commit, tag="v1")
    (tmp_path / "config").write_text("[user]\nname = me\n[tag]\ngpgSign = true\nforceSignAnnotated = true\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "config"))
    monkeypatch.setenv("GIT_COMMITTER_DATE", "2020-01-01T00:00:00Z")
    second = had(tmp_path / "two", origin.as_uri(), commit, tag="v1")

    with tree_tar(first, prefix="/workspace/toy") as stream:
        subprocess.run(["tar", "--extract", "-C", str(tmp_path)], input=stream.read(), check=True)

    assert git(first.root, "cat-file", "-t", "v1") == "tag"
    assert git(first.root, "rev-parse", "v1") == git(second.root, "rev-parse", "v1")
    assert git(tmp_path / "workspace/toy", "describe") == "v1"


def test_a_tag_makes_another_tree(tmp_path: Path, origin: Path) -> None:
    """In the cache, by digest, and for what identifies an environment: the version is built into what is installed."""
    commit = git(origin, "rev-parse", "HEAD")

    trees = [had(tmp_path / "cache", origin.as_uri(), commit, tag=tag) for tag in ("", "v1", "v2")]

    assert len({tree.root for tree in trees}) == len({tree.digest for tree in trees}) == 3
    assert trees[0].digest == git(origin, "rev-parse", "HEAD^{tree}")
    assert trees[1].digest == f"{trees[0].digest}+v1"
    assert git(trees[0].root, "tag") == ""
    assert len({str(GitSource("u", commit, tag=tag)) for tag in ("", "v1", "v2")}) == 3


@pytest.mark.parametrize("damage", ["deleted", "moved", "lightweight-elsewhere", "added", "branch"])
def test_a_cached_tree_whose_tag_was_changed_is_made_anew(tmp_path: Path, origin: Path, damage: str) -> None:
    """Another tag would be another version."""
    commit = git(origin, "rev-parse", "HEAD")
    tree = had(tmp_path / "cache", origin.as_uri(), commit, tag="v1")
    match damage:
        case "deleted":
            git(tree.root, "tag", "--delete", "v1")
        case "moved":
            git(tree.root, "tag", "--force", "-am", "x", "v1", "HEAD:a.py")
        case "lightweight-elsewhere":
            git(tree.root, "tag", "--force", "v1", "HEAD:a.py")
        case "added":
            git(tree.root, "tag", "v9")
        case "branch":
            git(tree.root, "branch", "other")

    assert had(tmp_path / "cache", origin.as_uri(), commit, tag="v1") == tree

    assert git(tree.root, "describe") == git(tree.root, "tag") == "v1"
    assert git(tree.root, "branch", "--format=%(refname:short)") == "main"


@pytest.mark.parametrize(
    "tag",
    [
        *(
            "-d",
            ".v1",
            "v1.",
            "v1..2",
            "v1/",
            "/v1",
            "a//b",
            "a/.b",
            "v1.lock",
            "a.lock/b",
            "v 1",
            "v1\n",
            "v^1",
            "v:1",
        ),
        *("v~1", "v?", "v*", "v[1]", "v\\1", "a@{b", "é1", "HEAD", "v" * 101, "v1\0"),
    ],
)
def test_a_tag_that_git_would_not_take_is_named(tag: str) -> None:
    """When the suite is read, and not when the tree is fetched."""
    with pytest.raises(ValueError, match=r"tag must be a name that Git takes, such as v1.2.3, .* not '"):
        GitSource("https://host.invalid/x", COMMIT, tag=tag)


# --- what cannot be fetched -------------------------------------------------------------------------------


class _Host(http.server.SimpleHTTPRequestHandler):
    """A host that answers by what the address says."""

    def do_GET(self) -> None:
        """Answer with the status that is the first part of the path."""
        status = int(self.path.split("/")[1])
        self.send_response(status)
        if status == http.HTTPStatus.UNAUTHORIZED:
            self.send_header("WWW-Authenticate", 'Basic realm="x"')
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the base class's
        """Say nothing."""


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Address of an HTTP server on this machine."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Host) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("url", "why"),
    [
        (
            "http://{host}/401/x",
            "the host wants credentials, or has no such repository .*; check the address, and give",
        ),
        ("http://me:wrong@{host}/401/x", "the host wants credentials"),
        ("http://{host}/403/x", "the host wants credentials"),
        ("http://{host}/404/x", "there is no repository at this address; check it"),
        (
            "http://{host}/200/x",
            "the host serves plain files, or no repository; check the address, or fetch from a mir",
        ),
        ("http://{host}/500/x", "check the address, the network and the credentials that git uses"),
        ("https://{host}/200/x", "the host cannot be trusted; check the address, and give git or ssh its certificate"),
        ("http://127.0.0.1:9/x", "the host does not answer; check the address and the network, or fetch from a mirror"),
        ("git://127.0.0.1:9/proxy/x", "the host does not answer"),
        ("file:///nonexistent/x", "there is no repository at this address"),
        ("/dev/null", "there is no repository at this address"),
        ("ftp://127.0.0.1:9/x", "the address is of no kind that is fetched; use https, http, ssh or git"),
        ("ext::true", "the address is of no kind that is fetched"),
    ],
)
def test_what_cannot_be_fetched_says_why_and_what_to_do(tmp_path: Path, host: str, url: str, why: str) -> None:
    """Each kind in its own words, with the address, the commit and what git said; no question, and no password."""
    url = url.format(host=host)
    shown = url.replace("me:wrong@", "")

    with pytest.raises(
        SourceError, match=rf"^commit {COMMIT} of {shown} cannot be fetched: {why}.* \(git: fatal: .+\)$"
    ):
        had(tmp_path / "cache", url)


#: Recorded from git 2.39 with curl 7.88, OpenSSH 9.2, and what large hosts answer.
SAID = {
    "remote: aborting due to possible repository corruption on the remote side.\nfatal: early EOF": "the host lacks",
    "fatal: unable to access 'https://connect.invalid/proxy/x/': Could not resolve host: x": "the host is not known",
    "fatal: unable to look up host.invalid (port 9418) (Name or service not known)": "the host is not known here",
    "ssh: Could not resolve hostname x: Name or service not known\nfatal: Could not read from remote repository.\n\n"
    "Please make sure you have the correct access rights\nand the repository exists.": "the host is not known here",
    "ssh: connect to host 127.0.0.1 port 9: Connection refused\nfatal: Could not read": "the host does not answer",
    "fatal: unable to access 'x': Failed to connect to x port 443: Network is unreachable": "the host does not answer",
    "fatal: unable to access 'x': Could not resolve proxy: p": "the proxy refuses; check http.proxy",
    "fatal: unable to access 'x': CONNECT tunnel failed, response 403": "the proxy refuses",
    "git@x: Permission denied (publickey).\nfatal: Could not read from remote": "the host wants credentials",
    "ERROR: Repository not found.\nfatal: Could not read from remote repository.": "there is no repository",
    "remote: Repository not found.\nfatal: repository 'https://x/' not found": "there is no repository",
    "Host key verification failed.\nfatal: Could not read from remote repository.": "the host cannot be trusted",
    "fatal: unable to access 'x': server certificate verification failed. CAfile: none": "the host cannot be trusted",
    "error: Server does not allow request for unadvertised object 11": "the host hands out what branches and tags",
    "fatal: detected dubious ownership in repository at '/x'": "the repository belongs to another user; allow it",
    "fatal: the remote end hung up unexpectedly": "check the address, the network",
}


@pytest.mark.parametrize("said", SAID, ids=[text.split("\n", maxsplit=1)[0][:60] for text in SAID])
def test_what_hosts_are_known_to_say_is_understood(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str) -> None:
    """What cannot be had on one machine alone, as it was recorded; words in the address mean nothing."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "said").write_text(said)
    script = f'case "$*" in *" fetch "*) cat {tmp_path}/said >&2; exit 128;; *) exec {shutil.which("git")} "$@";; esac'
    (tmp_path / "bin" / "git").write_text(f"#!/bin/sh\n{script}\n")
    (tmp_path / "bin" / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin", prepend=os.pathsep)

    with pytest.raises(SourceError) as caught:
        had(tmp_path / "cache", "https://host.invalid/timed-out/certificate")

    assert f"cannot be fetched: {SAID[said]}" in str(caught.value)


def test_a_tag_object_is_its_commit_and_a_tree_is_none(tmp_path: Path, origin: Path) -> None:
    """Any hash can be written into a description, and into a tree that names submodules."""
    git(origin, "config", "uploadpack.allowAnySHA1InWant", "true")
    git(origin, "tag", "--annotate", "--message=x", "v1")

    assert had(tmp_path / "cache", origin.as_uri(), git(origin, "rev-parse", "v1")).files == ("a.py",)
    with pytest.raises(SourceError, match="git show"):
        had(tmp_path / "cache", origin.as_uri(), git(origin, "rev-parse", "HEAD^{tree}"))


def test_no_password_is_told_when_git_does_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message goes into results and logs."""

    def late(argv: list[str], **_: object) -> None:
        raise subprocess.TimeoutExpired(argv, 1)

    monkeypatch.setattr(subprocess, "run", late)

    with pytest.raises(SourceError, match="did not end within") as caught:
        remote_git("ls-remote", "https://me:secret@host.example/x")
    assert "secret" not in str(caught.value)


def test_a_checkout_around_this_process_has_no_say(origin: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its configuration could name commands, or send an address elsewhere."""
    monkeypatch.chdir(origin)
    git(origin, "config", f"url.{origin.as_uri()}.insteadOf", "https://127.0.0.1:9/x")

    with pytest.raises(SourceError, match="ls-remote failed"):
        remote_git("ls-remote", "https://127.0.0.1:9/x")


def test_any_command_that_talks_to_a_host_says_why_it_fails(origin: Path) -> None:
    """In the same words, whatever is asked."""
    assert remote_git("ls-remote", "--", origin.as_uri(), "HEAD").decode().split()[0] == git(
        origin, "rev-parse", "HEAD"
    )
    with pytest.raises(SourceError, match="git ls-remote failed: there is no repository at this address; check it"):
        remote_git("ls-remote", "--", "file:///nonexistent/x")


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[str]:
    """Address of git's own server on this machine, for the repositories of a folder."""
    programs = Path(git(tmp_path, "--exec-path"))
    if not (programs / "git-daemon").exists():
        pytest.skip("git daemon is not installed")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    argv = [
        str(programs / "git-daemon"),
        "--listen=127.0.0.1",
        f"--port={port}",
        f"--base-path={tmp_path}",
        "--reuseaddr",
    ]
    with subprocess.Popen(argv, stderr=subprocess.DEVNULL) as server:
        try:
            for _ in range(100):
                try:
                    socket.create_connection(("127.0.0.1", port), timeout=1).close()
                    break
                except OSError:
                    time.sleep(0.05)
            yield f"git://127.0.0.1:{port}"
        finally:
            server.terminate()


def test_over_the_network_it_is_as_from_a_folder(tmp_path: Path, origin: Path, daemon: str) -> None:
    """Git's own server gives single commits; what it does not export, or does not have, is told apart."""
    (origin / ".git" / "git-daemon-export-ok").touch()
    commit = git(origin, "rev-parse", "HEAD")

    assert had(tmp_path / "cache", f"{daemon}/origin", commit).files == ("a.py",)
    with pytest.raises(SourceError, match=f"commit {COMMIT} of {daemon}/origin cannot be fetched: it is not there"):
        had(tmp_path / "cache", f"{daemon}/origin")
    with pytest.raises(SourceError, match="there is no repository at this address"):
        had(tmp_path / "cache", f"{daemon}/elsewhere")


# --- what is shared and kept ------------------------------------------------------------------------------


def test_two_repositories_of_one_commit_share_a_tree(tmp_path: Path, origin: Path) -> None:
    """It is fetched once: the second time nobody needs to be there."""
    commit = git(origin, "rev-parse", "HEAD")
    first = had(tmp_path / "cache", origin.as_uri(), commit, name="one/toy")
    origin.rename(tmp_path / "gone")

    assert had(tmp_path / "cache", origin.as_uri(), commit, name="two/other") == first


def test_files_kept_elsewhere_stay_pointers(tmp_path: Path, origin: Path) -> None:
    """Git LFS is not asked, even where the user has set it up."""
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 12345\n"
    (origin / ".gitattributes").write_text("*.bin filter=lfs diff=lfs merge=lfs -text\n")
    (origin / "weights.bin").write_text(pointer)
    git(origin, "add", ".")
    git(origin, "commit", "--quiet", "--message=y")
    commit = git(origin, "rev-parse", "HEAD")

    tree = had(tmp_path / "cache", origin.as_uri(), commit)

    assert (tree.root / "weights.bin").read_text() == pointer
