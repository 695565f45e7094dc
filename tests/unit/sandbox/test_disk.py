"""The disk limit that is kept by watching: when it looks, and what it makes of what it sees."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterable

import pytest
from docker.errors import DockerException

from pytest_researchenv.errors import SandboxError
from pytest_researchenv.sandbox import _disk
from pytest_researchenv.sandbox._disk import DiskWatch, pause_s


GB = 1024**3


@pytest.mark.parametrize(
    ("room", "cost", "pause"),
    [
        (100 * GB, 0.0, 60),
        (30 * GB, 0.0, 30),
        (GB, 0.0, 5),
        (-GB, 0.0, 5),
        (GB, 2.0, 40),
        (100 * GB, 30.0, 120),
    ],
)
def test_the_nearer_the_limit_the_oftener_it_looks(room: int, cost: float, pause: float) -> None:
    """Never so rarely that a fast disk could fill unseen, unless looking itself is slow."""
    assert pause_s(room, cost) == pytest.approx(pause)


class Engine:
    """Gives sizes in turn, and notes kills."""

    def __init__(self, sizes: Iterable[int | Exception], *, refuses: int = 0) -> None:
        self._sizes = list(sizes)
        self._refuses = refuses
        self.kills = 0
        self.looked_at_all = threading.Event()

    def measure(self) -> int:
        """The next size; the last one for ever."""
        size = self._sizes.pop(0) if len(self._sizes) > 1 else self._sizes[0]
        if len(self._sizes) == 1:
            self.looked_at_all.set()
        if isinstance(size, Exception):
            raise size
        return size

    def kill(self) -> None:
        """Refuses at first, if told so."""
        self._refuses -= 1
        if self._refuses >= 0:
            raise SandboxError("busy")
        self.kills += 1


@pytest.fixture
def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks follow each other at once."""
    monkeypatch.setattr(_disk, "_SHORTEST_S", 0.01)
    monkeypatch.setattr(_disk, "_LONGEST_S", 0.01)


def _watched(engine: Engine, limit: int = 100) -> DiskWatch:
    watch = DiskWatch(engine.measure, engine.kill, limit)
    with watch:
        assert engine.looked_at_all.wait(10)
        # The thread ends by itself after a kill; otherwise leaving the block ends it.
        watch._thread.join(0.2)
    assert not watch._thread.is_alive()
    return watch


@pytest.mark.usefixtures("_hurry")
@pytest.mark.parametrize("sizes", [[100], [5, 50, 99, 101], [DockerException("hiccup"), 1000], [-1, 5, 200]])
def test_too_much_is_killed_once(sizes: list[int | Exception]) -> None:
    """One kill, and it is said to be for what was written."""
    engine = Engine(sizes)

    assert _watched(engine).full
    assert engine.kills == 1


@pytest.mark.usefixtures("_hurry")
@pytest.mark.parametrize("sizes", [[0], [99], [DockerException("gone")], [-1, -1, 5]])
def test_less_is_left_alone(sizes: list[int | Exception]) -> None:
    """Below the limit, or where one look fails, nothing is killed."""
    engine = Engine(sizes)

    assert not _watched(engine).full
    assert engine.kills == 0


@pytest.mark.usefixtures("_hurry")
def test_what_can_never_be_measured_counts_as_too_much() -> None:
    """Files nested too deep to be walked must not hide what is written."""
    assert _watched(Engine([-1])).full


@pytest.mark.usefixtures("_hurry")
def test_a_kill_that_fails_is_made_again() -> None:
    """The engine may be busy."""
    engine = Engine([1000], refuses=2)

    assert _watched(engine).full
    assert engine.kills == 1


@pytest.mark.usefixtures("_hurry")
def test_a_look_that_ends_late_kills_nothing() -> None:
    """What runs in the container next is not to blame for what ran before."""
    looking, left = threading.Event(), threading.Event()
    kills: list[bool] = []

    def measure() -> int:
        looking.set()
        assert left.wait(10)
        return 1000

    watch = DiskWatch(measure, lambda: kills.append(True), 100)
    watch.__enter__()
    assert looking.wait(10)
    threading.Timer(0.1, left.set).start()
    watch.__exit__(None, None, None)

    assert not watch.full
    assert not kills


class Answer:
    """What the engine says of a path."""

    ok = True

    def __init__(self, size: int) -> None:
        status = json.dumps({"name": "hosts", "size": size, "mode": 420, "linkTarget": ""})
        self.headers = {"X-Docker-Container-Path-Stat": base64.b64encode(status.encode()).decode()}


class Api:
    """Tells of one container, and of the files that it mounts into it."""

    base_url, api_version = "http+docker://localhost", "1.41"

    def __init__(self, size: int, own: int) -> None:
        self._size = size
        self._own = own

    def containers(self, **_: object) -> list[dict[str, int]]:
        """One container."""
        return [{"SizeRw": self._size}]

    def head(self, url: str, *, params: dict[str, bytes], timeout: float) -> Answer:
        """One of its files."""
        assert url == "http+docker://localhost/v1.41/containers/c/archive"
        assert params["path"].startswith(b"/etc/")
        assert timeout
        return Answer(self._own)


@pytest.mark.parametrize(
    ("size", "own", "counted"),
    [(0, 200, 0), (5000, 200, 5000), (0, 50_000_000, 150_000_000), (7, 70_000, 210_007), (-1, 50_000_000, -1)],
)
def test_the_engines_own_files_count_when_somebody_fills_them(size: int, own: int, counted: int) -> None:
    """They lie on its host's disk, and in no size that it tells; a size that it cannot tell stays unknown."""
    assert _disk.written(Api(size, own), "c") == counted  # type: ignore[arg-type] # only what is asked of it
