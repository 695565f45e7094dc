"""What a recipe's commands ask for, as the resolver run reads it, and how its findings are told."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from pytest_researchenv.cli import main
from pytest_researchenv.errors import SandboxError
from pytest_researchenv.report.resolution import resolution_line, resolution_page
from pytest_researchenv.resolving.inside.wanted import Wanted, allows, name_of, path_of, pins
from pytest_researchenv.resolving.recipe import Install, Resolved, _parse


def test_requirements_files_and_options_are_told_apart() -> None:
    """Options of a resolver are kept, those of an installer are not, and neither are their values."""
    line = (
        "--python x -r a.txt --requirement=b.txt -c c.txt --overrides o.txt --no-deps -C k=v --editable .[dev] -e ./x"
    )

    wanted = Wanted([*line.split(), "torch==2.6.0", "numpy<2", "--index-url=https://example.org", "--quiet", "-U"])

    assert wanted.direct == ["-e .[dev]", "-e ./x", "torch==2.6.0", "numpy<2"]
    assert wanted.files == ["a.txt", "b.txt"]
    assert wanted.options == ["--constraint", "c.txt", "--override", "o.txt", "--index-url", "https://example.org"]
    assert wanted.flags == {"--no-deps", "--quiet", "--upgrade"}
    assert not wanted.elsewhere
    assert Wanted(["--target", "/tmp/x", "six"]).elsewhere  # noqa: S108 - no file


@pytest.mark.parametrize(
    ("requirement", "path"),
    [
        ("-e .", "/here"),
        ("-e ./x[a,b]", "/here/x"),
        ("./x", "/here/x"),
        ("/y[a]", "/y"),
        ("own @ file:///z", "/z"),
        ("torch==2.6.0", None),
        ("x[a]", None),
    ],
)
def test_a_requirement_that_is_a_folder_is_known(
    monkeypatch: pytest.MonkeyPatch, requirement: str, path: str | None
) -> None:
    """Extras are no part of its path, and relative ones begin where the command runs."""
    monkeypatch.setattr("os.getcwd", lambda: "/here")

    assert path_of(requirement) == (Path(path) if path else None)


def test_a_value_may_be_glued_to_a_short_option() -> None:
    """As pip takes it; what takes no value is a flag."""
    wanted = Wanted(["-ra.txt", "-r=b.txt", "-cc.txt", "-e.", "-qq", "six"])

    assert wanted.files == ["a.txt", "b.txt"]
    assert wanted.options == ["--constraint", "c.txt"]
    assert wanted.direct == ["-e .", "six"]
    assert wanted.flags == {"-qq"}


@pytest.mark.parametrize(
    ("specifier", "allowed"),
    [
        (">=3.10", ["3.10", "3.11", "3.13"]),
        (">=3.11,<3.13", ["3.11"]),
        ("<3.13.1,>3.10", ["3.11", "3.13"]),
        ("==3.11.*", ["3.11"]),
        ("==3.11.4", ["3.11"]),
        ("~=3.11", ["3.11", "3.13"]),
        ("!=3.11", ["3.10", "3.13"]),
        ("~=3.10.2", ["3.10"]),
        ("<3.11.0", ["3.10"]),
        ("<3.11.1", ["3.10", "3.11"]),
    ],
)
def test_a_range_of_releases(specifier: str, allowed: list[str]) -> None:
    """As uv reads what `--python` is given."""
    assert [one for one in ("3.10", "3.11", "3.13") if allows(specifier, one)] == allowed


def test_names_are_normalised_and_pins_read() -> None:
    """What stands for the same package is the same, and what is no pin is left out."""
    assert name_of("Torch_Geometric[x]==1") == "torch-geometric"
    assert name_of("-e .") == ""
    assert pins("a.b==1\n-e file:///x\nc @ https://x\nd==2+cpu ; python_version > '3'\n") == {"a-b": "1", "d": "2+cpu"}


def test_the_page_has_every_recipe_and_says_what_is_not_known() -> None:
    """Conflicts, what is not resolved and what is replaced are listed below the table."""
    good = Install("install", "uv pip install six", {"six": "1"}, (), "", {})
    bad = Install(
        "install", "uv pip install x==9", {}, (("y", "it comes from Git"),), "no version\n  of x", {"six": "1 by 2"}
    )
    rows = [
        Resolved("good", python=("3.10",), installs=(good,), packages={"six": "1"}, others=("apt-get install x",) * 2),
        Resolved("bad", python=("3.12",), installs=(good, bad), ended="exited with code 1", tree="no host"),
    ]

    page = resolution_page(rows)

    assert "1 of 2 recipes have no conflict; 1 ended before their end.\n" in page
    assert "| good | 3.10 | 1 | 1 | 0 | 0 |\n| bad † | 3.12 | 2 | 0 | 2 | 1 |\n" in page
    assert "- bad: uv pip install x==9: no version of x\n" in page
    assert "- bad: y: it comes from Git\n- bad: the rest of the recipe: it exited with code 1\n" in page
    assert "- bad: six 1 by 2\n" in page
    assert "## Called, and did nothing\n\n- good: apt-get install x\n" in page
    assert (
        resolution_line(rows[0])
        == "good: 1 commands, 1 packages resolved for Python 3.10, 0 not resolved, 0 conflicts, 0 replaced"
    )
    assert "bad (no tree): 2 commands" in resolution_line(rows[1])


def test_what_a_recipe_says_cannot_steer_a_terminal() -> None:
    """Its commands write the record: control characters, and what cannot be encoded."""
    bad = Install("install", "uv pip install x", {}, (("y\ud800", "\x1b[2J"),), "one\n\x1b]0;two", {})
    row = Resolved("bad", installs=(bad,))

    for text in (resolution_line(row), resolution_page([row])):
        assert all(letter.isprintable() or letter == "\n" for letter in text)
        assert "\\x1b]0;two" in text


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.DIRTYPE, tarfile.REGTYPE])
def test_a_record_that_is_no_record_is_said(kind: bytes) -> None:
    """A link, a folder, or what is no record's line."""
    entry = tarfile.TarInfo("record.jsonl")
    content = b"[" * 100_000
    entry.type, entry.linkname, entry.size = kind, "/etc/passwd", len(content) if kind == tarfile.REGTYPE else 0
    with io.BytesIO() as stream:
        with tarfile.open(fileobj=stream, mode="w") as tar:
            tar.addfile(entry, io.BytesIO(content))
        stream.seek(0)

        with pytest.raises(SandboxError, match="what a recipe's commands wrote down"):
            _parse(stream)


def test_a_missing_recipe_is_said_before_anything_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also where there is no Docker."""
    (tmp_path / "one").mkdir()
    (tmp_path / "suite.toml").write_text('name = "mine"\n')
    (tmp_path / "one" / "repo.toml").write_text('name = "one"\nsource.path = "tree"\n[tiers.C0]\n')

    assert main(["resolve", str(tmp_path), "--only", "one"]) != 0

    assert "one has no recipe for the oracle" in capsys.readouterr().err
