"""The published schemas are those of what is written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from pytest_researchenv.cli import main
from pytest_researchenv.model import Examination, Tier
from pytest_researchenv.recording.manifest import begun, save_manifest
from pytest_researchenv.schemas import SCHEMAS, schema_of
from tests.unit.lab import Lab


PAGES = Path(__file__).parents[3] / "docs/schemas"


@pytest.mark.parametrize("name", SCHEMAS)
def test_the_schemas_in_the_docs_are_current(name: str) -> None:
    """`researchenv schema --output docs/schemas` writes what stands there."""
    assert (PAGES / f"{name}.json").read_text(encoding="utf-8") == schema_of(name)
    Draft202012Validator.check_schema(json.loads(schema_of(name)))


def test_there_are_no_others() -> None:
    """A schema whose record is gone is removed."""
    assert {path.stem for path in PAGES.iterdir()} == set(SCHEMAS)


def test_what_is_written_holds_to_them(tmp_path: Path) -> None:
    """Every record of a session says which version of its schema it has."""
    lab = Lab(tmp_path)
    harness = lab.session()
    for subject in (Tier.C1, Examination.INTEGRITY):
        harness.judge("fake", lab.repository, subject)
    attempt = lab.folder / "attempt-001"
    run = lab.folder.parents[1]
    record = begun(session="s", run="r", command=[], agents=[], distributions=["pytest"], folder=tmp_path)
    written = {
        "attempt": attempt / "attempt.json",
        "environment": attempt / "environment.json",
        "result": attempt / "C1-001.json",
        "audit": attempt / "integrity-001.json",
        "manifest": save_manifest(run, record),
    }

    for name, path in written.items():
        document = json.loads(path.read_text())
        Draft202012Validator(json.loads(schema_of(name))).validate(document)
        assert document["schema"] == 1


def test_the_command_prints_one_and_names_all(capsys: pytest.CaptureFixture[str]) -> None:
    """An unknown name is told with those that there are."""
    assert main(["schema", "manifest"]) == 0
    assert json.loads(capsys.readouterr().out)["title"] == "Manifest"
    assert main(["schema"]) == 0
    assert "manifest: manifest-*.json" in capsys.readouterr().out
    assert main(["schema", "nothing"]) == 1
    assert "give one of activity, attempt" in capsys.readouterr().err
