"""Facts that travel with each test's report: into JUnit's properties, and from workers to the summary."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_researchenv.model import Environment, Examination, Repository, Tier
from pytest_researchenv.report.calibration import claim_facts


if TYPE_CHECKING:
    from pytest_researchenv.cases import ResearchCase
    from pytest_researchenv.harness import Judged
    from pytest_researchenv.research.outcome import Outcome

__all__ = ["OURS", "PREFIX", "before_judging", "judged_properties", "research_properties", "stopped_properties"]

#: What the names of all our properties begin with; plain ASCII, as JUnit consumers need.
PREFIX = "researchenv_"

#: Names of those whose values are words of ours or the user's: a key that is such a word must not spoil them.
OURS = frozenset(
    PREFIX + name
    for name in (
        *("agent", "repository", "key", "tier", "trial", "verdict", "cause", "emulated", "run", "image", "dataset"),
        *("task", "subtask"),
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
        facts |= {
            "attempt": judged.environment.key.attempt,
            "run": judged.environment.key.run,
            "image": judged.environment.image,
            "agent_ended": judged.environment.ended,
        }
        facts |= {
            f"agent_{name}": int(value) if value == int(value) else value
            for name, value in judged.environment.telemetry.items()
        }
        facts |= _building(judged.environment)
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


def research_properties(case: ResearchCase, outcome: Outcome) -> list[tuple[str, object]]:
    """What a sub-task of a research task came to."""
    facts: dict[str, object] = {
        "agent": str(case.agent),
        "task": case.task.key,
        "subtask": case.subtask_id,
        "trial": case.trial,
        "verdict": str(outcome.verdict),
        "cause": str(outcome.cause),
        "reason": outcome.reason,
    }
    return _named(facts)


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
