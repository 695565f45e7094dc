"""What the package index says of a distribution: found by its tags, read by parts, kept, and held against nobody."""

from __future__ import annotations

import io
import json
import time
import zipfile
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pytest_researchenv._packageindex import PackageIndex
from pytest_researchenv.integrity import _archives, _distfiles, _ranges, labelled
from pytest_researchenv.integrity.published import PublishedRecords, Unknown
from tests.unit.integrity.packageindexes import HOME, NATIVE, PURE, Server, recorded, sdist, serving, sha256, wheel


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """An index with a wheel of toy 1.0."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serving() as told:
        yield told


def known(found: object) -> dict[str, str]:
    """What was found, which is not nothing."""
    assert isinstance(found, Mapping), found
    return dict(found)


def why(found: object) -> str:
    """Why nothing was found."""
    assert isinstance(found, Unknown), found
    return found.reason


# --- wheels -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", [True, False], ids=["sizes", "no-sizes"])
@pytest.mark.parametrize("ranges", [True, False], ids=["ranges", "no-ranges"])
def test_the_files_of_a_wheel_are_those_in_its_record(
    tmp_path: Path, server: Server, *, ranges: bool, sizes: bool
) -> None:
    """Whatever the server can do; what installers put beside the packages is where they put it."""
    server.ranges, server.sizes = ranges, sizes

    files = known(PublishedRecords(tmp_path, index=server.index).of("Toy", "1.0.0", PURE))

    assert files.pop(f"{HOME}/WHEEL")
    assert files == {
        "padding.bin": sha256(b""),
        "toy/__init__.py": sha256(b"ANSWER = 42\n"),
        "more.py": sha256(b""),
        "toy-1.0.data/scripts/toy": sha256(b"#!"),
    }


def test_of_a_large_wheel_little_is_fetched(tmp_path: Path, server: Server) -> None:
    """The end with the list of members, and RECORD; the rest is never asked for."""
    server.files = {"toy-1.0-py3-none-any.whl": wheel(padding=8_000_000)}

    known(PublishedRecords(tmp_path, index=server.index).of("toy", "1.0", PURE))

    assert server.sent < 200_000


def test_a_large_wheel_is_not_fetched_whole(tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server without parts, and a file above the limit: nothing is known."""
    monkeypatch.setattr(_ranges, "WHOLE_BYTES", 1_000_000)
    server.files = {"toy-1.0-py3-none-any.whl": wheel(padding=2_000_000)}
    server.ranges = False

    assert "2 MB would have to be fetched" in why(PublishedRecords(tmp_path, index=server.index).of("toy", "1.0", PURE))


def test_another_part_than_was_asked_is_refused(tmp_path: Path, server: Server) -> None:
    """What a broken proxy sends is not read as if it were right."""
    server.wrong_part = True

    assert "another part" in why(PublishedRecords(tmp_path, index=server.index).of("toy", "1.0", PURE))


def test_the_wheel_is_the_one_with_the_same_tags_inside(tmp_path: Path, server: Server) -> None:
    """Names of files are not believed: some were renamed for another platform than they name inside."""
    old = wheel({"toy.py": b"old"}, tags=["cp311-cp311-linux_x86_64"])
    server.files = {
        "toy-1.0-cp311-cp311-musllinux_1_1_x86_64.whl": wheel(
            {"toy.py": b"musl"}, tags=["cp311-cp311-musllinux_1_1_x86_64"]
        ),
        "toy-1.0-cp311-cp311-manylinux1_x86_64.whl": old,
        "toy-1.0-cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64.whl": wheel({"toy.py": b"new"}, tags=NATIVE),
    }
    records = PublishedRecords(tmp_path, index=server.index)

    assert known(records.of("toy", "1.0", NATIVE))["toy.py"] == sha256(b"new")
    assert known(records.of("toy", "1.0", ["cp311-cp311-linux_x86_64"]))["toy.py"] == sha256(b"old")


def test_what_was_built_on_the_spot_is_not_compared_with_what_was_published(tmp_path: Path, server: Server) -> None:
    """Compiled code has the tags of the machine where it was built."""
    name = "toy-1.0-cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64.whl"
    server.files = {name: wheel(tags=NATIVE)}

    reason = why(PublishedRecords(tmp_path, index=server.index).of("toy", "1.0", ["cp311-cp311-linux_x86_64"]))

    assert f"{name}: has other tags inside" in reason


def test_of_several_builds_the_last_one_counts(tmp_path: Path, server: Server) -> None:
    """As for pip."""
    server.files = {
        "toy-1.0-py3-none-any.whl": wheel({"toy.py": b"first"}),
        "toy-1.0-2-py3-none-any.whl": wheel({"toy.py": b"third"}),
        "toy-1.0-1-py3-none-any.whl": wheel({"toy.py": b"second"}),
    }

    files = known(PublishedRecords(tmp_path, index=server.index).of("toy", "1.0", PURE))

    assert files["toy.py"] == sha256(b"third")


def test_compressed_tags_are_the_same_as_single_ones(tmp_path: Path, server: Server) -> None:
    """`py2.py3-none-any` is two tags."""
    server.files = {"toy-1.0-py2.py3-none-any.whl": wheel(tags=["py2-none-any", "py3-none-any"])}

    assert known(PublishedRecords(tmp_path, index=server.index).of("toy", "1.0", ["py2.py3-none-any"]))


@pytest.mark.parametrize(
    ("name", "version", "tags"),
    [
        ("other", "1.0", PURE),
        ("toy", "1.1", PURE),
        ("toy", "1.0+cu124", PURE),
        ("toy", "1.0", ("cp311-cp311-win_amd64",)),
        ("toy", "1.0", ()),
        ("toy", "not a version", PURE),
        ("toy", "1.0", ("no tag",)),
        ("toy", "1.0", ("a.b.c-" * 3,)),
        ("toy", "1.0", ("x." * 5000 + "x-none-any",)),
        ("toy", "1.0", [f"py{number}-none-any" for number in range(1000)]),
        ("toy\n", "1.0", PURE),
        ("../toy", "1.0", PURE),
        ("toy/../../f", "1.0", PURE),
        ("toy?x", "1.0", PURE),
        ("http://example.org/toy", "1.0", PURE),
        ("toy @ http://example.org", "1.0", PURE),
        ("\udcff\x1b[31m", "1.0\x1b[31m\udcff", PURE),
        ("toſ", "1.0", PURE),  # noqa: RUF001 - the letter that some ignore the case of
        ("t" * 100_000, "1.0", PURE),
        ("toy", "1." * 100_000, PURE),
        ("", "", PURE),
    ],
)
def test_what_no_index_has_is_unknown_and_asks_for_nothing_else(
    tmp_path: Path, server: Server, name: str, version: str, tags: Collection[str]
) -> None:
    """What an image says chooses nothing but a name; the reason is fit to be printed."""
    records = PublishedRecords(tmp_path, index=server.index)

    started = time.monotonic()
    reasons = (why(records.of(name, version, tags)), why(records.held(name, version, tags, "toy/__init__.py")))

    assert all(reason.isprintable() and reason for reason in reasons)
    assert {path for path, _ in server.asked} <= {"/simple/toy/", "/simple/other/"}
    assert time.monotonic() - started < 5


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not an archive",
        wheel()[:-30],
        wheel(home="other-1.0.dist-info"),
        wheel(record="toy/__init__.py,sha512=abc,3\n"),
        wheel(record="\x00" * 10 + '"'),
        wheel(record="x" * 200_000 + ",sha256=abc,1\n"),
        wheel(record="toy.py,sha256=????,1\n", tags=["nonsense"]),
        wheel({f"{HOME}/WHEEL/x": b""}, tags=["a" * 300 + "-b-c"]),
    ],
    ids=["empty", "text", "cut", "other", "sha512", "controls", "long", "tags", "long-tag"],
)
def test_a_broken_wheel_is_unknown(tmp_path: Path, server: Server, content: bytes) -> None:
    """Whoever published it, it raises nothing."""
    server.files = {"toy-1.0-py3-none-any.whl": content}

    reason = why(PublishedRecords(tmp_path, index=server.index).of("toy", "1.0", PURE))

    assert reason.isprintable()
    assert "toy-1.0-py3-none-any.whl" in reason


def test_a_record_that_unpacks_to_too_much_is_unknown(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A small wheel may hold any amount."""
    monkeypatch.setattr(_distfiles, "_RECORD_BYTES", 1000)
    server.files = {"toy-1.0-py3-none-any.whl": wheel(record="x,,\n" * 1000)}

    reason = why(PublishedRecords(tmp_path, index=server.index).of("toy", "1.0", PURE))

    assert "more than 1000 bytes" in reason


def test_a_wheel_with_a_wrong_record_can_be_asked_for_what_it_holds(tmp_path: Path, server: Server) -> None:
    """Installers do not compare, so nobody is accused for what was published so."""
    record = f"toy.py,{recorded(b'other')},5\nmore.py,{recorded(b'x')},1\ngone.py,{recorded(b'x')},1\n"
    files = {"toy.py": b"really", "toy-1.0.data/platlib/more.py": b"x"}
    server.files = {"toy-1.0-py3-none-any.whl": wheel(files, record=record)}
    records = PublishedRecords(tmp_path, index=server.index)

    assert known(records.of("toy", "1.0", PURE))["toy.py"] == sha256(b"other")
    assert records.held("toy", "1.0", PURE, "toy.py") == sha256(b"really")
    assert records.held("toy", "1.0", PURE, "more.py") == sha256(b"x")
    assert "has no gone.py" in why(records.held("toy", "1.0", PURE, "gone.py"))
    assert "no such file" in why(records.held("toy", "1.0", PURE, "../../etc/passwd"))


# --- folders of this host ---------------------------------------------------------------------------------


def test_folders_of_this_host_are_looked_into_first(tmp_path: Path, server: Server) -> None:
    """As pip does: then nothing is asked over HTTP."""
    links = tmp_path / "wheels"
    links.mkdir()
    (links / "toy-1.0-py3-none-any.whl").write_bytes(wheel({"toy.py": b"local"}))
    (links / "no wheel.txt").touch()
    index = PackageIndex(urls=server.index.urls, links=(tmp_path / "missing", links))

    files = known(PublishedRecords(tmp_path / "cache", index=index).of("toy", "1.0", PURE))

    assert files["toy.py"] == sha256(b"local")
    assert server.asked == []


def test_an_index_in_a_folder_is_read(tmp_path: Path) -> None:
    """As pip has them, by `file:` indexes; of what they lack nothing is known."""
    (tmp_path / "simple" / "toy").mkdir(parents=True)
    page = '<a href="../../files/toy-1.0%2Blocal-py3-none-any.whl#sha256=1">toy-1.0+local-py3-none-any.whl</a>'
    (tmp_path / "simple" / "toy" / "index.html").write_text(page)
    (tmp_path / "files").mkdir()
    packed = wheel(home="toy-1.0+local.dist-info")
    (tmp_path / "files" / "toy-1.0+local-py3-none-any.whl").write_bytes(packed)
    records = PublishedRecords(tmp_path / "cache", index=PackageIndex(urls=(), local=(tmp_path / "simple",)))

    assert known(records.of("toy", "1.0+local", PURE))["toy/__init__.py"]
    assert "no index that is reached over HTTP" in why(records.of("other", "1.0", PURE))


def test_a_page_of_links_is_read(tmp_path: Path, server: Server) -> None:
    """As pip has them by `find-links`: whose wheels are on no index can name such a page."""
    index = PackageIndex(urls=(f"{server.url}/nowhere/",), pages=(f"{server.url}/links.html",))
    records = PublishedRecords(tmp_path, index=index)

    assert known(records.of("toy", "1.0", PURE))["toy/__init__.py"]
    assert "does not know it" in why(records.of("another", "1.0", PURE))
    assert (records.offered("toy"), records.offered("Other")) == (True, True)
    assert [path for path, _ in server.asked].count("/links.html") == 1


# --- whether anybody publishes a name ---------------------------------------------------------------------


def test_that_nobody_publishes_a_name_is_said_by_an_index_that_has_the_others(tmp_path: Path, server: Server) -> None:
    """One that has not even pip is no index of everything; and one that does not answer says nothing."""
    records = PublishedRecords(tmp_path, index=server.index)
    partial, silent = records.offered("nobodys"), PublishedRecords(tmp_path, index=PackageIndex(urls=())).offered("toy")
    server.everything = True

    assert records.offered("TOY") is True
    assert PublishedRecords(tmp_path, index=server.index).offered("nobodys") is False
    assert "not known" in why(partial)
    assert "not known" in why(silent)
    assert "no distribution that an index could have" in why(records.offered("../toy"))


def test_that_nobody_publishes_a_version_is_said_as_well(tmp_path: Path, server: Server) -> None:
    """In whatever way it is written, wherever it lies."""
    server.everything = True
    records = PublishedRecords(tmp_path, index=server.index)
    folder = PackageIndex(urls=(f"{server.url}/nowhere/",), pages=(f"{server.url}/links.html",))

    assert (records.offered("toy", "1.0"), records.offered("Toy", "1")) == (True, True)
    assert records.offered("toy", "77.0") is False
    assert PublishedRecords(tmp_path, index=folder).offered("toy", "1.0") is True


# --- sources ----------------------------------------------------------------------------------------------


def test_sources_are_those_of_the_published_sdist(tmp_path: Path, server: Server) -> None:
    """Below its top folder, and nothing but Python."""
    server.files["toy-1.0.tar.gz"] = sdist({"toy-1.0/src/toy/a.py": b"a", "toy-1.0/setup.py": b"s", "toy-1.0/x.c": b""})
    records = PublishedRecords(tmp_path, index=server.index)

    assert records.sources_of("toy", "1.0") == {"src/toy/a.py": sha256(b"a"), "setup.py": sha256(b"s")}
    assert known(records.of("toy", "1.0", PURE))
    assert "no source distribution" in why(records.sources_of("toy", "2.0"))


def test_a_zipped_sdist_is_read(tmp_path: Path, server: Server) -> None:
    """Old ones are."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("toy-1.0/toy.py", "a")
    server.files["toy-1.0.zip"] = buffer.getvalue()

    assert PublishedRecords(tmp_path, index=server.index).sources_of("toy", "1.0") == {"toy.py": sha256(b"a")}


@pytest.mark.parametrize(
    "content",
    [b"", b"text", sdist({"toy-1.0/a.py": b"x" * 2_000_000}), sdist({"toy-1.0/" + "n" * 900_000 + ".py": b""})],
    ids=["empty", "text", "bomb", "long-name"],
)
def test_a_broken_or_too_large_sdist_is_unknown(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    """A small one may unpack to any amount, in files or in their names."""
    monkeypatch.setattr(_archives, "UNPACKED_BYTES", 500_000)
    server.files = {"toy-1.0.tar.gz": content}

    assert "toy-1.0.tar.gz: " in why(PublishedRecords(tmp_path, index=server.index).sources_of("toy", "1.0"))


# --- builds of torch --------------------------------------------------------------------------------------


def test_a_build_of_torchs_is_looked_for_on_its_own_index(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where this host's pip is configured for none that has it: in the folder of its label, and among all."""
    monkeypatch.setattr(labelled, "WHEELS", f"{server.url}/whl")
    built = wheel({"torch/__init__.py": b"A = 1\n"}, home="torch-1.0+cpu.dist-info")
    server.files = {"torch-1.0+cpu-py3-none-any.whl": built}
    server.projects = {"/whl/cpu/torch/", "/whl/torch/", "/simple/pip/"}
    records = PublishedRecords(tmp_path, index=server.index)

    assert "torch/__init__.py" in known(records.of("torch", "1.0+cpu", PURE))
    assert records.offered("torch", "1.0+cpu") is True
    assert records.offered("torch", "1.0+cu999") is False
    assert {path for path, _ in server.asked if "cu999" in path} == {"/whl/cu999/torch/"}


def test_without_its_own_index_nothing_is_known_of_a_build(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And other projects and versions are not asked for there."""
    monkeypatch.setattr(labelled, "WHEELS", "http://127.0.0.1:1/whl")
    server.projects = {"/simple/pip/"}
    records = PublishedRecords(tmp_path, index=server.index)

    assert isinstance(records.offered("torch", "1.0+cu999"), Unknown)
    assert records.offered("torch", "1.0+gitdeadbee") is False
    assert records.offered("other", "1.0+cu128") is False


# --- what is kept, and for how long is asked ---------------------------------------------------------------


def test_what_was_read_once_is_not_asked_again(tmp_path: Path, server: Server) -> None:
    """Not by this audit, and not by the next one; what was not found is asked again by the next one."""
    first, second = (PublishedRecords(tmp_path, index=server.index) for _ in range(2))
    found = first.of("toy", "1.0", PURE)
    asked = len(server.asked)

    assert first.of("toy", "1.0", PURE) == second.of("TOY", "1", PURE) == found
    assert len(server.asked) == asked

    assert why(first.of("toy", "2.0", PURE)) == why(first.of("toy", "2.0", PURE))
    server.files["toy-2.0-py3-none-any.whl"] = wheel(home="toy-2.0.dist-info")
    assert known(second.of("toy", "2.0", PURE))


@pytest.mark.parametrize("spoiled", [b"", b"{", b"[]", b'{"a": 1}', b"\xff", b"[" * 100_000])
def test_what_was_kept_badly_is_asked_again(tmp_path: Path, server: Server, spoiled: bytes) -> None:
    """A disk that was full, or a file of another version."""
    found = PublishedRecords(tmp_path, index=server.index).of("toy", "1.0", PURE)
    (kept,) = (tmp_path / "records").glob("*.json")
    kept.write_bytes(spoiled)

    assert PublishedRecords(tmp_path, index=server.index).of("toy", "1.0", PURE) == found
    assert json.loads(kept.read_bytes()) == found


def test_a_folder_that_cannot_be_written_is_no_hindrance(tmp_path: Path, server: Server) -> None:
    """It is asked every time then."""
    (tmp_path / "records").touch()

    assert known(PublishedRecords(tmp_path, index=server.index).of("toy", "1.0", PURE))


def test_several_at_once_ask_once(tmp_path: Path, server: Server) -> None:
    """One works, the others wait and read what it kept."""
    server.delay_s = 0.05

    def ask(_: int) -> object:
        return PublishedRecords(tmp_path, index=server.index).of("toy", "1.0", PURE)

    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(ask, range(6)))

    assert all(one == found[0] for one in found)
    assert [path for path, _ in server.asked].count("/simple/toy/") == 1
    assert not [path for path in (tmp_path / "records").iterdir() if path.suffix not in {".json", ".lock"}]


def test_an_index_that_does_not_answer_is_not_waited_for_again(tmp_path: Path) -> None:
    """It is said once for each distribution, and asked once."""
    records = PublishedRecords(tmp_path, index=PackageIndex(urls=("http://user:secret@127.0.0.1:9/simple",)))
    first = why(records.of("toy", "1.0", PURE))
    started = time.monotonic()

    second = why(records.of("other", "1.0", PURE))

    assert time.monotonic() - started < 0.2
    assert "127.0.0.1:9/simple: " in first
    assert "did not answer before" in second
    assert "secret" not in first + second


def test_the_time_for_asking_is_bounded(tmp_path: Path, server: Server) -> None:
    """For all distributions together; what is kept is read on."""
    known(PublishedRecords(tmp_path, index=server.index).of("toy", "1.0", PURE))
    server.delay_s = 0.3
    records = PublishedRecords(tmp_path, index=server.index, budget_s=0.5)
    started = time.monotonic()

    reasons = [why(records.of("toy", f"{number}.5", PURE)) for number in range(3)]
    reasons += [why(records.of(f"other{number}", "1.0", PURE)) for number in range(8)]

    assert time.monotonic() - started < 3
    assert "used up" in reasons[-1] or "did not answer" in reasons[-1]
    assert known(records.of("toy", "1.0", PURE))
    assert why(records.held("toy", "1.0", PURE, "more.py"))
