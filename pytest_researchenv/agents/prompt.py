"""What agents with a model are told that are to build an environment: one template, rendered for each repository."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pytest_researchenv.agents.rendering import in_words, prompt_digest, render, report_values
from pytest_researchenv.gateway.protocol import Reach
from pytest_researchenv.model import Repository, Tier


__all__ = ["prompt_digest", "render_prompt"]

_SHIPPED = "prompt.md.j2"

#: What each tier looks at, so that nobody is judged by rules he could not know. How it is done is not said.
_CHECKS: Mapping[Tier, str] = {
    Tier.C0: "the modules that the repository's sources import can be found.",
    Tier.C1: "the repository's own code runs on the CPU and gives results that make sense.",
    Tier.C2: "frameworks and driver fit each other, and the frameworks use the hardware that is there.",
    Tier.C3: "the repository's own code runs on one accelerator.",
    Tier.C4: "it runs on several at once, where the repository supports that.",
    Tier.C5: "what your self-report claims is true.",
}


def render_prompt(
    repository: Repository,
    *,
    template: Path | None = None,
    reach: Reach,
    devices: int,
    timeout_s: float,
    accelerator: str = "",
) -> str:
    """Say what an agent is to do.

    A template is of Jinja, in its sandbox. It knows `name` and `workdir` of the repository, `report_path`, `fields`
    (each with `name`, `type` and `meaning`) and `example` of the self-report, `checks` (tier → sentence), `scratch`,
    `reach`, `devices`, `accelerator`, `timeout_s`, and `time_limit` in words.

    Args:
        repository: the repository.
        template: file in place of the shipped template.
        reach: what the container can reach beside the model.
        devices: how many accelerators it has.
        timeout_s: wall time limit in seconds.
        accelerator: what they are, such as `NVIDIA H200`; empty where it is not known.

    Raises:
        ConfigurationError: the template cannot be read or rendered, or does not say where the self-report belongs.
    """
    values = {
        **report_values(),
        "name": repository.name,
        "workdir": repository.workdir,
        "checks": {f"{tier} ({tier.heading})": text for tier, text in _CHECKS.items()},
        "reach": str(reach),
        "devices": devices,
        "accelerator": accelerator,
        "timeout_s": timeout_s,
        "time_limit": in_words(timeout_s),
    }
    return render(_SHIPPED, values, template=template, option="--researchenv-prompt")
