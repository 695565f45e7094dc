"""The pytest plugin: options, cases, plan and summary. Importing it imports nothing heavy."""

from __future__ import annotations

import uuid
from collections.abc import Generator
from pathlib import Path

import pytest

from pytest_researchenv import options
from pytest_researchenv.agents.registry import AGENTS
from pytest_researchenv.cases import CASE, Case, case_of, cases_for, distinct_cases
from pytest_researchenv.errors import ConfigurationError, InfrastructureError, ResearchEnvError
from pytest_researchenv.fixtures import (
    JUDGED,
    SESSION,
    c0,
    c1,
    harness_of,
    researchenv_case,
    researchenv_harness,
    tier_result,
)
from pytest_researchenv.report.summary import Summary
from pytest_researchenv.xdist import WORKER_KEY, XdistHooks, default_to_groups, stop_with_usage_error


__all__ = ["c0", "c1", "researchenv_case", "researchenv_harness", "tier_result"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options."""
    options.add_options(parser)


@pytest.hookimpl(trylast=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Choose how tests are distributed, after xdist has read its options."""
    if options.chosen_agents(config):
        default_to_groups(config)


def pytest_configure(config: pytest.Config) -> None:
    """Check the options, and add the chosen suites to what is collected."""
    options.check_options(config)
    worker = getattr(config, "workerinput", None)
    config.stash[SESSION] = worker[WORKER_KEY] if worker else uuid.uuid4().hex
    if worker:
        return
    config.pluginmanager.register(Summary(), "researchenv-summary")
    if config.pluginmanager.hasplugin("xdist"):
        config.pluginmanager.register(XdistHooks(), "researchenv-xdist")
    if names := options.chosen_suites(config):
        _collect_suites(config, names)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make one test per agent and repository of the suite that the module lies in."""
    if CASE not in metafunc.fixturenames:
        return
    folder = Path(str(metafunc.module.__file__)).parent
    if not (folder / "suite.toml").exists():
        return
    grouped = metafunc.config.pluginmanager.hasplugin("xdist")
    parameters = [
        pytest.param(case, id=case.id, marks=[pytest.mark.xdist_group(case.id)] if grouped else [])
        for case in cases_for(metafunc.config, folder)
    ]
    metafunc.parametrize(CASE, parameters, indirect=True, scope="module")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Stop before any work where no agent was chosen, or where a stored environment no longer fits."""
    cases = distinct_cases(session.items)
    if not cases or session.config.option.collectonly:
        return
    if problem := _problem(session.config, cases):
        stop_with_usage_error(session, problem)


def pytest_report_header(config: pytest.Config) -> str | None:
    """Name the agents and where results go, when there are any."""
    agents = options.chosen_agents(config)
    if not agents:
        return None
    run = options.run_option(config) or "default"
    return f"researchenv: agents {', '.join(agents)}; run {run}; results in {options.path_option(config, 'results')}"


def pytest_report_collectionfinish(config: pytest.Config, items: list[pytest.Item]) -> str | None:
    """Show the plan: what will be built, and what will be probed."""
    cases = [case for case in distinct_cases(items) if case.agent]
    if not cases or config.option.collectonly:
        return None
    harness = harness_of(config)
    stored = sum(harness.exists(case.agent, case.repository) for case in cases if case.agent)
    probed = sum(case_of(item) is not None for item in items)
    return f"researchenv: {len(cases) - stored} environments to build, {stored} to reuse; {probed} tiers to judge"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Give the test the probe's own duration, and our own errors their message without frames of ours."""
    report = yield
    if call.excinfo and isinstance(call.excinfo.value, ResearchEnvError):
        report.longrepr = f"{type(call.excinfo.value).__name__}: {call.excinfo.value}"
    if report.when == "call" and JUDGED in item.stash:
        report.duration = item.stash[JUDGED].result.duration_s
    return report


def _problem(config: pytest.Config, cases: list[Case]) -> str:
    if any(case.agent is None for case in cases):
        listing = "\n".join(f"  {name}: {text}" for name, text in AGENTS.items())
        return f"no agent was chosen: give --researchenv-agent=NAME. Known agents:\n{listing}"
    harness = harness_of(config)
    try:
        found = [harness.stale_message(case.agent, case.repository) for case in cases if case.agent]
    except ConfigurationError as error:
        return str(error)
    except InfrastructureError:
        # Each test will say so, as an error with its own report.
        return ""
    return "\n".join(message for message in found if message)


def _collect_suites(config: pytest.Config, names: list[str]) -> None:
    # Reading suites needs pydantic, which must cost nothing where no suite is asked for.
    from pytest_researchenv.suite import find_suite  # noqa: PLC0415

    try:
        folders = [str(find_suite(name)) for name in names]
    except ConfigurationError as error:
        raise pytest.UsageError(str(error)) from error
    given = config.args if config.args_source is pytest.Config.ArgsSource.ARGS else []
    config.args = [*given, *folders]
    # Every suite has a module of the same name.
    config.option.importmode = "importlib"
