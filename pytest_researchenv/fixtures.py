"""What tests of a suite ask for.

What decides a verdict runs in fixtures, so that trouble with the infrastructure is a pytest error and never a failure;
the verdict itself is asserted in the test, by `pytest_researchenv.check`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn

import pytest

from pytest_researchenv.cases import CASE, RESEARCH_CASE, Case, ResearchCase
from pytest_researchenv.contexts import engines_option
from pytest_researchenv.errors import ConfigurationError, InfrastructureError
from pytest_researchenv.live import teller_of
from pytest_researchenv.model import Examination, Tier
from pytest_researchenv.options import (
    accelerator_option,
    agent_gpus_option,
    agent_settings,
    agents_of,
    archiving_option,
    continued_option,
    data_option,
    disk_floor_option,
    extension_option,
    inspector_option,
    keep_option,
    limits_option,
    package_cache_option,
    path_option,
    profiles_of,
    ratio_option,
    rerun_option,
    run_option,
    sharing_option,
    text_option,
    timeout_option,
)
from pytest_researchenv.report.properties import (
    PREFIX,
    before_judging,
    before_research,
    judged_properties,
    research_properties,
    stopped_properties,
)
from pytest_researchenv.xdist import SESSION


if TYPE_CHECKING:
    from pytest_researchenv.engine import Engine
    from pytest_researchenv.harness import Harness, Judged
    from pytest_researchenv.pool import Pool
    from pytest_researchenv.researching import JudgedResearch

__all__ = [
    "JUDGED",
    "OPENED",
    "c0",
    "c1",
    "c2",
    "c3",
    "c4",
    "c5",
    "harness_of",
    "improvement",
    "integrity",
    "researchenv_case",
    "researchenv_harness",
    "researchenv_research_case",
    "tier_result",
]

#: What was judged in a test.
JUDGED = pytest.StashKey["Judged | JudgedResearch"]()
#: What is told of the container engine once it is ready.
OPENED = pytest.StashKey[Callable[["Engine"], None]]()
#: What builds environments and judges them.
HARNESS = pytest.StashKey["Harness | Pool"]()


def harness_of(config: pytest.Config) -> Harness | Pool:
    """Return the session's harness; the container engine is asked for nothing yet."""
    if HARNESS not in config.stash:
        # Docker and its companions are imported by sessions that run a suite, and by no other.
        from pytest_researchenv.detached.job import EngineChoice, Starter  # noqa: PLC0415
        from pytest_researchenv.harness import Harness  # noqa: PLC0415
        from pytest_researchenv.probes.table import PROBES  # noqa: PLC0415
        from pytest_researchenv.sandbox.ready import docker_engine, host_of  # noqa: PLC0415
        from pytest_researchenv.settings import Settings  # noqa: PLC0415

        run = run_option(config)
        settings = Settings(
            results=path_option(config, "results"),
            run=run or "default",
            continued=continued_option(config),
            rerun=rerun_option(config),
            rebuild=config.getoption("--researchenv-rebuild"),
            reuse_anyway=config.getoption("--researchenv-reuse-anyway"),
            agent_timeout_s=timeout_option(config),
            agent_limits=limits_option(config),
            agent_gpus=agent_gpus_option(config),
            data=data_option(config),
            extension=extension_option(config),
            archiving=archiving_option(config),
            stop_detached=text_option(config, "interrupt") == "stop",
            c0_max_missing=ratio_option(config, "c0_max_missing"),
            cache=path_option(config, "cache"),
            session=config.stash[SESSION],
            inspector=inspector_option(config),
            agents=agent_settings(config),
            disk_floor_bytes=disk_floor_option(config),
            keep=keep_option(config),
        )
        say = teller_of(config)
        image, accelerator, sharing = text_option(config, "image"), accelerator_option(config), sharing_option(config)
        packages = package_cache_option(config)

        def engine(context: str = "") -> Engine:
            made = docker_engine(
                settings.run,
                image=image,
                accelerator=accelerator,
                say=say,
                sharing=sharing,
                context=context,
                package_cache_bytes=packages,
            )
            config.stash.get(OPENED, _nobody)(made)
            return made

        def harness(made: Callable[[], Engine], start: Starter | None = None) -> Harness:
            return Harness(settings, engine=made, probes=PROBES, agents=agents_of(config), say=say, start=start)

        contexts = engines_option(config)
        if not contexts:
            starter = Starter(settings, EngineChoice(image, accelerator, sharing, packages), profiles_of(config))
            config.stash[HARNESS] = harness(engine, starter)
        else:
            from pytest_researchenv.pool import Pool  # noqa: PLC0415 - as above.

            config.stash[HARNESS] = Pool(
                contexts,
                make=harness,
                connect=engine,
                look=lambda context: host_of(context, sharing),
                folder=settings.results / settings.run,
                session=settings.session,
            )
    return config.stash[HARNESS]


@pytest.fixture(scope="session")
def researchenv_harness(pytestconfig: pytest.Config) -> Harness | Pool:
    """What builds environments and judges them."""
    return harness_of(pytestconfig)


@pytest.fixture(scope="module")
def researchenv_case(request: pytest.FixtureRequest) -> Case:
    """The agent and the repository of this test."""
    case = getattr(request, "param", None)
    return case if isinstance(case, Case) else _no_suite(request, CASE)


@pytest.fixture(scope="module")
def researchenv_research_case(request: pytest.FixtureRequest) -> ResearchCase:
    """The agent and the sub-task of this test."""
    case = getattr(request, "param", None)
    return case if isinstance(case, ResearchCase) else _no_suite(request, RESEARCH_CASE)


@pytest.fixture
def tier_result(
    request: pytest.FixtureRequest, researchenv_case: Case, researchenv_harness: Harness
) -> Callable[[Tier | Examination], Judged]:
    """Judge a tier of this test's environment, or audit it, building the environment when there is none."""

    def judge(tier: Tier | Examination) -> Judged:
        agent, repository, trial = researchenv_case.agent, researchenv_case.repository, researchenv_case.trial
        if agent is None:
            raise ConfigurationError("no agent was chosen: give --researchenv-agent")
        # A test that pytest-rerunfailures runs again has what its last run found.
        known = [pair for pair in request.node.user_properties if not pair[0].startswith(PREFIX)]
        request.node.user_properties[:] = [*known, *before_judging(agent, repository, tier, trial)]
        rerun = getattr(request.node, "execution_count", 1) > 1
        try:
            judged = researchenv_harness.judge(agent, repository, tier, retry=rerun, trial=trial)
        except InfrastructureError:
            request.node.user_properties += stopped_properties(researchenv_harness.environments.stopped(agent))
            raise
        request.node.user_properties += judged_properties(judged)
        request.node.stash[JUDGED] = judged
        return judged

    return judge


@pytest.fixture
def c0(tier_result: Callable[[Tier | Examination], Judged]) -> Judged:
    """Tier C0: every import of the tracked files resolves."""
    return tier_result(Tier.C0)


@pytest.fixture
def c1(tier_result: Callable[[Tier | Examination], Judged]) -> Judged:
    """Tier C1: the repository's own entry point runs on the CPU."""
    return tier_result(Tier.C1)


@pytest.fixture
def c2(tier_result: Callable[[Tier | Examination], Judged]) -> Judged:
    """Tier C2: each framework, the driver and the devices agree."""
    return tier_result(Tier.C2)


@pytest.fixture
def c3(tier_result: Callable[[Tier | Examination], Judged]) -> Judged:
    """Tier C3: the entry point does its work on one device."""
    return tier_result(Tier.C3)


@pytest.fixture
def c4(tier_result: Callable[[Tier | Examination], Judged]) -> Judged:
    """Tier C4: the entry point does its work on several devices."""
    return tier_result(Tier.C4)


@pytest.fixture
def c5(tier_result: Callable[[Tier | Examination], Judged]) -> Judged:
    """Tier C5: the self-report claims nothing that does not hold."""
    return tier_result(Tier.C5)


@pytest.fixture
def integrity(tier_result: Callable[[Tier | Examination], Judged]) -> Judged:
    """The integrity audit: nothing in the environment is made to look like what it is not."""
    return tier_result(Examination.INTEGRITY)


@pytest.fixture
def improvement(
    request: pytest.FixtureRequest, researchenv_research_case: ResearchCase, researchenv_harness: Harness
) -> JudgedResearch:
    """What the agent's research came to, beside the best baseline of the sub-task."""
    case = researchenv_research_case
    if case.agent is None:
        raise ConfigurationError("no agent was chosen: give --researchenv-agent")
    node = request.node
    # As for tiers.
    node.user_properties[:] = [
        *(pair for pair in node.user_properties if not pair[0].startswith(PREFIX)),
        *before_research(case),
    ]
    rerun = getattr(node, "execution_count", 1) > 1
    try:
        judged = researchenv_harness.research.judge(
            case.agent, case.task, case.subtask_id, retry=rerun, trial=case.trial
        )
    except InfrastructureError:
        node.user_properties += stopped_properties(researchenv_harness.environments.stopped(case.agent))
        raise
    node.user_properties += research_properties(judged)
    node.stash[JUDGED] = judged
    return judged


def _nobody(engine: Engine) -> None:
    """Tell nobody of the container engine."""


def _no_suite(request: pytest.FixtureRequest, parameter: str) -> NoReturn:
    raise ConfigurationError(
        f"{request.node.nodeid} asks for {parameter}, but its folder holds no suite.toml; "
        "move the test into a suite's folder"
    )
