"""The process that looks after one attempt from its source to its frozen image, whatever becomes of the session."""

from __future__ import annotations

import logging
import pickle
import signal
import sys
from functools import partial
from typing import TYPE_CHECKING

from pytest_researchenv.agents.registry import find_agent
from pytest_researchenv.detached.job import PROVIDER, Job
from pytest_researchenv.detached.record import ACTIVITY, request_stop
from pytest_researchenv.environments import Environments
from pytest_researchenv.errors import ProviderError, ResearchEnvError
from pytest_researchenv.progress import Teller
from pytest_researchenv.recording.activity import ActivityWriter
from pytest_researchenv.sandbox.ready import docker_engine
from pytest_researchenv.store import Store


if TYPE_CHECKING:
    from pytest_researchenv.engine import Engine


def main() -> int:
    """Carry out the job that is read from the standard input.

    Returns:
        0 where an environment was recorded, `PROVIDER` where the provider of the model failed, else 1.
    """
    try:
        # From the pipe of the process that started this one, which nobody else can write to.
        job: Job = pickle.load(sys.stdin.buffer)  # noqa: S301 - see above
    except EOFError:
        # It died before it had said what to do.
        return 1
    for ignored in (signal.SIGHUP, signal.SIGINT):
        signal.signal(ignored, signal.SIG_IGN)
    settings = job.settings
    engines: list[Engine] = []
    # Its redactor is known once there are environments; the attempt's own is theirs.
    store = Store(settings.results, settings.run, redactor=lambda: environments.redactor)
    attempt = store.attempt(job.agent, job.repository.key, job.attempt)
    activity = ActivityWriter(
        settings.results / settings.run,
        settings.session,
        "",
        path=attempt.folder / ACTIVITY,
        redactor=lambda: environments.redactor,
    )
    say = Teller(activity.hear)

    def engine() -> Engine:
        if not engines:
            engines.append(
                docker_engine(
                    settings.run,
                    image=job.engine.image,
                    accelerator=job.engine.accelerator,
                    say=say,
                    sharing=job.engine.sharing,
                    package_cache_bytes=job.engine.package_cache_bytes,
                )
            )
        return engines[0]

    environments = Environments(settings, engine=engine, agents=partial(find_agent, profiles=job.profiles), say=say)
    signal.signal(signal.SIGTERM, lambda *_: request_stop(attempt))
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(name)s: %(message)s")
    logging.getLogger().handlers[0].addFilter(lambda record: _clean(record, environments))
    activity.start()
    try:
        with say.at(job.agent, job.repository.slug):
            environments.build(attempt, job.agent, job.repository)
    except ProviderError:
        return PROVIDER
    except ResearchEnvError:
        # It is recorded.
        return 1
    finally:
        activity.close()
        for one in engines:
            one.close()
    return 0


def _clean(record: logging.LogRecord, environments: Environments) -> bool:
    """Take secrets out of what is logged."""
    text = record.getMessage()
    if record.exc_info:
        text += "\n" + logging.Formatter().formatException(record.exc_info)
    record.msg = environments.redactor.bytes(text.encode("utf-8", "backslashreplace")).decode("utf-8", "replace")
    record.args, record.exc_info, record.exc_text = None, None, None
    return True


if __name__ == "__main__":
    raise SystemExit(main())
