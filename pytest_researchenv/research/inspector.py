"""Have a model look at how results came about: what it is shown, and the call."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path, PurePosixPath

from pytest_researchenv.agents.protocol import Needs
from pytest_researchenv.errors import InfrastructureError
from pytest_researchenv.gateway.protocol import Budget, Gateway, Ledger, ModelService, Reach
from pytest_researchenv.model import Environment
from pytest_researchenv.packedlogs import read_ends
from pytest_researchenv.research.asking import Unanswered, answer_of
from pytest_researchenv.research.inspection import Inspection, InspectorVerdict, Material, question, read_answer
from pytest_researchenv.research.result import ResearchResult
from pytest_researchenv.research.task import Task
from pytest_researchenv.sandbox.peek import opened
from pytest_researchenv.sandbox.protocol import Change, ChangeKind, ContainerSpec, Sandbox


__all__ = ["inspected", "inspector_needs", "shown_to_inspector"]

#: What one inspection may spend, in US dollars, and how often it may ask.
_MOST_USD, _MOST_REQUESTS = 1.0, 2

_ANSWER_S = 600.0

_CODE = (".py", ".sh", ".toml", ".yaml", ".yml", ".cfg", ".ini")
_MOST_FILES, _FILE_BYTES, _LOG_BYTES = 60, 20_000, 60_000


def inspector_needs(service: ModelService) -> Needs:
    """What an inspection needs of the gateway: one model, little money, and no way to the outside."""
    budget = Budget(max_cost_usd=_MOST_USD, max_requests=_MOST_REQUESTS)
    return Needs(service=service, budget=budget, reach=Reach.NONE, timeout_s=_ANSWER_S, on_host=True)


def inspected(
    service: ModelService, material: Material, gateway: Callable[[], AbstractContextManager[Gateway]]
) -> Inspection:
    """Ask a model, and read what it answers; whatever goes wrong is no verdict.

    Args:
        service: the model.
        material: what it is shown.
        gateway: opens a gateway for this question alone.
    """
    asked, shown = question(material)
    ledger: Ledger | None = None
    try:
        with gateway() as way:
            ledger = way.ledger
            text = answer_of(service, way.address, asked, shown, timeout_s=_ANSWER_S)
        found = read_answer(text, material)
    except (Unanswered, InfrastructureError) as error:
        found = Inspection(InspectorVerdict.NOT_INSPECTED, problem=str(error))
    # The last of what was used is told when the gateway closes.
    return replace(found, model=service.model, cost_usd=ledger.cost_usd if ledger else 0.0)


def shown_to_inspector(
    task: Task,
    result: ResearchResult,
    environment: Environment,
    *,
    sandbox: Sandbox,
    changes: Iterator[Change],
    transcript: Path,
) -> Material:
    """What a model is shown of a sub-task: the question, what was found, the code that was handed in, and the work."""
    subtask = task.subtasks[result.subtask]
    asked = {"goal": task.goal, "setting": subtask.setting, "decides": subtask.score, "reads": task.evaluation.reads}
    scores = {name: one.values for name, one in result.scores.items()}
    evaluated = {
        "verdict": str(result.verdict),
        "reason": result.reason,
        "claimed": result.claimed,
        "executed again": list(result.executed),
        "scores": scores,
        "findings": [f"{one.check}: {one.what}" for one in result.findings],
    }
    pieces = {"task": json.dumps(asked, indent=1), "evaluation": json.dumps(evaluated, indent=1)}
    ends = read_ends(transcript, head=_LOG_BYTES // 2, tail=_LOG_BYTES // 2)
    pieces["transcript"] = (ends.head + b"\n[...]\n" * bool(ends.omitted) + ends.tail).decode(errors="replace")
    return Material.of(pieces | dict(_code(environment, sandbox, changes)))


def _code(environment: Environment, sandbox: Sandbox, changes: Iterator[Change]) -> Iterator[tuple[str, str]]:
    """The files of code that were changed or added below the task's folder, each as far as it is short."""
    below = f"{environment.workdir}/"
    paths = [
        one.path
        for one in changes
        if one.kind is not ChangeKind.REMOVED
        and one.path.startswith(below)
        and one.path.endswith(_CODE)
        and not {"site-packages", "node_modules", ".git"} & set(PurePosixPath(one.path).parts)
    ]
    spec = ContainerSpec(image=environment.image, argv=("/bin/sh", "-c", ":"))
    with sandbox.opened(spec) as container:
        for path in sorted(paths)[:_MOST_FILES]:
            with opened(container, path) as found:
                if found is not None and found[1] is not None:
                    yield path.removeprefix(below), found[1].read(_FILE_BYTES).decode(errors="replace")
