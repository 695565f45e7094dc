"""Facts that travel with each test's report: into JUnit's properties, and from workers to the summary."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_researchenv.model import Environment, Examination, Repository, Tier
from pytest_researchenv.report.calibration import claim_facts


if TYPE_CHECKING:
    from pytest_researchenv.cases import ResearchCase
    from pytest_researchenv.harness import Judged
    from pytest_researchenv.researching import JudgedResearch

__all__ = [
    "OURS",
    "PREFIX",
    "before_judging",
    "before_research",
    "judged_properties",
    "research_properties",
    "stopped_properties",
]

#: What the names of all our properties begin with; plain ASCII, as JUnit consumers need.
PREFIX = "researchenv_"

#: Names of those whose values are words of ours or the user's: a key that is such a word must not spoil them.
OURS = frozenset(
    PREFIX + name
    for name in (
        *("agent", "repository", "key", "tier", "trial", "verdict", "cause", "emulated", "run", "image", "dataset"),
        *("task", "subtask", "completed", "score_name"),
        *("diagnosis", "diagnosis_rule", "diagnosis_confidence"),
    )
)


def before_judging(
    agent: str, repository: Repository, tier: Tier | Examination, trial: int = 1
) -> list[tuple[str, object]]:
    """What is known even when judging ends in an error."""
    about = {"agent": agent, "repository": repository.name, "key": repository.key, "tier": str(tier), "trial": trial}
    return _named(about)


def judged_properties(judged: Judged) -> list[tuple[str, object]]:
    """What was found, and on what."""
    result = judged.result
    facts: dict[str, object] = {
        "verdict": str(result.verdict),
        "cause": str(result.cause),
        "reason": result.reason,
        "emulated": str(result.emulated).lower(),
        "probe_s": f"{result.duration_s:.3f}",
    }
    if judged.environment:
        facts |= _environment(judged.environment)
    facts |= _diagnosis(judged)
    if result.dataset:
        facts["dataset"] = result.dataset
    if result.findings:
        facts["findings"] = "; ".join(f"{finding.field}: {finding.observed}" for finding in result.findings)
    facts |= claim_facts(result)
    if judged.notes:
        facts["notes"] = "\n".join(judged.notes)
    for name, value in result.evidence.items():
        facts[f"evidence_{name}"] = ", ".join(value) if isinstance(value, list) else value
    return _named(facts)


def before_research(case: ResearchCase) -> list[tuple[str, object]]:
    """What is known of a sub-task even when judging it ends in an error."""
    about = {"agent": str(case.agent), "task": case.task.key, "subtask": case.subtask_id, "trial": case.trial}
    return _named({**about, "comparable": str(case.subtask.deciding.comparable).lower()})


def research_properties(judged: JudgedResearch) -> list[tuple[str, object]]:
    """What a sub-task of a research task came to, and on what."""
    result = judged.result
    facts: dict[str, object] = {
        "verdict": str(result.verdict),
        "cause": str(result.cause),
        "reason": result.reason,
        "completed": str(result.completed).lower(),
        "evaluation_s": f"{result.duration_s:.3f}",
    }
    if judged.environment:
        facts |= _environment(judged.environment)
    if result.dataset:
        facts["dataset"] = result.dataset
    if result.method:
        facts["method"] = result.method
    if result.findings:
        facts["findings"] = "; ".join(f"{one.check}: {one.what}" for one in result.findings)
    if found := result.deciding:
        facts |= {"score_name": result.decides, "baseline_method": found.baseline.method}
        numbers = {
            "score": found.mean,
            "score_error": found.error,
            "baseline": found.baseline.mean,
            "withheld": found.withheld,
            "share_of_withheld": found.share,
            "share_of_baseline": found.gain,
        }
        facts |= {name: f"{number:.6g}" for name, number in numbers.items() if number is not None}
    if judged.notes:
        facts["notes"] = "\n".join(judged.notes)
    return _named(facts)


def _environment(environment: Environment) -> dict[str, object]:
    facts: dict[str, object] = {
        "attempt": environment.key.attempt,
        "run": environment.key.run,
        "image": environment.image,
        "agent_ended": environment.ended,
    }
    facts |= {
        f"agent_{name}": int(value) if value == int(value) else value for name, value in environment.telemetry.items()
    }
    return facts | _building(environment)


def _diagnosis(judged: Judged) -> dict[str, object]:
    found = judged.diagnosis
    if found is None:
        return {}
    return {
        "diagnosis": str(found.category),
        "diagnosis_rule": found.rule,
        "diagnosis_confidence": str(found.confidence),
        "diagnosis_line": found.line,
    }


def stopped_properties(reason: str) -> list[tuple[str, object]]:
    """Why the agent's provider is asked no more; nothing while it is."""
    return _named({"stopped": reason}) if reason else []


def _building(environment: Environment) -> dict[str, object]:
    facts: dict[str, object] = {}
    if environment.refused:
        facts["agent_refused"] = ", ".join(environment.refused)
    if environment.notes:
        facts["agent_notes"] = "; ".join(environment.notes)
    return facts


def _named(facts: dict[str, object]) -> list[tuple[str, object]]:
    return [(PREFIX + name, value) for name, value in facts.items()]
