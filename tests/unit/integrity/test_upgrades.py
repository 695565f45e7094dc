"""Packages that an agent upgraded or installed are those that their archive has. No Docker."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from pytest_researchenv._apt import Source
from pytest_researchenv.integrity.archives import Archive, Package, Unpublished
from pytest_researchenv.integrity.protocol import Signs
from pytest_researchenv.integrity.published import Unknown
from pytest_researchenv.integrity.system import system
from pytest_researchenv.integrity.upgrades import upgrades
from pytest_researchenv.model import Sign
from pytest_researchenv.probes.protocol import Tree
from tests.unit.integrity.images import DEBIAN, STATUS, Nodes, elf, md5, opened_image


LIB = "/usr/lib/x86_64-linux-gnu"
LIBZ = f"{LIB}/libz.so.1"
NEWER = elf(body=b"newer")
EVIL = elf(body=b"evil")
MADE = datetime(2025, 3, 1, tzinfo=UTC)
MAIN = Source("http://archive.example/debian", "stable", ("main",))
APT: Nodes = {
    "/etc/apt/sources.list": "deb http://archive.example/debian stable main\n",
    "/etc/apt/sources.list.d/more.sources": "Types: deb\nURIs: https://more.example/\nSuites: one\nComponents: main\n",
    "/etc/apt/trusted.gpg.d/archive.gpg": "key",
    "/usr/share/keyrings/archive.gpg": "key",
    "/usr/share/keyrings/other.gpg": "other",
}


@dataclass
class Known:
    """An archive that has some packages, and is asked for them.

    Attributes:
        packages: name and version → its files.
        otherwise: what it says of all others.
        asked: what it was asked for.
        of_archive: which repositories were named.
    """

    packages: Mapping[tuple[str, str], Mapping[str, bytes]] = field(default_factory=dict)
    otherwise: Unpublished | Unknown = field(default_factory=lambda: Unpublished("they have 1.0", known=True))
    asked: list[str] = field(default_factory=list)
    of_archive: list[Archive] = field(default_factory=list)

    def of(self, archive: Archive, package: Package) -> Mapping[str, str] | Unpublished | Unknown:
        """The files of a package."""
        self.asked.append(f"{package.name} {package.version} {package.architecture}")
        self.of_archive.append(archive)
        files = self.packages.get((package.name, package.version))
        if files is None:
            return self.otherwise
        return {path: hashlib.sha256(content).hexdigest() for path, content in files.items()}


def installed(name: str, version: str, files: Mapping[str, bytes]) -> Nodes:
    """A package with records that fit its files, in the place of the base image's version of it."""
    status = "".join(
        paragraph + "\n\n" for paragraph in STATUS.split("\n\n") if paragraph and f"Package: {name}\n" not in paragraph
    )
    about = f"Package: {name}\nStatus: install ok installed\nArchitecture: amd64\nVersion: {version}\n\n"
    return {**files, "/var/lib/dpkg/status": status + about, f"/var/lib/dpkg/info/{name}.md5sums": md5(*files.items())}


def looked(
    nodes: Nodes,
    known: Known,
    *,
    network: str = "open",
    requests: Path | None = None,
    tree: Path | None = None,
) -> Signs:
    """What is seen of an image."""
    with opened_image(nodes, base={**DEBIAN, **APT}) as (task, snapshot):
        environment = replace(task.environment, created=MADE.isoformat(), inputs={"network": network})
        files = Tree(tree, ("run.py",), "digest") if tree else task.tree
        return upgrades(replace(task, environment=environment, records=requests, tree=files), snapshot, known)


UPGRADED = installed("zlib1g", "1.1", {LIBZ: NEWER})


def test_what_nobody_touched_is_not_asked_about() -> None:
    """Nor what is the base image's in another way."""
    known = Known()
    assert looked({}, known) == Signs()
    assert looked({"/usr/local/lib/libz.so.1": EVIL, "/usr/bin/own": "#!/bin/sh\n"}, known) == Signs()
    assert known.asked == []


def test_an_upgrade_that_its_archive_has() -> None:
    """Its files are where folders lead to; keys and repositories are the base image's."""
    known = Known({("zlib1g", "1.1"): {"/lib/x86_64-linux-gnu/libz.so.1": NEWER}})

    assert looked(UPGRADED, known) == Signs()
    assert known.asked == ["zlib1g 1.1 amd64"]
    assert known.of_archive[0] == Archive(
        (MAIN, Source("https://more.example/", "one", ("main",))), (b"key", b"other"), ""
    )


@pytest.mark.parametrize(
    ("published", "words"),
    [({LIBZ: EVIL}, "its content differs"), ({f"{LIB}/libz.so.2": NEWER}, "a file that it does not have")],
)
def test_an_upgrade_that_differs_from_its_archives(published: dict[str, bytes], words: str) -> None:
    """Records that fit are no help."""
    (finding,) = looked(UPGRADED, Known({("zlib1g", "1.1"): published})).findings

    assert (finding.kind, finding.field, finding.observed) == (Sign.SYSTEM, LIBZ, words)


def test_an_upgrade_that_nobody_published() -> None:
    """No archive has it, and none that could is configured."""
    (finding,) = looked(UPGRADED, Known()).findings

    assert (finding.kind, finding.field) == (Sign.SYSTEM, "the package zlib1g 1.1")


def test_where_no_archive_answers_the_records_are_believed() -> None:
    """And it is said so."""
    signs = looked(UPGRADED, Known(otherwise=Unknown("no answer")))

    assert (signs.findings, signs.remarks) == ((), ("zlib1g 1.1 is as its own records say: no answer",))


@pytest.mark.parametrize(
    ("since", "told"),
    [(None, False), (MADE - timedelta(days=1), True), (MADE + timedelta(hours=1), False)],
)
def test_a_later_version_may_have_taken_its_place(since: datetime | None, *, told: bool) -> None:
    """Unless it was there before the environment was made."""
    signs = looked(UPGRADED, Known(otherwise=Unpublished("gone", known=True, later=True, since=since)))

    assert bool(signs.findings) is told
    assert bool(signs.remarks) is not told


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({f"{LIB}/libown.so.1": EVIL}, False),
        ({f"{LIB}/glibc-hwcaps/x86-64-v3/libz.so.1": EVIL}, True),
        ({f"{LIB}/glibc-hwcaps/x86-64-v3/libown.so.1": EVIL}, False),
        ({"/usr/lib/python3/dist-packages/own.py": b"A = 1\n"}, False),
        ({LIBZ: EVIL}, True),
    ],
)
def test_a_package_of_nobodys(files: dict[str, bytes], *, told: bool) -> None:
    """People build packages; what one puts in the place of the system's files, or before them, is not theirs."""
    nodes = dict(installed("fast", "1.1", files))
    if LIBZ in files:
        nodes["/var/lib/dpkg/status"] = str(nodes["/var/lib/dpkg/status"]).replace(
            "Package: zlib1g\n", "Package: none\n"
        )
    known = Known(otherwise=Unpublished("they have nothing of that name"))

    signs = looked(nodes, known)

    assert (bool(signs.findings), bool(signs.remarks)) == (told, not told)


def test_packages_of_python_are_asked_about() -> None:
    """What probes import, and what runs at start; not what is neither code nor in the place of anything."""
    site = "/usr/lib/python3/dist-packages"
    nodes = installed("python3-dep", "2.0", {f"{site}/dep.py": b"A = 1\n", f"{site}/dep.pth": b"import os\n"})
    data = installed("data", "2.0", {f"{site}/data.txt": b"x", "/usr/share/x": b"x", "/usr/bin/tool": EVIL})

    (finding,) = looked(nodes, Known({("python3-dep", "2.0"): {f"{site}/dep.py": b"A = 1\n"}})).findings
    assert finding.field == f"{site}/dep.pth"
    known = Known()
    assert looked(data, known) == Signs()
    assert known.asked == []


@pytest.mark.parametrize(
    ("uses", "path", "size", "line", "told"),
    [
        ("import dep\n", "dep.py", 10, "", True),
        ("import dep.part\n", "dep/part.py", 10, "", True),
        ("import dep\n", "dep.cpython-311-x86_64-linux-gnu.so", 10, "", True),
        ("import other\n", "dep.py", 10, "", False),
        ("import dep\n", "dep.so", 300_000, "", False),
        ("import dep\n", "dep.py", 10, "deb https://other.example/x one main\n", False),
    ],
)
def test_a_package_that_nobody_has_and_that_is_imported(
    tmp_path: Path, uses: str, path: str, size: int, line: str, *, told: bool
) -> None:
    """It stands in for what the repository needs, unless it is large, or may have come from another repository."""
    (tmp_path / "run.py").write_text(uses)
    site = "/usr/lib/python3/dist-packages"
    nodes = {
        **installed("python3-dep", "1.0", {f"{site}/{path}": b"#" * size}),
        "/etc/apt/sources.list.d/other.list": line,
    }
    known = Known(otherwise=Unpublished("they have nothing of that name"))

    signs = looked(nodes, known, tree=tmp_path)

    assert [finding.kind for finding in signs.findings] == [Sign.STUB] * told
    assert (list(signs.modules), bool(signs.remarks)) == (["dep"] * told, not told)


def test_a_file_that_an_upgrade_dropped_is_nobodys() -> None:
    """Records of a forged upgrade may leave out what was exchanged: then the base image's are asked."""
    nodes = {**installed("zlib1g", "1.1", {f"{LIB}/libother.so": NEWER}), LIBZ: EVIL}

    with opened_image(nodes) as (task, snapshot):
        assert LIBZ in {finding.field for finding in system(task, snapshot).findings}


# --- other repositories -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "network", "host", "told"),
    [
        ("deb https://other.example/x one main", "open", "", False),
        ("deb https://other.example/x one main", "allowlist other.example", "other.example", False),
        ("deb https://other.example/x one main", "allowlist other.example", "mirror.other.example", False),
        ("deb https://other.example/x one main", "allowlist other.example", "archive.example", True),
        ("deb https://other.example/x one main", "none", "", True),
        ("deb http://archive.example/debian another main", "open", "", True),
        ("deb file:/opt/x ./", "open", "", True),
        ("deb http://[ ./", "open", "", True),
        ("# deb https://other.example/x one main", "open", "", True),
    ],
)
def test_a_repository_that_cannot_be_asked(tmp_path: Path, line: str, network: str, host: str, *, told: bool) -> None:
    """It may have what no other has, where the agent really got something from it, or nobody wrote down what it got."""
    said = {"kind": "egress", "method": "GET", "host": host, "path": "/", "allowed": True}
    (tmp_path / "requests.jsonl").write_text(json.dumps(said) + "\n")
    nodes: Nodes = {**UPGRADED, "/etc/apt/sources.list.d/other.list": f"{line}\n"}

    signs = looked(nodes, Known(), network=network, requests=tmp_path)

    assert (bool(signs.findings), bool(signs.remarks)) == (told, not told)


def test_other_suites_of_a_known_repository_are_asked() -> None:
    """And settings that were removed or rewritten change nothing of the base image's."""
    known = Known()
    nodes: Nodes = {
        **UPGRADED,
        "/etc/apt/sources.list": "deb http://archive.example/debian/ testing main\n",
        "/etc/apt/sources.list.d/more.sources": None,
        "/etc/apt/trusted.gpg.d/archive.gpg": "forged",
    }

    assert looked(nodes, known).findings
    assert [source.suite for source in known.of_archive[0].sources] == ["stable", "one"]
    assert [source.suite for source in known.of_archive[0].chosen] == ["testing"]
    assert known.of_archive[0].keys == (b"key", b"other")


def test_endless_packages_end() -> None:
    """Those in the place of the base image's files are asked about first."""
    many = {f"/usr/lib/lib{number}.so": EVIL for number in range(500)}
    status = STATUS.replace(
        "Package: zlib1g\nStatus: install ok installed\nVersion: 1.0",
        "Package: zlib1g\nStatus: install ok installed\nVersion: 1.1",
    )
    nodes: dict[str, bytes | str] = {**many, LIBZ: EVIL, "/var/lib/dpkg/info/zlib1g.md5sums": md5((LIBZ, EVIL))}
    for number, (path, content) in enumerate(many.items()):
        status += f"Package: a{number}\nStatus: install ok installed\nVersion: 1\n\n"
        nodes[f"/var/lib/dpkg/info/a{number}.md5sums"] = md5((path, content))
    known = Known()

    signs = looked({**nodes, "/var/lib/dpkg/status": status}, known)

    assert (known.asked[0], len(known.asked)) == ("zlib1g 1.1 ", 400)
    assert len(signs.findings) == 21
    assert "101 packages are as their own records say" in signs.remarks[-1]
