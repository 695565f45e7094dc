"""What agents are told of a research task: all they need, and nothing that is withheld from them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_researchenv.agents.protocol import REPORT_PATH, Needs
from pytest_researchenv.assignment import Earlier, MountedData, Situation, assignment_of
from pytest_researchenv.errors import ConfigurationError
from pytest_researchenv.gateway.protocol import Api, Auth, Budget, ModelService, Reach
from pytest_researchenv.model import PathSource, Repository
from pytest_researchenv.research.assignment import ResearchAssignment
from pytest_researchenv.research.suite import load_research_suite
from pytest_researchenv.research.task import Subtask, Task
from pytest_researchenv.research.workplace import workplace_of
from pytest_researchenv.suite import find_suite


TASKS = {task.name: task for task in load_research_suite(find_suite("researchgym")).tasks}

_SERVICE = ModelService(Api.MESSAGES, "https://api.example.org", Auth.API_KEY, "KEY", "model")


def told(task: Task, **changes: object) -> str:
    """The prompt, under ordinary conditions."""
    needs = ResearchAssignment(task, "/workspace/x").needs(Needs(service=_SERVICE))
    situation = Situation(needs=needs, devices=1, timeout_s=7200, max_cost_usd=10.0)
    return ResearchAssignment(task, "/workspace/x").prompt(replace(situation, **changes))  # type: ignore[arg-type]


def situations(task: Task) -> Iterator[str]:
    """The prompt under every condition that changes it."""
    for reach in Reach:
        needs = Needs(reach=reach, allow=("*",) if reach is Reach.ALLOWLIST else ())
        data = tuple(MountedData(name, "/data/x") for name in task.data)
        yield told(task, needs=needs, data=data, earlier=Earlier(1, 60, restored=True), devices=0)
    yield told(task)


def withheld_numbers(task: Task) -> set[str]:
    """How what the withheld method reached may be written, as far as no baseline reached the same."""
    scores = [score for subtask in task.subtasks.values() for score in subtask.scores.values()]
    shown = {f"{score.to_beat:g}" for score in scores} | {f"{value:g}" for s in scores for value in s.spreads.values()}
    secret = {score.withheld for score in scores} | {score.validation.withheld for score in scores}
    secret |= {score.withheld_spread for score in scores} | {one.withheld for one in task.primary}
    return {form for value in secret if value is not None for form in (f"{value:g}", f"{value:.2f}")} - shown


@pytest.mark.parametrize("name", TASKS)
def test_nothing_that_is_withheld_is_told(name: str) -> None:
    """Neither method nor paper, address, number, blocked address nor pattern stands in the prompt, in any situation."""
    task = TASKS[name]
    words = [task.withheld.method, task.withheld.paper, task.withheld.address, *task.blocked.urls]
    words += [piece for pattern in task.blocked.patterns for piece in [pattern.strip("*")] if "*" not in piece]
    words += [path.path for path in task.removed if path.path != "grading"]
    for text in situations(task):
        assert not [word for word in words if re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text, re.IGNORECASE)]
        told_numbers = set(re.findall(r"(?<![\d.])\d+\.\d+", text))
        assert withheld_numbers(task) & told_numbers == set()
        for origin in task.origins.values():
            assert origin.source not in text
        assert "withheld" not in text
        assert "oracle" not in text.lower()


def test_a_leak_would_be_found() -> None:
    """The numbers that are looked for would be found if a prompt had them."""
    for task in TASKS.values():
        (subtask, *_) = [one for one in task.subtasks.values() if one.deciding.withheld is not None]
        assert f"{subtask.deciding.withheld:g}" in withheld_numbers(task), task.name


@pytest.mark.parametrize("name", TASKS)
def test_what_decides_is_told(name: str) -> None:
    """Every sub-task, with what is to be beaten, its direction and the runs that are required; report and limits."""
    task, text = TASKS[name], told(TASKS[name])
    for identifier, subtask in task.subtasks.items():
        section = text.partition(f"## {identifier}\n")[2].partition("\n## ")[0]
        assert f"To beat: {subtask.deciding.to_beat:g}" in section
        assert f"{task.measure(identifier, subtask.score).better} is better" in section
        assert _required(subtask) <= set(section.splitlines())
    assert "2 hours of wall time, and $10.00" in text
    assert REPORT_PATH in text
    assert task.goal in text
    assert task.evaluation.reads[1:] in text
    assert task.blocked.search_until in text


def _required(subtask: Subtask) -> set[str]:
    seeds, folds = subtask.required.seeds, subtask.required.folds
    lines = [("Seeds", seeds), ("Folds", folds)]
    return {f"- {name}: {', '.join(map(str, values))}." for name, values in lines if values}


def test_what_is_asked_follows_from_the_kind_of_work() -> None:
    """A research task's tree has the prompt for research, and every other repository that for building."""
    situation = Situation(Needs(), devices=0, timeout_s=60)
    research = assignment_of(workplace_of(TASKS["digits-continual"]))
    building = assignment_of(Repository("owner/thing", PathSource(".")))
    assert "# What is to be beaten" in research.prompt(situation)
    assert "# What is checked afterwards" in building.prompt(situation)
    assert (research.detached, building.detached) == (True, False)


def test_an_agent_that_goes_on_is_told_so() -> None:
    """It learns that it does not begin, what was spent, and whether everything is as it was left."""
    task = TASKS["digits-continual"]
    assert "goes on" not in told(task)
    left = told(task, earlier=Earlier(2, 5400))
    assert "stage 3" in left
    assert "2 stages, of 90 minutes" in left
    assert "as it was left" in left
    assert "restored from a copy" in told(task, earlier=Earlier(1, 30, restored=True))


def test_a_template_of_the_users_takes_its_place(tmp_path: Path) -> None:
    """It knows what ours knows, and must say where the report belongs."""
    task = TASKS["digits-continual"]
    file = tmp_path / "my.md"
    file.write_text("{{ goal }} {{ subtasks[0].to_beat }} {{ report_path }}")
    assert told(task, templates={"research": file}).endswith(f"95.16 ± 0.34 {REPORT_PATH}\n")
    file.write_text("{{ goal }}")
    with pytest.raises(ConfigurationError, match="self-report"):
        told(task, templates={"research": file})


@pytest.mark.parametrize(
    ("profile", "hours", "dollars"),
    [
        (Needs(service=_SERVICE), 1.0, 5.0),
        (Needs(service=_SERVICE, timeout_s=600, budget=Budget(max_cost_usd=2.0)), 600 / 3600, 2.0),
        (Needs(service=_SERVICE, timeout_s=90_000, budget=Budget(max_cost_usd=50.0)), 1.0, 5.0),
        (Needs(prompted=False), 1.0, None),
    ],
    ids=["none", "lower", "higher", "no model"],
)
def test_the_tasks_budget_holds_unless_the_profiles_is_lower(
    profile: Needs, hours: float, dollars: float | None
) -> None:
    """A profile may only lower what a task gives, and an agent without a model has no dollars to spend."""
    needs = ResearchAssignment(TASKS["digits-continual"], "/workspace/x").needs(profile)
    assert needs.timeout_s == pytest.approx(hours * 3600)
    assert needs.budget.max_cost_usd == dollars


def test_an_open_network_goes_through_the_proxy() -> None:
    """Nothing else would see what is asked for; scripts, which are told nothing, are left as they are."""
    assignment = ResearchAssignment(TASKS["digits-continual"], "/workspace/x")
    watched = assignment.needs(Needs(reach=Reach.OPEN, allow=("example.org",)))
    assert (watched.reach, watched.allow, watched.gateway) == (Reach.ALLOWLIST, ("example.org", "*"), True)
    assert assignment.needs(Needs(reach=Reach.NONE)).reach is Reach.NONE
    assert assignment.needs(Needs(prompted=False)).reach is Reach.OPEN
