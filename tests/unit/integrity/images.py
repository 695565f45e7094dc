"""Images made of files, and the snapshot of them that an audit reads: the real one, over a fake engine."""

from __future__ import annotations

import base64
import hashlib
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pytest_researchenv.integrity.protocol import Snapshot
from pytest_researchenv.integrity.snapshot import opened_snapshot
from pytest_researchenv.model import Environment, EnvironmentKey, PathSource, Repository, SelfReport
from pytest_researchenv.probes.protocol import ProbeTask, Tree
from pytest_researchenv.sandbox.fake import FakeFiles, FakeSandbox, Folder, Link
from pytest_researchenv.sandbox.protocol import Change, Mount


__all__ = [
    "DEBIAN",
    "SITE",
    "STATUS",
    "VENV",
    "Nodes",
    "distribution",
    "elf",
    "md5",
    "opened_image",
    "python_elf",
    "record",
]

#: Absolute path → what is there.
Nodes = Mapping[str, bytes | str | Link | Folder | None]

WORKDIR = "/workspace/project"


@contextmanager
def opened_image(
    nodes: Nodes,
    *,
    base: Nodes | None = None,
    python: str | None = "/usr/bin/python3",
    tracked: Mapping[str, str] | None = None,
    repository: Repository | None = None,
    report: SelfReport | None = None,
    changed: tuple[str, ...] = (),
) -> Iterator[tuple[ProbeTask, Snapshot]]:
    """Make a base image, and a frozen image in which an agent changed something; open its snapshot.

    Args:
        nodes: what the agent left, by absolute path; None: it removed what was there. Links on the way are followed.
        base: what the base image holds; None: `DEBIAN`.
        python: the interpreter that it reports; None: it reports nothing.
        tracked: tracked files, by path in the repository; they lie in the frozen image as well.
        repository: what is judged.
        report: the self-report; None: one that names the interpreter.
        changed: tracked files that differ from the pinned ones.
    """
    before = FakeFiles({})
    for path, node in {"/researchenv": Folder(), WORKDIR: Folder(), **(DEBIAN if base is None else base)}.items():
        _place(before, path, node)
    after = before.copy()
    for path, node in {**{f"{WORKDIR}/{name}": text for name, text in (tracked or {}).items()}, **nodes}.items():
        _place(after, path, node)
    sandbox = FakeSandbox()
    environment = Environment(
        key=EnvironmentKey("run", "agent", "project", 1),
        image=_added(sandbox, "snapshot", after),
        base_image=_added(sandbox, "base", before),
        workdir=WORKDIR,
        report=report or (None if python is None else SelfReport(python_path=python)),
        report_problem="" if python else "the agent left no self-report",
        changed=changed,
        inputs={},
        telemetry={},
        ended="exited with code 0",
        created="",
    )
    task = ProbeTask(
        environment=environment,
        repository=repository or Repository("project", PathSource("unused")),
        tree=Tree(Path("unused"), tuple(sorted(tracked or ())), "digest"),
        sandbox=sandbox,
        tools=Mount("unused", "/unused"),
        log=len,
        settings={},
    )
    changes = [Change(kind, path) for path, kind in after.compared(before).items()]
    with opened_snapshot(task, lambda: changes) as snapshot:
        yield task, snapshot


def _place(files: FakeFiles, path: str, node: bytes | str | Link | Folder | None) -> None:
    if node is None:
        files.remove(path)
    else:
        files.place(path, node.encode() if isinstance(node, str) else node)


def _added(sandbox: FakeSandbox, name: str, files: FakeFiles) -> str:
    return sandbox.add_image(name, files.copy()._nodes)


# --- programs ---------------------------------------------------------------------------------------------


def elf(
    *,
    needed: tuple[str, ...] = ("libc.so.6",),
    names: tuple[str, ...] = (),
    loader: str = "/lib64/ld-linux-x86-64.so.2",
    runpath: str = "",
    body: bytes = b"",
    tags: tuple[int, ...] = (),
) -> bytes:
    """A file that is an ELF program as far as its headers go.

    Args:
        needed: libraries that it needs.
        names: symbols that it has or wants.
        loader: its dynamic loader; empty: none.
        runpath: where its libraries are looked for first.
        body: what else it holds.
        tags: further tags of its dynamic section, each with the first needed library's name as value.
    """
    strings = b"\0"
    places = {}
    for text in (*needed, *names, runpath):
        places[text] = len(strings)
        strings += text.encode() + b"\0"
    dynamic = [(1, places[name]) for name in needed] + [(tag, places[needed[0]]) for tag in tags]
    dynamic += [(29, places[runpath])] if runpath else []
    start = 64 + 3 * 56
    interp = loader.encode() + b"\0" if loader else b""
    at_strings = start + len(interp)
    at_dynamic = at_strings + len(strings)
    dynamic += [(5, at_strings), (10, len(strings)), (0, 0)]
    table = b"".join(struct.pack("<qQ", tag, value) for tag, value in dynamic)
    size = at_dynamic + len(table) + len(body)

    def segment(kind: int, offset: int, length: int) -> bytes:
        return struct.pack("<IIQQQQQQ", kind, 4, offset, offset, offset, length, length, 1)

    segments = (
        segment(1, 0, size) + segment(2, at_dynamic, len(table)) + segment(3 if loader else 0, start, len(interp))
    )
    header = b"\x7fELF\x02\x01\x01" + bytes(9)
    header += struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 0, 0, 64, 56, 3, 0, 0, 0)
    return header + segments + interp + strings + table + body


def python_elf(version: str = "3.11", **options: object) -> bytes:
    """A file that has what tells a Python that is linked statically."""
    tag = f"\0cpython-{version.replace('.', '')}\0".encode()
    names = tuple(f"PyObject_Function{number}" for number in range(1200))
    needed = ("libm.so.6", "libz.so.1", "libexpat.so.1", "libc.so.6")
    return elf(**{"needed": needed, "names": names, "body": tag, **options})  # type: ignore[arg-type]


# --- packages ---------------------------------------------------------------------------------------------


def md5(*files: tuple[str, bytes]) -> bytes:
    """What dpkg's list of MD5 sums says of files."""
    return b"".join(
        f"{hashlib.md5(content, usedforsecurity=False).hexdigest()}  {path.lstrip('/')}\n".encode()
        for path, content in files
    )


def record(files: Mapping[str, bytes | str]) -> str:
    """Lines of a RECORD."""
    lines = []
    for path, content in files.items():
        raw = content.encode() if isinstance(content, str) else content
        digest = base64.urlsafe_b64encode(hashlib.sha256(raw).digest()).rstrip(b"=").decode()
        lines.append(f"{path},sha256={digest},{len(raw)}\n")
    return "".join(lines)


def distribution(site: str, name: str, files: Mapping[str, bytes | str], version: str = "1.0") -> dict[str, bytes]:
    """A distribution as pip installs it: its files, and what says so.

    Args:
        site: the site folder.
        name: its name.
        files: what it holds, by path in the site folder.
        version: its version.
    """
    info = f"{name.replace('-', '_')}-{version}.dist-info"
    metadata = {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: bdist_wheel\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/INSTALLER": "pip\n",
    }
    every = {**files, **metadata}
    listed = record(every) + f"{info}/RECORD,,\n"
    return {
        f"{site}/{path}": content.encode() if isinstance(content, str) else content
        for path, content in {**every, f"{info}/RECORD": listed}.items()
    }


# --- images -----------------------------------------------------------------------------------------------

_PYTHON = python_elf()
_LIBRARY = "/usr/lib/x86_64-linux-gnu"
_LIBC, _LIBM, _LIBZ, _EXPAT, _LOADER = (elf(body=name) for name in (b"libc", b"libm", b"libz", b"expat", b"loader"))
_SHELL, _GIT = elf(body=b"dash"), elf(body=b"git")
#: Debian's own `site.py`, as far as it matters: where it looks.
_SITE_PY = b'# "local/lib" "dist-packages"\n'
_SITECUSTOMIZE = b"try:\n    import apport_python_hook\nexcept ImportError:\n    pass\n"

_STDLIB = {
    f"/usr/lib/python3.11/{name}": content
    for name, content in {
        "os.py": b"# os\n",
        "site.py": _SITE_PY,
        "json/__init__.py": b"# json\n",
        "encodings/__init__.py": b"# encodings\n",
    }.items()
}
_OWNED = {
    "python3.11-minimal": {"/usr/bin/python3.11": _PYTHON},
    "libpython3.11-minimal": {**_STDLIB},
    "libc6": {
        f"/lib{_LIBRARY.removeprefix('/usr/lib')}/libc.so.6": _LIBC,
        f"/lib{_LIBRARY.removeprefix('/usr/lib')}/libm.so.6": _LIBM,
        "/lib64/ld-linux-x86-64.so.2": _LOADER,
    },
    "zlib1g": {f"{_LIBRARY}/libz.so.1": _LIBZ},
    "libexpat1": {f"{_LIBRARY}/libexpat.so.1": _EXPAT},
    "dash": {"/bin/dash": _SHELL},
    "git": {"/usr/bin/git": _GIT},
    "python3-setuptools": {"/usr/lib/python3/dist-packages/distutils-precedence.pth": b"import os\n"},
}

#: What dpkg says of its packages.
STATUS = "".join(f"Package: {name}\nStatus: install ok installed\nVersion: 1.0\n\n" for name in _OWNED)

#: A small Debian with Python 3.11, with merged /usr.
DEBIAN: dict[str, bytes | str | Link | Folder | None] = {
    "/usr/bin": Folder(),
    "/usr/sbin": Folder(),
    "/usr/lib": Folder(),
    "/usr/lib64": Folder(),
    "/bin": Link("usr/bin"),
    "/sbin": Link("usr/sbin"),
    "/lib": Link("usr/lib"),
    "/lib64": Link("usr/lib64"),
    "/usr/local/bin": Folder(),
    "/usr/local/lib/python3.11/dist-packages": Folder(),
    "/root": Folder(),
    **{path: content for files in _OWNED.values() for path, content in files.items()},
    "/usr/bin/python3": Link("python3.11"),
    "/usr/bin/sh": Link("dash"),
    "/usr/lib/python3.11/lib-dynload/_json.cpython-311-x86_64-linux-gnu.so": elf(loader=""),
    "/usr/lib/python3.11/sitecustomize.py": Link("/etc/python3.11/sitecustomize.py"),
    "/etc/python3.11/sitecustomize.py": _SITECUSTOMIZE,
    "/var/lib/dpkg/status": STATUS,
    **{f"/var/lib/dpkg/info/{name}.md5sums": md5(*files.items()) for name, files in _OWNED.items()},
}

#: A virtual environment of Debian's Python.
VENV: dict[str, bytes | str | Link | Folder | None] = {
    "/opt/venv/bin/python": Link("python3"),
    "/opt/venv/bin/python3": Link("/usr/bin/python3"),
    "/opt/venv/pyvenv.cfg": "home = /usr/bin\ninclude-system-site-packages = false\nversion = 3.11.2\n",
    "/opt/venv/lib/python3.11/site-packages": Folder(),
}

#: Its site folder.
SITE = "/opt/venv/lib/python3.11/site-packages"
