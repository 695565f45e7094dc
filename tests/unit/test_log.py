"""Logs: on disk at once, and bounded."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_researchenv.errors import StoreError
from pytest_researchenv.log import capped_log


def test_a_short_log_is_whole_and_on_disk_at_once(tmp_path: Path) -> None:
    """Whoever looks while a process runs sees what it printed."""
    path = tmp_path / "x.log"

    with capped_log(path) as append:
        append(b"one\n")
        assert path.read_bytes() == b"one\n"
        append(b"two\n")

    assert path.read_bytes() == b"one\ntwo\n"


@pytest.mark.parametrize("step", [1, 3, 7, 1000])
def test_of_a_long_log_head_and_tail_are_kept(tmp_path: Path, step: int) -> None:
    """What is left out is said, however the output was cut into pieces."""
    text = bytes(range(65, 91)) * 4

    with capped_log(tmp_path / "x.log", head_bytes=10, tail_bytes=5) as append:
        for start in range(0, len(text), step):
            append(text[start : start + step])

    content = (tmp_path / "x.log").read_bytes()
    assert content.startswith(text[:15])
    assert content.endswith(text[-5:])
    assert b"[... 84 bytes left out ...]" in content


def test_what_is_known_survives_an_exception(tmp_path: Path) -> None:
    """A log is complete even when what it is about breaks."""

    def log_and_break() -> None:
        with capped_log(tmp_path / "x.log", head_bytes=3, tail_bytes=3) as append:
            append(b"abcdef")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        log_and_break()

    assert (tmp_path / "x.log").read_bytes() == b"abcdef"


def test_a_log_is_never_overwritten(tmp_path: Path) -> None:
    """A log that is there is somebody's evidence."""
    (tmp_path / "x.log").write_text("old")

    with pytest.raises(StoreError, match=r"x\.log"), capped_log(tmp_path / "x.log"):
        pass


def test_a_full_disk_is_an_error_that_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """The device that is always full stands for a full disk."""
    always_full = Path("/dev/full").open("wb", buffering=0)  # noqa: SIM115 - closed by the log
    monkeypatch.setattr(Path, "open", lambda *_arguments, **_options: always_full)

    with pytest.raises(StoreError, match=r"x\.log.*--researchenv-results"), capped_log(Path("x.log")) as append:
        append(b"x")
