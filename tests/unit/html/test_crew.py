"""Pages of many environments are made on every processor, and a failure of one of them is not lost."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
from functools import partial
from pathlib import Path

import pytest

from pytest_researchenv.report.html.crew import meanwhile


_MANY = 200


def _sign(folder: Path, number: int) -> None:
    (folder / str(number)).write_text(str(os.getpid()))


def _signatures(folder: Path) -> dict[int, int]:
    return {int(path.name): int(path.read_text()) for path in folder.iterdir()}


def _alone(folder: Path, code: str) -> subprocess.CompletedProcess[str]:
    """Run code in a process without further threads, as the command has it: tests may have some."""
    script = f"""
        import os
        from functools import partial
        from pathlib import Path
        from pytest_researchenv.report.html.crew import meanwhile

        def sign(number):
            (Path({str(folder)!r}) / str(number)).write_text(str(os.getpid()))

        def fail():
            raise OSError(28, "No space left on device", "/page.html")

        work = [partial(sign, number) for number in range({_MANY})]
    """
    command = [sys.executable, "-c", textwrap.dedent(script) + textwrap.dedent(code)]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)


def test_many_parts_are_done_by_others_while_the_block_runs(tmp_path: Path) -> None:
    """Each is done once, none of them by this process."""
    ran = _alone(tmp_path, "with meanwhile(work): print(os.getpid())")

    assert ran.returncode == 0, ran.stderr
    signed = _signatures(tmp_path)
    assert sorted(signed) == list(range(_MANY))
    assert int(ran.stdout) not in signed.values()


def test_what_a_part_raises_is_raised(tmp_path: Path) -> None:
    """As it was raised: errno, words and place."""
    ran = _alone(tmp_path, "with meanwhile([*work, fail]): pass")

    assert ran.stderr.endswith("OSError: [Errno 28] No space left on device: '/page.html'\n")


def test_a_failure_of_the_block_is_raised(tmp_path: Path) -> None:
    """It does not wait for ever for the others."""
    ran = _alone(tmp_path, "with meanwhile(work): 1 / 0")

    assert ran.stderr.endswith("ZeroDivisionError: division by zero\n")


def test_what_parts_return_is_there_in_their_order(tmp_path: Path) -> None:
    """Once all are done."""
    ran = _alone(
        tmp_path, "with meanwhile([partial(abs, -n) for n in range(200)]) as done: print(done)\nprint(done[::50])"
    )

    assert ran.stdout == "[]\n[0, 50, 100, 150]\n"


def test_parts_of_a_process_that_was_killed_are_done_here(tmp_path: Path) -> None:
    """Where the system has too little memory for all at once it may have enough for one."""
    killed = "with meanwhile([*work, lambda me=os.getpid(): os.getpid() == me or os.kill(os.getpid(), 9)]): pass"
    ran = _alone(tmp_path, f"{killed}\nprint(os.getpid())")

    assert ran.returncode == 0, ran.stderr
    assert _signatures(tmp_path) == dict.fromkeys(range(_MANY), int(ran.stdout))


@pytest.mark.parametrize("change", ["os.sched_getaffinity = lambda _: range(10_000)", "del os.sched_getaffinity"])
def test_no_more_processes_are_forked_than_have_work(tmp_path: Path, change: str) -> None:
    """However many processors there are, and where the system does not say which a process may use."""
    counted = "with meanwhile(work): print(len(multiprocessing.active_children()))"
    ran = _alone(tmp_path, f"import multiprocessing\n{change}\n{counted}")

    assert ran.returncode == 0, ran.stderr
    assert 1 <= int(ran.stdout) <= _MANY // 16
    assert sorted(_signatures(tmp_path)) == list(range(_MANY))


def test_few_parts_are_done_here(tmp_path: Path) -> None:
    """Processes would cost more than they save."""
    with meanwhile([partial(_sign, tmp_path, number) for number in range(3)]):
        assert not _signatures(tmp_path)
    assert _signatures(tmp_path) == dict.fromkeys(range(3), os.getpid())


def test_a_process_with_threads_is_not_forked(tmp_path: Path) -> None:
    """A fork has one thread, and the locks that others held; what a part raises is raised all the same."""
    done = threading.Event()
    waiting = threading.Thread(target=done.wait)
    waiting.start()
    try:
        with meanwhile([partial(_sign, tmp_path, number) for number in range(_MANY)]):
            pass
        with pytest.raises(FileNotFoundError), meanwhile([partial(_sign, tmp_path / "nowhere", 1)] * _MANY):
            pass
    finally:
        done.set()
        waiting.join()
    assert _signatures(tmp_path) == dict.fromkeys(range(_MANY), os.getpid())
