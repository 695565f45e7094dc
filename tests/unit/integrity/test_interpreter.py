"""The reported interpreter has to be a Python. No Docker.

Its standard library is tested in `test_standard_library.py`.
"""

from __future__ import annotations

import pytest

from pytest_researchenv.integrity.elf import read_elf
from pytest_researchenv.integrity.interpreter import interpreter
from pytest_researchenv.integrity.protocol import Signs
from pytest_researchenv.model import Sign
from pytest_researchenv.sandbox.fake import Link
from tests.unit.integrity.images import DEBIAN, STATUS, VENV, Nodes, elf, md5, opened_image, python_elf
from tests.unit.integrity.interpreters import OWN, STDLIB, fields, signs


@pytest.mark.parametrize(
    ("nodes", "python"),
    [
        ({}, "/usr/bin/python3"),
        ({}, "/usr/bin/python3.11"),
        ({"/opt/python": Link("/usr/bin/python3")}, "/opt/python"),
        (VENV, "/opt/venv/bin/python"),
        ({**VENV, "/opt/venv/bin/python3": python_elf()}, "/opt/venv/bin/python"),
        ({"/usr/lib/python3.11/json": None, "/usr/lib/python3.11/EXTERNALLY-MANAGED": None}, "/usr/bin/python3"),
        ({f"{STDLIB}/EXTERNALLY-MANAGED.old": "", f"{STDLIB}/os.py": b"# os\n"}, "/usr/bin/python3"),
        ({f"{STDLIB}/dist-packages/x.py": "", "/usr/lib/python3/dist-packages/y.py": ""}, "/usr/bin/python3"),
        ({"/opt/x/python": Link("nowhere")}, "/opt/x/python"),
    ],
)
def test_honest_interpreters(nodes: Nodes, python: str) -> None:
    """Links, virtual environments and their copies, and what people remove."""
    assert signs(nodes, python) == Signs()


# --- the program ------------------------------------------------------------------------------------------

LAUNCHER = ("Py_BytesMain", "__libc_start_main", "_ITM_deregisterTMCloneTable", "__gmon_start__", "GLIBC_2.34")
SHARED = ("libpython3.11.so.1.0", "libc.so.6")


@pytest.mark.parametrize(
    "nodes",
    [
        {"/opt/py/bin/python": python_elf() + b"own"},
        {"/opt/py/bin/python": python_elf(loader="")},
        {"/opt/py/bin/python": python_elf(loader="/nix/store/abc-glibc-2.40/lib/ld-linux-x86-64.so.2")},
        {
            "/opt/py/bin/python": elf(needed=SHARED, names=LAUNCHER, runpath="$ORIGIN/../lib"),
            "/opt/py/lib/libpython3.11.so.1.0": python_elf(loader=""),
        },
        {
            "/opt/py/bin/python": elf(needed=("$ORIGIN/../lib/libpython3.11.so.1.0", "libc.so.6"), names=LAUNCHER),
            "/opt/py/lib/libpython3.11.so.1.0": python_elf(loader=""),
        },
    ],
)
def test_a_python_that_no_package_owns(nodes: Nodes) -> None:
    """It was built, or uv or pyenv put it there: nothing is held against it, and it is said that nothing is known."""
    found = signs({**OWN, **nodes}, "/opt/py/bin/python")

    assert found.findings == ()
    assert len(found.remarks) == 2


@pytest.mark.parametrize(
    ("program", "why"),
    [
        (elf(), "holds no Python"),
        (elf(needed=SHARED, names=(*LAUNCHER, "execv")), "execv"),
        (elf(needed=SHARED, names=(*LAUNCHER, "setenv")), "setenv"),
        (elf(needed=SHARED, names=(*LAUNCHER, "PyRun_SimpleString")), "PyRun_SimpleString"),
        (elf(needed=SHARED, names=(*LAUNCHER, "Py_Initialize", "dlopen")), "Py_Initialize"),
        (elf(needed=SHARED, names=LAUNCHER), "nowhere"),
        (elf(body=b"cpython-311\0"), "0 of Python's functions"),
        (elf(body=b"cpython-311\0", names=tuple(f"Py{number}" for number in range(500))), "500 of Python's functions"),
        (python_elf(loader="/opt/evil/ld.so"), "/opt/evil/ld.so"),
        (python_elf(loader="/lib64/../opt/ld-linux.so.2"), "/lib64/../opt"),
        (python_elf(loader="/nix/store/x/../../../opt/ld-linux.so.2"), "/opt/ld-linux.so.2"),
        (python_elf(tags=(0x6FFFFEFC,)), "watched by libm.so.6"),
        (python_elf(tags=(0x6FFFFEFB,)), "watched"),
    ],
)
def test_a_program_that_is_no_python(program: bytes, why: str) -> None:
    """A wrapper that was compiled, and one that embeds Python or has its name."""
    (finding,) = signs({**OWN, "/opt/py/bin/python": program}, "/opt/py/bin/python").findings

    assert finding.kind is Sign.INTERPRETER
    assert why in finding.observed


def test_a_libpython_that_is_none() -> None:
    """What the program only starts is looked at as well."""
    nodes: Nodes = {
        **OWN,
        "/opt/py/bin/python": elf(needed=SHARED, names=LAUNCHER, runpath="$ORIGIN/../lib"),
        "/opt/py/lib/libpython3.11.so.1.0": elf(loader=""),
    }
    assert fields(nodes, "/opt/py/bin/python") == ["/opt/py/lib/libpython3.11.so.1.0"]


@pytest.mark.parametrize("text", ["#!/bin/sh\nexec /usr/bin/python3\n", "#!/usr/bin/python3\n", "text"])
def test_a_script_is_no_interpreter(text: str) -> None:
    """Not behind a link either."""
    nodes: Nodes = {"/opt/x/python": text, "/opt/venv/bin/python": Link("/opt/x/python")}

    assert fields(nodes, "/opt/venv/bin/python") == ["/opt/venv/bin/python"]
    assert fields({"/usr/bin/python3.11": text}) == ["/usr/bin/python3"]


@pytest.mark.parametrize(
    "nodes",
    [
        {"/usr/bin/python3.11": python_elf() + b"x"},
        {"/usr/bin/python3": python_elf() + b"x"},
        {"/usr/bin/python3.11": Link("/opt/python"), "/opt/python": python_elf() + b"x"},
        {**VENV, "/opt/venv/bin/python3": python_elf() + b"x", "/usr/bin/python3": Link("/opt/venv/bin/python3")},
    ],
)
def test_another_program_for_the_systems_standard_library(nodes: Nodes) -> None:
    """Whoever uses it is the system's interpreter, or a copy of that."""
    assert len(fields(nodes)) == 1


def test_a_copy_of_the_base_images_interpreter_stays_one_when_that_is_upgraded() -> None:
    """A virtual environment that was made before has the older program."""
    newer = python_elf() + b"newer"
    nodes = {
        **VENV,
        "/opt/venv/bin/python3": python_elf(),
        "/usr/bin/python3.11": newer,
        "/var/lib/dpkg/status": STATUS.replace("Version: 1.0", "Version: 2.0", 1),
        "/var/lib/dpkg/info/python3.11-minimal.md5sums": md5(("/usr/bin/python3.11", newer)),
    }
    assert signs(nodes, "/opt/venv/bin/python") == Signs()
    assert signs(nodes) == Signs()


def test_the_systems_interpreter_has_no_other_standard_library() -> None:
    """Wherever it is copied to, and with whatever folder beside it."""
    copied: Nodes = {**OWN, "/opt/py/bin/python": python_elf()}
    linked: Nodes = {**OWN, **VENV, "/opt/venv/pyvenv.cfg": "home = /opt/py/bin\n"}

    assert fields(copied, "/opt/py/bin/python") == ["/opt/py"]
    assert fields(linked, "/opt/venv/bin/python") == ["/opt/py"]


def test_an_interpreter_whose_library_is_the_base_images() -> None:
    """As in images of Python itself, where no package owns anything: it is compared with the base image."""
    base = {
        **DEBIAN,
        "/usr/local/bin/python3.12": elf(needed=("libpython3.12.so.1.0",), names=LAUNCHER),
        "/usr/local/lib/libpython3.12.so.1.0": python_elf("3.12"),
        "/usr/local/lib/python3.12/os.py": "",
        "/usr/lib/libpython3.12.so.1.0": Link("/usr/local/lib/libpython3.12.so.1.0"),
    }
    python = "/usr/local/bin/python3.12"

    assert signs({}, python, base) == Signs()
    assert fields({"/usr/local/lib/python3.12/os.py": "x"}, python, base) == ["/usr/local/lib/python3.12/os.py"]
    assert fields({"/usr/local/lib/libpython3.12.so.1.0": python_elf("3.12") + b"x"}, python, base) == [
        "/usr/local/lib/libpython3.12.so.1.0"
    ]
    assert fields({"/usr/lib/libpython3.12.so.1.0": python_elf("3.12") + b"x"}, python, base) == [
        "/usr/lib/libpython3.12.so.1.0"
    ]


@pytest.mark.parametrize(
    "path", ["/usr/bin/python3._pth", "/usr/bin/pybuilddir.txt", "/usr/bin/Modules/Setup.local", "/usr/bin/pyvenv.cfg"]
)
def test_what_replaces_pythons_search(path: str) -> None:
    """No installation for Linux has such a file."""
    assert path in fields({path: "home = /usr/bin\n"})


# --- hostile files ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [
        b"\x7fELF\x02\x01" + bytes(58),
        b"\x7fELF\x02\x01" + b"\xff" * 58,
        b"\x7fELF\x01\x01" + bytes(58),
        elf()[:100],
        elf()[:-40],
        elf().replace(b"libc.so.6", b"libc\xff\xfe.so"),
        b"\x7fELF\x02\x01\x01" + bytes(25) + (2**63).to_bytes(8, "little") + bytes(14) + b"\x38\x00\x10\x00" + bytes(6),
    ],
)
def test_damaged_programs_break_nothing(content: bytes) -> None:
    """They are no programs, or say little."""
    with opened_image({"/opt/py/bin/python": content, **OWN}, python="/opt/py/bin/python") as (task, snapshot):
        assert interpreter(task, snapshot).findings


def test_a_program_with_many_libraries_costs_little() -> None:
    """Of a dynamic section only so much is read."""
    import io  # noqa: PLC0415 - for this test alone.

    content = elf(needed=tuple(f"lib{number}.so" for number in range(20_000)), names=("x" * 1_000_000,))
    found = read_elf(io.BytesIO(content))

    assert found is not None
    assert len(found.needed) == 4096


# --- what a package has that nobody but the agent's own records knows ----------------------------------------


def packaged(files: dict[str, bytes], name: str = "kept") -> Nodes:
    """A package as dpkg installs it, whoever made it."""
    about = f"Package: {name}\nStatus: install ok installed\nVersion: 1.0\n\n"
    return {
        **files,
        "/var/lib/dpkg/status": STATUS + about,
        f"/var/lib/dpkg/info/{name}.md5sums": md5(*files.items()),
    }


EMBEDDING = elf(needed=SHARED, names=(*LAUNCHER, "dlopen"), runpath="$ORIGIN/../lib")
STARTING = elf(needed=SHARED, names=LAUNCHER, runpath="$ORIGIN/../lib")
OPT = {"/opt/py/lib/python3.11/os.py": b"", "/opt/py/lib/python3.11/site.py": b""}


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({"/opt/py/bin/python3": EMBEDDING, **OPT, "/opt/py/lib/libpython3.11.so.1.0": python_elf(loader="")}, "bin"),
        ({"/opt/py/bin/python3": STARTING, **OPT, "/opt/py/lib/libpython3.11.so.1.0": elf(loader="")}, "lib"),
        ({"/opt/py/bin/python3": python_elf(loader="/opt/py/ld.so"), **OPT}, "bin"),
        ({"/opt/py/bin/python3": python_elf() + b"own", **OPT}, ""),
    ],
)
def test_a_package_of_the_agents_own_makes_no_python_of_a_program(files: dict[str, bytes], told: str) -> None:
    """Its records fit whatever is in it: it is judged as what nobody has."""
    found = fields(packaged(files), "/opt/py/bin/python3")

    assert [path.split("/")[3] for path in found] == ([told] if told else [])


@pytest.mark.parametrize("path", ["/usr/bin/pyshell", "/usr/bin/python3.11-shell", "/opt/bin/python3"])
def test_the_systems_library_is_for_the_systems_program(path: str) -> None:
    """And for none of a package that came later, be it a Python."""
    own = {path: python_elf() + b"own"}
    beside: Nodes = {} if path.startswith("/usr") else {"/opt/lib/python3.11": Link("/usr/lib/python3.11")}

    assert path in fields({**packaged(own), **beside}, path)


def test_a_module_of_a_later_package_does_not_go_before_the_systems() -> None:
    """More modules it may have; Debian's own packages add some."""
    more = {
        f"{STDLIB}/tkinter/__init__.py": b"x",
        f"{STDLIB}/lib-dynload/_tkinter.cpython-311-x86_64-linux-gnu.so": b"y",
    }
    before = {f"{STDLIB}/os.cpython-311-x86_64-linux-gnu.so": b"x"}

    assert fields(packaged(more)) == []
    assert fields(packaged(before)) == [*before]


def test_a_library_of_a_package_is_no_packages() -> None:
    """A copy of the system's with another line in it is neither a copy nor the system's."""
    evil = "encodings/__init__.py"
    names = {path: node for path, node in DEBIAN.items() if path.startswith(f"{STDLIB}/") and isinstance(node, bytes)}
    library = {path.replace("/usr", "/opt/py", 1): node for path, node in names.items()}
    library[f"/opt/py/lib/python3.11/{evil}"] += b"import evil\n"
    python = DEBIAN["/usr/bin/python3.11"]
    assert isinstance(python, bytes)

    assert fields(packaged({"/opt/py/bin/python3.11": python, **library}), "/opt/py/bin/python3.11") != []
