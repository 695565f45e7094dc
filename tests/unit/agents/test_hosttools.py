"""Tools that are Python programs: they are installed once, whole, and say what is wrong when they cannot be."""

from __future__ import annotations

import hashlib
import io
import platform
import tarfile
from pathlib import Path

import pytest

from pytest_researchenv.agents.hosttools import PythonArchive, PythonTool, ensure_venv
from pytest_researchenv.errors import ImageError


_ENGINES = {"x86_64": "amd64", "aarch64": "arm64"}
_ENGINE = _ENGINES.get(platform.machine(), platform.machine())

#: Stands in for the Python of the archive: it installs what it is asked for by writing down the request.
_PYTHON = b"""#!/bin/sh
echo "$@" >> "$(dirname "$0")/../lib/installed"
"""


def _archive(folder: Path, python: bytes = _PYTHON) -> PythonArchive:
    path = folder / f"python-{platform.machine()}.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        for name, content, mode in (
            ("python/bin/python3", python, 0o755),
            ("python/lib/installed", b"", 0o644),
            ("python/include/Python.h", b"", 0o644),
        ):
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), mode
            tar.addfile(member, io.BytesIO(content))
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return PythonArchive(f"{folder.as_uri()}/python-{{machine}}.tar.gz", ((platform.machine(), digest),))


def _filled(tool: PythonTool) -> dict[str, tuple[tarfile.TarInfo, bytes]]:
    with io.BytesIO() as stream:
        with tarfile.open(fileobj=stream, mode="w") as tar:
            tool.fill(tar, architecture=_ENGINE)
        stream.seek(0)
        with tarfile.open(fileobj=stream) as tar:
            return {member.name: (member, file.read() if (file := tar.extractfile(member)) else b"") for member in tar}


def test_an_environment_is_made_once(tmp_path: Path) -> None:
    """The second time it is there, and nothing is said."""
    said: list[str] = []

    first = ensure_venv("tool", (), cache=tmp_path, say=said.append)
    again = ensure_venv("tool", (), cache=tmp_path, say=said.append)

    assert first == again
    assert first.exists()
    assert len(said) == 1
    assert "tool" in said[0]


def test_an_environment_that_was_left_half_made_is_made_anew(tmp_path: Path) -> None:
    """As when its maker was killed."""
    python = ensure_venv("tool", (), cache=tmp_path)
    (python.parents[1] / ".researchenv-complete").unlink()
    (python.parents[1] / "rest").touch()

    again = ensure_venv("tool", (), cache=tmp_path)

    assert again == python
    assert not (python.parents[1] / "rest").exists()


def test_other_requirements_have_another_environment(tmp_path: Path) -> None:
    """So that versions stand side by side; what cannot be installed leaves none that looks whole."""
    python = ensure_venv("tool", (), cache=tmp_path)

    with pytest.raises(ImageError, match=r"install .*none\.whl") as caught:
        ensure_venv("tool", (), alone=(str(tmp_path / "none.whl"),), cache=tmp_path)

    assert "exited with code" in str(caught.value)
    assert [path.parent for path in tmp_path.glob("*/.researchenv-complete")] == [python.parents[1]]


@pytest.mark.skipif(platform.system() != "Linux", reason="tools for containers are installed on Linux only")
def test_a_tool_is_installed_by_the_python_that_goes_with_it(tmp_path: Path) -> None:
    """All of it is root's, programs can be run, and what no program needs is left out."""
    tool = PythonTool("tool-1", ("tool==1",), ("part==2",), _archive(tmp_path))

    files = _filled(tool)

    installed = files["python/lib/installed"][1].decode().splitlines()
    assert ["tool==1" in installed[0], "part==2" in installed[1], "--no-deps" in installed[1]] == [True, True, True]
    assert files["python/bin/python3"][0].mode == 0o755
    assert files["python/lib/installed"][0].mode == 0o644
    assert {(member.uid, member.gid) for member, _ in files.values()} == {(0, 0)}
    assert not any(name.startswith("python/include") for name in files)


def test_its_key_tells_all_that_is_in_it(tmp_path: Path) -> None:
    """Name, requirements and the Python: another of each is another volume."""
    archive = _archive(tmp_path)
    other = PythonArchive(archive.url, (("x86_64", "0" * 64),))
    tools = [
        PythonTool("tool-1", ("tool==1",), (), archive),
        PythonTool("tool-1", ("tool==2",), (), archive),
        PythonTool("tool-1", (), ("tool==1",), archive),
        PythonTool("tool-1", ("tool==1",), (), other),
    ]

    assert len({tool.key for tool in tools}) == len(tools)
    assert all(tool.key.startswith("tool-1-") for tool in tools)


@pytest.mark.skipif(platform.system() != "Linux", reason="tools for containers are installed on Linux only")
def test_another_archive_than_expected_is_refused(tmp_path: Path) -> None:
    """Before anything of it is run."""
    archive = _archive(tmp_path)
    other = PythonArchive(archive.url, ((platform.machine(), "0" * 64),))

    with pytest.raises(ImageError, match="not what was expected"):
        _filled(PythonTool("tool-1", archive=other))
    with pytest.raises(ImageError, match="cannot be had"):
        _filled(PythonTool("tool-1", archive=PythonArchive(f"{tmp_path.as_uri()}/none", other.digests)))


def test_an_engine_of_another_architecture_is_told(tmp_path: Path) -> None:
    """The Python could not be run here to install into it."""
    tool = PythonTool("tool-1", archive=_archive(tmp_path))

    with tarfile.open(fileobj=io.BytesIO(), mode="w") as tar, pytest.raises(ImageError, match="s390x"):
        tool.fill(tar, architecture="s390x")


@pytest.mark.skipif(platform.system() != "Linux", reason="tools for containers are installed on Linux only")
def test_an_installation_that_fails_is_shown(tmp_path: Path) -> None:
    """With the last of what was printed."""
    archive = _archive(tmp_path, b"#!/bin/sh\necho no such distribution; exit 1\n")

    with pytest.raises(ImageError, match="no such distribution"):
        _filled(PythonTool("tool-1", ("tool==1",), (), archive))
