"""Which tests there are: one case per agent and repository of a suite."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest

from pytest_researchenv.errors import SuiteError
from pytest_researchenv.model import Examination, Repository, Tier
from pytest_researchenv.options import attempts_option, chosen_agents


__all__ = ["CASE", "Case", "case_of", "cases_for", "distinct_cases", "tiers_of"]

#: Name of the parameter that carries the case.
CASE = "researchenv_case"


@dataclass(frozen=True, slots=True)
class Case:
    """One agent at one repository.

    Attributes:
        agent: name of the agent; None when none was chosen and tests are only listed.
        repository: what it tries.
        trial: which of its attempts.
    """

    agent: str | None
    repository: Repository
    trial: int = 1

    @property
    def id(self) -> str:
        """What stands in the test's id. The first attempt's is the same however many there are."""
        return f"{self.agent or 'no-agent'}-{self.repository.slug}{self._suffix}"

    @property
    def group(self) -> str:
        """What tells it from the cases of all suites."""
        return f"{self.agent or 'no-agent'}-{self.repository.key}{self._suffix}"

    @property
    def _suffix(self) -> str:
        return "" if self.trial == 1 else f"-{self.trial}"


def cases_for(config: pytest.Config, folder: Path) -> list[Case]:
    """Return the cases of the suite in a folder.

    Raises:
        SuiteError: the suite's files are wrong, or two of its tests would have the same id.
    """
    # Reading suites needs pydantic, which must cost nothing where no suite is collected.
    from pytest_researchenv.suite import load_suite  # noqa: PLC0415

    suite = load_suite(folder)
    agents: list[str | None] = [*chosen_agents(config)] or [None]
    # The first attempts come first, so that a run that is stopped early has something of every repository.
    trials = range(1, attempts_option(config) + 1)
    cases = [Case(agent, repo, trial) for agent in agents for trial in trials for repo in suite.repositories]
    repeated = [name for name, count in Counter(case.id for case in cases).items() if count > 1]
    if repeated:
        raise SuiteError(
            f"{folder}: {repeated[0]} would be both another attempt at one repository and the first at another: "
            "rename a repository, or give a smaller --researchenv-attempts"
        )
    return cases


def case_of(item: pytest.Item) -> Case | None:
    """Return the case of a test, or None when the test is none of ours."""
    callspec = getattr(item, "callspec", None)
    case = callspec.params.get(CASE) if callspec else None
    return case if isinstance(case, Case) else None


def distinct_cases(items: Iterable[pytest.Item]) -> list[Case]:
    """Return the cases of some tests, each once, in order."""
    return list({case.group: case for item in items if (case := case_of(item))}.values())


def tiers_of(item: pytest.Item) -> list[Tier | Examination]:
    """Return what a test has judged, by the fixtures that it asks for."""
    names = getattr(item, "fixturenames", ())
    return [judged for judged in (*Tier, *Examination) if judged.lower() in names]
