"""What files record of an interpreter and its torch: honest differences are none, and nothing hostile raises."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

import pytest

from pytest_researchenv.errors import SandboxError
from pytest_researchenv.probes.recorded import Recorded, same_release
from pytest_researchenv.sandbox.fake import FakeSandbox, Folder, Link
from pytest_researchenv.sandbox.protocol import ContainerSpec


VENV = "/opt/venv"
PYTHON = f"{VENV}/bin/python"
SITE = f"{VENV}/lib/python3.11/site-packages"


def recorded(files: dict[str, object]) -> Recorded:
    """Files in a container that never runs."""
    sandbox = FakeSandbox()
    image = sandbox.add_image("snapshot", files)  # type: ignore[arg-type] # nodes of the fake
    return Recorded(sandbox.create(ContainerSpec(image=image, argv=("/bin/true",))))


# --- Python -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("files", "printed"),
    [
        ({PYTHON: b"ELF"}, "3.11.2"),
        ({PYTHON: b"ELF", f"{VENV}/pyvenv.cfg": b"home = /usr/bin\nversion = 3.11.2\n"}, "3.11.2"),
        ({PYTHON: b"ELF", f"{VENV}/pyvenv.cfg": b"version_info = 3.11.2.final.0\n"}, "3.11.9"),
        ({PYTHON: b"ELF", f"{VENV}/pyvenv.cfg": b"uv = 0.8.0\nversion_info = 3.12\n"}, "3.12.0+"),
        (
            {PYTHON: Link("python3"), f"{VENV}/bin/python3": Link("/usr/bin/python3.12"), "/usr/bin/python3.12": b""},
            "3.12.1",
        ),
        (
            {
                PYTHON: Link("/usr/bin/python3.12"),
                "/usr/bin/python3.12": b"ELF",
                f"{VENV}/pyvenv.cfg": b"version = 3.11.2\n",
                f"{VENV}/lib/python3.11": Folder(),
            },
            "3.12.1",
        ),
        (
            {
                PYTHON: Link("/usr/bin/python3"),
                "/usr/bin/python3": b"ELF",
                f"{VENV}/pyvenv.cfg": b"version = 3.11.2\n",
                "/usr/lib/python3.12": Folder(),
            },
            "3.12.1",
        ),
        ({PYTHON: b"ELF", f"{VENV}/lib/python3.9": Folder(), f"{VENV}/lib/python3.11": Folder()}, "3.11.2"),
        (
            {PYTHON: b"ELF", f"{VENV}/lib/python3.11": Link("/usr/lib/python3.11"), "/usr/lib/python3.11": Folder()},
            "3.11.2",
        ),
        ({PYTHON: b"ELF", f"{VENV}/lib/pypy3.10": Folder()}, "3.10.14"),
        ({PYTHON: b"ELF", f"{VENV}/lib/python3.9": Folder()}, "unknown"),
        ({PYTHON: b"ELF", f"{VENV}/pyvenv.cfg": b"\xff\xfe version 3.9"}, "3.11.2"),
        ({PYTHON: b"ELF", f"{VENV}/pyvenv.cfg": Folder()}, "3.11.2"),
        ({"/python": b"ELF", "/lib/python3.9": Folder()}, "3.11.2"),
    ],
    ids=[
        "nothing recorded",
        "venv",
        "another patch release",
        "uv",
        "the name of the file it leads to",
        "pyvenv.cfg of an older interpreter",
        "the library beside the file it leads to",
        "several libraries",
        "a library behind a link",
        "PyPy",
        "no version printed",
        "no version recorded",
        "a folder of that name",
        "elsewhere",
    ],
)
def test_honest_interpreters_contradict_nothing(files: dict[str, object], printed: str) -> None:
    """One place that agrees is enough, and no place says nothing."""
    assert recorded(files).python_doubt(PYTHON, printed) == ""


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({PYTHON: b"ELF", f"{VENV}/pyvenv.cfg": b"version = 3.12.1"}, "pyvenv.cfg says 3.12"),
        ({PYTHON: b"ELF", f"{VENV}/pyvenv.cfg": b"Version_Info=3.1"}, "pyvenv.cfg says 3.1"),
        ({PYTHON: b"ELF", f"{VENV}/lib/python3.12": Folder()}, "there is a library for 3.12 and none for 3.11"),
        (
            {PYTHON: b"ELF", f"{VENV}/pyvenv.cfg": b"version = 3.9.1", f"{VENV}/lib/python3.9": Folder()},
            "pyvenv.cfg says 3.9, there is a library for 3.9 and none for 3.11",
        ),
    ],
)
def test_files_that_know_another_python_alone_contradict(files: dict[str, object], said: str) -> None:
    """Whatever the interpreter prints."""
    assert recorded(files).python_doubt(PYTHON, "3.11.2") == said


# --- torch ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("printed", "there"),
    [
        ("2.15.0+cu132", "2.15.0"),
        ("2.6.0+cu124", "2.6.0+cu124"),
        ("1.13.0a0", "1.13.0a0+gitunknown"),
        ("2.6.0a0+ecf3bae40a.nv25.01", "2.6.0a0+ecf3bae40a.nv25.1"),
        ("2.0.0.nv23.05", "2.0.0+nv23.5"),
        ("2.5.1.post103", "2.5.1"),
        ("2.6", "2.6.0"),
        ("2.06.0", "2.6"),
        ("unknown", "2.6.0"),
        ("2.6.0", ""),
    ],
)
def test_labels_of_builds_are_no_contradiction(printed: str, there: str) -> None:
    """Only the release number has to agree, where both have one."""
    assert same_release(printed, there)


@pytest.mark.parametrize(
    ("printed", "there"), [("2.6.0", "2.5.1"), ("2.6.0+cu124", "2.60"), ("2.10", "2.1"), ("2", "3")]
)
def test_another_release_is_another_torch(printed: str, there: str) -> None:
    """Whatever its label."""
    assert not same_release(printed, there)


@pytest.mark.parametrize(
    ("place", "content", "versions"),
    [
        ("torch-2.6.0.dist-info/METADATA", b"Metadata-Version: 2.1\nName: torch\nVersion: 2.6.0\n\nbody", ("2.6.0",)),
        ("torch-2.6.0+cu124.dist-info/METADATA", b"Name: torch\r\nVersion: 2.6.0+cu124\r\n", ("2.6.0+cu124",)),
        ("torch-2.6.0+cu124.egg-info/PKG-INFO", b"Name: torch\nVersion: 2.6.0\n", ("2.6.0",)),
        ("torch-2.6.0+cu124.egg-info", b"name: Torch\nversion: 2.6.0\n", ("2.6.0",)),
        ("torch-2.6.0.dist-info/METADATA", b"Name: torchvision\nVersion: 0.21.0\n", ()),
        ("torch-2.6.0.dist-info/METADATA", b"Name: torch\n\nVersion: 2.6.0\n", ()),
        ("torch-2.6.0.dist-info/METADATA", b"Version: 1\nName: torch\nVersion: 2\n", ("1",)),
        ("torch-2.6.0.dist-info/METADATA", b"\xff\xfeName: torch\n", ()),
        ("torch-2.6.0.dist-info/METADATA", b"Name: torch\nVersion: \x1b[2J2.6\n", ("\\x1b[2J2.6",)),
        ("torch-2.6.0.dist-info/METADATA", b"Name: torch\n" + b"X: y\n" * 100_000 + b"Version: 2.6.0\n", ()),
        ("torch-2.6.0.dist-info/METADATA/inside", b"", ()),
    ],
)
def test_the_record_beside_torch_is_found_by_the_version_that_it_prints(
    place: str, content: bytes, versions: tuple[str, ...]
) -> None:
    """Whoever wrote it, as far as its head can be read."""
    files = recorded({f"{SITE}/{place}": content})

    assert files.torch_versions(f"{SITE}/torch/__init__.py", "2.6.0+cu124", []) == versions


def test_every_record_that_is_named_is_read_and_links_are_followed() -> None:
    """Several say several things; what is named and not there says nothing."""
    files = recorded(
        {
            f"{SITE}/torch-1.0.dist-info/METADATA": Link("/cache/METADATA"),
            "/cache/METADATA": b"Name: torch\nVersion: 1.0\n",
            "/src/torch.egg-info/PKG-INFO": b"Name: torch\nVersion: 2.0\n",
        }
    )
    named = [f"{SITE}/torch-1.0.dist-info", "/src/torch.egg-info", f"{SITE}/torch-3.0.dist-info", "relative", "/no\0"]

    assert files.torch_versions("", "2.0", named) == ("1.0", "2.0")


@pytest.mark.parametrize(
    "file", ["", "torch.py", f"{SITE}/torch.so", "/__init__.py", "../../__init__.py", "\0/__init__.py"]
)
@pytest.mark.parametrize("version", ["2.0", "../../etc", "\0", "2" * 10_000])
def test_whatever_torch_says_of_itself_is_looked_at_in_peace(file: str, version: str) -> None:
    """Names that lead nowhere raise nothing, and no more than some places are looked at."""
    files = recorded(
        {f"{SITE}/torch-{number}.dist-info/METADATA": b"Name: torch\nVersion: 1\n" for number in range(50)}
    )

    named = [f"{SITE}/nothing-{number}" for number in range(100)] + [f"{SITE}/torch-1.dist-info"]
    assert files.torch_versions(file, version, named) == ()


def test_a_place_that_the_engine_cannot_read_is_nothing() -> None:
    """Docker fails on links in a circle. When it fails on the root, too, it is to blame itself, and that is raised."""
    files = recorded({f"{SITE}/torch-1.0.dist-info/METADATA": b"Name: torch\nVersion: 1.0\n"})
    container = files._container
    working = container.get

    def failing(*paths: str) -> None:
        @contextmanager
        def get(path: str) -> Iterator[IO[bytes] | None]:
            if path.startswith(paths):
                raise SandboxError("too many links")
            with working(path) as stream:
                yield stream

        container.get = get  # type: ignore[method-assign] # of this one

    failing("/circle")
    assert files.torch_versions("", "1.0", ["/circle", f"{SITE}/torch-1.0.dist-info"]) == ("1.0",)
    failing("/")
    with pytest.raises(SandboxError, match="too many links"):
        files.torch_versions("", "1.0", ["/circles"])
