"""A standard library is compared with what it was installed from: packages, an original, conda's record. No Docker."""

from __future__ import annotations

import hashlib
import json
import pickle

import pytest

from pytest_researchenv.integrity.protocol import Signs
from pytest_researchenv.model import Sign
from pytest_researchenv.sandbox.fake import Folder, Link
from tests.unit.integrity.images import DEBIAN, SITE, STATUS, VENV, Nodes, md5, python_elf
from tests.unit.integrity.interpreters import OWN, STDLIB, fields, signs


@pytest.mark.parametrize(
    "path",
    [
        f"{STDLIB}/os.py",
        f"{STDLIB}/site.py",
        f"{STDLIB}/json/__init__.py",
        f"{STDLIB}/encodings/__init__.py",
        f"{STDLIB}/lib-dynload/_json.cpython-311-x86_64-linux-gnu.so",
        f"{STDLIB}/flash_attn.py",
        f"{STDLIB}/flash_attn/__init__.py",
        f"{STDLIB}/encodings/evil.py",
        f"{STDLIB}/lib-dynload/_evil.cpython-311-x86_64-linux-gnu.so",
        f"{STDLIB}/evil.pyc",
        "/usr/lib/python311.zip",
    ],
)
def test_an_edited_standard_library(path: str) -> None:
    """A file that is not as it was, or one that was added where Python looks."""
    assert fields({path: "changed"}) == [path]
    assert fields({**VENV, path: "changed"}, "/opt/venv/bin/python") == [path]


@pytest.mark.parametrize(
    "nodes",
    [
        {f"{STDLIB}/json/__init__.py": Link("/opt/json.py"), "/opt/json.py": "changed"},
        {f"{STDLIB}/json": Link("/opt/json"), "/opt/json/__init__.py": "changed"},
        {STDLIB: Link("/opt/stdlib"), "/opt/stdlib/os.py": "# os\n"},
        {f"{STDLIB}/flash_attn": Link("/opt/json"), "/opt/json/__init__.py": "changed"},
        {"/usr/lib/python311.zip/evil.py": ""},
        {"/usr/bin/lib/python3.11/os.py": "# os\n"},
        {**VENV, "/opt/venv/pyvenv.cfg": "home = /opt/own/bin\n", "/opt/own/lib/python3.11/os.py": "# os\n"},
    ],
)
def test_a_standard_library_that_lies_elsewhere(nodes: Nodes) -> None:
    """It is the system's for the system's interpreter, whatever leads to another."""
    python = "/opt/venv/bin/python" if "/opt/venv/pyvenv.cfg" in nodes else "/usr/bin/python3"

    # Of sources and compiled modules that lie apart, both are told.
    assert 1 <= len(fields(nodes, python)) <= 2


def test_a_link_to_the_same_content_is_no_change() -> None:
    """It is the content that counts."""
    assert fields({f"{STDLIB}/json/__init__.py": Link("/opt/json.py"), "/opt/json.py": "# json\n"}) == []


def test_dpkgs_records_in_the_snapshot_vouch_for_nothing_that_was_not_upgraded() -> None:
    """Root rewrites them at will, and another package's, and removes them."""
    path, name = f"{STDLIB}/os.py", "libpython3.11-minimal"
    record = f"/var/lib/dpkg/info/{name}.md5sums"
    evil: Nodes = {path: "changed"}

    assert fields({**evil, record: md5((path, b"changed"))}) == [path]
    assert fields({**evil, record: None}) == [path]
    claimed = f"{STATUS}Package: evil\nStatus: install ok installed\nVersion: 1.0\n\n"
    other: Nodes = {"/var/lib/dpkg/status": claimed, "/var/lib/dpkg/info/evil.md5sums": md5((path, b"changed"))}
    assert fields({**evil, **other}) == [path]
    assert fields({**evil, **other, record: None}) == [path]


def test_an_upgraded_standard_library_is_compared_with_its_new_record() -> None:
    """And with the old one it would not fit."""
    paths = (f"{STDLIB}/os.py", f"{STDLIB}/site.py")
    status = STATUS.replace(
        "libpython3.11-minimal\nStatus: install ok installed\nVersion: 1.0",
        "libpython3.11-minimal\nStatus: install ok installed\nVersion: 2.0",
    )
    newer: Nodes = {
        **dict.fromkeys(paths, "newer"),
        "/var/lib/dpkg/status": status,
        "/var/lib/dpkg/info/libpython3.11-minimal.md5sums": md5(*((path, b"newer") for path in paths)),
    }
    assert signs(newer) == Signs()
    assert fields({**newer, paths[0]: "edited"}) == [paths[0]]


def test_bytecode_is_taken_out_of_the_probes_world() -> None:
    """It may be anything's, and Python leaves some itself: nobody is accused."""
    few = {f"{STDLIB}/__pycache__/os.cpython-311.pyc": b"x", f"{STDLIB}/__pycache__/site.cpython-311.pyc": b"x"}
    many = {f"{STDLIB}/json/__pycache__/{number}.cpython-311.pyc": b"x" for number in range(100)}
    found = signs({**few, **many})

    assert found.findings == ()
    assert found.blanked == {**dict.fromkeys(few, ""), f"{STDLIB}/json/__pycache__": ""}


class Runs:
    """Something that has code run when it is loaded."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return exec, ("pass",)


def test_a_pickle_that_runs_code_is_a_sign() -> None:
    """lib2to3 loads tables of grammars that it left beside its sources; plain tables are nobody's fault."""
    path = f"{STDLIB}/lib2to3/Grammar3.11.2.final.0.pickle"

    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert fields({path: pickle.dumps({"symbols": [(1, "a")]}, protocol)}) == []
        assert fields({path: pickle.dumps(Runs(), protocol)}) == [path]
        assert fields({path: pickle.dumps(Runs(), protocol)[:-1]}) == [path]
    assert fields({path: b""}) == []
    assert fields({path: Link("/opt/table")}) == [path]


UNCHECKED, CHECKED, TIMED = (b"\xa7\x0d\r\n" + bytes([flags, 0, 0, 0]) + bytes(8) for flags in (1, 3, 0))


def test_bytecode_that_is_never_checked_is_a_sign() -> None:
    """Nobody compiles the system's standard library so; uv and others may compile theirs as they like."""
    folder = f"{STDLIB}/json/__pycache__"
    nodes: Nodes = {
        f"{folder}/a.cpython-311.pyc": UNCHECKED,
        f"{folder}/b.cpython-311.pyc": CHECKED,
        f"{folder}/c.cpython-311.pyc": TIMED,
        f"{folder}/d.cpython-311.pyc": b"\1" * 16,
    }
    assert fields(nodes) == [f"{folder}/a.cpython-311.pyc"]
    assert signs(nodes).blanked == dict.fromkeys(nodes, "")
    own: Nodes = {**OWN, "/opt/py/bin/python": python_elf(loader="")}
    cached: Nodes = {"/opt/py/lib/python3.11/__pycache__/os.cpython-311.pyc": UNCHECKED}
    assert signs({**own, **cached}, "/opt/py/bin/python").findings == ()


def test_hooks_are_another_checks() -> None:
    """They are blanked, so that they void nothing."""
    assert signs({f"{STDLIB}/sitecustomize.py": "x", f"{STDLIB}/usercustomize/__init__.py": "x"}).findings == ()


def test_many_changes_are_counted() -> None:
    """Not listed."""
    found = signs({f"{STDLIB}/m{number}.py": "x" for number in range(3000)})

    assert len(found.findings) == 21
    assert found.findings[-1].field == "2980 more"


def test_what_could_not_be_worked_out_voids() -> None:
    """A site folder in which a hook hides among thousands of others."""
    found = signs({**VENV, **{f"{SITE}/{number:04}.pth": "" for number in range(600)}}, "/opt/venv/bin/python")

    assert [finding.kind for finding in found.findings] == [Sign.UNREADABLE]


def test_odd_names_are_told_in_words() -> None:
    """Bytes that are no text, and control characters."""
    found = signs({f"{STDLIB}/evil\x1b[31m.py": "x", f"{STDLIB}/caf\udcff.py": "x", f"{STDLIB}/d\udcff": Folder()})

    assert f"{STDLIB}/evil\\x1b[31m.py" in [finding.field for finding in found.findings]
    for finding in found.findings:
        finding.field.encode()


# --- copies -----------------------------------------------------------------------------------------------

COPIED = "/opt/py/bin/python3.11"


def copied(changed: Nodes) -> Nodes:
    """The system's Python, copied to a folder, in which something was changed since."""
    library = {path: node for path, node in DEBIAN.items() if path.startswith(f"{STDLIB}/")}
    more = {f"{STDLIB}/m{number}.py": f"# {number}" for number in range(10)}
    return {
        "/opt/py/bin/python3.11": python_elf(),
        **{f"/opt/py/lib{path.removeprefix('/usr/lib')}": node for path, node in {**library, **more}.items()},
        **changed,
    }


#: A base image that has as many modules as a copy needs to be told for one.
LARGE: Nodes = {**DEBIAN, **{f"{STDLIB}/m{number}.py": f"# {number}" for number in range(10)}}


def test_a_copy_of_the_systems_interpreter_is_as_good() -> None:
    """With what is installed into it, and whatever became of the original."""
    site = "/opt/py/lib/python3.11"
    added: Nodes = {f"{site}/dist-packages/x.py": "", f"{site}/__pycache__/os.cpython-311.pyc": b"x"}

    for more in (added, {f"{STDLIB}/os.py": None}, {f"{STDLIB}/os.py": "evil"}):
        assert signs(copied(more), COPIED, LARGE).findings == ()


@pytest.mark.parametrize(
    "changed",
    [
        {"encodings/__init__.py": "evil"},
        {"encodings/evil.py": "evil"},
        {"os.pyc": b"evil"},
        {"site.py": "evil"},
        {"m3.py": Link("/opt/evil.py")},
        {"lib-dynload/_json.cpython-311-x86_64-linux-gnu.so": b"evil"},
    ],
)
def test_what_differs_from_the_original_of_a_copy_is_a_sign(changed: Nodes) -> None:
    """Whether or not the original was changed in the same way."""
    same = {f"{STDLIB}/{name}": node for name, node in changed.items()}
    paths = [f"/opt/py/lib/python3.11/{name}" for name in changed]

    for more in ({}, same):
        nodes = copied({**dict(zip(paths, changed.values(), strict=True)), **more})
        assert fields(nodes, COPIED, LARGE) == paths


def test_a_copy_has_the_originals_program() -> None:
    """One byte more makes it another."""
    assert fields(copied({COPIED: python_elf() + b"x"}), COPIED, LARGE) == [COPIED]


def test_what_was_built_from_the_same_sources_is_no_copy() -> None:
    """Neither its settings nor what it compiled are the original's, and nothing is held against it."""
    built: Nodes = {
        COPIED: python_elf() + b"built",
        "/opt/py/lib/python3.11/site.py": "# not Debian's",
        "/opt/py/lib/python3.11/lib-dynload/_json.cpython-311-x86_64-linux-gnu.so": b"built",
    }
    assert signs(copied(built), COPIED, LARGE).findings == ()


# --- conda ------------------------------------------------------------------------------------------------


def conda(changed: Nodes) -> Nodes:
    """An environment of conda's, in which something was changed since."""
    files = {
        "bin/python3.12": python_elf("3.12"),
        "lib/python3.12/os.py": b"# os\n",
        "lib/python3.12/site.py": b"# site\n",
        "lib/python3.12/json/__init__.py": b"# json\n",
    }
    paths = [
        {"_path": path, "path_type": "hardlink", "sha256": "0", "sha256_in_prefix": hashlib.sha256(content).hexdigest()}
        for path, content in files.items()
    ]
    return {
        **{f"/opt/conda/{path}": content for path, content in files.items()},
        "/opt/conda/bin/python": Link("python3.12"),
        "/opt/conda/lib/python3.12/site-packages/x.py": "",
        "/opt/conda/lib/python3.12/__pycache__/os.cpython-312.pyc": b"x",
        "/opt/conda/conda-meta/history": "",
        "/opt/conda/conda-meta/other-1.0-0.json": "[]",
        "/opt/conda/conda-meta/python-3.12.1-h1_0.json": json.dumps({"paths_data": {"paths": paths}}),
        **changed,
    }


CONDA = "/opt/conda/bin/python"


def test_conda_is_compared_with_its_own_record() -> None:
    """Its virtual environments, and their copies, too."""
    venv: Nodes = {"/opt/v/bin/python": Link(CONDA), "/opt/v/pyvenv.cfg": "home = /opt/conda/bin\n"}
    copies: Nodes = {**venv, "/opt/v/bin/python": python_elf("3.12")}

    assert fields(conda({}), CONDA) == []
    assert fields(conda(venv), "/opt/v/bin/python") == []
    assert fields(conda(copies), "/opt/v/bin/python") == []
    assert signs(conda({}), CONDA).blanked == {"/opt/conda/lib/python3.12/__pycache__/os.cpython-312.pyc": ""}


@pytest.mark.parametrize(
    "path",
    [
        "/opt/conda/bin/python3.12",
        "/opt/conda/lib/python3.12/os.py",
        "/opt/conda/lib/python3.12/json/__init__.py",
        "/opt/conda/lib/python3.12/json/evil.py",
        "/opt/conda/lib/python3.12/flash_attn.py",
        "/opt/conda/lib/python312.zip",
    ],
)
def test_an_edited_conda_environment(path: str) -> None:
    """A file that differs from the record, or is not in it."""
    assert fields(conda({path: python_elf("3.12") + b"x"}), CONDA) == [path]


def test_a_conda_environment_of_another_interpreter() -> None:
    """A Python that no record lists has no business in its standard library."""
    nodes: Nodes = {"/opt/conda/bin/python": python_elf("3.12") + b"own"}
    assert fields(conda(nodes), CONDA) == [CONDA]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        "null",
        '{"paths_data": 1}',
        '{"paths_data": {"paths": [1]}}',
        "[" * 100_000,
        '{"paths_data": {"pa',
    ],
)
def test_a_broken_record_vouches_for_nothing(text: str) -> None:
    """And breaks nothing."""
    found = fields(conda({"/opt/conda/conda-meta/python-3.12.1-h1_0.json": text}), CONDA)
    assert "/opt/conda/lib/python3.12/os.py" in found
