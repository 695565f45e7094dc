"""Logs that are packed: the same content for every reader, and never none, whenever a process is killed."""

from __future__ import annotations

import errno
import gzip
import hashlib
import os
import signal
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_researchenv import packedlogs
from pytest_researchenv.agents._lines import documents
from pytest_researchenv.diagnosis.excerpt import read_log
from pytest_researchenv.integrity.answers import _held
from pytest_researchenv.integrity.outside import _lines
from pytest_researchenv.model import Tier, TierResult
from pytest_researchenv.packedlogs import DamagedLogError, log_place, open_log, pack_log, plain_name, read_ends
from pytest_researchenv.provenance import digest_of, records_in
from pytest_researchenv.recording.entry import excerpt_of
from pytest_researchenv.report.html.text import read_excerpt
from pytest_researchenv.store import Store
from tests.unit.verifying.bench import Bench, only, sole


_TEXT = b"".join(b'{"line": "%06d"}\n' % number for number in range(5000))
_GZIP = gzip.compress(_TEXT)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log that is worth being packed."""
    path = tmp_path / "C1-001.log"
    path.write_bytes(_TEXT)
    return path


def _content(path: Path) -> bytes:
    with open_log(path) as file:
        return file.read()


def _packed(path: Path) -> Path:
    return path.with_name(f"{path.name}.gz")


def test_a_packed_log_reads_as_it_was_written(log: Path) -> None:
    """It lies in one file that is smaller, and is the same whenever it is packed."""
    pack_log(log)

    once = _packed(log).read_bytes()
    assert _content(log) == _TEXT
    assert [path.name for path in log.parent.iterdir()] == ["C1-001.log.gz"]
    assert len(once) < len(_TEXT) // 4
    assert log_place(log) == _packed(log)

    log.write_bytes(_TEXT)
    os.utime(log, (0, 0))
    pack_log(log)
    assert _packed(log).read_bytes() == once


@pytest.mark.parametrize("content", [b"", b"short\n" * 10, os.urandom(20_000)], ids=["nothing", "short", "random"])
def test_a_log_that_would_save_nothing_stays_plain(tmp_path: Path, content: bytes) -> None:
    """What fits into a block of the disk, and what does not get smaller."""
    log = tmp_path / "C1-001.log"
    log.write_bytes(content)

    pack_log(log)

    assert [path.name for path in tmp_path.iterdir()] == ["C1-001.log"]
    assert log.read_bytes() == content


def test_no_log_is_no_trouble(tmp_path: Path) -> None:
    """An agent without a gateway leaves no requests."""
    pack_log(tmp_path / "requests.jsonl")

    assert list(tmp_path.iterdir()) == []
    with pytest.raises(FileNotFoundError):
        open_log(tmp_path / "requests.jsonl")


@pytest.mark.parametrize(
    "read",
    [
        read_log,
        read_excerpt,
        excerpt_of,
        digest_of,
        lambda path: list(documents(path)),
        lambda path: read_ends(path, head=100, tail=300),
        lambda path: read_ends(path, head=0, tail=10**6),
        lambda path: read_ends(path, head=10**6, tail=10),
        lambda path: _held(path, {'{"line": "004999"}', "nowhere"}, []),
        lambda path: records_in(path.parent, but="x"),
    ],
    ids=["diagnosis", "report", "junit", "verify", "trajectory", "both ends", "tail", "head", "audit", "records"],
)
def test_every_reader_reads_both(log: Path, read: Callable[[Path], object]) -> None:
    """Diagnosis, report, JUnit, verification, trajectories and the audit see no difference."""
    before = read(log)
    pack_log(log)

    assert not log.exists()
    assert before
    assert read(log) == before


@pytest.mark.parametrize("head", [0, 1, 100])
@pytest.mark.parametrize("tail", [1, 200])
@pytest.mark.parametrize("beyond", [-2, -1, 0, 1, 2, 100_000])
def test_both_ends_and_what_is_between(tmp_path: Path, head: int, tail: int, beyond: int) -> None:
    """Of a log that is a little shorter or longer than both ends, plain and packed, nothing is read twice."""
    content = os.urandom(40) * 3000
    content = content[: max(0, head + tail + beyond)]
    log = tmp_path / "C1-001.log"
    log.write_bytes(content)
    _packed(tmp_path / "C2-001.log").write_bytes(gzip.compress(content))
    whole = len(content) <= head + tail

    for path in (log, tmp_path / "C2-001.log"):
        ends = read_ends(path, head=head, tail=tail)
        assert ends.head == content[:head]
        assert ends.tail == (content[head:] if whole else content[-tail:])
        assert (ends.size, ends.omitted) == (len(content), max(0, beyond) if head + tail + beyond > 0 else 0)


def test_requests_are_audited_packed(tmp_path: Path) -> None:
    """What an agent asked for is read line by line."""
    (tmp_path / "requests.jsonl").write_bytes(_TEXT)
    before = list(_lines(tmp_path, []))
    pack_log(tmp_path / "requests.jsonl")

    assert list(_lines(tmp_path, [])) == before == _TEXT.splitlines(keepends=True)


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("C1-001.log.gz", "C1-001.log"),
        ("requests.jsonl.gz", "requests.jsonl"),
        ("C1-001.log", "C1-001.log"),
        ("changes.jsonl.gz", "changes.jsonl.gz"),
        ("report.json.gz", "report.json.gz"),
    ],
)
def test_only_logs_have_another_name_when_packed(name: str, plain: str) -> None:
    """The record of changes is packed from the start, and is recorded by that name."""
    assert plain_name(name) == plain


class _KilledError(BaseException):
    """A process ends here."""


@pytest.mark.parametrize(("owner", "step"), [(os, "fsync"), (Path, "replace"), (Path, "unlink")])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_kill_at_any_step_leaves_a_log(
    log: Path,
    monkeypatch: pytest.MonkeyPatch,
    owner: object,
    step: str,
    after: bool,  # noqa: FBT001 - a parameter
) -> None:
    """Before or after each thing that is done to a file, there is one whole log, and the next packing is done."""
    original = getattr(owner, step)

    def killed(*arguments: object, **options: object) -> None:
        if after:
            original(*arguments, **options)
        raise _KilledError

    with monkeypatch.context() as patch:
        patch.setattr(owner, step, killed)
        with pytest.raises(_KilledError):
            pack_log(log)

    assert _content(log) == _TEXT
    pack_log(log)
    assert _content(log) == _TEXT
    assert not log.exists()


_PACK = "import sys; from pathlib import Path; from pytest_researchenv.packedlogs import pack_log; print(flush=True)"


@pytest.mark.parametrize("moment_ms", [0, 5, 20, 40, 60, 100, 150, 250])
def test_kill_9_while_it_is_packed_loses_nothing(tmp_path: Path, moment_ms: int) -> None:
    """A real process, ended at a moment that nobody chose."""
    log = tmp_path / "transcript.log"
    log.write_bytes(_TEXT * 100)
    script = f"{_PACK}; pack_log(Path(sys.argv[1]))"
    with subprocess.Popen([sys.executable, "-c", script, str(log)], stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()
        time.sleep(moment_ms / 1000)
        process.send_signal(signal.SIGKILL)

    assert _content(log) == _TEXT * 100


def test_a_full_disk_leaves_the_log_plain(
    log: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """No verdict is lost for want of room, nothing half-written stays, and it is said."""

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    pack_log(log)

    assert [path.name for path in log.parent.iterdir()] == ["C1-001.log"]
    assert log.read_bytes() == _TEXT
    assert "stays plain" in caplog.text


def test_the_plain_log_counts_while_both_are_there(log: Path) -> None:
    """Who was killed between the two steps leaves both."""
    _packed(log).write_bytes(gzip.compress(b"something else"))

    assert _content(log) == _TEXT
    assert digest_of(log) == hashlib.sha256(_TEXT).hexdigest()
    assert list(records_in(log.parent, but="")) == ["C1-001.log"]


@pytest.mark.parametrize(
    "content",
    [
        gzip.compress(_TEXT)[:-9],
        gzip.compress(_TEXT)[:-20],
        b"no archive",
        gzip.compress(_TEXT) + b"behind",
        b"\x1f\x8b",
    ],
)
def test_a_damaged_log_is_told(log: Path, content: bytes) -> None:
    """It raises what a file that cannot be read raises, and has no digest."""
    log.unlink()
    _packed(log).write_bytes(content)

    with pytest.raises(DamagedLogError, match=r"C1-001\.log\.gz"):
        _content(log)
    assert digest_of(log) == "damaged"
    assert excerpt_of(log) == ""


def test_a_bomb_goes_off_in_no_reader(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than any log has is not unpacked, and never held in memory."""
    monkeypatch.setattr(packedlogs, "_MOST_BYTES", 20 * 2**20)
    log.unlink()
    with gzip.open(_packed(log), "wb") as file:
        for _ in range(60):
            file.write(bytes(2**20))
    tracemalloc.start()

    assert digest_of(log) == "damaged"
    assert excerpt_of(log) == ""
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 8 * 2**20


# --- in the store -----------------------------------------------------------------------------------------


@pytest.fixture
def loud(tmp_path: Path) -> Bench:
    """A finished run whose probe printed a lot."""
    bench = Bench(tmp_path)
    judge = bench.lab.probe.judge

    def loudly(task: object) -> TierResult:
        task.log(_TEXT)  # type: ignore[attr-defined] # the harness's own
        return judge(task)  # type: ignore[arg-type] # likewise

    bench.lab.probe.judge = loudly  # type: ignore[method-assign] # one test's own probe
    bench.run()
    return bench


def test_a_finished_log_is_packed_and_verified(loud: Bench) -> None:
    """The record names the log as it was written, and has the digest of its content."""
    names = {path.name for path in loud.attempt.iterdir() if not path.name.startswith(".")}

    assert "C1-001.log.gz" in names
    assert "C1-001.log" not in names
    assert {"transcript.log", "integrity-001.log"} <= names
    assert only(loud.verify()).holds


def test_a_packed_log_that_was_edited_is_told(loud: Bench) -> None:
    """Whether it still unpacks or not, and where it is gone."""
    path = loud.attempt / "C1-001.log.gz"
    whole = path.read_bytes()
    says = "C1-001.json: C1-001.log is not the log that was written"

    path.write_bytes(gzip.compress(_TEXT + b"all is well\n"))
    assert sole(only(loud.check())) == f"{says}: it has changed"
    path.write_bytes(whole[:-30])
    assert sole(only(loud.check())) == f"{says}: it has changed"
    path.unlink()
    assert sole(only(loud.check())) == f"{says}: it is gone"


def test_the_next_log_has_the_next_number(loud: Bench) -> None:
    """A packed log is as good as a plain one: it is never written over."""
    attempt = Store(loud.results, "default").attempts("fake", "mine/thing")[0]

    assert attempt.next_log(Tier.C1).name == "C1-002.log"
