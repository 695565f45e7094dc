"""The command that verifies a finished run."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import final

from pytest_researchenv._choice import described, one_of
from pytest_researchenv._json import add_json, print_json
from pytest_researchenv._place import add_results
from pytest_researchenv.engine import Engine
from pytest_researchenv.errors import DaemonUnavailableError
from pytest_researchenv.hardware import Accelerator
from pytest_researchenv.model import Examination, Tier
from pytest_researchenv.probes.table import PROBES
from pytest_researchenv.progress import Phase, Teller
from pytest_researchenv.redaction import Redactor, secrets_in
from pytest_researchenv.report.verification import verification_document, verification_lines, verification_summary
from pytest_researchenv.sandbox.daemon import connect
from pytest_researchenv.sandbox.docker import DockerSandbox
from pytest_researchenv.sandbox.labels import Owner
from pytest_researchenv.sandbox.ready import judging_engine
from pytest_researchenv.verifying.attempts import Chosen, Verified, attempts_of, verified
from pytest_researchenv.verifying.rejudging import Rejudging


__all__ = ["add_command"]


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    verify = commands.add_parser("verify")
    verify.add_argument("name", metavar="RUN", nargs="?", default="default", help="name of the run (default: default)")
    add_results(verify)
    verify.add_argument("--agent", action="append", metavar="NAME", help="only this agent's; may be repeated")
    verify.add_argument(
        "--repository", action="append", metavar="NAME", help="only this repository, by its short name; may be repeated"
    )
    verify.add_argument(
        "--tier",
        action="append",
        type=one_of(*Tier, *Examination),
        metavar="TIER",
        help="judge only this again: C0 to C5, or integrity; may be repeated",
    )
    verify.add_argument(
        "--suite", action="append", metavar="SUITE", help="folder of a suite that does not come with this package"
    )
    verify.add_argument("--no-rejudge", action="store_true", help="check the records alone; runs no container")
    add_json(verify)
    verify.add_argument("--cache", type=Path, default=Path("~/.cache/researchenv"), metavar="FOLDER")
    verify.set_defaults(run=_verify)


def _verify(arguments: argparse.Namespace) -> int:
    chosen = Chosen(arguments.agent or (), arguments.repository or (), arguments.tier or ())
    attempts = attempts_of(arguments.results, arguments.name, chosen)
    suites = {attempt.key.repository.partition("/")[0] for attempt in attempts}
    repositories = described(arguments.suite or (), suites)
    every: list[Verified] = []
    with _docker(arguments.name, needed=not arguments.no_rejudge) as docker:
        rejudging = None
        if docker and not arguments.no_rejudge:
            rejudging = Rejudging(
                docker.engine,
                repositories,
                probes=PROBES,
                cache=arguments.cache.expanduser(),
                redactor=lambda: Redactor(secrets_in(os.environ)),
                say=Teller(_tell),
            )
        for one in verified(attempts, chosen, sandbox=docker.sandbox if docker else None, rejudging=rejudging):
            every.append(one)
            if not arguments.json:
                print("\n".join(verification_lines(one)), flush=True)
    if arguments.json:
        print_json(verification_document(arguments.name, every))
    else:
        print("\n".join(verification_summary(every)))
    return 0 if all(one.holds for one in every) else 1


@final
class _Docker:
    """The container engine, with what was made ready in it to judge."""

    def __init__(self, run: str) -> None:
        self._client = connect()
        self._owner = Owner.current(run)
        self._engines: dict[Accelerator, Engine] = {}
        self.sandbox = DockerSandbox(self._client, self._owner)

    def engine(self, accelerator: Accelerator, image: str) -> Engine:
        """An engine with such an accelerator."""
        if accelerator not in self._engines:
            self._engines[accelerator] = judging_engine(
                self._client, self._owner, image=image, accelerator=accelerator, say=_say
            )
        return self._engines[accelerator]

    def close(self) -> None:
        """Let go of it."""
        self._client.close()


@contextlib.contextmanager
def _docker(run: str, *, needed: bool) -> Iterator[_Docker | None]:
    """Connect to the container engine; None where none answers and none is needed."""
    try:
        docker = _Docker(run)
    except DaemonUnavailableError:
        if needed:
            raise
        yield None
        return
    with contextlib.closing(docker):
        yield docker


def _tell(phase: Phase | None) -> None:
    if phase and phase.name.startswith(("auditing", "probing")):
        _say(f"{phase.repository}, {phase.agent}: {phase.name}")


def _say(text: str) -> None:
    """What is being done: apart from what came of it, which may be JSON."""
    print(text, file=sys.stderr, flush=True)
