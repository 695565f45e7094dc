"""The command that says why tiers failed."""

from __future__ import annotations

import argparse

from rich.console import Console

from pytest_researchenv._choice import one_of
from pytest_researchenv._json import add_json, print_json
from pytest_researchenv._place import add_results
from pytest_researchenv.diagnosis import shipped_rules
from pytest_researchenv.diagnosis.stored import diagnosed
from pytest_researchenv.model import Tier
from pytest_researchenv.report.diagnoses import (
    categories_markdown,
    diagnoses_table,
    diagnosis_document,
    diagnosis_lines,
    rules_document,
    rules_markdown,
)
from pytest_researchenv.runs.telling import tell_left_out
from pytest_researchenv.verifying.attempts import Chosen, attempts_of


__all__ = ["add_command"]


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    diagnose = commands.add_parser("diagnose")
    diagnose.add_argument(
        "name", metavar="RUN", nargs="?", default="default", help="name of the run (default: default)"
    )
    add_results(diagnose)
    diagnose.add_argument("--agent", action="append", metavar="NAME", help="only this agent's; may be repeated")
    diagnose.add_argument(
        "--repository", action="append", metavar="NAME", help="only this repository, by its short name; may be repeated"
    )
    diagnose.add_argument(
        "--tier", action="append", type=one_of(*Tier), metavar="TIER", help="only this tier: C0 to C5; may be repeated"
    )
    diagnose.add_argument(
        "--rules", action="store_true", help="print the categories and rules, as Markdown or JSON, and stop"
    )
    add_json(diagnose)
    diagnose.set_defaults(run=_diagnose)


def _diagnose(arguments: argparse.Namespace) -> int:
    console = Console(highlight=False, markup=False)
    if arguments.rules and arguments.json:
        print_json(rules_document(shipped_rules()))
        return 0
    if arguments.rules:
        console.print(categories_markdown(), rules_markdown(shipped_rules()), sep="\n\n", soft_wrap=True)
        return 0
    chosen = Chosen(arguments.agent or (), arguments.repository or ())
    attempts = attempts_of(arguments.results, arguments.name, chosen)
    found = list(diagnosed(attempts, tiers=arguments.tier or (), unreadable=tell_left_out))
    if arguments.json:
        print_json([diagnosis_document(one) for one in found])
        return 0
    for one in found:
        for line in diagnosis_lines(one):
            console.print(line, soft_wrap=True)
    if found:
        console.print()
        console.print(diagnoses_table(found))
    else:
        console.print("nothing failed", soft_wrap=True)
    return 0
