"""What archives of Debian have of a package, asked on this machine. No Docker."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from pytest_researchenv._apt import Source, is_later, sources_in
from pytest_researchenv.integrity import _archives, archives
from pytest_researchenv.integrity._debs import DEB_ERRORS, read_deb
from pytest_researchenv.integrity.archives import Archive, Package, PublishedPackages, Unpublished, host_sources
from pytest_researchenv.integrity.published import Unknown
from tests.unit.integrity.aptrepositories import ZSTD, Keys, archive_of, deb, needs_gpg, new_keys, publish
from tests.unit.integrity.packageindexes import Server, serving, sha256


LIBRARY = "/lib/x86_64-linux-gnu/libz.so.1"
ZLIB = Package("zlib1g", "1:1.2-1", "amd64")
FILES = {LIBRARY: b"genuine", "/usr/share/doc/zlib1g/copyright": b"c"}


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keys]:
    """The key that signs the repository."""
    with new_keys(tmp_path_factory.mktemp("keys") / "own") as made:
        yield made


@pytest.fixture
def server() -> Iterator[Server]:
    """A server without anything on it."""
    with serving() as told:
        told.files = {}
        yield told


def why(found: object) -> str:
    """Why nothing is known."""
    assert isinstance(found, Unknown), found
    return found.reason


# --- versions and settings --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("later", "earlier"),
    [
        ("1.10", "1.9"),
        ("1:0.9", "1.0"),
        ("1.0", "1.0~rc1"),
        ("1.0~rc1", "1.0~~"),
        ("1.0-1+deb12u1", "1.0-1"),
        ("1.0-1", "1.0-1~bpo12+1"),
        ("1.0+b1", "1.0a"),
        ("1.0.", "1.0+"),
    ],
)
def test_versions_are_ordered_as_dpkg_orders_them(later: str, earlier: str) -> None:
    """A tilde comes before the end, letters before all else, numbers count as such."""
    assert is_later(later, earlier)
    assert not is_later(earlier, later)


def test_versions_that_are_one() -> None:
    """A revision that is not there is 0."""
    assert not is_later("1.0-0", "1.0")
    assert not is_later("1.0", "0:1.0-0")


def test_what_apt_is_configured_for(tmp_path: Path) -> None:
    """Lines and paragraphs; what is disabled, of sources, or in files of other names is not."""
    (tmp_path / "sources.list.d").mkdir()
    (tmp_path / "sources.list").write_text(
        "deb [arch=amd64] http://a.example/x one main more # note\ndeb-src http://b one main\n"
    )
    (tmp_path / "sources.list.d" / "c.list").write_text(
        "deb https://c.example/flat /\ndeb https://c.example/none one\n"
    )
    (tmp_path / "sources.list.d" / "d.sources").write_text(
        "Types: deb\nURIs: http://d.example\nSuites: two\n two-updates\nComponents: main\n\n"
        "Types: deb\nURIs: http://e\nSuites: x\nEnabled: no\n"
    )
    (tmp_path / "sources.list.d" / "d.save").write_text("deb http://f.example one main\n")

    assert host_sources(tmp_path) == (
        Source("http://a.example/x", "one", ("main", "more")),
        Source("https://c.example/flat", "/"),
        Source("http://d.example", "two", ("main",)),
        Source("http://d.example", "two-updates", ("main",)),
    )
    assert list(sources_in("\0" * 50 + "deb", deb822=False)) == []


# --- packages ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("packing", [".xz", ".gz", ""])
def test_what_is_in_a_package(packing: str) -> None:
    """Hard links are files, too."""
    found = read_deb(io.BytesIO(deb(FILES, packing=packing, linked={"/usr/lib/other.so": LIBRARY})))

    assert found == {
        **{path: sha256(content) for path, content in FILES.items()},
        "/usr/lib/other.so": sha256(b"genuine"),
    }


@pytest.mark.skipif(ZSTD is None, reason="neither Python nor backports.zstd has Zstandard")
def test_packages_of_ubuntu() -> None:
    """They are packed by Zstandard."""
    assert read_deb(io.BytesIO(deb(FILES, packing=".zst"))).keys() == FILES.keys()
    with pytest.raises(ValueError, match="Zstandard"):
        read_deb(io.BytesIO(deb(FILES, packing="").replace(b"data.tar    ", b"data.tar.zst")))


def test_a_host_without_zstandard_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python has it since 3.14."""
    for name in ("compression.zstd", "backports.zstd"):
        monkeypatch.setitem(sys.modules, name, None)

    with pytest.raises(ValueError, match=r"install backports\.zstd"):
        read_deb(io.BytesIO(deb(FILES, packing="").replace(b"data.tar    ", b"data.tar.zst")))


@pytest.mark.parametrize(
    "content",
    [b"", b"!<arch>\n", b"no package", deb(FILES)[:-40], deb({"/big": bytes(2_000_000)}), b"!<arch>\n" + b"x" * 60],
    ids=["nothing", "empty", "text", "cut", "bomb", "header"],
)
def test_a_package_that_is_none(content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small one may unpack to any amount."""
    monkeypatch.setattr(_archives, "UNPACKED_BYTES", 500_000)

    with pytest.raises(DEB_ERRORS):
        read_deb(io.BytesIO(content))


# --- archives ---------------------------------------------------------------------------------------------


@needs_gpg
@pytest.mark.parametrize("packing", [".xz", ".gz", ""])
def test_what_an_archive_has(server: Server, keys: Keys, tmp_path: Path, packing: str) -> None:
    """It is asked once, and kept for other audits; an index stays while its release names it."""
    publish(server, keys, {("zlib1g", "1:1.2-1"): deb(FILES), ("other", "1"): deb({})}, packing=packing)

    found = PublishedPackages(tmp_path, mirrors=()).of(archive_of(server, keys), ZLIB)
    asked = len(server.asked)

    assert found == {path: sha256(content) for path, content in FILES.items()}
    assert PublishedPackages(tmp_path, mirrors=()).of(archive_of(server, keys), ZLIB) == found
    assert len(server.asked) == asked
    assert (
        PublishedPackages(tmp_path, mirrors=()).of(archive_of(server, keys), replace(ZLIB, name="other", version="1"))
        == {}
    )
    assert [path for path, _ in server.asked[asked:]] == ["/f/dists/stable/InRelease", "/f/pool/other_1_amd64.deb"]


@needs_gpg
@pytest.mark.parametrize("architecture", ["all", ""])
def test_what_fits_any_machine_is_with_the_systems_own(
    server: Server, keys: Keys, tmp_path: Path, architecture: str
) -> None:
    """An archive need not have an index of such packages alone."""
    publish(server, keys, {("zlib1g", "1:1.2-1"): deb(FILES)})
    package = replace(ZLIB, architecture=architecture)

    assert isinstance(PublishedPackages(tmp_path, mirrors=()).of(archive_of(server, keys), package), dict)
    other = PublishedPackages(tmp_path, mirrors=()).of(archive_of(server, keys), replace(ZLIB, architecture="odd"))
    assert isinstance(other, Unpublished)
    odd = PublishedPackages(tmp_path, mirrors=()).of(replace(archive_of(server, keys), architecture="odd"), ZLIB)
    assert isinstance(odd, dict)
    none = replace(archive_of(server, keys), architecture="odd")
    assert "has no main/binary-odd/Packages" in why(
        PublishedPackages(tmp_path, mirrors=()).of(none, replace(ZLIB, architecture="all", version="2"))
    )


@needs_gpg
def test_releases_that_an_agent_named(server: Server, keys: Keys, tmp_path: Path) -> None:
    """What is there counts; what is not, or is signed by others, is no reason to know nothing of the rest."""
    publish(server, keys, {("zlib1g", "1:1.2-1"): deb(FILES)})
    publish(server, keys, {("zlib1g", "1:1.3-1"): deb({LIBRARY: b"later"})}, suite="later")
    with new_keys(tmp_path / "other") as other:
        publish(server, other, {("zlib1g", "1:1.4-1"): deb({})}, suite="forged")
    del server.files["pool/zlib1g_1.4-1_amd64.deb"]
    stable = archive_of(server, keys)
    one = stable.sources[0]

    def asked(version: str, *suites: Source) -> object:
        published = PublishedPackages(tmp_path / "cache", mirrors=())
        return published.of(replace(stable, chosen=suites), replace(ZLIB, version=version))

    assert asked("1:1.3-1", replace(one, suite="later")) == {LIBRARY: sha256(b"later")}
    for nothing in (replace(one, suite="none"), replace(one, suite="forged"), replace(one, components=("odd",))):
        assert isinstance(asked("1:1.4-1", nothing), Unpublished)
    assert isinstance(asked("1:1.4-1", replace(one, uri="http://127.0.0.1:1")), Unknown)


@needs_gpg
def test_keys_may_be_texts(server: Server, keys: Keys, tmp_path: Path) -> None:
    """Debian has both kinds."""
    publish(server, keys, {("zlib1g", "1:1.2-1"): deb(FILES)})
    archive = replace(archive_of(server, keys), keys=(b"no key", keys.armoured))

    assert isinstance(PublishedPackages(tmp_path, mirrors=()).of(archive, ZLIB), dict)


@needs_gpg
def test_what_no_archive_has(server: Server, keys: Keys, tmp_path: Path) -> None:
    """Later versions may have taken its place; earlier ones have not."""
    publish(server, keys, {("zlib1g", "1:1.2-1"): deb(FILES)})
    published = PublishedPackages(tmp_path, mirrors=())

    later = published.of(archive_of(server, keys), replace(ZLIB, version="1:1.3-1"))
    assert isinstance(later, Unpublished)
    assert (later.known, later.later, later.since) == (True, False, None)
    assert "they have 1:1.2-1" in later.reason
    earlier = published.of(archive_of(server, keys), replace(ZLIB, version="1:1.1-1"))
    assert isinstance(earlier, Unpublished)
    assert (earlier.known, earlier.later, earlier.since) == (True, True, datetime(2025, 3, 1, 10, tzinfo=UTC))
    nobodys = published.of(archive_of(server, keys), replace(ZLIB, name="zlib1g-fast"))
    assert isinstance(nobodys, Unpublished)
    assert not nobodys.known
    for name, version in (("../x", "1"), ("a b", "1"), ("zlib1g", ""), ("zlib1g", "1\n2"), ("zlib1g", "9" * 5000)):
        assert isinstance(published.of(archive_of(server, keys), Package(name, version, "amd64")), Unpublished)


@needs_gpg
def test_what_lies_there_still_is_compared(server: Server, keys: Keys, tmp_path: Path) -> None:
    """Archives keep what a later version took the place of for a while, and do not list it."""
    publish(server, keys, {("zlib1g", "1:1.2-1"): deb(FILES)})
    server.files["pool/zlib1g_1.1-1_amd64.deb"] = deb({LIBRARY: b"older"})

    found = PublishedPackages(tmp_path, mirrors=()).of(archive_of(server, keys), replace(ZLIB, version="1:1.1-1"))

    assert found == {LIBRARY: sha256(b"older")}


@needs_gpg
def test_what_is_not_signed_is_not_known(server: Server, keys: Keys, tmp_path: Path) -> None:
    """Neither what another key signs, nor what is not as its index or release says."""
    publish(server, keys, {("zlib1g", "1:1.2-1"): deb(FILES)})
    good = dict(server.files)
    archive = archive_of(server, keys)
    with new_keys(tmp_path / "other") as made:
        other = made

    def reason(archive: Archive = archive, **changed: bytes) -> str:
        server.files = {
            **good,
            **{path: changed.get(path.rpartition("/")[2].partition(".")[0], old) for path, old in good.items()},
        }
        return why(PublishedPackages(tmp_path / "cache", mirrors=()).of(archive, ZLIB))

    assert "it is signed by none of the keys" in reason(replace(archive, keys=(other.public,)))
    assert "it is signed by none of the keys" in reason(replace(archive, keys=()))
    assert "it is signed by none of the keys" in reason(
        InRelease=good["dists/stable/InRelease"].replace(b"2025", b"2026")
    )
    assert "is not what its release says" in reason(Packages=b"another")
    assert "is not what its index says" in reason(zlib1g_1=deb({LIBRARY: b"forged"}))
    assert "names no repository" in reason(replace(archive, sources=()))


@needs_gpg
def test_a_mirror_answers_for_an_archive_that_does_not(server: Server, keys: Keys, tmp_path: Path) -> None:
    """That of this host, of the same suite; without one nothing is known."""
    publish(server, keys, {("zlib1g", "1:1.2-1"): deb(FILES)})
    here = archive_of(server, keys)
    gone = replace(here, sources=(Source("http://127.0.0.1:1/user:secret@x", "stable", ("main",)),))

    assert "127.0.0.1" in why(PublishedPackages(tmp_path, mirrors=()).of(gone, ZLIB))
    other = (replace(here.sources[0], suite="other"),)
    assert isinstance(PublishedPackages(tmp_path, mirrors=other).of(gone, ZLIB), Unknown)
    assert isinstance(PublishedPackages(tmp_path, mirrors=here.sources).of(gone, ZLIB), dict)


@needs_gpg
def test_time_and_size_are_bounded(server: Server, keys: Keys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that never ends, and a package larger than any."""
    publish(server, keys, {("zlib1g", "1:1.2-1"): deb(FILES)})
    monkeypatch.setattr(archives, "_PACKAGE_BYTES", 20)
    assert "MB is the most" in why(PublishedPackages(tmp_path, mirrors=()).of(archive_of(server, keys), ZLIB))
    server.delay_s = 1.0
    slow = PublishedPackages(tmp_path, budget_s=0.1, mirrors=())
    assert isinstance(slow.of(archive_of(server, keys), ZLIB), Unknown)


@needs_gpg
def test_without_a_program_that_verifies_nothing_is_known(
    server: Server, keys: Keys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hosts other than Debian's may not have it."""
    publish(server, keys, {("zlib1g", "1:1.2-1"): deb(FILES)})
    monkeypatch.setenv("PATH", str(tmp_path))

    assert "gpgv is not installed" in why(PublishedPackages(tmp_path, mirrors=()).of(archive_of(server, keys), ZLIB))
