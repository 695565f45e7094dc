"""A report in a browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_researchenv import cli
from tests.unit.html.made import quickstart


if TYPE_CHECKING:
    from selenium.webdriver import Chrome


@pytest.fixture(scope="session")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a report about a run of the quickstart: two agents, three attempts each."""
    folder = tmp_path_factory.mktemp("report")
    quickstart(folder / "results")
    assert cli.main(["report", "--results", str(folder / "results"), "--output", str(folder / "report")]) == 0
    return folder / "report"


@pytest.fixture(scope="module")
def chrome() -> Iterator[Chrome]:
    """A window of Chromium."""
    from benchmarks.browsing import browser, missing  # noqa: PLC0415 - only tests that look need a browser

    if problem := missing():
        pytest.skip(problem)
    with browser() as driver:
        driver.set_script_timeout(60)
        yield driver
