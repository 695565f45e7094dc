"""Stages of a run: what was spent in each, and from where the next one goes on."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pytest_researchenv.archiving.index import newest_index
from pytest_researchenv.assignment import Earlier
from pytest_researchenv.detached.record import last_sign, work_of
from pytest_researchenv.errors import ConfigurationError
from pytest_researchenv.model import Stage
from pytest_researchenv.packedlogs import open_log
from pytest_researchenv.settings import Extension
from pytest_researchenv.store import Attempt, Store


__all__ = ["Continuation", "continuation_of", "finished_stage", "stages_up_to"]


@dataclass(frozen=True, slots=True)
class Continuation:
    """From where a stage goes on, and what it may use.

    Attributes:
        stages: what came before, the newest last.
        timeout_s: wall time limit of the new stage, in seconds.
        max_cost_usd: what it may spend, in US dollars; None for no limit, or no model.
        image: id of the frozen image that it begins from; empty where that is the base image.
        changes: the attempt that the image is from: what its agent changed counts, too.
        archive: the attempt's folder whose archives are restored; None where all that there was is in the image.
    """

    stages: tuple[Stage, ...]
    timeout_s: float
    max_cost_usd: float | None
    image: str = ""
    changes: Attempt | None = None
    archive: Path | None = None

    @property
    def earlier(self) -> Earlier:
        """The same for the agent."""
        return Earlier(len(self.stages), sum(stage.seconds for stage in self.stages), restored=self.archive is not None)


def continuation_of(store: Store, before: Attempt, extension: Extension) -> Continuation:
    """Return from where the work of an attempt goes on.

    Of a stage that ended by itself, or was ended, time that it did not use is not carried over: it had its chance. What
    a stage did not use whose process died, and dollars, are.

    Args:
        store: where attempts are.
        before: the attempt, which is over.
        extension: what the user adds.

    Raises:
        ConfigurationError: there is nothing to go on from, or nothing left to go on with.
    """
    stages = stages_up_to(store, before)
    environment = before.environment()
    if not stages:
        raise ConfigurationError(f"{before.key} cannot be continued: its agent had not begun to work")
    last = stages[-1]
    left_s = 0.0 if environment else max(0.0, last.limit_s - last.seconds)
    timeout_s = left_s + extension.seconds
    if timeout_s < 1:
        raise ConfigurationError(f"{before.key} has no time left to go on: give more with --researchenv-extend=1h")
    dollars = None if last.limit_usd is None else max(0.0, last.limit_usd - last.dollars) + extension.dollars
    if dollars is not None and dollars <= 0:
        raise ConfigurationError(
            f"{before.key} has no money left to go on: give more with --researchenv-extend-dollars=5"
        )
    if environment is not None:
        return Continuation(stages, timeout_s, dollars, image=environment.image, changes=before)
    image = work.image if (work := work_of(before.folder)) else ""
    archive = before.folder if newest_index(before.folder) else None
    if not (image or archive):
        raise ConfigurationError(f"{before.key} cannot be continued: nothing of its work was archived")
    frozen = next((stage.attempt for stage in stages if image and stage.image == image), 0)
    changes = store.attempt(before.key.agent, before.key.repository, frozen) if frozen else None
    return Continuation(stages, timeout_s, dollars, image=image, changes=changes, archive=archive)


def stages_up_to(store: Store, attempt: Attempt) -> tuple[Stage, ...]:
    """Return the stages of a run up to an attempt, the newest last; none where its agent did not begin."""
    if environment := attempt.environment():
        return environment.stages
    number = attempt.start.goes_on
    key = attempt.key
    before = stages_up_to(store, store.attempt(key.agent, key.repository, number)) if 0 < number < key.attempt else ()
    own = _dead_stage(attempt)
    return (*before, own) if own else before


def finished_stage(attempt: Attempt, numbers: dict[str, float], *, ended: float, seconds: float, image: str) -> Stage:
    """Return the stage that an attempt is whose work has ended.

    Args:
        attempt: the attempt.
        numbers: what the agent used, as telemetry has it.
        ended: when it had ended, in seconds since 1970.
        seconds: how long it worked.
        image: id of the frozen image.
    """
    work = work_of(attempt.folder)
    return Stage(
        attempt=attempt.key.attempt,
        began=_iso(ended - seconds),
        ended=_iso(ended),
        seconds=round(seconds, 3),
        limit_s=work.limit_s if work else seconds,
        dollars=numbers.get("cost_usd", 0.0),
        limit_usd=work.limit_usd if work else None,
        tokens=numbers.get("tokens_in", 0.0) + numbers.get("tokens_out", 0.0),
        image=image,
    )


def _dead_stage(attempt: Attempt) -> Stage | None:
    """What is known of a stage that has no end: until its last sign of life it was at work."""
    work = work_of(attempt.folder)
    if work is None:
        return None
    ended = max(work.began, last_sign(attempt.folder))
    dollars, tokens = _asked(attempt)
    seconds = min(ended - work.began, work.limit_s)
    return Stage(
        attempt=attempt.key.attempt,
        began=_iso(work.began),
        ended=_iso(ended),
        seconds=round(seconds, 3),
        limit_s=work.limit_s,
        dollars=dollars,
        limit_usd=work.limit_usd,
        tokens=tokens,
    )


def _asked(attempt: Attempt) -> tuple[float, float]:
    """What an attempt's requests took from the budget, in US dollars, and their tokens."""
    dollars = tokens = 0.0
    try:
        with open_log(attempt.requests) as file:
            for line in file:
                call = _call(line)
                dollars += call[0]
                tokens += call[1]
    except FileNotFoundError:
        pass
    return dollars, tokens


def _call(line: bytes) -> tuple[float, float]:
    try:
        said = json.loads(line)
        if said.get("kind") != "call":
            return 0.0, 0.0
        names: Sequence[str] = ("tokens_in", "cache_read", "cache_write", "tokens_out")
        return float(said.get("charged_usd") or 0.0), sum(float(said["usage"].get(name, 0)) for name in names)
    except (ValueError, TypeError, KeyError, AttributeError):
        # Torn by the death of who wrote it.
        return 0.0, 0.0


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
