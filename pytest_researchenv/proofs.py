"""The command that proves a suite's probes."""

from __future__ import annotations

import argparse
import contextlib
import uuid
from collections.abc import Callable
from pathlib import Path

from pytest_researchenv._choice import choose
from pytest_researchenv._json import add_json, print_json, teller
from pytest_researchenv._place import add_results, new_run_name
from pytest_researchenv.progress import Phase, Teller
from pytest_researchenv.proving import Proof, prove
from pytest_researchenv.sandbox.protocol import Limits
from pytest_researchenv.sandbox.ready import docker_engine
from pytest_researchenv.settings import Settings
from pytest_researchenv.suite import find_suite, load_suite


__all__ = ["add_command"]


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    proof = commands.add_parser("prove")
    proof.add_argument("suite", help="a shipped suite's name, or a suite's folder")
    proof.add_argument("--only", action="append", metavar="NAME", help="repository's short name; may be repeated")
    proof.add_argument("--accelerator", default="auto", choices=("auto", "cpu", "cuda"), help="what C2 to C4 run on")
    proof.add_argument("--image", default="", help="registry reference of the base image")
    add_results(proof)
    proof.add_argument("--run", dest="name", default="proof", metavar="NAME", help="name of the run (default: proof)")
    proof.add_argument("--cache", type=Path, default=Path("~/.cache/researchenv"), metavar="FOLDER")
    add_json(proof)
    proof.set_defaults(run=_prove)


def _prove(arguments: argparse.Namespace) -> int:
    say = teller(arguments)
    suite = load_suite(find_suite(arguments.suite))
    chosen = choose(suite.repositories, arguments.only or [], say=say)
    settings = Settings(
        results=arguments.results,
        run=new_run_name(arguments.name),
        continued=True,
        rebuild=False,
        reuse_anyway=False,
        agent_timeout_s=3600.0,
        agent_limits=Limits(),
        c0_max_missing=0.0,
        cache=arguments.cache.expanduser(),
        session=uuid.uuid4().hex,
    )
    engine = docker_engine(settings.run, image=arguments.image, accelerator=arguments.accelerator, say=say)
    proofs: list[Proof] = []
    with contextlib.closing(engine):
        for proof in prove(chosen, settings=settings, engine=engine, say=Teller(_telling(say))):
            say(_line(proof))
            proofs.append(proof)
    refuted = sum(not proof.holds for proof in proofs)
    say(f"{refuted} verdicts are not what they had to be" if refuted else "every verdict is what it had to be")
    if arguments.json:
        print_json({"run": arguments.name, "holds": not refuted, "proofs": list(map(_document, proofs))})
    return 1 if refuted else 0


def _telling(say: Callable[[str], None]) -> Callable[[Phase | None], None]:
    def tell(phase: Phase | None) -> None:
        if phase and phase.name and not phase.name.startswith("waiting"):
            say(f"  {phase.repository}, {phase.agent}: {phase.name}")

    return tell


def _line(proof: Proof) -> str:
    found = f"{proof.result.verdict}: {proof.result.reason}" if proof.result else f"no verdict: {proof.error}"
    mark = "ok" if proof.holds else f"NOT {proof.wanted}"
    emulated = " (emulated)" if proof.result and proof.result.emulated else ""
    return f"{mark}: {proof.repository.slug} {proof.agent} {proof.tier}{emulated} {found}"


def _document(proof: Proof) -> dict[str, object]:
    result = proof.result
    return {
        "repository": proof.repository.key,
        "agent": proof.agent,
        "tier": str(proof.tier),
        "wanted": str(proof.wanted),
        "verdict": str(result.verdict) if result else None,
        "reason": result.reason if result else proof.error,
        "emulated": bool(result and result.emulated),
        "holds": proof.holds,
    }
