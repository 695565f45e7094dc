"""JSON Schemas of everything that is recorded."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from pytest_researchenv._adapters import AUDITS, ENVIRONMENTS, EVICTIONS, INSPECTIONS, RESEARCH_RESULTS, RESULTS, STARTS
from pytest_researchenv._json import add_json, print_json
from pytest_researchenv.errors import ConfigurationError
from pytest_researchenv.manifest import Manifest
from pytest_researchenv.model import SelfReport
from pytest_researchenv.recording.activity import ActivityLine
from pytest_researchenv.recording.journal import Line
from pytest_researchenv.runs.origins import Origin
from pytest_researchenv.sharing.contents import Contents


__all__ = ["SCHEMAS", "add_command", "schema_of"]

#: Name of a schema → what it describes, and where such records are.
SCHEMAS: Mapping[str, tuple[TypeAdapter[Any], str]] = {
    "activity": (TypeAdapter(ActivityLine), "one line of activity-*.jsonl"),
    "attempt": (STARTS, "attempt-001/attempt.json"),
    "audit": (AUDITS, "attempt-001/integrity-001.json"),
    "environment": (ENVIRONMENTS, "attempt-001/environment.json"),
    "evicted": (EVICTIONS, "attempt-001/evicted.json"),
    "export": (TypeAdapter(Contents), "researchenv-export.json of an export"),
    "imported": (TypeAdapter(Origin), "attempt-001/imported.json"),
    "journal": (TypeAdapter(Line), "one line of journal-*.jsonl"),
    "manifest": (TypeAdapter(Manifest), "manifest-*.json"),
    "inspection": (INSPECTIONS, "attempt-001/inspection-SUBTASK-001.json"),
    "research": (RESEARCH_RESULTS, "attempt-001/research-SUBTASK-001.json"),
    "result": (RESULTS, "attempt-001/C0-001.json to C5-001.json"),
    "self-report": (TypeAdapter(SelfReport), "attempt-001/report.json"),
}


def schema_of(name: str) -> str:
    """Return a schema as JSON.

    Raises:
        ConfigurationError: there is none of that name.
    """
    if name not in SCHEMAS:
        raise ConfigurationError(f"there is no schema {name!r}: give one of {', '.join(SCHEMAS)}")
    adapter, where = SCHEMAS[name]
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$comment": where}
    return json.dumps(schema | adapter.json_schema(mode="serialization"), indent=2, ensure_ascii=False) + "\n"


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    schema = commands.add_parser("schema")
    schema.add_argument("name", nargs="?", metavar="NAME", help=f"one of {', '.join(SCHEMAS)}; without it, their names")
    schema.add_argument("--output", type=Path, metavar="FOLDER", help="write all of them as NAME.json into this folder")
    add_json(schema)
    schema.set_defaults(run=_schema)


def _schema(arguments: argparse.Namespace) -> int:
    if arguments.output:
        try:
            arguments.output.mkdir(parents=True, exist_ok=True)
            for name in SCHEMAS:
                (arguments.output / f"{name}.json").write_text(schema_of(name), encoding="utf-8")
        except OSError as error:
            raise ConfigurationError(f"{arguments.output} cannot be written: {error}; name another folder") from error
        written = [str(arguments.output / f"{name}.json") for name in SCHEMAS]
        if arguments.json:
            print_json({"written": written})
        else:
            print(*(f"written: {path}" for path in written), sep="\n")
    elif arguments.name:
        print(schema_of(arguments.name), end="")
    elif arguments.json:
        print_json({name: where for name, (_, where) in SCHEMAS.items()})
    else:
        for name, (_, where) in SCHEMAS.items():
            print(f"{name}: {where}")
    return 0
