"""The system's programs and libraries are those that its packages installed. No Docker."""

from __future__ import annotations

import struct

import pytest

from pytest_researchenv.integrity.protocol import Signs
from pytest_researchenv.integrity.system import system
from pytest_researchenv.model import Sign
from pytest_researchenv.sandbox.fake import Folder, Link
from tests.unit.integrity.images import DEBIAN, STATUS, Nodes, elf, md5, opened_image, python_elf


LIB = "/usr/lib/x86_64-linux-gnu"
EVIL = elf(body=b"evil")


def cache(*entries: tuple[str, str], old: bool = False) -> bytes:
    """A cache of the dynamic loader, as ldconfig writes it."""
    strings, places = b"", []
    start = 48 + 24 * len(entries)
    for entry in entries:
        for text in entry:
            places.append(start + len(strings))
            strings += text.encode() + b"\0"
    table = struct.pack("<20sIIB3xI12x", b"glibc-ld.so.cache1.1", len(entries), len(strings), 2, 0)
    for index in range(len(entries)):
        table += struct.pack("<iIIIQ", 0x303, places[2 * index], places[2 * index + 1], 0, 0)
    return (b"ld.so-1.7.0\0\1\0\0\0" + bytes(16) if old else b"") + table + strings


def signs(nodes: Nodes, base: Nodes | None = None) -> Signs:
    """What is seen of an image."""
    with opened_image(nodes, base=base) as (task, snapshot):
        return system(task, snapshot)


def fields(nodes: Nodes, base: Nodes | None = None) -> list[str]:
    """What findings are about."""
    found = signs(nodes, base).findings
    assert {finding.kind for finding in found} <= {Sign.SYSTEM}
    return sorted(finding.field for finding in found)


#: Another package, and git in a newer version.
INSTALLED: Nodes = {
    "/usr/bin/htop": EVIL,
    "/usr/bin/git": EVIL,
    f"{LIB}/libnl.so.3": EVIL,
    "/usr/lib/systemd/system/htop.service": "x",
    "/var/lib/dpkg/status": STATUS.replace(
        "Package: git\nStatus: install ok installed\nVersion: 1.0",
        "Package: git\nStatus: install ok installed\nVersion: 1.1",
    )
    + "Package: htop\nStatus: install ok installed\nArchitecture: amd64\nVersion: 3\n\n",
    "/var/lib/dpkg/info/git.md5sums": md5(("/usr/bin/git", EVIL)),
    "/var/lib/dpkg/info/htop:amd64.md5sums": md5(("/usr/bin/htop", EVIL), (f"/lib/{LIB[9:]}/libnl.so.3", EVIL)),
}


@pytest.mark.parametrize(
    "nodes",
    [
        {},
        INSTALLED,
        {"/usr/bin/git": None, "/usr/lib/x86_64-linux-gnu/libexpat.so.1": None},
        {
            "/usr/bin/git": DEBIAN["/usr/bin/git"],
            "/usr/lib/x": "",
            "/usr/bin/own": "#!/bin/sh\n",
            f"{LIB}/libown.so": EVIL,
        },
        {"/usr/lib/python3.11/os.py": "x", "/usr/lib/python3/dist-packages/__pycache__/x.pyc": "x"},
        {"/usr/local/bin/git": "#!/bin/sh\n", "/usr/local/lib/libc.so.6": EVIL, "/opt/lib/libc.so.6": EVIL},
        {"/usr/bin/python3": Link("/opt/venv/bin/python"), "/opt/venv/bin/python": EVIL},
        {"/usr/bin/python3": Link("git"), "/usr/bin/sh": Link("git")},
        {"/usr/bin/sh": DEBIAN["/bin/dash"]},
        {"/etc/ld.so.cache": cache(("libc.so.6", f"{LIB}/libc.so.6"), ("libz.so.1", f"/lib{LIB[8:]}/libz.so.1"))},
        {"/etc/ld.so.cache": cache(("libcudart.so.12", "/usr/local/cuda/lib64/libcudart.so.12"))},
        {"/etc/ld.so.cache": cache(("libc.so.6", "/nowhere/libc.so.6"))},
        {
            "/etc/ld.so.cache": cache(("libsqlite3.so.0", "/usr/local/lib/libsqlite3.so.0")),
            "/usr/local/lib/libsqlite3.so.0": EVIL,
            f"{LIB}/libsqlite3.so.0": EVIL,
        },
    ],
)
def test_honest_changes(nodes: Nodes) -> None:
    """Packages that come, go and are upgraded; people's own files beside them; links between genuine programs."""
    assert signs(nodes).findings == ()


@pytest.mark.parametrize(
    "path",
    ["/usr/bin/git", f"{LIB}/libc.so.6", "/usr/bin/dash", "/usr/lib64/ld-linux-x86-64.so.2", f"{LIB}/libz.so.1"],
)
def test_a_changed_file(path: str) -> None:
    """Whatever dpkg's records say of it now, where its package was not upgraded."""
    assert fields({path: EVIL}) == [path]
    for name in ("git", "libc6", "dash", "zlib1g"):
        record = f"/var/lib/dpkg/info/{name}.md5sums"
        assert fields({path: EVIL, record: md5((path, EVIL))}) == [path]
        assert fields({path: EVIL, record: None}) == [path]
    gone = {"/var/lib/dpkg/status": "", "/var/lib/dpkg/info": None}
    assert path in fields({path: EVIL, **gone})


@pytest.mark.parametrize("name", ["ossl-modules/forged.so", "engines-3/forged.so", "engines-1.1/forged.so"])
def test_a_library_that_openssl_loads_by_its_name(name: str) -> None:
    """No package has it; one line of configuration is enough."""
    assert fields({f"{LIB}/{name}": EVIL}) == [f"{LIB}/{name}"]


@pytest.mark.parametrize("path", ["/usr/bin/htop", "/usr/bin/git", f"{LIB}/libnl.so.3"])
def test_a_file_of_a_package_that_came_later(path: str) -> None:
    """It is compared with what dpkg recorded then."""
    assert fields({**INSTALLED, path: elf(body=b"edited")}) == [path]


@pytest.mark.parametrize(
    ("nodes", "path"),
    [
        ({"/usr/bin/sh": EVIL}, "/usr/bin/sh"),
        ({"/usr/bin/sh": Link("/opt/sh"), "/opt/sh": EVIL}, "/usr/bin/sh"),
        ({"/usr/bin/git": Link("/opt/git"), "/opt/git": "#!/bin/sh\n"}, "/usr/bin/git"),
        ({LIB: Link("/opt/lib"), "/opt/lib/libc.so.6": DEBIAN[f"/lib{LIB[8:]}/libc.so.6"]}, LIB),
        ({"/lib": Link("/opt/lib"), "/opt/lib": Folder()}, "/lib"),
        ({"/bin": Link("/opt/bin"), "/opt/bin/sh": EVIL}, "/bin"),
        ({"/usr/bin": None}, "/usr/bin"),
        ({"/etc/alternatives/cc": Link("/opt/cc"), "/opt/cc": EVIL}, "/etc/alternatives/cc"),
        ({"/etc/alternatives/cc": EVIL}, "/etc/alternatives/cc"),
    ],
)
def test_something_else_in_the_place_of_a_link_or_a_folder(nodes: Nodes, path: str) -> None:
    """Or a link in the place of a file."""
    base = {**DEBIAN, "/etc/alternatives/cc": Link("/usr/bin/git")}
    assert path in fields(nodes, base)


def test_a_link_that_people_choose_is_told() -> None:
    """It is nobody's fault: `shadows` looks at the commands that matter."""
    base = {**DEBIAN, "/usr/bin/cmake": DEBIAN["/usr/bin/git"]}
    found = signs({"/usr/bin/cmake": Link("/opt/venv/bin/cmake"), "/opt/venv/bin/cmake": EVIL}, base)

    assert found.findings == ()
    assert found.remarks == ("/usr/bin/cmake is a link to /opt/venv/bin/cmake",)


@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize("name", ["libc.so.6", "libm.so.6", "libz.so.1", "libexpat.so.1"])
def test_a_library_that_the_loader_takes_first(name: str, old: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """One that every program loads, or the interpreter, from a folder that no package filled."""
    table = cache(("libx.so", "/opt/libx.so"), (name, f"/opt/evil/{name}"), (name, f"{LIB}/{name}"), old=old)

    assert fields({"/etc/ld.so.cache": table, f"/opt/evil/{name}": EVIL}) == [f"/opt/evil/{name}"]
    linked: Nodes = {f"/opt/evil/{name}": Link("real.so"), "/opt/evil/real.so": EVIL}
    assert fields({"/etc/ld.so.cache": table, **linked}) == ["/opt/evil/real.so"]


@pytest.mark.parametrize("target", ["/proc/self/root/opt/evil.so", "/proc/self/cwd/evil.so", "/dev/fd/3"])
def test_a_library_that_only_a_process_finds(target: str) -> None:
    """In the place of the system's own, or in the loader's cache."""
    path = f"{LIB}/libz.so.1"
    table = cache(("libz.so.1", target), ("libz.so.1", path))

    assert fields(
        {path: Link(target), "/opt/evil.so": EVIL}, {**DEBIAN, path: Link("libz.so.1.2"), f"{path}.2": EVIL}
    ) == [path]
    assert fields({"/etc/ld.so.cache": table, "/opt/evil.so": EVIL}) == [target]


@pytest.mark.parametrize("name", ["ossl-modules/evil.so", "engines-3/evil.so", "gconv/EVIL.so"])
@pytest.mark.parametrize("target", ["/opt/evil.so", "/proc/self/root/opt/evil.so"])
def test_a_link_where_libraries_are_loaded_by_name(name: str, target: str) -> None:
    """A link is as good as a file there. One to what a package has, or to nothing, is none."""
    path = f"{LIB}/{name}"

    assert fields({path: Link(target), "/opt/evil.so": EVIL}) == [path]
    assert fields({path: Link(f"{LIB}/libz.so.1")}) == fields({path: Link("/opt/gone.so")}) == []


def test_a_library_by_a_relative_path() -> None:
    """It is another one wherever a process runs."""
    table = cache(("libother.so.1", "./libother.so.1"), ("libz.so.1", f"{LIB}/libz.so.1"))

    assert fields({"/etc/ld.so.cache": table}) == ["/etc/ld.so.cache"]


def test_a_package_that_came_later_has_no_library_elsewhere() -> None:
    """Its records are root's to write, and packages of the system have nothing in /usr/local."""
    path = "/usr/local/lib/libz.so.1"
    table = cache(("libz.so.1", path), ("libz.so.1", f"{LIB}/libz.so.1"))
    package: Nodes = {
        "/var/lib/dpkg/status": f"{STATUS}Package: fast\nStatus: install ok installed\nVersion: 1\n\n",
        "/var/lib/dpkg/info/fast.md5sums": md5((path, EVIL)),
    }

    assert fields({"/etc/ld.so.cache": table, path: EVIL, **package}) == [path]


@pytest.mark.parametrize(
    "path",
    [
        f"{LIB}/glibc-hwcaps/x86-64-v3/libc.so.6",
        "/usr/lib/libm.so.6",
        f"{LIB}/tls/libz.so.1",
        f"{LIB}/libnss_evil.so.2",
        f"{LIB}/libnss_for-ged.so.2",
        f"{LIB}/libnss_a b.so.2",
    ],
)
def test_a_library_that_hides_beside_the_systems(path: str) -> None:
    """The loader looks there first, or the name service asks it."""
    assert fields({path: EVIL}) == [path]


def test_a_name_service_that_is_called_by_a_way_to_a_library() -> None:
    """Its name becomes a part of a path."""
    services = "/etc/nsswitch.conf"

    assert fields({services: "# see /usr/share/doc\npasswd: files systemd [NOTFOUND=return]\n"}) == []
    assert fields({services: "passwd: files /../../opt/evil\n"}) == [services]


def built(library: str, version: str, *, names: int = 100, **options: object) -> bytes:
    """A library of OpenSSL or SQLite, as far as can be told."""
    every = tuple(f"{library}_function{number}" for number in range(names))
    text = f"\0OpenSSL {version} 1 Jan 2025\0" if library == "crypto" else f"\0{version}\0"
    return elf(**{"names": every, "body": text.encode(), "loader": "", **options})  # type: ignore[arg-type]


def with_extensions() -> dict[str, bytes | str | Link | Folder | None]:
    """A base image whose standard library has modules that need libraries of their own."""
    folder = "/usr/lib/python3.11/lib-dynload"
    return {
        **DEBIAN,
        f"{folder}/_hashlib.so": elf(needed=("libcrypto.so.3", "libc.so.6"), loader=""),
        f"{folder}/_sqlite3.so": elf(needed=("libsqlite3.so.0",), loader=""),
        f"{folder}/_curses.so": elf(needed=("libncursesw.so.6",), loader=""),
        f"{LIB}/libcrypto.so.3": built("crypto", "3.0.17"),
        f"{LIB}/libsqlite3.so.0": built("sqlite3", "3.40.1"),
        f"{LIB}/libncursesw.so.6": elf(needed=("libtinfo.so.6",), loader=""),
        f"{LIB}/libtinfo.so.6": elf(loader=""),
        f"{LIB}/libother.so.1": elf(loader=""),
    }


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("libcrypto.so.3", built("crypto", "3.5.1"), ""),
        ("libcrypto.so.3", built("crypto", "3.5.1", names=70, needed=("libz.so.1", "libdl.so.2", "libc.so.6")), ""),
        ("libsqlite3.so.0", built("sqlite3", "3.45.0", needed=("libm.so.6", "libz.so.1", "libc.so.6")), ""),
        ("libother.so.1", EVIL, ""),
        ("libcrypto.so.3", EVIL, ": it lacks most of what the system's has"),
        ("libcrypto.so.3", built("crypto", "3.5.1", names=50), ": it lacks most of what the system's has"),
        ("libcrypto.so.3", built("crypto", "3.5.1", needed=("libCrypto.so.3",)), ": it needs libCrypto.so.3"),
        ("libcrypto.so.3", built("crypto", "3.5.1", runpath="/opt"), ": it has others loaded"),
        ("libcrypto.so.3", built("crypto", "3.0.17"), ": it is not later than the system's"),
        ("libcrypto.so.3", built("crypto", "3.0.9"), ": it is not later than the system's"),
        ("libcrypto.so.3", built("crypto", "none"), ": it is not later than the system's"),
        ("libcrypto.so.3", b"no library", ": it is no library"),
        ("libsqlite3.so.0", built("sqlite3", "3.40.1"), ": it is not later than the system's"),
        ("libncursesw.so.6", elf(loader=""), ""),
        ("libtinfo.so.6", elf(loader=""), ""),
    ],
)
def test_a_library_that_modules_of_the_standard_library_need(name: str, content: bytes, words: str) -> None:
    """One of those that people build anew is later, and has all in itself; no other is built for a Python."""
    path = f"/usr/local/lib/{name}"
    nodes: Nodes = {path: content, "/etc/ld.so.cache": cache((name, path), (name, f"{LIB}/{name}"))}

    found = signs(nodes, with_extensions())

    told = bool(words) or name in ("libncursesw.so.6", "libtinfo.so.6")
    assert [finding.field for finding in found.findings] == ([path] if told else [])
    assert not told or found.findings[0].observed.endswith(words or "that programs load")
    assert len(found.remarks) == (not told and name != "libother.so.1")
    assert signs({path: content}, with_extensions()).findings == ()


def test_endless_links_and_libraries_end() -> None:
    """Only so many are followed, and that there are more is a sign."""
    base = {**DEBIAN, **{f"{LIB}/f{number}": "x" for number in range(600)}}
    links: Nodes = {f"{LIB}/f{number}": Link("/opt/x") for number in range(600)}
    assert signs({**links, "/opt/x": "x"}, base).findings[0].observed == "one of 600 links"
    assert signs({f"/usr/lib/{number}/libc.so.6": EVIL for number in range(600)}).findings


def test_conda_owns_its_libraries() -> None:
    """As far as it recorded them, and where the interpreter is its own: else the record may be anybody's."""
    import hashlib  # noqa: PLC0415 - for this test alone.
    import json  # noqa: PLC0415 - likewise.

    paths = [{"_path": "lib/libz.so.1", "sha256_in_prefix": hashlib.sha256(EVIL).hexdigest()}]
    nodes: dict[str, bytes | str | Link | Folder | None] = {
        "/etc/ld.so.cache": cache(("libz.so.1", "/opt/conda/lib/libz.so.1"), ("libz.so.1", f"{LIB}/libz.so.1")),
        "/opt/conda/lib/libz.so.1": EVIL,
        "/opt/conda/conda-meta/history": "",
        "/opt/conda/conda-meta/zlib-1.3-0.json": json.dumps({"paths_data": {"paths": paths}}),
    }
    assert fields(nodes) == ["/opt/conda/lib/libz.so.1"]
    python = python_elf()
    paths.append({"_path": "bin/python3.11", "sha256_in_prefix": hashlib.sha256(python).hexdigest()})
    nodes |= {
        "/opt/conda/bin/python3.11": python,
        "/opt/conda/lib/python3.11/os.py": "",
        "/opt/conda/conda-meta/python-3.11.9-0.json": json.dumps({"paths_data": {"paths": paths}}),
    }
    with opened_image(nodes, python="/opt/conda/bin/python3.11") as found:
        assert system(*found).findings == ()
    nodes |= {"/opt/conda/lib/libz.so.1": elf(body=b"other")}
    with opened_image(nodes, python="/opt/conda/bin/python3.11") as found:
        assert [finding.field for finding in system(*found).findings] == ["/opt/conda/lib/libz.so.1"]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"x" * 100,
        b"glibc-ld.so.cache1.1",
        cache(("libc.so.6", "/opt/libc.so.6"))[:60],
        b"glibc-ld.so.cache1.1\xff\xff\xff\xff" * 20,
    ],
)
def test_a_cache_that_cannot_be_read(content: bytes) -> None:
    """Nobody knows what the loader would make of it."""
    assert [finding.kind for finding in signs({"/etc/ld.so.cache": content}).findings] == [Sign.UNREADABLE]


def test_the_table_that_the_loader_reads_is_the_one_that_counts() -> None:
    """What looks like another one, among the entries of the old format, is none."""
    decoy = cache(("libz.so.1", f"{LIB}/libz.so.1"))
    decoy += bytes(-len(decoy) % 24)
    table = cache(("libz.so.1", "/opt/evil/libz.so.1"), ("libz.so.1", f"{LIB}/libz.so.1"))
    old = b"ld.so-1.7.0\0" + struct.pack("<I", len(decoy) // 12)

    nodes: Nodes = {"/etc/ld.so.cache": old + decoy + table, "/opt/evil/libz.so.1": EVIL}
    assert fields(nodes) == ["/opt/evil/libz.so.1"]


def test_without_a_cache_the_loader_looks_elsewhere() -> None:
    """In folders for newer processors first: also for what only modules of the standard library need."""
    extension = "/usr/lib/python3.11/lib-dynload/_hashlib.cpython-311-x86_64-linux-gnu.so"
    base = {
        **DEBIAN,
        extension: elf(needed=("libcrypto.so.3",), loader=""),
        f"{LIB}/libcrypto.so.3": elf(loader=""),
        "/etc/ld.so.cache": cache(("libcrypto.so.3", f"{LIB}/libcrypto.so.3")),
    }
    newer = f"{LIB}/glibc-hwcaps/x86-64-v2/libcrypto.so.3"

    assert fields({newer: EVIL}, base) == []
    assert fields({"/etc/ld.so.cache": None}, base) == []
    assert fields({newer: EVIL, "/etc/ld.so.cache": None}, base) == [newer]


@pytest.mark.parametrize("name", ["gconv-modules.cache", "gconv-modules.d/x.conf", "gconv-modules", "EVIL.so"])
def test_what_converts_text_in_every_program(name: str) -> None:
    """The C library loads it as soon as a program sets its locale."""
    path = f"{LIB}/gconv/{name}"

    assert fields({path: "x"}) == [path]
    assert fields({path: "x"}, {**DEBIAN, path: "other"}) == [path]
    assert fields({}, {**DEBIAN, path: "other"}) == []
    assert fields({f"{LIB}/gdk-pixbuf-2.0/loaders.cache": "x"}) == []


def test_a_cache_with_endless_entries_ends() -> None:
    """So many libraries no system has."""
    table = bytearray(cache(("libc.so.6", f"{LIB}/libc.so.6")))
    table[20:24] = b"\xff\xff\xff\xff"

    assert [finding.kind for finding in signs({"/etc/ld.so.cache": bytes(table)}).findings] == [Sign.UNREADABLE]


@pytest.mark.parametrize("folder", ["/usr/bin/p{}", "/usr/lib/{}/libx.so", "/usr/lib/x/y/{}/libx.so"])
def test_many_changes_are_counted(folder: str) -> None:
    """Not listed; and however they are spread, they are read together."""
    many = {folder.format(number): EVIL for number in range(500)}
    records = md5(*((path, b"other") for path in many))
    nodes: Nodes = {
        **many,
        "/var/lib/dpkg/status": STATUS + "Package: many\nStatus: install ok installed\nVersion: 3\n\n",
        "/var/lib/dpkg/info/many.md5sums": records,
    }
    found = signs(nodes).findings

    assert len(found) == 21
    assert found[-1].field == "480 more"
