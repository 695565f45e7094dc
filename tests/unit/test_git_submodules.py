"""Submodules of Git sources: fetched at exactly the commits that the tree names, and trusted in nothing."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

import pytest

from pytest_researchenv import _git, _gitsubmodules
from pytest_researchenv._gitsubmodules import submodule_folders
from pytest_researchenv.errors import SourceError
from pytest_researchenv.model import GitSource, Repository
from pytest_researchenv.probes.imports import scan_files
from pytest_researchenv.probes.protocol import Tree
from pytest_researchenv.source import fetch


#: Where the repositories of these tests are said to be; an address that leads nowhere.
HOST = "https://host.invalid/org"


def git(folder: Path, *arguments: str, stdin: bytes = b"", time: int = 0) -> str:
    """Run git as a user would, apart from this machine's configuration."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    if time:
        environment |= {f"GIT_{role}_DATE": f"{time} +0000" for role in ("AUTHOR", "COMMITTER")}
    identity = ["-c", "user.name=x", "-c", "user.email=x@localhost"]
    done = subprocess.run(
        ["git", "-C", str(folder), *identity, *arguments], env=environment, check=True, capture_output=True, input=stdin
    )
    return done.stdout.decode().strip()


def made(
    folder: Path, files: Mapping[str, str], links: Mapping[str, tuple[str, str]] | None = None, time: int = 10**9
) -> str:
    """Make a repository and return its commit.

    Args:
        folder: where it goes; nothing is there.
        files: its files.
        links: path of a submodule → its commit, and its address as `.gitmodules` has it.
        time: of the commit.
    """
    folder.mkdir(parents=True)
    git(folder, "init", "--quiet", "--initial-branch=main")
    declared = [
        f'[submodule "{path} x"]\n\tpath = {path}\n\turl = {url}\n' for path, (_, url) in (links or {}).items() if url
    ]
    for name, content in {**files, **({".gitmodules": "".join(declared)} if declared else {})}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    git(folder, "add", "--all", "--force")
    for path, (commit, _) in (links or {}).items():
        git(folder, "update-index", "--add", "--cacheinfo", f"160000,{commit},{path}")
    git(folder, "commit", "--quiet", "--message=x", time=time)
    return git(folder, "rev-parse", "HEAD")


def had(cache: Path, url: str, commit: str, *, submodules: bool = True) -> Tree:
    """Fetch a tree with its submodules."""
    return fetch(Repository("owner/toy", GitSource(url, commit, submodules=submodules)), cache=cache)


@pytest.fixture
def org(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that the user's configuration puts in place of a host."""
    (tmp_path / "config").write_text(f'[url "{tmp_path.as_uri()}/org"]\n\tinsteadOf = {HOST}\n')
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "config"))
    return tmp_path / "org"


def test_submodules_become_ordinary_files_of_the_one_commit(tmp_path: Path, org: Path) -> None:
    """At any depth, at exactly the commit that is named, each file with the time of its own commit."""
    deep = made(org / "deep", {"deep.py": "1\n"}, time=10**9 + 1)
    first = made(org / "lib", {"lib.py": "old\n"}, {"third/deep": (deep, "../deep")}, time=10**9 + 2)
    (org / "lib" / "lib.py").write_text("new\n")
    git(org / "lib", "commit", "--quiet", "--all", "--message=y")
    commit = made(
        org / "main", {"a.py": "a\n"}, {"vendor/lib": (first, "../lib"), "same": (deep, f"{HOST}/deep/")}, time=10**9
    )

    tree = had(tmp_path / "cache", f"{HOST}/main", commit)

    modules = (".gitmodules", "a.py", "same/deep.py")
    nested = ("vendor/lib/.gitmodules", "vendor/lib/lib.py", "vendor/lib/third/deep/deep.py")
    assert tree.files == (*modules, *nested)
    assert (tree.root / "vendor/lib/lib.py").read_text() == "old\n"
    assert git(tree.root, "rev-list", "--all", "--count") == "1"
    assert "160000" not in git(tree.root, "ls-tree", "-r", "HEAD")
    assert [path for path in tree.root.rglob(".git") if path.parent != tree.root] == []
    times = {name: int((tree.root / name).stat().st_mtime) - 10**9 for name in ("a.py", *nested)}
    assert list(times.values()) == [0, 2, 2, 1]


def test_with_and_without_submodules_are_two_trees(tmp_path: Path, org: Path) -> None:
    """In the cache, by digest, and for what identifies an environment."""
    lib = made(org / "lib", {"lib.py": ""})
    commit = made(org / "main", {"a.py": ""}, {"lib": (lib, "../lib")})

    bare = had(tmp_path / "cache", f"{HOST}/main", commit, submodules=False)
    full = had(tmp_path / "cache", f"{HOST}/main", commit)

    assert bare.root != full.root
    assert bare.digest != full.digest
    assert bare.files == bare.own == (".gitmodules", "a.py")
    assert full.files == (".gitmodules", "a.py", "lib/lib.py")
    assert str(GitSource("u", commit)) != str(GitSource("u", commit, submodules=True))


def test_imports_of_submodules_count_elsewhere(tmp_path: Path, org: Path) -> None:
    """They are part of a fetched tree, but Git tracks them in a repository of their own; as Git reads `.gitmodules`."""
    lib = made(org / "lib", {"lib.py": "import numpy\n"})
    tree = {"run.py": "import torch\n", "third_party/n.py": "import n1\n", "old/o.py": "import o1\n"}
    commit = made(org / "main", tree, {"third_party/m": (lib, "../lib")})

    full = had(tmp_path / "cache", f"{HOST}/main", commit)

    assert full.submodules == ("third_party/m",)
    assert scan_files(full.root, full.own).names == ("n1", "o1", "torch")
    assert "third_party/m/lib.py" in full.files


def test_where_no_submodule_was_fetched_every_file_is_the_repository_s_own(tmp_path: Path, org: Path) -> None:
    """A `.gitmodules` that names a folder of ordinary files is left over."""
    left = {".gitmodules": '[submodule "m"]\n\tPath = "m" # gone\n\turl = ../m\n', "m/m.py": "import numpy\n"}
    commit = made(org / "main", left)

    bare = had(tmp_path / "cache", f"{HOST}/main", commit, submodules=False)

    assert submodule_folders(bare.root) == ("m",)
    assert scan_files(bare.root, bare.own).names == ("numpy",)


def test_a_cached_tree_whose_submodule_was_changed_is_made_anew(tmp_path: Path, org: Path) -> None:
    """What is in a submodule is part of the tree as much as anything."""
    lib = made(org / "lib", {"lib.py": "1\n"})
    commit = made(org / "main", {"a.py": ""}, {"lib": (lib, "../lib")})
    first = had(tmp_path / "cache", f"{HOST}/main", commit)
    (first.root / "lib" / "lib.py").write_text("2\n")

    assert had(tmp_path / "cache", f"{HOST}/main", commit) == first
    assert (first.root / "lib" / "lib.py").read_text() == "1\n"


def test_a_submodule_in_a_folder_beside_a_folder_is_fetched(tmp_path: Path) -> None:
    """Where the repository itself is a folder of this machine, its submodules may be, too."""
    lib = made(tmp_path / "lib", {"lib.py": ""})
    links = {"one": (lib, "../lib"), "two": (lib, (tmp_path / "lib").as_uri()), "three": (lib, str(tmp_path / "lib"))}
    commit = made(tmp_path / "main", {"a.py": ""}, links)

    for url in ((tmp_path / "main").as_uri(), str(tmp_path / "main")):
        tree = had(tmp_path / "cache", url, commit)

        assert {name for name in tree.files if name.endswith("lib.py")} == {f"{name}/lib.py" for name in links}


def test_a_submodule_that_is_gone_is_named(tmp_path: Path, org: Path) -> None:
    """Its path, its address and its commit are in the message."""
    made(org / "lib", {"lib.py": ""})
    commit = made(org / "main", {"a.py": ""}, {"vendor/lib": ("1" * 40, "../lib.git")})
    (org / "lib").rename(org / "lib.git")

    words = (
        f"submodule vendor/lib cannot be had: commit {'1' * 40} of {HOST}/lib.git cannot be fetched: it is not there"
    )
    with pytest.raises(SourceError, match=words):
        had(tmp_path / "cache", f"{HOST}/main", commit)


def test_a_submodule_without_an_address_is_named(tmp_path: Path, org: Path) -> None:
    """Trees with a link that nothing declares are common, and the message says how to go on."""
    commit = made(org / "main", {"a.py": ""}, {"lib": ("1" * 40, "")})

    with pytest.raises(SourceError, match=r"submodule lib \(1{40}\) has no url in the .gitmodules of .*leave"):
        had(tmp_path / "cache", f"{HOST}/main", commit)
    assert had(tmp_path / "cache", f"{HOST}/main", commit, submodules=False).files == ("a.py",)


@pytest.mark.parametrize(
    "url",
    [
        "file:///{folder}/secret",
        "{folder}/secret",
        "../../../../../../..{folder}/secret",
        "./../../../secret",
        "ext::touch% {folder}/ran",
        "fd::17",
        "--upload-pack=touch {folder}/ran",
        "-oProxyCommand=touch:x",
        "ssh://-oProxyCommand=touch/x",
        "x@-oProxyCommand=touch:x",
        "https://",
        "ftp://127.0.0.1/secret",
        "secret",
        "FILE:///{folder}/secret",
        "file://localhost{folder}/secret",
        "https://127.0.0.1/a b",
    ],
)
def test_an_address_that_leads_to_this_machine_or_runs_something_is_not_followed(
    tmp_path: Path, org: Path, url: str
) -> None:
    """`.gitmodules` is anybody's: what came from a host may name hosts, and nothing of this machine."""
    secret = made(tmp_path / "secret", {"secret.py": ""})
    commit = made(org / "main", {"a.py": ""}, {"lib": (secret, f'"{url.format(folder=tmp_path)}"')})

    with pytest.raises(SourceError, match=r"submodule lib of .* has an address that is not followed, '.*': only https"):
        had(tmp_path / "cache", f"{HOST}/main", commit)

    assert not (tmp_path / "ran").exists()


def test_a_host_s_submodules_stay_on_hosts_at_any_depth(tmp_path: Path, org: Path) -> None:
    """What a submodule names is trusted no more than what the tree names."""
    secret = made(tmp_path / "secret", {"secret.py": ""})
    lib = made(org / "lib", {}, {"inner": (secret, (tmp_path / "secret").as_uri())})
    commit = made(org / "main", {}, {"lib": (lib, "../lib")})

    with pytest.raises(SourceError, match=r"submodule lib/inner of https://host\.invalid/org/lib has an address"):
        had(tmp_path / "cache", f"{HOST}/main", commit)


@pytest.mark.parametrize(
    ("parent", "written", "meant"),
    [
        ("https://h/a/b.git", "../c.git", "https://h/a/c.git"),
        ("https://h/a/b.git/", "../../c.git/", "https://h/c.git"),
        ("https://h/a", "./c", "https://h/a/c"),
        ("https://h/a", "../../c", ""),
        ("https://h", "../c", ""),
        ("git@h:a/b", "../c", "git@h:a/c"),
        ("git@h:a/b", "../../c", "git@h:c"),
        ("git@h:a/b", "../../../c", ""),
        ("ssh://git@h:22/a/b", "./../c/../d", "ssh://git@h:22/a/c/../d"),
        ("file:///a/b", "../c", "file:///a/c"),
        ("/a/b", "../c", "/a/c"),
        ("https://h/a", "https://i/b", "https://i/b"),
    ],
)
def test_a_relative_address_is_meant_as_git_means_it(parent: str, written: str, meant: str) -> None:
    """Relative to the address of the repository that names it, and never above its host."""
    assert _gitsubmodules._resolved(written, parent) == meant


def test_relative_addresses_are_those_of_git_itself(tmp_path: Path) -> None:
    """`git submodule init` writes down what it makes of them."""
    for number, parent in enumerate(("https://h/a/b.git", "git@h:a/b", "ssh://git@h:22/a/b/", "file:///a/b")):
        checkout = tmp_path / str(number)
        made(checkout, {}, {"lib": ("1" * 40, "../c.git"), "sub": ("1" * 40, "./../../d/")})
        git(checkout, "remote", "add", "origin", parent)
        git(checkout, "submodule", "--quiet", "init")

        for path, written in (("lib", "../c.git"), ("sub", "./../../d/")):
            assert git(checkout, "config", f"submodule.{path} x.url") == _gitsubmodules._resolved(written, parent)


def raw_tree(folder: Path, *entries: tuple[str, str, str]) -> str:
    """Write a tree object with any names, as Git itself would not; entries are mode, name and hash."""
    content = b"".join(f"{mode} {name}\0".encode() + bytes.fromhex(digest) for mode, name, digest in entries)
    return git(folder, "hash-object", "-t", "tree", "-w", "--literally", "--stdin", stdin=content)


@pytest.mark.parametrize("name", ["..", ".git", ".GIT", "link"])
def test_no_file_of_a_submodule_is_put_outside_the_tree(tmp_path: Path, org: Path, name: str) -> None:
    """A tree with names that Git would not write, or with a link where the submodule's folder should be, is refused."""
    lib = made(org / "lib", {"lib.py": ""})
    made(org / "main", {"a.py": ""})
    outside = tmp_path / "outside"
    outside.mkdir()
    main = org / "main"
    declared = f'[submodule "x"]\npath = {name}/lib\nurl = ../lib\n'.encode()
    gitmodules, target = (git(main, "hash-object", "-w", "--stdin", stdin=text) for text in (declared, bytes(outside)))
    # Of two entries with one name, the second is laid out.
    link = [("120000", name, target)] if name == "link" else []
    inner = raw_tree(main, ("160000", "lib", lib))
    tree = raw_tree(main, ("100644", ".gitmodules", gitmodules), ("40000", name, inner), *link)
    commit = git(main, "commit-tree", tree, "-m", "x")
    git(main, "update-ref", "refs/heads/main", commit)

    with pytest.raises(SourceError, match="which is no folder" if link else "outside its tree"):
        had(tmp_path / "cache", f"{HOST}/main", commit)

    assert not list(outside.iterdir())
    assert not list((tmp_path / "cache").rglob("lib.py"))


def test_gitmodules_that_is_a_link_or_nonsense_declares_nothing(tmp_path: Path, org: Path) -> None:
    """No file of this machine is read in its place, and the message says what is wrong."""
    (tmp_path / "declared").write_text('[submodule "x"]\npath = lib\nurl = ../lib\n')
    made(org / "main", {"a.py": ""})
    link = git(org / "main", "hash-object", "-w", "--stdin", stdin=bytes(tmp_path / "declared"))
    tree = raw_tree(org / "main", ("120000", ".gitmodules", link), ("160000", "lib", "1" * 40))
    commit = git(org / "main", "commit-tree", tree, "-m", "x")
    git(org / "main", "update-ref", "refs/heads/main", commit)
    broken = made(org / "broken", {".gitmodules": "[submodule\n"}, {"lib": ("1" * 40, "")})

    with pytest.raises(SourceError, match="has no url"):
        had(tmp_path / "cache", f"{HOST}/main", commit)
    with pytest.raises(SourceError, match=r"the .gitmodules of .*/broken at .* cannot be read: leave"):
        had(tmp_path / "cache", f"{HOST}/broken", broken)


def test_submodules_are_bounded_in_depth_and_number(tmp_path: Path, org: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tree can name ever more of them."""
    commits = [made(org / "0", {"a.py": ""})]
    for number in range(1, 4):
        links = dict.fromkeys(("a", "b"), (commits[-1], f"../{number - 1}"))
        commits.append(made(org / str(number), {}, links))

    monkeypatch.setattr(_gitsubmodules, "_DEEPEST", 2)
    with pytest.raises(SourceError, match="submodule a/a/a is more than 2 deep: leave `submodules` out"):
        had(tmp_path / "cache", f"{HOST}/3", commits[3])
    assert len(had(tmp_path / "cache", f"{HOST}/2", commits[2]).files) == 7
    monkeypatch.setattr(_git, "_MOST_SUBMODULES", 5)
    with pytest.raises(SourceError, match="has more than 5 submodules"):
        had(tmp_path / "other", f"{HOST}/2", commits[2])


def test_a_submodule_can_neither_run_nor_configure_anything(tmp_path: Path, org: Path) -> None:
    """An update command, an include and attributes of a submodule have no effect."""
    lib = made(org / "lib", {"lib.py": "a\n", ".gitattributes": "* text eol=crlf filter=evil ident\n"})
    commit = made(org / "main", {}, {"lib": (lib, f"../lib\n\tupdate = !touch {tmp_path}/ran\n[include]\npath = /x")})

    tree = had(tmp_path / "cache", f"{HOST}/main", commit)

    assert (tree.root / "lib" / "lib.py").read_bytes() == b"a\n"
    assert not (tmp_path / "ran").exists()


def test_a_message_about_a_submodule_holds_no_password() -> None:
    """Neither the parent's nor its own."""
    parent = _gitsubmodules.Submodule("https://me:secret@host.invalid/a", "0" * 40, PurePosixPath(), 0)

    with pytest.raises(
        SourceError, match=r"of https://host\.invalid/a has an address .*'ftp://host\.invalid/b'"
    ) as caught:
        _gitsubmodules._address("ftp://me:secret@host.invalid/b", parent, PurePosixPath("b"))
    assert "secret" not in str(caught.value)
