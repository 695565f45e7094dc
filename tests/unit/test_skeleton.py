"""A skeleton from a look at a checkout: valid at once, with what was seen, and nothing run."""

from __future__ import annotations

import subprocess
import warnings
from pathlib import Path

import pytest

from pytest_researchenv.cli import main
from pytest_researchenv.inspection import inspect_tree
from pytest_researchenv.model import Cause, GitSource, PathSource, Repository, Tier
from pytest_researchenv.probes.protocol import Tree
from pytest_researchenv.suite import load_suite


FILES = {
    "pyproject.toml": (
        '[build-system]\nrequires = ["setuptools-scm"]\n[project]\nrequires-python = ">=3.9"\n'
        'dependencies = ["torch>=2.1,<3", "transformers==4.40.0", "einops"]\n'
    ),
    "setup.py": "import os\nos.remove('pyproject.toml')\nraise SystemExit\n",
    "train.py": (
        "import argparse, torch, wandb\nimport torch.distributed as dist\nmodel = torch.nn.Linear(1, 1).cuda()\n"
        "x = AutoModel.from_pretrained('x')\nif __name__ == '__main__':\n    pass\n"
    ),
    "tests/test_it.py": "if __name__ == '__main__':\n    pass\n",
    "csrc/op.cu": "",
    ".gitmodules": '[submodule "x"]\n\tpath = third_party/x\n\turl = ../x\n',
    ".gitattributes": "*.bin filter=lfs\n",
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A folder with a bit of everything."""
    for name, text in FILES.items():
        (tmp_path / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "tree" / name).write_text(text)
    return tmp_path / "tree"


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """An empty suite."""
    (tmp_path / "suite").mkdir()
    (tmp_path / "suite" / "suite.toml").write_text('name = "mine"\ncanary = "canary 42"\n')
    return tmp_path / "suite"


def test_what_is_seen_is_told_and_nothing_is_run(tree: Path) -> None:
    """Text alone: setup.py would remove a file."""
    seen = inspect_tree(tree, FILES)

    assert (tree / "pyproject.toml").exists()
    assert seen.python == ">=3.9"
    assert seen.pins == {"torch": "<3,>=2.1", "transformers": "==4.40.0"}
    assert seen.frameworks == ("torch",)
    assert seen.imports == 4
    assert (seen.packaged, seen.versions_from_tags, seen.lfs) == (True, True, True)
    assert seen.compiled == ("csrc/op.cu",)
    assert seen.auxiliary == ("wandb",)
    assert seen.entries == ("train.py",)
    assert seen.parallel == ("torch.distributed",)
    assert (seen.hard_cuda, seen.hub) == ({"train.py": 1}, {"train.py": 1})
    assert seen.submodules == ("third_party/x",)


def test_old_escapes_are_no_reason_to_see_nothing(tmp_path: Path) -> None:
    """Under `-W error` they are errors of Python's own, not of the file."""
    (tmp_path / "setup.py").write_text("import re\nre.compile('\\d')\nsetup(python_requires='>=3.9')\n")

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert inspect_tree(tmp_path, ["setup.py"]).python == ">=3.9"


@pytest.mark.parametrize(
    ("files", "python", "pins"),
    [
        ({"setup.py": "from setuptools import setup\nsetup(python_requires='>=3.8', name=f())\n"}, ">=3.8", {}),
        ({"pyproject.toml": '[tool.poetry.dependencies]\npython = "^3.8"\ntorch = "*"\n'}, ">=3.8,<4", {}),
        ({"requirements.txt": "torch==2.1.0 # pinned\n-r other.txt\ngit+https://x\n"}, "", {"torch": "==2.1.0"}),
        ({"pyproject.toml": "not toml"}, "", {}),
        ({"setup.py": "setup(" * 3000}, "", {}),
        ({"pyproject.toml": "x = " + "[" * 5000}, "", {}),
        ({"pyproject.toml": "x = " + "9" * 5000}, "", {}),
        ({"pyproject.toml": f'[tool.poetry.dependencies]\npython = "^{"9" * 5000}"\n'}, "", {}),
        ({".gitmodules": "\n" * 1_000_000 + "path = " + " " * 1_000_000 + "x"}, "", {}),
        ({}, "", {}),
    ],
)
def test_each_way_to_declare_is_read(tmp_path: Path, files: dict[str, str], python: str, pins: dict[str, str]) -> None:
    """What cannot be read says nothing, and breaks nothing."""
    for name, text in files.items():
        (tmp_path / name).write_text(text)

    seen = inspect_tree(tmp_path, files)

    assert (seen.python, seen.pins) == (python, pins)


def new(tmp_path: Path, *arguments: str) -> int:
    """Run the command."""
    return main(["new-repository", *arguments, "--cache", str(tmp_path / "cache")])


def test_a_folder_becomes_a_valid_description(tree: Path, suite: Path, tmp_path: Path) -> None:
    """The suite that it is written into passes its own check at once, canary and all."""
    assert new(tmp_path, str(tree), "--suite", str(suite)) == 0

    (repository,) = load_suite(suite).repositories
    assert repository.source == PathSource(str(tree))
    assert repository.pins["transformers"] == "==4.40.0"
    assert repository.spec(Tier.C1).idle[0] is Cause.NO_PROBE
    assert "canary 42" in (suite / "tree" / "oracle.sh").read_text()
    assert "# may download from a hub, which a probe cannot: train.py (1)" in (suite / "tree" / "repo.toml").read_text()


def test_a_checkout_with_an_origin_is_pinned_by_its_commit(tree: Path, suite: Path, tmp_path: Path) -> None:
    """The description names where everybody can fetch it."""

    def git(*arguments: str, folder: Path) -> str:
        identity = ["-c", "user.name=t", "-c", "user.email=t@localhost"]
        command = ["git", "-C", str(folder), *identity, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    git("init", "-q", folder=tree)
    git("add", "-A", folder=tree)
    git("commit", "-q", "-m", "x", folder=tree)
    checkout = tmp_path / "checkout"
    git("clone", "-q", str(tree), str(checkout), folder=tmp_path)
    url = f"file://{tree}"
    git("remote", "set-url", "origin", url, folder=checkout)

    assert new(tmp_path, str(checkout), "--suite", str(suite)) == 0
    assert new(tmp_path, url, "--suite", str(suite)) == 1  # It is there already.

    (repository,) = load_suite(suite).repositories
    assert repository.source == GitSource(url, git("rev-parse", "HEAD", folder=tree))
    assert '# tag = "v1.2.3"' in (suite / "tree" / "repo.toml").read_text()


def test_a_folder_of_a_checkout_is_no_checkout(tree: Path, suite: Path, tmp_path: Path) -> None:
    """What was named is described, not the repository that it happens to be in."""
    for command in (
        ["init", "-q"],
        ["remote", "add", "origin", "https://host.example/a/b"],
        ["add", "tree"],
        ["-c", "user.name=t", "-c", "user.email=t@localhost", "commit", "-qm", "x"],
    ):
        subprocess.run(["git", "-C", str(tmp_path), *command], check=True)

    assert new(tmp_path, str(tree), "--suite", str(suite)) == 0

    (repository,) = load_suite(suite).repositories
    assert repository.source == PathSource(str(tree))


def test_no_token_becomes_part_of_a_description(monkeypatch: pytest.MonkeyPatch, suite: Path, tmp_path: Path) -> None:
    """An address with one is stored without it."""
    fetched = []

    def fetch(repository: Repository, *, cache: Path) -> Tree:
        fetched.append(repository.source)
        return Tree(tmp_path, (), str(cache))

    monkeypatch.setattr("pytest_researchenv.skeleton.fetch", fetch)

    assert new(tmp_path, "https://me:secret@host.example/a/b.git", "--commit", "0" * 40, "--suite", str(suite)) == 0

    assert fetched == [GitSource("https://host.example/a/b.git", "0" * 40)]
    assert "secret" not in (suite / "b" / "repo.toml").read_text()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["https://host.example/a/b", "--commit", "main"], "give the full hash by --commit"),
        (["https://host.example/a/$(id)", "--commit", "0" * 40], "can be no repository's name"),
        (["https://host.example/a/..", "--commit", "0" * 40], "can be no repository's name"),
        (["https://host.example/a/b\nid", "--commit", "0" * 40], "can be no repository's name"),
    ],
)
def test_what_cannot_be_pinned_or_named_is_told(
    suite: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    """A name is a word of the recipe, which bash runs."""
    assert new(tmp_path, *arguments, "--suite", str(suite)) == 1
    assert says in capsys.readouterr().err
    assert [path.name for path in suite.iterdir()] == ["suite.toml"]


def test_names_of_a_hostile_tree_stay_in_their_comment(suite: Path, tmp_path: Path) -> None:
    """A line break in a file's name must not write a key."""
    tree = tmp_path / "evil"
    (tree / 'x\nname = "owned"').mkdir(parents=True)
    (tree / 'x\nname = "owned"' / "a.cu").write_text("")
    (tree / "y\n[tiers.C4]\n.py").write_text("if __name__ == '__main__':\n    pass\n")

    assert new(tmp_path, str(tree), "--suite", str(suite)) == 0

    (repository,) = load_suite(suite).repositories
    assert repository.name == "evil"


def test_what_is_no_repository_is_told(suite: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither a folder nor an address."""
    assert new(tmp_path, "nowhere", "--suite", str(suite)) == 1
    assert "'nowhere' is neither a folder nor the URL of a Git repository" in capsys.readouterr().err


def test_what_would_spoil_the_suite_or_be_ignored_is_refused(
    suite: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A name that the suite's own check rejects, and a commit of a folder that has no origin; nothing is written."""
    for name in ("net-c2", "fine"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.py").write_text("")

    assert new(tmp_path, str(tmp_path / "net-c2"), "--suite", str(suite)) == 1
    assert "contains 'c2'" in capsys.readouterr().err
    assert new(tmp_path, str(tmp_path / "fine"), "--suite", str(suite), "--commit", "0123456") == 1
    assert "has no `origin` from which 0123456 could be had" in capsys.readouterr().err
    assert [path.name for path in suite.iterdir()] == ["suite.toml"]
