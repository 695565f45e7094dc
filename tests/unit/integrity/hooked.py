"""Images with a virtual environment, and what the audit says of the start-up code in them."""

from __future__ import annotations

from pytest_researchenv.integrity.hooks import hooks
from pytest_researchenv.integrity.protocol import Signs
from pytest_researchenv.model import Repository, Sign
from tests.unit.integrity.images import VENV, Nodes, opened_image


__all__ = ["NAMESPACE", "found", "signs"]


#: What setuptools writes for a namespace package.
NAMESPACE = (
    "import sys, types, os;p = os.path.join(sys._getframe(1).f_locals['sitedir'], *('google',));"
    "importlib = __import__('importlib.util');__import__('importlib.machinery');"
    "m = sys.modules.setdefault('google', importlib.util.module_from_spec("
    "importlib.machinery.PathFinder.find_spec('google', [os.path.dirname(p)])));"
    "m = m or sys.modules.setdefault('google', types.ModuleType('google'));"
    "mp = (m or []) and m.__dict__.setdefault('__path__',[]);(p not in mp) and mp.append(p)\n"
)


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
