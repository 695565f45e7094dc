"""Where a suite's probes differ from the published ones, as a page: made from the suite's descriptions."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_researchenv.model import Cause, Deviation, Repository, Tier
from pytest_researchenv.suite import Suite


__all__ = ["deviations_page"]

_HEAD = """\
# Deviations from the published benchmark

For each repository: what the published harness does, what is done here instead, and why. `researchenv document` writes
this page from the suite's descriptions (`deviations.toml` beside each `repo.toml`, and `suite.toml`). An entry does not
mean that its tier was run: `validation.md` tells.
"""


def deviations_page(suite: Suite) -> str:
    """Return the page, in Markdown."""
    common = ["## All repositories\n", *map(_entry, suite.deviations), ""] if suite.deviations else []
    return "\n".join([_HEAD, *common, *(line for repository in suite.repositories for line in _section(repository))])


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
