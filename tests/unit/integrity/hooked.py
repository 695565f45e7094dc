"""Images with a virtual environment, and what the audit says of the start-up code in them."""

from __future__ import annotations

from pytest_researchenv.integrity.hooks import hooks
from pytest_researchenv.integrity.protocol import Signs
from pytest_researchenv.model import Repository, Sign
from tests.unit.integrity.images import VENV, Nodes, opened_image


__all__ = ["found", "signs"]


def signs(
    nodes: Nodes,
    python: str = "/opt/venv/bin/python",
    *,
    base: Nodes | None = None,
    tracked: dict[str, str] | None = None,
    repository: Repository | None = None,
) -> Signs:
    """What is seen of an image with a virtual environment."""
    with opened_image({**VENV, **nodes}, python=python, base=base, tracked=tracked, repository=repository) as (
        task,
        snapshot,
    ):
        return hooks(task, snapshot)


def found(signs: Signs) -> list[str]:
    """What findings are about."""
    assert {finding.kind for finding in signs.findings} <= {Sign.HOOK}
    assert not any(finding.kind.voids for finding in signs.findings if isinstance(finding.kind, Sign))
    return [finding.field for finding in signs.findings]
