"""The published denominator of C0: which files and which names count."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_researchenv.errors import SourceError
from pytest_researchenv.probes.imports import OwnModules, scan_files, scan_folder, scan_git


def write(root: Path, files: dict[str, str | bytes]) -> None:
    """Make files below a folder."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())


def git(root: Path, *arguments: str) -> str:
    """Run git in a folder, without anybody's configuration."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    identity = ("-c", "user.name=a", "-c", "user.email=a@b")
    done = subprocess.run(
        ["git", *identity, "-C", str(root), *arguments], check=True, capture_output=True, text=True, env=environment
    )
    return done.stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with one commit, and an untracked file."""
    write(
        tmp_path,
        {
            "pkg/__init__.py": "import os, torch.nn as nn\nfrom numpy.linalg import norm\n",
            "pkg/é b.py": "from . import x\nfrom .pkg2 import y\nimport pkg\n",
            "build/ignored.py": "import ignored_build\n",
            "deep/node_modules/a.py": "import ignored_node\n",
            "old.py": "import ignored_python2\nprint 'hello'\n",
            "README.md": "import ignored_markdown\n",
        },
    )
    (tmp_path / "link.py").symlink_to("pkg/__init__.py")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "-Af")
    git(tmp_path, "commit", "-qm", "all")
    write(tmp_path, {"untracked.py": "import ignored_untracked\n"})
    return tmp_path


EXPECTED = ("numpy", "os", "pkg", "torch")


def test_a_checkout_counts_what_git_tracks(checkout: Path) -> None:
    """Standard library and own packages count; relative imports, untracked, excluded and unparsable files do not."""
    scan = scan_folder(checkout)

    assert scan.names == EXPECTED
    assert scan.files == ("old.py", "pkg/__init__.py", "pkg/é b.py")
    assert scan.unparsable == ("old.py",)
    assert scan.importers["pkg"] == ("pkg/é b.py",)


def test_a_git_object_gives_the_same_as_its_checkout(checkout: Path) -> None:
    """No work tree is needed."""
    commit = git(checkout, "rev-parse", "HEAD")

    assert scan_git(checkout, commit) == scan_folder(checkout)
    assert scan_git(checkout / ".git", f"{commit}^{{tree}}") == scan_folder(checkout)


def test_a_folder_that_is_no_checkout_counts_all_files(tmp_path: Path) -> None:
    """An unpacked sdist has no index; excluded folders stay excluded and links are not followed."""
    write(tmp_path / "tree", {"a.py": "import one\n", "venv/b.py": "import two\n", "c/d.py": "import three\n"})
    write(tmp_path / "outside", {"e.py": "import four\n"})
    (tmp_path / "tree/linked").symlink_to(tmp_path / "outside")
    (tmp_path / "tree/e.py").symlink_to(tmp_path / "outside/e.py")

    assert scan_folder(tmp_path / "tree").names == ("one", "three")


def test_tracked_files_that_are_gone_are_left_out(checkout: Path) -> None:
    """The work tree counts, not the index."""
    (checkout / "pkg/__init__.py").unlink()

    assert scan_folder(checkout).names == ("pkg",)


@pytest.mark.parametrize(
    "source",
    [
        b"import a\0",
        b"import a\nx = " + b"(" * 5000,
        b"import a\nx = " + b"-" * 200_000 + b"1",
        b"import a\nx = a" + b".b" * 200_000,
        b"# -*- coding: no-such-codec -*-\nimport a\n",
        b"import a\n\xff\xfe\n",
        b"\xef\xbb\xbf# coding: latin-1\nimport a\n",
        b"import a\n  import b\n",
    ],
    ids=["null", "parentheses", "operators", "attributes", "codec", "bytes", "bom", "indentation"],
)
def test_what_cannot_be_parsed_is_named_and_never_raises(tmp_path: Path, source: bytes) -> None:
    """Null bytes, too deep nesting and wrong encodings are no Python."""
    write(tmp_path, {"bad.py": source, "good.py": "import good\n"})

    scan = scan_folder(tmp_path)

    assert scan.unparsable == ("bad.py",)
    assert scan.names == ("good",)


def test_declared_encodings_are_honoured(tmp_path: Path) -> None:
    """PEP 263, and a byte order mark."""
    write(
        tmp_path,
        {
            "a.py": "# coding: latin-1\nimport one\nx = 'é'\n".encode("latin-1"),
            "b.py": b"\xef\xbb\xbfimport two\n",
        },
    )

    assert scan_folder(tmp_path).names == ("one", "two")


@pytest.mark.parametrize(
    ("source", "names", "published"),
    [
        (b"\xef\xbb\xbfimport a\n", ("a",), ()),
        (b"\xef\xbb\xbf# coding: utf-8\nimport a\n", ("a",), ()),
        ("# coding: utf-8\nimport a  # \u00e9\n".encode(), ("a",), ("a",)),
        (b"# coding: latin-1\nimport a  # \xe9\n", ("a",), ("a",)),
        (b"# coding: latin-1\nimport \xe9\n", ("\xe9",), ()),
        (b"import a\nx = '\xe9'\n", (), ("a",)),
        (b"# coding: no-such-codec\nimport a\n", (), ("a",)),
        (b"import a\0\n", (), ()),
        (b"import a\nprint 'x'\n", (), ()),
        (b"import a\rimport b\r\n", ("a", "b"), ("a", "b")),
    ],
    ids=["bom", "bom-and-cookie", "utf-8", "latin-1", "latin-1-name", "bytes", "codec", "null", "old", "line-ends"],
)
def test_the_published_total_is_of_what_can_be_parsed_as_text(
    tmp_path: Path, source: bytes, names: tuple[str, ...], published: tuple[str, ...]
) -> None:
    """A byte order mark hides a file from it, though not from the verdict; what is declared or broken is replaced."""
    write(tmp_path, {"a.py": source, "other.py": "import other\n"})

    scan = scan_folder(tmp_path)

    assert set(scan.names) == {*names, "other"}
    assert set(scan.published_names) == {*published, "other"}


def test_a_name_that_another_file_imports_is_in_the_published_total(tmp_path: Path) -> None:
    """What only files with a byte order mark import is left out, and nothing else."""
    write(tmp_path, {"a.py": b"\xef\xbb\xbfimport one, two\n", "b.py": "import two\n"})

    assert scan_folder(tmp_path).published_names == ("two",)


def test_warnings_of_old_code_do_not_escape(tmp_path: Path) -> None:
    """Invalid escapes and `is` with a literal warn when they are parsed; here every warning is an error."""
    write(tmp_path, {"a.py": "import one\nx = '\\d'\ny = x is 'z'\n"})

    assert scan_folder(tmp_path).names == ("one",)


def test_nothing_of_a_hostile_repository_is_executed(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a program that its configuration names, nor its code; a caller's GIT_DIR leads nowhere else."""
    marker = checkout / "executed"
    hook = checkout / "hook"
    hook.write_text(f"#!/bin/sh\ntouch {marker}\n")
    hook.chmod(0o755)
    git(checkout, "config", "core.fsmonitor", str(hook))
    write(checkout, {"pkg/__init__.py": f"open({str(marker)!r}, 'w')\nimport torch\n"})
    monkeypatch.setenv("GIT_DIR", "/nowhere")

    names = scan_folder(checkout).names

    assert "torch" in names
    assert not marker.exists()


def test_a_missing_commit_or_folder_is_a_source_error(checkout: Path, tmp_path: Path) -> None:
    """The message says what was asked for; a commit is never taken for an option."""
    with pytest.raises(SourceError, match=r"git ls-tree .* failed in .*: fatal"):
        scan_git(checkout, "0" * 40)
    with pytest.raises(SourceError, match=r"git ls-tree .* failed in .*: fatal"):
        scan_git(checkout, "--help")
    with pytest.raises(SourceError, match="no such folder"):
        scan_folder(tmp_path / "nowhere")


def test_a_checkout_that_leads_nowhere_does_not_import_nothing(tmp_path: Path) -> None:
    """A submodule without its parent has a `.git` that names a missing folder; no total is better than 0."""
    write(tmp_path, {".git": "gitdir: /nowhere\n", "a.py": "import one\n"})

    with pytest.raises(SourceError, match="tracks nothing"):
        scan_folder(tmp_path)


def test_missing_objects_are_fetched_from_nowhere(checkout: Path, tmp_path: Path) -> None:
    """A partial clone names a remote to fetch from, and a remote can name a program: neither is asked."""
    clone = tmp_path / "clone"
    git(checkout, "config", "uploadpack.allowFilter", "true")
    git(tmp_path, "clone", "-q", "--no-checkout", "--no-local", "--filter=blob:none", f"file://{checkout}", str(clone))
    marker = tmp_path / "executed"
    git(clone, "config", "remote.origin.url", f"ext::touch {marker}")
    git(clone, "config", "protocol.allow", "always")

    with pytest.raises(SourceError, match=r"lacks the object|failed in"):
        scan_git(clone, "HEAD")
    assert not marker.exists()


def test_only_python_files_among_the_given_ones_are_read(checkout: Path) -> None:
    """A list of tracked paths may hold anything."""
    scan = scan_files(checkout, ["README.md", "pkg/__init__.py", "build/ignored.py", "gone.py", "link.py"])

    assert scan.files == ("pkg/__init__.py",)


def test_the_scan_imports_nothing_heavy() -> None:
    """It is for any tree, without Docker."""
    code = "import sys, pytest_researchenv.probes.imports; print({'docker', 'pydantic'} & set(sys.modules))"

    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)

    assert done.stdout.strip() == "set()"


@pytest.mark.parametrize(
    ("name", "importer", "own"),
    [
        ("pkg", "main.py", True),
        ("pkg", "scripts/deep/run.py", True),
        ("inner", "main.py", True),
        ("sibling", "scripts/deep/run.py", True),
        ("above", "scripts/deep/run.py", True),
        ("spaced", "scripts/deep/run.py", True),
        ("run", "scripts/deep/sibling.py", True),
        ("linked", "main.py", True),
        ("folder", "main.py", True),
        ("sibling", "main.py", False),
        ("sibling", "pkg/__init__.py", False),
        ("data", "main.py", False),
        ("stub", "main.py", False),
        ("README", "main.py", False),
        ("outside", "main.py", False),
        ("dangling", "main.py", False),
        ("loop", "main.py", False),
        ("scripts", "main.py", True),
        ("", "main.py", False),
    ],
)
def test_a_tree_satisfies_imports_of_what_stands_in_or_above_the_importers_folder(
    tmp_path: Path, name: str, importer: str, *, own: bool
) -> None:
    """As when the importer is run as a script or belongs to a package; folders without Python are no packages."""
    files = ["main.py", "pkg/__init__.py", "src/inner/__init__.py", "scripts/deep/run.py", "scripts/deep/sibling.py"]
    files += ["scripts/above.py", "scripts/spaced/x/y.py", "data/x.json", "stub.pyi", "README"]
    write(tmp_path, dict.fromkeys(files, ""))
    links = {
        "linked.py": "scripts/above.py",
        "folder": "scripts/spaced",
        "outside.py": "/etc/hostname",
        "dangling.py": "gone.py",
        "loop.py": "loop.py",
    }
    for link, target in links.items():
        (tmp_path / link).symlink_to(target)

    assert OwnModules.of(tmp_path, [*files, *links]).satisfy(name, importer) is own
