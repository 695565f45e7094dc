"""Which claims of an interpreter about its modules are borne out by the snapshot's files. No Docker."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from pytest_researchenv.probes.lookup import Module
from pytest_researchenv.probes.outside import Outside
from pytest_researchenv.sandbox.fake import FakeContainer, FakeSandbox, Folder, Link
from pytest_researchenv.sandbox.protocol import ContainerSpec


def archive(*names: str) -> bytes:
    """A zip archive."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as opened:
        for name in names:
            opened.writestr(name, "")
    return buffer.getvalue()


SITE = "/env/lib/python3.11/site-packages"
ELF = b"\x7fELF..."
NODES: dict[str, bytes | Link | Folder] = {
    f"{SITE}/plain.py": b"",
    f"{SITE}/package/__init__.py": b"",
    f"{SITE}/native.cpython-311-x86_64-linux-gnu.so": ELF,
    f"{SITE}/stable.abi3.so": ELF,
    f"{SITE}/compiled.pyc": b"\xa7\r\r\n....",
    f"{SITE}/spaced/deep/module.py": b"",
    f"{SITE}/linked.py": Link("../../../../store/linked.py"),
    f"{SITE}/far.py": Link("/store/hop"),
    "/store/hop": Link("linked.py"),
    "/store/linked.py": b"x = 1",
    f"{SITE}/dangling.py": Link("nowhere"),
    f"{SITE}/loop.py": Link("loop.py"),
    f"{SITE}/folder.py": Folder(),
    f"{SITE}/fake.so": b"no extension",
    f"{SITE}/fake.pyc": b"no bytecode",
    f"{SITE}/binary.py": b"\0",
    f"{SITE}/egg.egg": archive("zipped/__init__.pyc", "parts/one.py"),
    f"{SITE}/linked.egg": Link("egg.egg"),
    f"{SITE}/bad.egg": b"PK\x03\x04 and no more",
    f"{SITE}/setuptools/_distutils/__init__.py": b"",
    "/usr/lib/python3.11/os.py": b"",
    "/elsewhere/src/ext/__init__.py": b"",
    "/elsewhere/src/other/__init__.py": b"",
}


def doubt(name: str, origin: str, files: list[str] | None = None, *, version: str = "3.11.2") -> str:
    """Look for a claimed module among the files above."""
    sandbox = FakeSandbox()
    with sandbox.opened(ContainerSpec(sandbox.add_image("snapshot", NODES), argv=("/bin/true",))) as container:
        files = [origin] if files is None else files
        module = Module(finder="Finder", origin=origin, files=files, real=files, native=False, owner="")
        return Outside(container, version).doubt(name, module)


@pytest.mark.parametrize(
    ("name", "origin", "files"),
    [
        ("plain", f"{SITE}/plain.py", None),
        ("package", f"{SITE}/package/__init__.py", None),
        ("native", f"{SITE}/native.cpython-311-x86_64-linux-gnu.so", None),
        ("stable", f"{SITE}/stable.abi3.so", None),
        ("compiled", f"{SITE}/compiled.pyc", None),
        ("spaced", f"{SITE}/spaced", [f"{SITE}/spaced/deep/module.py"]),
        ("spaced", "__editable__.spaced.finder.__path_hook__", [f"{SITE}/spaced/deep/module.py"]),
        ("linked", f"{SITE}/linked.py", None),
        ("far", f"{SITE}/far.py", None),
        ("plain", f"{SITE}/package/../plain.py", None),
        ("ext", "/elsewhere/src/ext/__init__.py", None),
        ("zipped", f"{SITE}/egg.egg/zipped/__init__.pyc", None),
        ("zipped", f"{SITE}/linked.egg/zipped/__init__.pyc", None),
        ("parts", f"{SITE}/egg.egg/parts", [f"{SITE}/egg.egg/parts/one.py"]),
        ("distutils", f"{SITE}/setuptools/_distutils/__init__.py", []),
        ("_abc", "built-in", []),
        ("zipimport", "frozen", []),
    ],
)
def test_what_is_there_is_not_doubted(name: str, origin: str, files: list[str] | None) -> None:
    """Modules, packages, extensions, bytecode, namespaces, links, archives, editable installs, the standard library."""
    assert doubt(name, origin, files) == ""


@pytest.mark.parametrize(
    ("name", "origin", "files", "why"),
    [
        ("flash_attn", "", [], "and names no file"),
        ("flash_attn", "<object object at 0x7f>", [], "and names no file"),
        ("flash_attn", "built-in", [], "as built-in"),
        ("flash_attn", "frozen", None, "as frozen"),
        ("flash_attn", f"{SITE}/flash_attn.py", None, f"there is no module {SITE}/flash_attn.py"),
        ("flash_attn", f"{SITE}/flash_attn/__init__.py", None, "there is no module"),
        ("flash_attn", "/usr/lib/python3.11/os.py", None, "/usr/lib/python3.11/os.py is no module of that name"),
        ("flash_attn", "/elsewhere/src/other/__init__.py", None, "is no module of that name"),
        ("flash_attn", f"{SITE}/spaced", [f"{SITE}/spaced/deep/module.py"], "module.py is no module of that name"),
        ("flash_attn", f"{SITE}/setuptools/_distutils/__init__.py", None, "is no module of that name"),
        ("python3", "/usr/lib/python3/dist-packages/x.py", None, "is no module of that name"),
        ("dangling", f"{SITE}/dangling.py", None, "there is no module"),
        ("loop", f"{SITE}/loop.py", None, "there is no module"),
        ("folder", f"{SITE}/folder.py", None, "there is no module"),
        ("fake", f"{SITE}/fake.so", None, "there is no module"),
        ("fake", f"{SITE}/fake.pyc", None, "there is no module"),
        ("binary", f"{SITE}/binary.py", None, "there is no module"),
        ("absent", f"{SITE}/egg.egg/absent/__init__.py", None, "there is no module"),
        ("absent", f"{SITE}/bad.egg/absent/__init__.py", None, "there is no module"),
        ("absent", f"{SITE}/plain.py/absent/__init__.py", None, "there is no module"),
        ("absent", f"{SITE}/absent\0.py", None, "and names no file"),
        ("absent", f"/{'x' * 5000}/absent.py", None, "and names no file"),
        ("plain", "plain.py", None, "and names no file"),
    ],
)
def test_a_claim_that_nothing_bears_out_does_not_count(
    name: str, origin: str, files: list[str] | None, why: str
) -> None:
    """No file, a file of another name, another kind of file, or none where one is claimed."""
    said = doubt(name, origin, files)

    assert said.startswith("only finder Finder claims it")
    assert why in said


def test_what_is_said_of_a_claim_is_fit_to_print() -> None:
    """Whatever the interpreter calls things."""
    said = doubt("flash_attn", "/\x1b[2J" + "x" * 1000 + ".py")

    assert said.isprintable()
    assert len(said) < 400


@pytest.mark.parametrize(
    ("name", "version", "known"),
    [("imp", "3.11.2", True), ("imp", "3.12.1", False), ("parser", "3.9.5", True), ("parser", "3.11.2", False)],
)
def test_the_standard_library_is_that_of_the_interpreters_version(name: str, version: str, *, known: bool) -> None:
    """What a version dropped is no part of it; an unknown version counts as the newest."""
    assert bool(doubt(name, "built-in", [], version=version)) is not known
    assert doubt(name, "built-in", [], version="3.99.0")


def test_looking_is_bounded() -> None:
    """Links that lead on and on end, and so does a claim of many files."""
    sandbox = FakeSandbox()
    chain: dict[str, bytes | Link | Folder] = {f"/c/{number}": Link(str(number + 1)) for number in range(100)}
    image = sandbox.add_image("snapshot", {**chain, "/c/a.py": Link("0"), "/c/100": b""})
    looked: list[str] = []

    class Counting(FakeContainer):
        @contextmanager
        def get(self, path: str) -> Iterator[Any]:
            looked.append(path)
            with super().get(path) as stream:
                yield stream

    with sandbox.opened(ContainerSpec(image, argv=("/bin/true",))) as container:
        container.__class__ = Counting
        outside = Outside(container, "3.11.2")
        files = [f"/c/{number}/../a.py" for number in range(1000)]
        module = Module(finder="F", origin="/c/a.py", files=files, real=files, native=False, owner="")
        assert all("there is no module" in outside.doubt("a", module) for _ in range(100))

    assert len(looked) <= 2000
