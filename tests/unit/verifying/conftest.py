"""What the tests of verifying may use."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.verifying.bench import Bench


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """A run that is finished."""
    bench = Bench(tmp_path)
    bench.run()
    return bench
