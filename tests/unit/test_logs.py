"""`researchenv logs`: prints what is asked for, lists what there is, and a hostile log does nothing to a terminal."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pytest_researchenv.cli import main
from pytest_researchenv.packedlogs import log_place, pack_log
from tests.unit.verifying.bench import Bench


_COMMAND = [sys.executable, "-m", "pytest_researchenv.cli", "logs"]
_LIMIT_S = 60


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """A finished run, from whose folder commands are called."""
    bench = Bench(tmp_path)
    bench.run()
    (bench.attempt / "requests.jsonl").write_text('{"kind": "egress"}\n')
    (bench.attempt / "transcript.log").write_text("reported\n")
    (tmp_path / "results").rename(tmp_path / "researchenv-results")
    bench.attempt = tmp_path / "researchenv-results/default/fake/mine/thing/attempt-001"
    monkeypatch.chdir(tmp_path)
    return bench


@pytest.fixture
def printed(capfdbinary: pytest.CaptureFixture[bytes]) -> Callable[..., bytes]:
    """The command, and what it prints."""

    def run(*arguments: object) -> bytes:
        assert main(["logs", *map(str, arguments)]) == 0
        return capfdbinary.readouterr().out

    return run


def test_without_a_choice_logs_are_listed(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    """Of a run and of an attempt, with sizes; as JSON for programs."""
    for target in ([], ["default"], [str(bench.attempt)]):
        assert main(["logs", *target]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert [line.rpartition("/")[2] for line in lines] == [
            *("C1-001.log", "integrity-001.log", "transcript.log", "requests.jsonl"),
        ]
        assert lines[0].split()[0] == str(len(b"probing\n"))

    assert main(["logs", "--json", "--tier", "C1"]) == 0
    (document,) = json.loads(capsys.readouterr().out)
    assert document == {
        "log": "C1-001.log",
        "path": "researchenv-results/default/fake/mine/thing/attempt-001/C1-001.log",
        "bytes": 8,
        "packed": False,
    }


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["default", "--tier", "c1"], b"probing\n"),
        (["ATTEMPT", "--tier", "C1"], b"probing\n"),
        (["ATTEMPT/C1-001.log"], b"probing\n"),
        (["--transcript"], b"reported\n"),
        (["ATTEMPT", "--requests"], b'{"kind": "egress"}\n'),
        (["--transcript", "--agent", "fake", "--repository", "thing"], b"reported\n"),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_a_log_is_printed(
    bench: Bench,
    printed: Callable[..., bytes],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    says: bytes,
    *,
    packed: bool,
) -> None:
    """By run and by attempt, by its path, packed or not: its bytes."""
    if packed:
        monkeypatch.setattr("pytest_researchenv.packedlogs.SMALL_BYTES", 0)
        for path in (bench.attempt / name for name in ("C1-001.log", "transcript.log", "requests.jsonl")):
            path.write_bytes(path.read_bytes() * 100)
            pack_log(path)
            assert not path.exists()

    shown = printed(*(argument.replace("ATTEMPT", str(bench.attempt)) for argument in arguments))

    assert shown == says * (100 if packed else 1)


def test_a_packed_log_is_found_by_the_path_of_either(bench: Bench, printed: Callable[..., bytes]) -> None:
    """A failure message names the file that is there; an older one the log as it was written."""
    log = bench.attempt / "C1-001.log"
    log.write_bytes(b"probing\n" * 1000)
    pack_log(log)

    assert log_place(log).name == "C1-001.log.gz"
    assert printed(log) == printed(log_place(log)) == b"probing\n" * 1000


def test_several_logs_are_told_apart(bench: Bench, printed: Callable[..., bytes]) -> None:
    """Each below its path, as `tail` does."""
    place = os.path.relpath(bench.attempt)

    shown = printed("--tier", "C1", "--transcript").decode()

    assert shown == f"==> {place}/C1-001.log <==\nprobing\n\n==> {place}/transcript.log <==\nreported\n"


@pytest.mark.parametrize(("count", "shown"), [("0", b""), ("2", b"2\n3"), ("99", b"1\n2\n3")])
def test_only_the_end_isprinted(bench: Bench, printed: Callable[..., bytes], count: str, shown: bytes) -> None:
    """So many lines; the last may have no end."""
    (bench.attempt / "C1-001.log").write_bytes(b"1\n2\n3")

    assert printed("--tier", "C1", "--tail", count) == shown


def test_the_newest_log_of_a_tier_counts(bench: Bench, printed: Callable[..., bytes]) -> None:
    """The tenth time comes after the ninth."""
    for number in (9, 10):
        (bench.attempt / f"C1-{number:03d}.log").write_text(f"{number}\n")

    assert printed("--tier", "C1") == b"10\n"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nowhere"], "there is no run in"),
        (["--tier", "C4"], "no such log"),
        (["--agent", "other"], "no attempt"),
        (["--transcript", "--tier", "C1", "--follow"], "cannot be followed at once"),
        (["attempt-001"], "cannot be listed"),
    ],
)
def test_what_cannot_be_printed_is_said(
    bench: Bench, capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    """With the way out."""
    assert bench

    assert main(["logs", *arguments]) == 1
    assert says in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--tail", "-1"], ["--tail", "x"], ["--tier", "C9"]])
def test_a_wrong_call_is_one(bench: Bench, arguments: list[str]) -> None:
    """The exit code is 2."""
    assert bench

    with pytest.raises(SystemExit) as ended:
        main(["logs", *arguments])
    assert ended.value.code == 2


def test_a_damaged_log_is_said(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    """By its path."""
    (bench.attempt / "C1-001.log").unlink()
    (bench.attempt / "C1-001.log.gz").write_bytes(b"no archive")

    assert main(["logs", "--tier", "C1"]) == 1
    assert "C1-001.log.gz is damaged" in capsys.readouterr().err


# --- on a terminal ----------------------------------------------------------------------------------------

_HOSTILE = (
    b"\x1b[31mred\x1b[0m\n\x1b]0;title\x07\x1b]52;c;cGF5bG9hZA==\x07clip\n10%\r100%\n\x9b2J\xff\x00\x08bell\x07\n"
    b"right\xe2\x80\xaeto left\n\x1b[6n\x1bP$q\x1b\\end"
)


@contextmanager
def _terminal() -> Iterator[tuple[int, int]]:
    master, slave = os.openpty()
    try:
        yield master, slave
    finally:
        os.close(master)


def _on_a_terminal(*arguments: object, locale: str = "C.UTF-8") -> bytes:
    with _terminal() as (master, slave):
        seen = bytearray()

        def read() -> None:
            try:
                while block := os.read(master, 65536):
                    seen.extend(block)
            # That is how a terminal ends on Linux.
            except OSError:
                return

        reader = threading.Thread(target=read)
        environment = {**os.environ, "LC_ALL": locale, "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
        with subprocess.Popen([*_COMMAND, *map(str, arguments)], stdout=slave, env=environment) as process:
            os.close(slave)
            reader.start()
            assert process.wait(_LIMIT_S) == 0
        reader.join()
    return bytes(seen).replace(b"\r\n", b"\n")


@pytest.mark.parametrize("locale", ["C.UTF-8", "C"])
def test_a_hostile_log_does_nothing_to_a_terminal(bench: Bench, locale: str) -> None:
    """No colour, title, clipboard, question or movement; what is no text is written out."""
    (bench.attempt / "C1-001.log").write_bytes(_HOSTILE)

    seen = _on_a_terminal("--tier", "C1", locale=locale)

    assert b"red\n" in seen
    assert b"clip\n" in seen
    assert b"\n100%\n" in seen
    assert b"\\xff\\x00\\x08bell\\x07\n" in seen
    assert b"right\\u202eto left\n" in seen
    assert seen.endswith(b"end")
    assert not [byte for byte in seen if byte < 32 and byte != 10]
    assert not set(seen) & set(range(0x7F, 0xA0))


def test_bytes_come_as_they_are_where_that_is_wanted(bench: Bench, printed: Callable[..., bytes]) -> None:
    """On a terminal with `--raw`, and where the output is none."""
    (bench.attempt / "C1-001.log").write_bytes(_HOSTILE)

    assert printed("--tier", "C1") == _HOSTILE
    assert b"\x1b]0;title\x07" in _on_a_terminal("--tier", "C1", "--raw")


def test_a_letter_that_was_cut_in_two_is_one(bench: Bench) -> None:
    """However the log is cut into blocks, and however long its lines are."""
    text = "é" * 200_001
    (bench.attempt / "C1-001.log").write_bytes(b"x" + text.encode())

    assert _on_a_terminal("--tier", "C1").decode() == "x" + text


# --- while it grows ---------------------------------------------------------------------------------------


def test_a_log_is_followed_until_it_is_complete(bench: Bench) -> None:
    """What is printed meanwhile comes at once; it ends when the record is there, and the log is packed under way."""
    log = bench.attempt / "C1-002.log"
    log.write_bytes(b"begun\n")
    with subprocess.Popen([*_COMMAND, "--tier", "C1", "--follow"], stdout=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdout.readline() == b"begun\n"
        with log.open("ab") as file:
            file.write(b"more\n")
        assert process.stdout.readline() == b"more\n"
        with log.open("ab") as file:
            file.write(b"line\n" * 2000)
        log.with_suffix(".json").write_text("{}")
        pack_log(log)
        assert process.stdout.read() == b"line\n" * 2000
        assert process.wait(_LIMIT_S) == 0


def test_whoever_has_seen_enough_may_go(bench: Bench) -> None:
    """A pipe that is closed, as `head` does, is no error."""
    (bench.attempt / "C1-001.log").write_bytes(b"line\n" * 1_000_000)
    with subprocess.Popen([*_COMMAND, "--tier", "C1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.readline()
        process.stdout.close()
        began = time.monotonic()
        assert process.wait(_LIMIT_S) == 0
        assert process.stderr.read() == b""
        assert time.monotonic() - began < _LIMIT_S
