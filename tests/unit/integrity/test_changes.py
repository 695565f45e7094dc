"""Whose code was changed, added or removed since it was installed. No Docker."""

from __future__ import annotations

import hashlib
import json
import posixpath
from pathlib import Path

import pytest

from pytest_researchenv.model import Sign
from pytest_researchenv.sandbox.fake import Folder, Link
from tests.unit.integrity.images import DEBIAN, SITE, WORKDIR, Nodes, distribution, md5, record
from tests.unit.integrity.sites import audited, kinds, native, torch


TOOL: dict[str, bytes | str] = {
    "tool/__init__.py": "VALUE = 1\n",
    "tool/core.py": "def work(): ...\n",
    "tool/data.json": "{}",
    "tool/helpers.cpp": "",
    "tool/_fast.cpython-311-x86_64-linux-gnu.so": native("fast"),
    "tool/tests/test_core.py": "",
    "tool/tests/helper.py": "HELP = 1\n",
}
INSTALLED = distribution(SITE, "tool", TOOL)
TORCH = distribution(SITE, "torch", torch(), version="2.13.0")


def test_what_was_installed_and_left_alone_raises_nothing(tmp_path: Path) -> None:
    """Bytecode, caches, data, parser tables and what pip leaves of an interrupted removal are nobody's harm."""
    signs = audited(
        tmp_path,
        {
            **INSTALLED,
            **TORCH,
            f"{SITE}/tool/__pycache__/core.cpython-311.pyc": b"\xa7\r\r\n" + bytes(12),
            f"{SITE}/tool/__pycache__/core.work-1.py311.nbi": b"\x80",
            f"{SITE}/tool/more.json": "{}",
            f"{SITE}/tool/parsetab.py": "_lr_action_items = {}\nfor _k, _v in _lr_action_items.items(): pass\n",
            f"{SITE}/tool/lextab.py": "_lextokens = set(('A', 'B'))\n_lexstateinfo = {'INITIAL': 'inclusive'}\n",
            f"{SITE}/tool/helpers.cpython-311-x86_64-linux-gnu.so": native(),
            f"{SITE}/tool/libtool_cuda118.so": native(),
            f"{SITE}/tool/generated/cymj.cpython-311-x86_64-linux-gnu.so": native(),
            f"{SITE}/~ool/core.py": "def work(): ...\n",
            f"{SITE}/~ool-1.0.dist-info/METADATA": "Name: tool\nVersion: 0\n",
            f"{SITE}/tool/tests/helper.py": None,
            f"{SITE}/tool/data.json": "[]",
        },
        tracked={"run.py": "import tool, torch\n"},
    )

    assert signs.findings == ()
    assert not signs.modules


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"tool/core.py": "def work(): return 42\n"}, "other files: {site}/tool/core.py"),
        ({"tool/core.py": Link("/opt/other.py"), "/opt/other.py": "x\n"}, "other files: {site}/tool/core.py"),
        ({"tool/core.py": Link("/opt/nowhere")}, "files that are not there: {site}/tool/core.py"),
        ({"tool/_fast.cpython-311-x86_64-linux-gnu.so": native("forged")}, "_fast"),
        ({"tool/more.py": ""}, "no record lists: {site}/tool/more.py"),
        ({"tool/parsetab.py": "import os\n"}, "no record lists: {site}/tool/parsetab.py"),
        ({"tool/parsetab.py": "print(42)\n"}, "no record lists: {site}/tool/parsetab.py"),
        (
            {"tool/parsetab.py": "@exec\n@'import os'.format\nasync def f(): ...\n"},
            "no record lists: {site}/tool/parsetab.py",
        ),
        ({"tool/parsetab.py": "zip = exec\nzip('import os')\n"}, "no record lists: {site}/tool/parsetab.py"),
        ({"tool/parsetab.py": "_a = {}.items\n"}, "no record lists: {site}/tool/parsetab.py"),
        ({"tool/parsetab.py": f"a{'.b' * 1500}()\n"}, "no record lists: {site}/tool/parsetab.py"),
        ({"tool/_speedups.so": native()}, "no record lists: {site}/tool/_speedups.so"),
        ({"tool/libm.so.6": native()}, "no record lists: {site}/tool/libm.so.6"),
        ({"tool/core.so": native()}, "no record lists: {site}/tool/core.so"),
        ({"tool/core.abi3.so": native()}, "no record lists: {site}/tool/core.abi3.so"),
        ({"tool/core/__init__.py": ""}, "no record lists: {site}/tool/core/__init__.py"),
        ({"tool/gone.pyc": b"\xa7\r\r\n"}, "no record lists: {site}/tool/gone.pyc"),
    ],
)
def test_a_distributions_code_is_what_was_installed(tmp_path: Path, change: Nodes, words: str) -> None:
    """A file that differs, a link to elsewhere, and what Python would take in the place of a file are told."""
    placed: Nodes = {path if path.startswith("/") else f"{SITE}/{path}": node for path, node in change.items()}

    signs = audited(tmp_path, {**INSTALLED, **placed}, tracked={"run.py": "import tool\n"})

    assert kinds(signs) == {Sign.DISTRIBUTION}
    assert words.format(site=SITE) in signs.findings[0].observed
    assert signs.findings[0].field == "tool 1.0"


def test_a_package_that_is_a_link_to_elsewhere_is_compared_there(tmp_path: Path) -> None:
    """As environments whose files are links into a cache have it; what is another there is told, as anywhere."""
    moved: Nodes = {path.replace(f"{SITE}/tool/", "/var/cache/tool/"): node for path, node in INSTALLED.items()}
    linked = {**moved, f"{SITE}/tool": Link("/var/cache/tool")}

    fine = audited(tmp_path, linked, tracked={"run.py": "import tool\n"})
    forged = audited(tmp_path, {**linked, "/var/cache/tool/core.py": "x\n"}, tracked={"run.py": "import tool\n"})

    assert fine.findings == ()
    assert kinds(forged) == {Sign.DISTRIBUTION}


@pytest.mark.parametrize("count", [2, 40])
def test_files_that_are_links_into_a_cache_are_compared_there(tmp_path: Path, count: int) -> None:
    """That is what uv does when it is told to; few are followed one by one, of many the folder is read."""
    cache = "/root/.cache/uv/archive-v0/abc"
    files = {f"tool/m{number}.py": f"X = {number}\n" for number in range(count)}
    installed = distribution(SITE, "tool", files)
    nodes: dict[str, bytes | str | Link | Folder | None] = {}
    for path, content in installed.items():
        below = path.removeprefix(f"{SITE}/")
        nodes |= {f"{cache}/{below}": content, path: Link(f"{cache}/{below}")} if below in files else {path: content}

    assert audited(tmp_path, nodes).findings == ()
    forged = audited(tmp_path, {**nodes, f"{cache}/tool/m1.py": "X = 42\n"})
    assert kinds(forged) == {Sign.DISTRIBUTION}
    for nowhere in (f"{cache}/tool/m1.py/", f"{cache}/tool/m1.py/.", f"{cache}/tool/m0.py/../m1.py"):
        assert kinds(audited(tmp_path, {**nodes, f"{SITE}/tool/m1.py": Link(nowhere)})) == {Sign.DISTRIBUTION}


@pytest.mark.parametrize(
    "change",
    [
        {"torch/cuda/__init__.py": "def is_available(): return True\n"},
        {"torch/cuda/__init__.py": None},
        {"torch/more.py": ""},
        {"torch/lib/libcudnn.so.9": native()},
        {"torch/lib/libtorch_cpu.so": b"\x7fELF" + bytes(9 * 1024 * 1024)},
    ],
)
def test_a_frameworks_code_is_all_there_and_nothing_else(tmp_path: Path, change: dict[str, bytes | str | None]) -> None:
    """Of a framework, what is missing and what was added is told, too. It counts as another thing then."""
    placed: Nodes = {f"{SITE}/{path}": node for path, node in change.items()}

    for tracked in ({"run.py": "import torch\n"}, {"run.py": ""}):
        signs = audited(tmp_path, {**TORCH, **placed}, tracked=tracked, frameworks=("torch",))

        assert kinds(signs) == {Sign.FRAMEWORK}
        assert list(signs.modules) == ["torch"]


def test_a_framework_that_was_removed_is_no_sign(tmp_path: Path) -> None:
    """Only what is there in part was changed; that it is missing is for others to say."""
    vision = distribution(SITE, "torchvision", {"torchvision/__init__.py": "A = 1\n", "torchvision/ops.py": "B = 1\n"})
    gone: Nodes = {f"{SITE}/torchvision/__init__.py": None, f"{SITE}/torchvision/ops.py": None}

    assert audited(tmp_path, {**vision, **gone}, frameworks=("torch",)).findings == ()


@pytest.mark.parametrize(
    ("target", "known"),
    [
        ("libtorch_cpu.so", True),
        ("/usr/lib/x86_64-linux-gnu/libz.so.1", True),
        ("/opt/forged.so", False),
    ],
)
def test_libraries_may_be_linked_to_what_somebody_installed(tmp_path: Path, target: str, *, known: bool) -> None:
    """As the manuals of frameworks say; to what an agent made they may not."""
    nodes: Nodes = {**TORCH, f"{SITE}/torch/lib/libnvrtc.so": Link(target), "/opt/forged.so": native()}

    signs = audited(tmp_path, nodes, frameworks=("torch",))

    assert kinds(signs) == (set() if known else {Sign.FRAMEWORK})


@pytest.mark.parametrize("change", ["another hash", "no hash", "another algorithm", "twice"])
def test_rows_of_a_frameworks_record_that_say_nothing_are_told(tmp_path: Path, change: str) -> None:
    """Hashes of another kind, none at all, and rows that contradict one another are as good as none."""
    path = f"{SITE}/torch-2.13.0.dist-info/RECORD"
    rows = TORCH[path].decode().splitlines()
    row = next(row for row in rows if row.startswith("torch/cuda/"))
    name, digest, size = row.split(",")
    sha512 = f"{name},sha512={'A' * 86},{size}"
    changed = {
        "another hash": [f"{name},{digest[:-2]}AA,{size}"],
        "no hash": [f"{name},,"],
        "another algorithm": [sha512],
        "twice": [row, record({name: "x"}).strip()],
    }[change]

    lines = [line for old in rows for line in (changed if old == row else [old])]
    signs = audited(tmp_path, {**TORCH, path: "\n".join(lines)}, frameworks=("torch",))

    assert kinds(signs) == {Sign.FRAMEWORK}
    assert "torch/cuda/__init__.py" in signs.findings[0].observed


def test_a_badly_made_wheel_is_no_ones_fault(tmp_path: Path) -> None:
    """Installers keep rows without a hash; of what is no framework, that alone says nothing."""
    path = f"{SITE}/tool-1.0.dist-info/RECORD"
    rows = INSTALLED[path].decode().splitlines()
    stripped = [f"{row.split(',')[0]},," if row.startswith("tool/core") else row for row in rows]

    signs = audited(tmp_path, {**INSTALLED, path: "\n".join(stripped)}, tracked={"run.py": "import tool\n"})

    assert signs.findings == ()


def test_of_files_that_distributions_share_either_may_be_there(tmp_path: Path) -> None:
    """But another distribution's word about a framework's files counts for nothing."""
    first = distribution(SITE, "one", {"shared/__init__.py": "A = 1\n", "shared/one.py": ""})
    second = distribution(SITE, "two", {"shared/__init__.py": "A = 2\n", "shared/two.py": ""})
    forged = distribution(SITE, "other", {"torch/cuda/__init__.py": "def is_available(): return True\n"})

    assert audited(tmp_path, {**first, **second}).findings == ()
    signs = audited(tmp_path, {**TORCH, **forged}, frameworks=("torch",))
    assert (kinds(signs), signs.findings[0].field) == ({Sign.FRAMEWORK}, "torch 2.13.0")


def test_what_the_base_image_has_is_not_judged_by_records(tmp_path: Path) -> None:
    """Only what an agent put there is; a changed file of the base image is told as any."""
    base = {path: content for path, content in INSTALLED.items() if not path.endswith("/tool/__init__.py")}
    base |= {f"{SITE}/tool/__init__.py": b"VALUE = 'as the image has it'\n", f"{SITE}/tool/more.py": b""}

    assert audited(tmp_path, {}, base=base).findings == ()
    assert kinds(audited(tmp_path, {f"{SITE}/tool/core.py": "x\n"}, base=base)) == {Sign.DISTRIBUTION}


# --- bytecode and commands --------------------------------------------------------------------------------


@pytest.mark.parametrize(("flags", "told"), [(0, False), (3, False), (1, True)])
def test_bytecode_that_is_never_compared_is_told(tmp_path: Path, flags: int, *, told: bool) -> None:
    """No installer makes such, while those with a time or a checked hash are everywhere."""
    content = b"\xa7\r\r\n" + flags.to_bytes(4, "little") + bytes(24)

    signs = audited(tmp_path, {**INSTALLED, f"{SITE}/tool/__pycache__/core.cpython-311.pyc": content})

    assert kinds(signs) == ({Sign.DISTRIBUTION} if told else set())


SCRIPT = """\
#!{python}
# -*- coding: utf-8 -*-
import re
import sys
from tool.core import work
if __name__ == "__main__":
    sys.argv[0] = re.sub(r"(-script.pyw|.exe)?$", "", sys.argv[0])
    sys.exit(work())
"""


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (SCRIPT.format(python="/opt/venv/bin/python"), False),
        (SCRIPT.format(python="/opt/elsewhere/bin/python"), True),
        (SCRIPT.format(python="/opt/venv/bin/python").replace("tool.core", "evil"), True),
        (SCRIPT.format(python="/opt/venv/bin/python") + "print(42)\n", True),
        (SCRIPT.format(python="/opt/venv/bin/python").replace("work())", "evil.run())"), False),
        (SCRIPT.format(python="/opt/venv/bin/python").replace("    sys.exit", "    import evil; sys.exit"), True),
        (SCRIPT.format(python="/opt/venv/bin/python").replace("sys.argv[0] =", "sys.path ="), True),
        (SCRIPT.format(python="/opt/venv/bin/python").replace("re.sub(r", "sys.argv[0].removesuffix("), False),
        ("#!/bin/sh\n'''exec' /opt/venv/bin/python \"$0\" \"$@\"\n' '''\nimport sys\n", False),
        ("#!/bin/sh\n'''exec' /opt/evil \"$0\" \"$@\"\n' '''\nimport sys\n", True),
        ("\x7fELF", True),
    ],
)
def test_commands_may_be_moved_and_nothing_else(tmp_path: Path, text: str, *, told: bool) -> None:
    """Environments that are moved have the first line of their commands rewritten."""
    place = "/opt/venv/bin/work"
    points = "[console_scripts]\nwork = tool.core:work\n"
    script = SCRIPT.format(python="/old/venv/bin/python")
    listed = record({"../../../bin/work": script, "tool-1.0.dist-info/entry_points.txt": points})
    about = f"{SITE}/tool-1.0.dist-info"
    nodes: Nodes = {
        **INSTALLED,
        f"{about}/RECORD": INSTALLED[f"{about}/RECORD"].decode() + listed,
        f"{about}/entry_points.txt": points,
        place: text,
    }

    assert kinds(audited(tmp_path, nodes)) == ({Sign.DISTRIBUTION} if told else set())


def test_entry_points_that_were_edited_vouch_for_no_command(tmp_path: Path) -> None:
    """An agent that can write a command can write the line that asks for it."""
    script = SCRIPT.format(python="/opt/venv/bin/python")
    points = {"tool-1.0.dist-info/entry_points.txt": "[console_scripts]\nwork = tool.core:work\n"}
    about = f"{SITE}/tool-1.0.dist-info"
    nodes: Nodes = {
        **INSTALLED,
        f"{about}/RECORD": INSTALLED[f"{about}/RECORD"].decode() + record({"../../../bin/work": script, **points}),
        f"{about}/entry_points.txt": "[console_scripts]\nwork = evil:work\n",
        "/opt/venv/bin/work": script.replace("tool.core", "evil"),
    }

    assert kinds(audited(tmp_path, nodes)) == {Sign.DISTRIBUTION}


# --- other records ----------------------------------------------------------------------------------------


def test_debians_packages_are_compared_with_their_own_sums(tmp_path: Path) -> None:
    """Debian has no SHA-256; what it lists is not added, and what differs is told."""
    site = "/usr/lib/python3/dist-packages"
    files = {f"{site}/tool/__init__.py": b"VALUE = 1\n", f"{site}/tool/core.py": b""}
    status = f"{DEBIAN['/var/lib/dpkg/status']!s}Package: python3-tool\nStatus: install ok installed\nVersion: 1\n\n"
    nodes: Nodes = {
        **files,
        f"{site}/tool-1.0.egg-info/PKG-INFO": "Name: tool\nVersion: 1.0\n",
        f"{site}/tool-1.0.egg-info/top_level.txt": "tool\n",
        "/var/lib/dpkg/status": status,
        "/var/lib/dpkg/info/python3-tool.md5sums": md5(
            *files.items(), (f"{site}/tool-1.0.egg-info/PKG-INFO", b"Name: tool\nVersion: 1.0\n")
        ),
        "/var/lib/dpkg/info/python3-tool.list": "\n".join(files),
    }
    tracked = {"run.py": "import tool\n"}

    assert audited(tmp_path, nodes, python="/usr/bin/python3", tracked=tracked).findings == ()
    changed = {**nodes, f"{site}/tool/core.py": "x\n"}
    assert kinds(audited(tmp_path, changed, python="/usr/bin/python3", tracked=tracked)) == {Sign.DISTRIBUTION}


def test_condas_records_say_what_it_wrote_into_the_environment(tmp_path: Path) -> None:
    """A path of the environment is written into files, whose RECORD is of before."""
    prefix = "/opt/conda"
    site = f"{prefix}/lib/python3.11/site-packages"
    installed = distribution(site, "tool", {"tool/__init__.py": "PREFIX = '/placeholder'\n", "tool/core.py": ""})
    installed[f"{site}/tool/__init__.py"] = b"PREFIX = '/opt/conda'\n"
    paths = [
        {"_path": posixpath.relpath(path, prefix), "sha256_in_prefix": hashlib.sha256(content).hexdigest()}
        for path, content in installed.items()
    ]
    about = {
        "name": "tool",
        "version": "1.0",
        "files": [item["_path"] for item in paths],
        "paths_data": {"paths": paths},
    }
    interpreter = DEBIAN["/usr/bin/python3.11"]
    assert isinstance(interpreter, bytes)
    own = [{"_path": "bin/python", "sha256": hashlib.sha256(interpreter).hexdigest()}]
    nodes: Nodes = {
        f"{prefix}/bin/python": interpreter,
        f"{prefix}/conda-meta/python-3.11.2-0.json": json.dumps({"paths_data": {"paths": own}}),
        f"{prefix}/lib/python3.11/os.py": "",
        f"{prefix}/conda-meta/history": "",
        f"{prefix}/conda-meta/tool-1.0-0.json": json.dumps(about),
        **installed,
    }
    python = f"{prefix}/bin/python"

    assert audited(tmp_path, nodes, python=python, tracked={"run.py": "import tool\n"}).findings == ()
    changed = {**nodes, f"{site}/tool/__init__.py": "PREFIX = 42\n"}
    assert kinds(audited(tmp_path, changed, python=python)) == {Sign.DISTRIBUTION}


def test_a_folder_that_pip_filled_elsewhere_is_read_like_a_site_folder(tmp_path: Path) -> None:
    """`pip install --target` with a line in a .pth file."""
    files = distribution("/opt/libraries", "tool", {"tool.py": "VALUE = 1\n"})
    nodes: Nodes = {**files, f"{SITE}/libraries.pth": "/opt/libraries\n"}
    tracked = {"run.py": "import tool\n"}

    assert audited(tmp_path, nodes, tracked=tracked).findings == ()
    assert kinds(audited(tmp_path, {**nodes, "/opt/libraries/tool.py": "x\n"}, tracked=tracked)) == {Sign.DISTRIBUTION}


# --- frameworks -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("files", "known"),
    [
        (torch(), True),
        ({"torch/__init__.py": "", "torch/lib/libtorch_cpu.so": b"\x7fELF"}, False),
        ({"torch/__init__.py": "", "torch/lib/libtorch_cpu.so": bytes(9 * 1024 * 1024)}, False),
        ({"torch.py": ""}, False),
        ({"torch/core.py": ""}, False),
    ],
)
def test_a_framework_has_a_compiled_core(tmp_path: Path, files: dict[str, bytes | str], *, known: bool) -> None:
    """A torch in pure Python is a stand-in, however well its record fits."""
    signs = audited(tmp_path, distribution(SITE, "torch", files), tracked={"run.py": "import torch\n"})

    assert kinds(signs) == (set() if known else {Sign.FRAMEWORK})
    assert ("torch" in signs.modules) is not known


def test_a_framework_may_have_its_core_among_the_environments_libraries(tmp_path: Path) -> None:
    """conda-forge and Debian have it there."""
    core = torch()["torch/lib/libtorch_cpu.so"]
    files = distribution(SITE, "torch", {"torch/__init__.py": ""})

    signs = audited(tmp_path, {**files, "/opt/venv/lib/libtorch_cpu.so": core}, frameworks=("torch",))

    assert signs.findings == ()


@pytest.mark.parametrize(("name", "told"), [("helper", True), ("torch-npu", False)])
def test_what_a_framework_imports_when_it_starts_is_somebodys(tmp_path: Path, name: str, *, told: bool) -> None:
    """Torch imports whatever a distribution names as a backend; makers of devices have such."""
    plug = distribution(SITE, name, {"plug.py": ""})
    about = f"{SITE}/{name.replace('-', '_')}-1.0.dist-info"
    entry = {f"{about}/entry_points.txt": "[torch.backends]\nplug = plug:start\n"}

    signs = audited(tmp_path, {**TORCH, **plug, **entry}, frameworks=("torch",))

    assert kinds(signs) == ({Sign.FRAMEWORK} if told else set())


POINTS = "[torch.backends]\nplug = plug:start\n"


@pytest.mark.parametrize(
    "path",
    [
        f"{SITE}/~plug-1.dist-info",
        f"{SITE}/plug-1.DIST-INFO",
        "/usr/lib/python3.11/plug-1.dist-info",
        f"{WORKDIR}/scripts/plug.egg-info",
        "/opt/more/plug.egg-info",
        "/plug-1.dist-info",
    ],
)
def test_entry_points_of_frameworks_in_what_nobody_installed(tmp_path: Path, path: str) -> None:
    """Python reads them in every folder that it looks for modules in, and beside a script."""
    nodes: Nodes = {f"{SITE}/more.pth": "/opt/more\n/\n", "/opt/more": Folder(), f"{path}/entry_points.txt": POINTS}
    signs = audited(tmp_path, nodes, tracked={"run.py": "import torch\n"})

    assert Sign.FRAMEWORK in kinds(signs)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (f"{WORKDIR}/project.egg-info", "[console_scripts]\nproject = project:main\n"),
        (f"{WORKDIR}/venv/lib/python3.12/site-packages/torch_npu-1.dist-info", POINTS),
    ],
)
def test_entry_points_that_no_framework_reads(tmp_path: Path, path: str, text: str) -> None:
    """Commands, and what another environment has."""
    signs = audited(tmp_path, {f"{path}/entry_points.txt": text}, tracked={"run.py": "import torch\n"})

    assert signs.findings == ()


def test_metadata_that_is_too_large_is_told(tmp_path: Path) -> None:
    """Python reads it all the same."""
    nodes = {**distribution(SITE, "plug", {}), f"{SITE}/plug-1.0.dist-info/entry_points.txt": b"#" * 9_000_000}

    assert Sign.UNREADABLE in kinds(audited(tmp_path, nodes))


@pytest.mark.parametrize(
    ("framework", "path"), [("jax", "jax_plugins/evil/__init__.py"), ("tensorflow", "tensorflow-plugins/libevil.so")]
)
def test_what_a_framework_loads_from_a_folder_is_somebodys(tmp_path: Path, framework: str, path: str) -> None:
    """Some load whatever lies in a folder of a certain name."""
    place: Nodes = {f"{SITE}/{path}": ""}
    listed = distribution(SITE, "plugin", {path: ""})

    assert kinds(audited(tmp_path, place, frameworks=(framework,))) == {Sign.FRAMEWORK}
    assert audited(tmp_path, place, frameworks=("torch",)).findings == ()
    assert audited(tmp_path, listed, frameworks=(framework,)).findings == ()


def test_a_framework_is_of_its_own_distribution(tmp_path: Path) -> None:
    """A copy of it, under the name of something else that is published, is another thing."""
    signs = audited(tmp_path, distribution(SITE, "cowsay", torch()), tracked={"run.py": "import torch\n"})

    assert kinds(signs) == {Sign.FRAMEWORK}
    assert list(signs.modules) == ["torch"]
