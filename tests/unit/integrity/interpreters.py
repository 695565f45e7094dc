"""Images with an interpreter, and what the audit says of it and of its standard library."""

from __future__ import annotations

from pytest_researchenv.integrity.interpreter import interpreter
from pytest_researchenv.integrity.protocol import Signs
from pytest_researchenv.model import Sign
from tests.unit.integrity.images import Nodes, opened_image


__all__ = ["OWN", "STDLIB", "fields", "signs"]

STDLIB = "/usr/lib/python3.11"

#: The standard library of an interpreter that no package owns.
OWN = {"/opt/py/lib/python3.11/os.py": "", "/opt/py/lib/python3.11/site.py": ""}


def signs(nodes: Nodes, python: str = "/usr/bin/python3", base: Nodes | None = None) -> Signs:
    """What is seen of an image."""
    with opened_image(nodes, python=python, base=base) as (task, snapshot):
        found = interpreter(task, snapshot)
    assert bool(found.interpreter) == any(finding.kind is Sign.INTERPRETER for finding in found.findings)
    return found


def fields(nodes: Nodes, python: str = "/usr/bin/python3", base: Nodes | None = None) -> list[str]:
    """What findings are about."""
    found = signs(nodes, python, base)
    assert {finding.kind for finding in found.findings} <= {Sign.INTERPRETER}
    return [finding.field for finding in found.findings]
