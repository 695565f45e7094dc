"""What pytest does in a session with a suite: cases, plan and summary.

`plugin` registers it once something of ours is asked for.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_researchenv import options
from pytest_researchenv.agents.registry import known_agents
from pytest_researchenv.cases import (
    PARAMETERS,
    Case,
    ResearchCase,
    case_of,
    distinct_cases,
    research_case_of,
    tiers_of,
)
from pytest_researchenv.contexts import engines_option
from pytest_researchenv.detached.telling import StillAtWork
from pytest_researchenv.errors import ConfigurationError, InfrastructureError, ResearchEnvError, SuiteError
from pytest_researchenv.fixtures import HARNESS, JUDGED, harness_of
from pytest_researchenv.live import PLUGIN, Progress
from pytest_researchenv.model import Cause, Eviction, Examination, Repository, Tier, Verdict
from pytest_researchenv.report.properties import OURS
from pytest_researchenv.report.summary import Summary
from pytest_researchenv.terminating import Terminating
from pytest_researchenv.testids import research_in
from pytest_researchenv.xdist import SESSION, session_of_worker, stop_with_usage_error


if TYPE_CHECKING:
    from pytest_researchenv.disk.evicting import Evicting
    from pytest_researchenv.environments import Environments
    from pytest_researchenv.redaction import Redactor

#: Folder of a suite whose files are wrong → what is wrong with them.
_BROKEN = pytest.StashKey[dict[str, str]]()
#: Name of a parameter and folder of a suite → its cases: reading a suite takes longer than all else in collection.
_CASES = pytest.StashKey[dict[tuple[str, Path], Sequence[Case | ResearchCase]]]()


def pytest_configure(config: pytest.Config) -> None:
    """Check the options, and add the chosen suites to what is collected."""
    options.check_options(config)
    if engines_option(config) and options.keep_option(config).evicts:
        raise pytest.UsageError(
            "--researchenv-keep removes images from one container engine: leave it out with --researchenv-docker"
        )
    # On workers, too: xdist gives them the command line as it was.
    if names := options.chosen_suites(config):
        _collect_suites(config, names)
    if not config.option.collectonly and (
        options.chosen_agents(config) or options.text_option(config, "junit") or options.text_option(config, "ctrf")
    ):
        # Records need pydantic, which must cost nothing where nothing is recorded.
        from pytest_researchenv.recording.plugin import record  # noqa: PLC0415

        record(config)
    if session_of_worker(config):
        return
    summary = Summary(spent=lambda: _spent(config), disk=lambda: _disk(config))
    config.pluginmanager.register(summary, "researchenv-summary")
    if options.chosen_agents(config):
        config.pluginmanager.register(Terminating(), "researchenv-terminating")
        if options.keep_option(config).evicts and not config.option.collectonly:
            summary.evicting = _evicting(config)
            config.pluginmanager.register(summary.evicting, "researchenv-evicting")
        config.pluginmanager.register(Progress(options.seconds_option(config, "progress_interval")), PLUGIN)
        run = options.run_option(config) or "default"
        still = StillAtWork(options.path_option(config, "results"), run)
        config.pluginmanager.register(still, "researchenv-still-at-work")


def _evicting(config: pytest.Config) -> Evicting:
    """What removes frozen images; it reads records, which must cost nothing where nothing is recorded."""
    from pytest_researchenv.disk.evicting import Evicting  # noqa: PLC0415

    return Evicting(
        options.keep_option(config),
        agents=options.chosen_agents(config),
        run=options.path_option(config, "results") / (options.run_option(config) or "default"),
        session=config.stash[SESSION],
        evict=partial(_evict, config),
        is_research=research_in(config.rootpath),
    )


def pytest_unconfigure(config: pytest.Config) -> None:
    """Let go of the container engine."""
    if HARNESS in config.stash:
        config.stash[HARNESS].close()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make one test per agent and repository, or sub-task, of the suite that the module lies in."""
    parameter = next((name for name in PARAMETERS if name in metafunc.fixturenames), None)
    if parameter is None:
        return
    folder = Path(str(metafunc.module.__file__)).parent
    if not (folder / "suite.toml").exists():
        return
    known = metafunc.config.stash.setdefault(_CASES, {})
    if (parameter, folder) not in known:
        known[parameter, folder] = _cases(metafunc.config, parameter, folder)
    parameters = [pytest.param(case, id=case.id) for case in known[parameter, folder]]
    metafunc.parametrize(parameter, parameters, indirect=True, scope="module")


def _cases(config: pytest.Config, parameter: str, folder: Path) -> Sequence[Case | ResearchCase]:
    try:
        return PARAMETERS[parameter](config, folder)
    except SuiteError as error:
        # Raised once all is collected: pytest takes an exception here for a defect of the test module.
        config.stash.setdefault(_BROKEN, {})[str(folder)] = str(error)
        return ()


def pytest_itemcollected(item: pytest.Item) -> None:
    """Let `-k` select sub-tasks by the names of what they are measured by, beside their ids."""
    if case := research_case_of(item):
        item.extra_keyword_matches.update(case.subtask.scores)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave only those tests that are to be run again, where that was asked for."""
    rerun = options.rerun_option(config)
    if not rerun or not options.chosen_agents(config):
        return
    environments = harness_of(config).environments
    chosen: list[pytest.Item] = []
    others: list[pytest.Item] = []
    for item in items:
        case, research = case_of(item), research_case_of(item)
        stored = {subject: _stored(environments, case, subject) for subject in tiers_of(item)} if case else {}
        wanted = any(rerun.wants(subject, verdict) for subject, verdict in stored.items())
        if research:
            wanted = rerun.wants(None, _stored_research(config, environments, research))
        (chosen if wanted else others).append(item)
    config.hook.pytest_deselected(items=others)
    items[:] = chosen


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Stop before any work where the user has to put something right, or to decide something."""
    broken = session.config.stash.get(_BROKEN, {})
    cases = distinct_cases(session.items)
    research = [case for item in session.items if (case := research_case_of(item))]
    if broken:
        stop_with_usage_error(session, "\n".join(broken.values()))
    elif not session.config.option.collectonly and (problem := _problem(session.config, cases, research)):
        stop_with_usage_error(session, problem)


def pytest_report_header(config: pytest.Config) -> list[str] | None:
    """Name the agents and where results go, when there are any."""
    agents = options.chosen_agents(config)
    if not agents:
        return None
    run = options.run_option(config) or "default"
    lines = [f"researchenv: agents {', '.join(agents)}; run {run}; results in {options.path_option(config, 'results')}"]
    # Named, since a variable of the environment may have led elsewhere than the profile says.
    make = options.agents_of(config)
    lines += [
        f"researchenv: {agent} asks {service.model} at {service.endpoint}"
        for agent in agents
        if (service := make(agent).needs.service)
    ]
    return lines


def pytest_report_collectionfinish(config: pytest.Config, items: list[pytest.Item]) -> str | None:
    """Show the plan: what will be built, and what will be judged."""
    if config.option.collectonly and config.option.verbose < 1:
        return None
    lines = [line for line in (_environments_plan(config, items), _research_plan(config, items)) if line]
    return "\n".join(lines) or None


def _research_plan(config: pytest.Config, items: list[pytest.Item]) -> str:
    cases = [case for item in items if (case := research_case_of(item)) and case.agent]
    if not cases:
        return ""
    places = _places(config, cases)
    if not places:
        tasks = len({case.task.key for case in cases})
        return f"researchenv: research: sub-tasks: {len(cases)} of {tasks} tasks; none can be run yet"
    environments = harness_of(config).environments
    missing = [
        environments.most_usd(str(case.agent), place)
        for case, place in places
        if not environments.exists(str(case.agent), place, trial=case.trial)
    ]
    judged = sum(_runnable(config, case) for case in cases)
    return (
        f"researchenv: research: {len(missing)} tasks to work at, {len(places) - len(missing)} to reuse; "
        f"sub-tasks: {judged} to evaluate, {len(cases) - judged} cannot be run yet"
    ) + _most(missing, options.agent_settings(config).max_cost_usd)


def _places(config: pytest.Config, cases: Iterable[ResearchCase]) -> list[tuple[ResearchCase, Repository]]:
    """Of each piece of work at a task that something here evaluates one case, with what agents know the task as."""
    # Evaluations read records, which needs pydantic.
    from pytest_researchenv.research.workplace import workplace_of  # noqa: PLC0415

    found = {case.group: case for case in cases if _runnable(config, case)}.values()
    return [(case, workplace_of(case.task)) for case in found]


def _runnable(config: pytest.Config, case: ResearchCase) -> bool:
    """Whether a sub-task can be evaluated with the data that the user has; devices are only known when it runs."""
    from pytest_researchenv.research.data import missing_data  # noqa: PLC0415 - as above
    from pytest_researchenv.research.evaluators import evaluator_of  # noqa: PLC0415

    if evaluator_of(case.task) is None:
        return False
    if case.task.evaluation.reported is None:
        return True
    try:
        return not missing_data(case.task, case.subtask_id, options.data_option(config))
    except ConfigurationError:  # Its test says what is wrong with them.
        return True


def _environments_plan(config: pytest.Config, items: list[pytest.Item]) -> str:
    wanted = [(case, tiers_of(item)) for item in items if (case := case_of(item)) and case.agent]
    if not wanted:
        return ""
    judged = [(case, tier) for case, tiers in wanted for tier in tiers]
    applicable = [
        (case, tier) for case, tier in judged if not isinstance(tier, Tier) or case.repository.spec(tier).supported
    ]
    environments = harness_of(config).environments
    cases = list({case.group: case for case, _ in applicable}.values())
    missing = [
        case.agent
        for case in cases
        if case.agent and not environments.exists(case.agent, case.repository, trial=case.trial)
    ]
    audits = sum(not isinstance(tier, Tier) for _, tier in applicable)
    skipped = len(judged) - len(applicable)
    return (
        f"researchenv: environments: {len(missing)} to build, {len(cases) - len(missing)} to reuse; "
        f"tiers: {len(applicable) - audits} to judge, {skipped} not applicable"
        + (f"; {audits} to audit" if audits else "")
    ) + _most([environments.most_usd(agent) for agent in missing], options.agent_settings(config).max_cost_usd)


def _stored(environments: Environments, case: Case, subject: Tier | Examination) -> Verdict | None:
    """What earlier sessions of the run have stored; of a record that is damaged, its own test tells."""
    if isinstance(subject, Tier) and case.repository.spec(subject).idle[0] is not Cause.NONE:
        return None
    try:
        return environments.stored(str(case.agent), case.repository, subject, trial=case.trial)
    except InfrastructureError:
        return Verdict.ERROR


def _stored_research(config: pytest.Config, environments: Environments, case: ResearchCase) -> Verdict | None:
    """Likewise of a sub-task; that nothing here can run it is no reason to run it again."""
    if not (places := _places(config, [case])):
        return Verdict.SKIPPED
    try:
        return environments.stored(str(case.agent), places[0][1], case.subtask_id, trial=case.trial)
    except InfrastructureError:
        return Verdict.ERROR


def _most(each: list[float | None], limit: float | None) -> str:
    """Say what all can cost at most, from what each can; nothing where it costs no money."""
    bounded = None if None in each else sum(cost for cost in each if cost is not None)
    if bounded == 0:
        return ""
    if limit is not None and (bounded is None or limit < bounded):
        return f"\nresearchenv: cost: at most ${limit:.2f} (--researchenv-max-cost)"
    if bounded is None:
        return "\nresearchenv: cost: not limited (set max_cost_usd in the profile, or --researchenv-max-cost)"
    return f"\nresearchenv: cost: at most ${bounded:.2f}, all retries included"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Give the test the probe's own duration, and our own errors their message without frames of ours."""
    report = yield
    if call.excinfo and isinstance(call.excinfo.value, ResearchEnvError):
        report.longrepr = f"{type(call.excinfo.value).__name__}: {call.excinfo.value}"
    if HARNESS in item.config.stash:
        _redact(report, item.config.stash[HARNESS].environments.redactor)
    if JUDGED in item.stash:
        judged = item.stash[JUDGED]
        took = judged.result.duration_s if judged.fresh else 0.0
        if report.when == "setup":
            report.duration = max(0.0, report.duration - took)
        elif report.when == "call":
            report.duration = took
    return report


def _evict(config: pytest.Config, agent: str, repository: str, number: int) -> Eviction | None:
    """Remove the frozen image of an attempt. The engine is asked for when the first one is."""
    return harness_of(config).evict(agent, repository, number)


def _disk(config: pytest.Config) -> str:
    """How much room the engine's disk has, where this process has asked the engine for anything."""
    return harness_of(config).environments.disk_in_words()


def _spent(config: pytest.Config) -> float:
    """What the session has spent on models, in US dollars, on every worker."""
    return harness_of(config).environments.spent_usd


def _redact(report: pytest.TestReport, redactor: Redactor) -> None:
    """Take secrets out of what pytest shows and writes: messages, captured output, properties."""

    def clean(text: str) -> str:
        return redactor.bytes(text.encode(errors="surrogatepass")).decode(errors="surrogatepass")

    # An exception that is not ours comes with the lines around it, and with -l with all local variables.
    if report.failed and (shown := clean(text := str(report.longrepr))) != text:
        report.longrepr = shown
    report.sections[:] = [(title, clean(text)) for title, text in report.sections]
    report.user_properties[:] = [
        (name, clean(value) if isinstance(value, str) and name not in OURS else value)
        for name, value in report.user_properties
    ]


def _problem(config: pytest.Config, cases: list[Case], research: list[ResearchCase]) -> str:
    if None in [*(case.agent for case in cases), *(case.agent for case in research)]:
        known = known_agents(options.profiles_of(config))
        listing = "\n".join(f"  {name}: {text}" for name, text in known.items())
        return f"no agent was chosen: give --researchenv-agent=NAME. Known agents:\n{listing}"
    works = [(str(case.agent), case.repository, case.trial) for case in cases]
    works += [(str(case.agent), place, case.trial) for case, place in _places(config, research)] if research else []
    if not works:
        return ""
    environments = harness_of(config).environments
    found = []
    for agent, repository, trial in works:
        try:
            found.append(environments.problem(agent, repository, trial=trial))
        except ConfigurationError as error:
            found.append(str(error))
        except InfrastructureError:
            # Its tests will say so, as errors with their own reports.
            continue
    return "\n".join(dict.fromkeys(message for message in found if message))


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
