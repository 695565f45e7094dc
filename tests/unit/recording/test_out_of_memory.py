"""The kernel kills a worker for want of memory: one test is an error, and the run goes on."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.simulated import TESTS, Workplace


_MEMORY = Path("/sys/fs/cgroup/memory")
_LIMIT_BYTES = 400 * 1024**2

#: What a worker does that is hungry: it goes into the small group, and takes more than there is.
HUNGRY = """
import os
from pathlib import Path

def pytest_runtest_setup(item):
    eaten = Path("eaten")
    if item.name == "test_c1_cpu_execution[fake-fine]" and not eaten.exists():
        eaten.touch()
        Path(os.environ["GROUP"], "cgroup.procs").write_text(str(os.getpid()))
        hold = b"x" * (1 << 30)
"""


@pytest.fixture
def group() -> Iterator[Path]:
    """A control group whose members have little memory together."""
    group = _MEMORY / f"researchenv-test-{uuid.uuid4().hex[:12]}"
    try:
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text(str(_LIMIT_BYTES))
        with suppress(OSError):
            (group / "memory.memsw.limit_in_bytes").write_text(str(_LIMIT_BYTES))
    except OSError as error:
        pytest.skip(f"no memory control group can be made here: {error}")
    yield group
    group.rmdir()


def test_a_worker_that_is_killed_for_memory_costs_one_test(tmp_path: Path, group: Path) -> None:
    """That test is an error of the infrastructure; another worker does the rest, and nothing is done twice."""
    workplace = Workplace(tmp_path)
    (tmp_path / "mine/conftest.py").write_text(HUNGRY)

    _, printed = workplace.run("-n", "2", MENDED="1", GROUP=str(group))

    assert (tmp_path / "eaten").exists(), printed
    outcomes = workplace.outcomes()
    assert outcomes.pop("test_c1_cpu_execution[fake-fine]") == "error", printed
    assert "crashed while running" in printed
    assert len(outcomes) == TESTS - 1
    assert set(outcomes.values()) == {"passed", "skipped"}, printed
    assert "oom_kill 1" in (group / "memory.oom_control").read_text()
