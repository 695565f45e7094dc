"""Following links as the kernel does. No Docker."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from pytest_researchenv.sandbox.peek import followed, readable


@dataclass(frozen=True, slots=True)
class Seen:
    """What this machine's own file system has at a path."""

    link: str
    is_folder: bool


def _look(root: Path, path: str) -> Seen | None:
    real = f"{root}{path}"
    if os.path.islink(real):  # noqa: PTH114 - a Path would normalise it
        return Seen(os.readlink(real).replace(str(root), ""), is_folder=False)  # noqa: PTH115 - likewise
    return Seen("", Path(real).is_dir()) if os.path.lexists(real) else None


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Folders, files and links; absolute links lead into this very folder."""
    (tmp_path / "real/deep").mkdir(parents=True)
    (tmp_path / "real/file").write_text("")
    (tmp_path / "real/deep/file").write_text("")
    links = {
        "over": "real/deep",
        "absolute": f"{tmp_path}/real",
        "real/up": "../real/file",
        "real/slash": "deep/",
        "fileslash": "real/file/",
        "loop": "loop",
        "ping": "pong",
        "pong": "ping",
        "dangling": "nowhere",
        "dots": "real/deep/../deep/./file",
    }
    for name, target in links.items():
        (tmp_path / name).symlink_to(target)
    previous = "real/file"
    for number in range(41):
        (tmp_path / f"chain{number}").symlink_to(previous)
        previous = f"chain{number}"
    return tmp_path


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/real",
        "/real/",
        "/real/file",
        "/real/file/",
        "/real/file/.",
        "/real/file/..",
        "/real/file/../file",
        "/over/file",
        "/over/../file",
        "/over/../../real",
        "/absolute/deep/file",
        "/real/up",
        "/real/slash/file",
        "/fileslash",
        "/loop",
        "/loop/x",
        "/ping",
        "/dangling",
        "/dangling/../real",
        "/dots",
        "/nowhere/../real",
        "//real//file",
        "/chain39",
        "/chain40",
    ],
)
def test_a_path_leads_where_the_kernel_says(root: Path, path: str) -> None:
    """Links absolute and relative, in circles and chains, through folders and files, with dots behind them."""
    try:
        expected = os.path.realpath(f"{root}{path}", strict=True).removeprefix(str(root)) or "/"
        Path(f"{root}{path}").stat()
        # A Path drops what stands behind a file's name.
        os.stat(f"{root}{path}")  # noqa: PTH116
    except OSError:
        expected = ""

    assert followed(path, lambda one: _look(root, one)) == expected


def test_the_root_is_above_nothing() -> None:
    """Dots do not lead out of an image."""
    assert followed("/../../etc", lambda path: Seen("", is_folder=True) if path == "/etc" else None) == "/etc"


@pytest.mark.parametrize("path", ["a", "", "/a\0b", "/" * 5000, f"/{'é' * 2500}", "/a\ud800"])
def test_what_cannot_be_a_path_is_not_asked_for(path: str) -> None:
    """Relative, with a null byte, longer than the kernel takes, or with letters that stand for no bytes."""
    assert not readable(path)
    assert readable("/a")
    assert readable("/a\udcff")
