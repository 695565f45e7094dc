"""Pages of many environments are made on every processor, and a failure of one of them is not lost."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from pytest_researchenv.report.html.crew import meanwhile


_MANY = 200


def _sign(folder: Path, number: int) -> None:
    (folder / str(number)).write_text(str(os.getpid()))


def _signatures(folder: Path) -> dict[int, int]:
    return {int(path.name): int(path.read_text()) for path in folder.iterdir()}


def test_many_parts_are_done_by_others_while_the_block_runs(tmp_path: Path) -> None:
    """Each is done once, none of them by this process."""
    with meanwhile([partial(_sign, tmp_path, number) for number in range(_MANY)]):
        pass
    signed = _signatures(tmp_path)
    assert sorted(signed) == list(range(_MANY))
    assert os.getpid() not in signed.values()


def test_few_parts_are_done_here(tmp_path: Path) -> None:
    """Processes would cost more than they save."""
    with meanwhile([partial(_sign, tmp_path, number) for number in range(3)]):
        assert not _signatures(tmp_path)
    assert _signatures(tmp_path) == dict.fromkeys(range(3), os.getpid())


def test_a_process_with_threads_is_not_forked(tmp_path: Path) -> None:
    """A fork has one thread, and the locks that others held."""
    done = threading.Event()
    waiting = threading.Thread(target=done.wait)
    waiting.start()
    try:
        with meanwhile([partial(_sign, tmp_path, number) for number in range(_MANY)]):
            pass
    finally:
        done.set()
        waiting.join()
    assert _signatures(tmp_path) == dict.fromkeys(range(_MANY), os.getpid())


def _fail() -> None:
    raise OSError(28, "No space left on device", "/page.html")


def test_what_a_part_raises_is_raised(tmp_path: Path) -> None:
    """As it was raised: errno, words and place."""
    work: list[Callable[[], None]] = [*(partial(_sign, tmp_path, number) for number in range(_MANY)), _fail]
    with pytest.raises(OSError, match=r"No space left on device: '/page.html'"), meanwhile(work):
        pass


def test_a_failure_of_the_block_is_raised(tmp_path: Path) -> None:
    """It does not wait for ever for the others."""
    work = [partial(_sign, tmp_path, number) for number in range(_MANY)]
    with pytest.raises(ZeroDivisionError), meanwhile(work):
        _ = 1 / 0
