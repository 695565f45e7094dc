"""A standard library that nobody owns is compared with what CPython released, where that can be had. No Docker."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from pytest_researchenv.integrity.interpreter import interpreter
from pytest_researchenv.integrity.protocol import Signs
from pytest_researchenv.integrity.published import Unknown
from pytest_researchenv.integrity.released import release_of
from pytest_researchenv.integrity.releases import Library, ReleasedLibraries
from pytest_researchenv.model import Sign
from pytest_researchenv.sandbox.fake import Link
from tests.unit.integrity.images import Nodes, elf, opened_image, python_elf
from tests.unit.integrity.packageindexes import Server, sdist, serving, sha256


RELEASE = "3.11.9"
PLACE = f"{RELEASE}/Python-{RELEASE}.tgz"
SSL = "import os\nimport sys\n\ndef load():\n    pass\n"
SOURCES = {"os.py": "# os\n", "site.py": "# site\n", "encodings/__init__.py": "# encodings\n", "ssl.py": SSL}

PYTHON = "/opt/py/bin/python3.11"
LIB = "/opt/py/lib/python3.11"


def archive(sources: Mapping[str, str] = SOURCES, lib: str = "Lib") -> bytes:
    """The archive of a release."""
    files = {f"Python-{RELEASE}/{lib}/{name}": text.encode() for name, text in sources.items()}
    return sdist({**files, f"Python-{RELEASE}/Tools/other.py": b"x", f"Python-{RELEASE}/Lib/data.txt": b"x"})


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A server with one release."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serving() as told:
        told.files = {PLACE: archive()}
        yield told


def libraries(server: Server, folder: Path, **options: float) -> ReleasedLibraries:
    """What asks that server."""
    return ReleasedLibraries(folder, url=f"{server.url}/f", **options)


# --- what was released ------------------------------------------------------------------------------------


def test_a_release_is_read_once(server: Server, tmp_path: Path) -> None:
    """Its sources' digests, and the content of those that builders change; then it is on disk, for other audits too."""
    wanted = Library({name: sha256(text.encode()) for name, text in SOURCES.items()}, {"ssl.py": SSL})

    for _ in range(2):
        assert libraries(server, tmp_path).of(RELEASE) == wanted
    assert [path for path, _ in server.asked] == [f"/f/{PLACE}"]


def test_a_pre_release_lies_with_the_release(server: Server, tmp_path: Path) -> None:
    """As python.org has it."""
    server.files = {"3.15.0/Python-3.15.0rc1.tgz": archive()}

    assert isinstance(libraries(server, tmp_path).of("3.15.0rc1"), Library)


@pytest.mark.parametrize("version", ["none", "\x003.11.8\0", "\x003.11.9\x003.11.8\0", "\x003.12.9\0", "\x003.11.9+\0"])
def test_nothing_but_a_release_is_asked_for(server: Server, tmp_path: Path, version: str) -> None:
    """The image says what it is, and may say anything."""
    assert isinstance(libraries(server, tmp_path).of(version), Unknown)
    assert server.asked == []


@pytest.mark.parametrize(
    "content",
    [None, b"", b"no archive", archive()[:-200], archive(lib="Other"), sdist({}), sdist({"Python-3.11.9/x.py": b""})],
    # Of archives made at collection, each worker's has its own time.
    ids=["nothing", "empty", "no archive", "cut off", "no Lib", "no file", "no source"],
)
def test_what_cannot_be_read_is_not_known(server: Server, tmp_path: Path, content: bytes | None) -> None:
    """It is asked for once more the next time."""
    server.files = {} if content is None else {PLACE: content}

    assert isinstance(libraries(server, tmp_path).of(RELEASE), Unknown)
    server.files = {PLACE: archive()}
    assert isinstance(libraries(server, tmp_path).of(RELEASE), Library)


def test_no_server_and_no_time(server: Server, tmp_path: Path) -> None:
    """A host without a network, and a server that never ends."""
    assert isinstance(ReleasedLibraries(tmp_path, url="http://127.0.0.1:1").of(RELEASE), Unknown)
    server.delay_s = 1.0
    assert isinstance(libraries(server, tmp_path, budget_s=0.1).of(RELEASE), Unknown)


# --- what is installed ------------------------------------------------------------------------------------


#: What python-build-standalone makes of its settings.
RELOCATABLE = """\
from pathlib import Path
installed_base = str(Path(__file__).resolve().parent.parent.parent)
build_time_vars = {
    'CC': 'gcc',
    'prefix': f'{installed_base}',
    'SIZE': 8,
}
"""


class Known:
    """Knows one release."""

    def of(self, version: str) -> Library | Unknown:
        """That release."""
        if version != RELEASE:
            return Unknown(f"{version} is another one")
        return Library({name: sha256(text.encode()) for name, text in SOURCES.items()}, {"ssl.py": SSL})


def signs(changed: Nodes, program: bytes | None = None) -> Signs:
    """What is seen of an interpreter that nobody owns, in which something was changed."""
    nodes = {
        PYTHON: program or python_elf() + f"\0{RELEASE}\0".encode(),
        **{f"{LIB}/{name}": text for name, text in SOURCES.items()},
        **changed,
    }
    with opened_image(nodes, python=PYTHON) as (task, snapshot):
        return interpreter(task, snapshot, Known())


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {f"{LIB}/ssl.py": None},
        {f"{LIB}/_sysconfigdata__linux_x86_64-linux-gnu.py": "# system\nbuild_time_vars = {'CC': 'gcc', 'X': -1}\n"},
        {f"{LIB}/_sysconfigdata__linux_x86_64-linux-gnu.py": RELOCATABLE},
        {f"{LIB}/config-3.11-x86_64-linux-gnu/python-config.py": "built"},
        {f"{LIB}/lib-dynload/_json.cpython-311-x86_64-linux-gnu.so": b"built"},
        {f"{LIB}/site-packages/pip/__init__.py": "pip"},
        {f"{LIB}/__pycache__/os.cpython-311.pyc": b"x"},
        {f"{LIB}/pydoc_data/topics.txt": "x"},
        {f"{LIB}/os.py": Link("/opt/store/os.py"), "/opt/store/os.py": SOURCES["os.py"]},
    ],
)
def test_what_a_build_leaves_is_nobodys_fault(changed: Nodes) -> None:
    """Neither what it compiles and generates, nor what is installed into it."""
    assert signs(changed).findings == ()


@pytest.mark.parametrize(
    ("name", "node"),
    [
        ("os.py", "evil"),
        ("encodings/__init__.py", SOURCES["encodings/__init__.py"] + "evil"),
        ("site.py", SOURCES["site.py"] + "evil"),
        ("evil.py", "evil"),
        ("lib-dynload/evil.py", "evil"),
        ("_sysconfigdata__linux_x86_64-linux-gnu.py", "build_time_vars = {'CC': exec('evil')}"),
        ("_sysconfigdata__linux_x86_64-linux-gnu.py", "from evil import build_time_vars"),
        ("_sysconfigdata__linux_x86_64-linux-gnu.py", "import evil"),
        ("_sysconfigdata__linux_x86_64-linux-gnu.py", "no Python"),
        ("os.pyc", b"evil"),
        ("os.cpython-311-x86_64-linux-gnu.so", b"evil"),
        ("encodings/__init__.abi3.so", b"evil"),
        ("os.py", Link("/opt/evil.py")),
        ("ssl.py", Link("nowhere")),
    ],
)
def test_what_was_not_released_is_a_sign(name: str, node: str | bytes | Link) -> None:
    """A source with another content, and modules that come before or beside the release's."""
    (finding,) = signs({f"{LIB}/{name}": node, "/opt/evil.py": "evil"}).findings

    assert (finding.kind, finding.field) == (Sign.INTERPRETER, f"{LIB}/{name}")
    assert RELEASE in finding.claimed


@pytest.mark.parametrize(
    "line",
    [
        "_STANDALONE_CERT_FILE = os.path.join(sys.base_prefix, 'etc', 'ssl', 'cert.pem')",
        "import re",
        'pattern = re.compile(r"(^|\\s)" + re.escape(prefix))',
        '_has = getattr(_uuid, "has_stable_extractable_node", False)',
        "f.write('installed_base = str(Path(__file__).resolve().parent.parent.parent)\\n')",
        "from pathlib import Path",
    ],
)
def test_what_builders_change_is_a_remark(line: str) -> None:
    """As python-build-standalone does."""
    seen = signs({f"{LIB}/ssl.py": f"{SSL}{line}\n"})

    assert seen.findings == ()
    assert any("ssl.py" in remark for remark in seen.remarks)


@pytest.mark.parametrize(
    "line",
    [
        "exec(bytes.fromhex('00'))",
        "import evil",
        "import os, evil",
        "from evil import something",
        "from . import evil",
        "os.execve('/opt/evil', [], {})",
        "os.posix_spawn('/opt/evil', [], {})",
        "getattr(os, 'sys' + 'tem')('/opt/evil')",
        "open('/opt/evil')",
        "os.__dict__",
        "sys.modules['torch'] = None",
        "sys.path[:0] = ['/opt']",
        "from sys import path",
        "import sys as re",
        "x.insert(0, '/opt')",
    ],
)
def test_what_no_builder_writes_is_a_sign_there_too(line: str) -> None:
    """A file that builders change is no place to hide in."""
    assert [finding.field for finding in signs({f"{LIB}/ssl.py": f"{SSL}{line}\n"}).findings] == [f"{LIB}/ssl.py"]


@pytest.mark.parametrize("version", ["none", "\x003.11.8\0", "\x003.11.9\x003.11.8\0", "\x003.12.9\0", "\x003.11.9+\0"])
def test_an_interpreter_of_no_known_release_is_a_remark(version: str) -> None:
    """Nothing is known then, and nothing held against anybody."""
    seen = signs({f"{LIB}/os.py": "other"}, python_elf() + version.encode())

    assert seen.findings == ()
    assert any("has no record to compare it with" in remark for remark in seen.remarks)


def test_the_release_is_in_the_library_that_a_program_starts() -> None:
    """Of a Python that is linked with its library, as pyenv can build it."""
    launcher = ("Py_BytesMain", "__libc_start_main", "_ITM_deregisterTMCloneTable", "__gmon_start__", "GLIBC_2.34")
    program = elf(needed=("libpython3.11.so.1.0", "libc.so.6"), names=launcher, runpath="$ORIGIN/../lib")
    shared = {"/opt/py/lib/libpython3.11.so.1.0": python_elf(loader="") + f"\0{RELEASE}\0".encode()}

    assert signs(shared, program).findings == ()
    assert [one.field for one in signs({**shared, f"{LIB}/os.py": "x"}, program).findings] == [f"{LIB}/os.py"]


def test_a_version_across_two_blocks_is_found() -> None:
    """Programs are read in blocks."""
    for before in range((1 << 20) - 12, (1 << 20) + 2):
        assert release_of(io.BytesIO(bytes(before) + b"3.11.9\0"), 11) == "3.11.9"
