"""The record of what an agent's layer changed: made at the freeze, read by the audit. No Docker."""

from __future__ import annotations

import gzip
import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from pytest_researchenv.agents.protocol import REPORT_PATH, SCRATCH, TOOL_TARGET
from pytest_researchenv.engine import Engine
from pytest_researchenv.errors import SandboxError, StoreError, UnknownChangesError
from pytest_researchenv.layerchanges import read_changes, write_changes
from pytest_researchenv.model import EnvironmentKey
from pytest_researchenv.provision import record_changes
from pytest_researchenv.redaction import Redactor
from pytest_researchenv.sandbox.fake import FakeContainer, FakeSandbox, Folder
from pytest_researchenv.sandbox.protocol import Change, ChangeKind, ContainerSpec, Mount
from pytest_researchenv.secrets import Secret
from pytest_researchenv.store import Attempt


ADDED, CHANGED, REMOVED = ChangeKind.ADDED, ChangeKind.CHANGED, ChangeKind.REMOVED

NOTHING = Redactor(())

ODD = (
    Change(ADDED, "/new\nline"),
    Change(CHANGED, "/quo\"te'\\"),
    Change(REMOVED, "/ümlaut\ufffd"),
    Change(ADDED, "/esc\x1b[2J"),
)


@pytest.fixture
def attempt(tmp_path: Path) -> Attempt:
    """An attempt that knows a secret."""
    redactor = Redactor([Secret("KEY", "hunter2-hunter2")])
    return Attempt(EnvironmentKey("run", "agent", "tests/project", 1), tmp_path, lambda: redactor)


def test_a_record_comes_back_as_it_was_made(attempt: Attempt) -> None:
    """Whatever names hold, and as often as it is asked for."""
    attempt.save_changes(iter(ODD))

    assert tuple(attempt.changes()) == tuple(attempt.changes()) == ODD
    assert [path.name for path in attempt.folder.iterdir()] == ["changes.jsonl.gz"]


@pytest.mark.parametrize("secret", ["hunter2-hunter2", 'quo"te\\hunter', "ünter-hünter"])
def test_secrets_are_taken_out_of_names(tmp_path: Path, secret: str) -> None:
    """An agent may write one anywhere; the record stays one."""
    path = tmp_path / "changes"
    made = [Change(ADDED, f"/a/{number}") for number in range(1500)]
    redactor = Redactor([Secret("KEY", secret)])
    write_changes(path, [*made, Change(ADDED, f"/tmp/{secret}/x"), *made], redactor.stream())  # noqa: S108 - in it.

    assert [*read_changes(path)] == [*made, Change(ADDED, "/tmp/[redacted KEY]/x"), *made]  # noqa: S108 - likewise.


def test_a_long_record_takes_no_memory(tmp_path: Path) -> None:
    """An agent may leave a million files."""
    path = tmp_path / "changes"
    made = (Change(ADDED, f"/made/{number}/file") for number in range(50_000))
    tracemalloc.start()
    try:
        write_changes(path, made, NOTHING.stream())
        count = sum(1 for _ in read_changes(path))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert count == 50_000
    assert peak < 4 * 1024**2
    assert path.stat().st_size < 500_000


def test_a_record_has_an_end(tmp_path: Path) -> None:
    """What is beyond is not known, and that is known."""
    path = tmp_path / "changes"
    write_changes(path, ODD, NOTHING.stream(), most=3)
    changes = read_changes(path)

    assert [next(changes) for _ in range(3)] == list(ODD[:3])
    with pytest.raises(UnknownChangesError, match="more than 3 paths"):
        next(changes)

    write_changes(path, ODD, NOTHING.stream(), most=4)
    assert tuple(read_changes(path)) == ODD


def test_a_record_is_whole_or_not_there(attempt: Attempt) -> None:
    """A list that the engine broke off is none."""

    def broken() -> Iterator[Change]:
        yield ODD[0]
        raise SandboxError("the connection broke")

    with pytest.raises(SandboxError):
        attempt.save_changes(broken())

    assert list(attempt.folder.iterdir()) == []


@pytest.mark.parametrize(
    "content",
    [
        None,
        b"",
        b"no archive",
        gzip.compress(b'["A", "/a"]\n', mtime=0)[:-10],
        gzip.compress(b'["A", "/a"]\n', mtime=0)[:10] + b"\xff" * 30,
        gzip.compress(b"[]\n", mtime=0),
        gzip.compress(b'["X", "/a"]\n', mtime=0),
        gzip.compress(b"7\n", mtime=0),
        gzip.compress(b'["A", 7]\n', mtime=0),
    ],
)
def test_a_record_that_is_damaged_is_the_stores_trouble(tmp_path: Path, content: bytes | None) -> None:
    """No agent can reach it, so that none is blamed."""
    path = tmp_path / "changes.jsonl.gz"
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(StoreError, match="--researchenv-rebuild"):
        list(read_changes(path))


# --- at the freeze ----------------------------------------------------------------------------------------


class Deep(FakeContainer):
    """A container whose files the engine cannot compare so many times."""

    refusals = 0

    @contextmanager
    def changes(self) -> Iterator[Iterator[Change]]:
        """Refuse, at once or in the midst of the answer."""
        with super().changes() as found:
            if not self.refusals:
                yield found
                return
            self.refusals -= 1

            def cut() -> Iterator[Change]:
                yield from list(found)[:1]
                raise SandboxError("cannot compare: lstat /a/a/a\x1b: file name too long")

            yield cut()


@pytest.fixture
def recorded(attempt: Attempt) -> Callable[..., list[Change]]:
    """Records what was done in a container, and reads it back."""

    def record(files: Mapping[str, bytes], *, refusals: int = 0, control: bool = True) -> list[Change]:
        sandbox = FakeSandbox()
        base = sandbox.add_image("base", {"/etc/hosts": b"", "/etc/profile": b"", "/researchenv": Folder()})
        broken = sandbox.add_image("broken", {"/other": b""})
        engine = Engine(
            sandbox,
            base if control else broken,
            "",
            (Mount("host", "/researchenv/host"),),
            {},
            Mount("tools", "/tools"),
        )
        with sandbox.opened(ContainerSpec(base)) as container:
            container.__class__ = Deep
            container.refusals = refusals  # type: ignore[attr-defined] # It is a `Deep` now.
            for path, content in files.items():
                container.files.write(path, content)
            record_changes(container, attempt, engine)
        return list(attempt.changes())

    return record


def test_what_the_agent_changed_is_recorded(recorded: Callable[..., list[Change]]) -> None:
    """Folders that hold it, too."""
    assert set(recorded({"/etc/profile": b"x", "/made/file": b""})) == {
        Change(CHANGED, "/etc/profile"),
        Change(ADDED, "/made"),
        Change(ADDED, "/made/file"),
    }


def test_what_the_engine_makes_is_not_the_agents(recorded: Callable[..., list[Change]]) -> None:
    """Mount points, files that it fills in each container, devices; a name that begins alike is."""
    files = [
        *("/.dockerenv", "/etc/hosts", "/etc/hostname", "/etc/resolv.conf", "/dev/pts/x", "/proc/x", "/sys/fs/x"),
        *("/usr/sbin/docker-init", f"{TOOL_TARGET}", f"{SCRATCH}", "/researchenv/host"),
    ]
    own = [*("/etc/hosts.allow", "/devices", "/system/x", "/researchenv/host2", REPORT_PATH)]
    found = {change.path for change in recorded(dict.fromkeys([*files, *own], b"x"))}

    assert found & set(files) == set()
    assert set(own) <= found


def test_a_hiccup_of_the_engine_is_no_problem(recorded: Callable[..., list[Change]]) -> None:
    """It is asked twice."""
    assert Change(CHANGED, "/etc/profile") in recorded({"/etc/profile": b"x"}, refusals=1)


def test_files_that_cannot_be_compared_are_the_agents_fault(
    recorded: Callable[..., list[Change]], attempt: Attempt
) -> None:
    """The base image can be read, so that the engine is not to blame: the audit will say that it cannot tell."""
    with pytest.raises(UnknownChangesError, match="file name too long"):
        recorded({"/etc/profile": b"x"}, refusals=2)

    assert (attempt.folder / "changes.jsonl.gz").exists()


def test_an_engine_that_cannot_compare_is_an_error(recorded: Callable[..., list[Change]], attempt: Attempt) -> None:
    """Then nothing is recorded, and nobody blamed."""
    with pytest.raises(SandboxError):
        recorded({"/etc/profile": b"x"}, refusals=2, control=False)

    assert not list(attempt.folder.iterdir())
