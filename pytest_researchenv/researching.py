"""Judge sub-tasks of research tasks: have the agent's work at the task, evaluate what it handed in, lose nothing."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import final

from pytest_researchenv.engine import Engine
from pytest_researchenv.environments import Environments
from pytest_researchenv.leases.desk import holds_nothing
from pytest_researchenv.lock import dataset_of
from pytest_researchenv.looking import recorded, stamp_of
from pytest_researchenv.model import Environment, Verdict
from pytest_researchenv.probes.protocol import ProbeTask
from pytest_researchenv.progress import Teller
from pytest_researchenv.provenance import digest_of
from pytest_researchenv.research.data import missing_data
from pytest_researchenv.research.evaluation import EvaluationTask, Evaluator
from pytest_researchenv.research.evaluators import evaluator_of
from pytest_researchenv.research.inspection import Inspection, InspectorVerdict
from pytest_researchenv.research.inspector import inspected, inspector_needs, shown_to_inspector
from pytest_researchenv.research.outcome import unrunnable
from pytest_researchenv.research.result import ResearchCause, ResearchResult
from pytest_researchenv.research.task import Task
from pytest_researchenv.research.verdict import concluded
from pytest_researchenv.research.workplace import workplace_of
from pytest_researchenv.settings import Settings
from pytest_researchenv.store import Attempt, research_stem


__all__ = ["JudgedResearch", "Researching"]

_log = logging.getLogger(__name__)

_SECRET_BYTES = 32

#: An inspection asks for no longer, in seconds.
_INSPECTION_S = 1800.0


@dataclass(frozen=True)
class JudgedResearch:
    """A result with where it is kept.

    Attributes:
        result: what the evaluation found.
        environment: what was judged; None where nothing could be run.
        folder: the attempt's folder; None likewise.
        fresh: whether it was evaluated just now.
        notes: what people should know of the container engine that was used.
        inspection: what a model said of it; None where none was asked.
    """

    result: ResearchResult
    environment: Environment | None = None
    folder: Path | None = None
    fresh: bool = True
    notes: tuple[str, ...] = ()
    inspection: Inspection | None = None


@final
class Researching:
    """Evaluates sub-tasks, each once unless it is asked for again.

    Args:
        settings: what the user chose.
        environments: has what agents left.
        engine: the container engine; asked for when it is needed.
        probe_task: makes what probes get, of a log, an attempt and its environment.
        say: called with what is being done.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        environments: Environments,
        engine: Callable[[], Engine],
        probe_task: Callable[[Callable[[bytes], object], Attempt, Environment, Task, str], ProbeTask],
        say: Teller,
    ) -> None:
        self._settings = settings
        self._environments = environments
        self._engine = engine
        self._probe_task = probe_task
        self._say = say

    def judge(
        self, agent_name: str, task: Task, subtask: str, *, retry: bool = False, trial: int = 1
    ) -> JudgedResearch:
        """Return the verdict on a sub-task, evaluating unless a stored result stands.

        Args:
            agent_name: whose work.
            task: the task; all of its sub-tasks are worked at in one attempt.
            subtask: id of the sub-task.
            retry: whether to build again what could not be built earlier in this session.
            trial: which of the attempts that were asked for.

        Raises:
            InfrastructureError: no verdict is possible; this, too, is recorded.
            SuiteError: the suite lacks what the evaluation needs.
        """
        evaluator = evaluator_of(task)
        if evaluator is None:
            reason = unrunnable(task.subtasks[subtask])
            return JudgedResearch(ResearchResult(subtask, Verdict.SKIPPED, ResearchCause.NOT_RUNNABLE, reason))
        if lacking := self._lacking(task, subtask):
            return JudgedResearch(ResearchResult(subtask, Verdict.SKIPPED, ResearchCause.NOT_RUNNABLE, lacking))
        place = workplace_of(task)
        with self._say.at(agent_name, place.slug):
            attempt, environment = self._environments.get(agent_name, place, retry=retry, trial=trial)
            stem = research_stem(subtask)
            holds_nothing(f"the lock of {subtask}")
            self._say(f"waiting for the lock of {subtask}")
            with attempt.lock(stem):
                basis = evaluator.basis(task, subtask)
                standing = self._standing(attempt, environment, subtask, basis)
                result = standing or self._evaluated(
                    attempt, environment, task, subtask, evaluator=evaluator, basis=basis
                )
                inspection = self._inspected(attempt, environment, task, result)
        notes = (*self._engine().notes, *self._environments.notes(environment))
        fresh = standing is None
        return JudgedResearch(result, environment, attempt.folder, fresh=fresh, notes=notes, inspection=inspection)

    def _inspected(
        self, attempt: Attempt, environment: Environment, task: Task, result: ResearchResult
    ) -> Inspection | None:
        """Have a model look at how results came about, where the user wants that; an answer that is there stands."""
        known = attempt.inspection(result.log)
        if not self._settings.inspector or (known and known.verdict is not InspectorVerdict.NOT_INSPECTED):
            return known
        self._say(f"inspecting {result.subtask}")
        service = self._environments.service_of(self._settings.inspector)
        needs = inspector_needs(service)
        material = shown_to_inspector(
            task,
            result,
            environment,
            sandbox=self._engine().sandbox,
            changes=attempt.changes(),
            transcript=attempt.transcript,
        )
        labels = {"researchenv.attempt": str(attempt.key)}
        found = inspected(
            service, material, lambda: self._environments.asking(needs, lifetime_s=_INSPECTION_S, labels=labels)
        )
        attempt.save_inspection(attempt.folder / result.log, found)
        return found

    def _lacking(self, task: Task, subtask: str) -> str:
        """Say what of data and devices is missing, before anybody works for it; empty where nothing is.

        Raises:
            ConfigurationError: the user's data are not what they should be.
        """
        missing = missing_data(task, subtask, self._settings.data)
        if missing or not task.hardware.gpus:
            return missing
        return self._engine().hardware.shortage(task.hardware.gpus)

    def _standing(self, attempt: Attempt, environment: Environment, subtask: str, basis: str) -> ResearchResult | None:
        """Return the newest result where it is one to keep, and of what would be judged now."""
        results = attempt.research(subtask)
        if not results or results[-1].verdict is Verdict.ERROR:
            return None
        last = results[-1]
        ours = last.session == self._settings.session
        kept = ours or (self._settings.continued and not self._settings.rerun.wants(None, last.verdict))
        return last if kept and last.basis == basis and last.snapshot == environment.image else None

    def _evaluated(
        self,
        attempt: Attempt,
        environment: Environment,
        task: Task,
        subtask: str,
        *,
        evaluator: Evaluator,
        basis: str,
    ) -> ResearchResult:
        """Evaluate, and record what came of it, be it an error."""
        _log.info("evaluating %s of %s", subtask, attempt.key)
        secret = secrets.token_bytes(_SECRET_BYTES)
        # As it is now: what is changed meanwhile is not what was judged.
        dataset = dataset_of(workplace_of(task))

        def look(log: Callable[[bytes], object]) -> ResearchResult:
            probe = self._probe_task(log, attempt, environment, task, subtask)
            given = EvaluationTask(task, subtask, probe, self._engine(), secret, self._say)
            return concluded(task, subtask, evaluator.evaluate(given))

        def stamp(found: ResearchResult, log: str, took_s: float) -> ResearchResult:
            return replace(
                found,
                duration_s=took_s,
                log=log,
                secret=secret.hex(),
                **stamp_of(environment, basis=basis, dataset=dataset, session=self._settings.session),
            )

        def save(log: Path, found: ResearchResult) -> ResearchResult:
            return attempt.save_research(log, replace(found, log_digest=digest_of(log)))

        def broken(message: str) -> ResearchResult:
            return ResearchResult(subtask, Verdict.ERROR, ResearchCause.INFRASTRUCTURE, message)

        return recorded(attempt, research_stem(subtask), look, broken=broken, stamp=stamp, save=save)
