"""Where a suite's probes differ from the published ones, as a page: made from the suite's descriptions."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_researchenv.model import Cause, Deviation, Repository, Tier
from pytest_researchenv.suite import Suite


__all__ = ["deviations_page"]

_HEAD = """\
# Deviations from the published benchmark

For each repository: what the published harness does, what is done here instead, and why. `researchenv document` writes
this page from the `deviations` of each `repo.toml`. An entry does not mean
that there is a probe: `validation.md` tells.

For all of them alike: a verdict needs evidence and not only exit code 0, no probe has a network, the interpreter that
the agent reports is used or the tier fails (where the published scripts fall back to another one from `PATH`), missing
hardware is a skip, trouble of the infrastructure is an error, and C5 compares versions by PEP 440 and counts no claim
that was not made.
"""


def deviations_page(suite: Suite) -> str:
    """Return the page, in Markdown."""
    return "\n".join([_HEAD, *(line for repository in suite.repositories for line in _section(repository))])


def _section(repository: Repository) -> Iterator[str]:
    defective = {
        tier: reason
        for tier in Tier
        for cause, reason in (repository.spec(tier).idle,)
        if cause is Cause.DEFECTIVE_UPSTREAM
    }
    if not repository.deviations and not defective:
        return
    yield f"## {repository.name}\n"
    for tier, reason in defective.items():
        yield f"- **{tier}, defective upstream**: {reason}"
    for deviation in repository.deviations:
        yield _entry(deviation)
    yield ""


def _entry(deviation: Deviation) -> str:
    tiers = ", ".join(deviation.tiers)
    why = f" *Why*: {_sentence(deviation.why)}" if deviation.why else ""
    return f"- **{tiers}** *Published*: {_sentence(deviation.published)} *Here*: {_sentence(deviation.here)}{why}"


def _sentence(text: str) -> str:
    return text if text.rstrip().endswith((".", "!", "?")) else f"{text.rstrip()}."
