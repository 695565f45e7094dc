"""The pytest plugin: options, and all else once something of ours is asked for or collected.

Every pytest run of an environment that we are installed in imports this, so it imports next to nothing.
"""

from __future__ import annotations

import uuid
from collections.abc import Generator
from datetime import UTC, datetime
from os.path import exists
from pathlib import Path

import pytest

from pytest_researchenv.declarations import add_options, are_given
from pytest_researchenv.xdist import SESSION, XdistHooks, note_distribution, session_of_worker


__all__ = ["FIXTURES"]

_WIRING = "researchenv-wiring"
#: Fixtures that a test outside of any suite may ask for: it is told what it lacks.
FIXTURES = {
    *("c0", "c1", "c2", "c3", "c4", "c5", "integrity", "improvement", "tier_result"),
    *("researchenv_case", "researchenv_research_case", "researchenv_harness"),
}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options."""
    add_options(parser)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> Generator[None, int, int]:
    """See how tests are to be distributed, before xdist sets its default."""
    note_distribution(config)
    return (yield)


def pytest_configure(config: pytest.Config) -> None:
    """Name the session and the markers, and do all else where anything of ours was asked for."""
    # Its beginning makes records of later sessions stand after those of earlier ones.
    new = f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{uuid.uuid4().hex[:12]}"
    config.stash[SESSION] = session_of_worker(config) or new
    config.addinivalue_line(
        "markers", "integrity: audits an environment for signs of tampering, apart from the six tiers"
    )
    config.addinivalue_line("markers", "research: compares what an agent's research came to with published baselines")
    if config.pluginmanager.hasplugin("xdist") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(XdistHooks(), "researchenv-xdist")
    if are_given(config):
        _wire(config)


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Pass over what a suite holds of a repository or a task: its files belong to containers, and are many."""
    # Asked for every file of every project, where making a Path takes several times as long as looking.
    described = any(exists(f"{collection_path}/{name}") for name in ("repo.toml", "task.toml"))  # noqa: PTH110
    return True if described and (collection_path.parent / "suite.toml").exists() else None


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> None:
    """Have fixtures and cases ready before the first module of a suite is collected."""
    if (module_path.parent / "suite.toml").exists():
        _wire(parent.config)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Have fixtures ready for a test that asks for them without being a suite's: they say what is wrong."""
    if not FIXTURES.isdisjoint(getattr(item, "fixturenames", ())):
        _wire(item.config)


def _wire(config: pytest.Config) -> None:
    if config.pluginmanager.hasplugin(_WIRING):
        return
    from pytest_researchenv import fixtures, wiring  # noqa: PLC0415 - with them come a hundred modules.

    config.pluginmanager.register(fixtures, "researchenv-fixtures")
    config.pluginmanager.register(wiring, _WIRING)
