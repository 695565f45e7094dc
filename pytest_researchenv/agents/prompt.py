"""What agents with a model are told: one template, rendered for each repository."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from importlib import resources
from pathlib import Path

from pytest_researchenv.agents.protocol import REPORT_PATH, SCRATCH
from pytest_researchenv.errors import ConfigurationError
from pytest_researchenv.gateway.protocol import Reach
from pytest_researchenv.model import Repository, SelfReport, Tier


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

_TYPES = {"str": "string", "bool": "true or false", "int": "whole number"}

#: Fields that the example does not leave open.
_EXAMPLE = {
    "python_path": "/opt/env/bin/python",
    "python_version": "3.11.9",
    "env_tool": "venv",
    "env_name": "/opt/env",
    "notes": "The tests of the package pass. Training was not tried.",
}


@dataclass(frozen=True, slots=True)
class _Field:
    """One field of the self-report, in words."""

    name: str
    type: str
    meaning: str


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
    # Jinja must cost nothing where no agent works.
    from jinja2 import StrictUndefined, TemplateError  # noqa: PLC0415 - see above
    from jinja2.sandbox import ImmutableSandboxedEnvironment  # noqa: PLC0415 - likewise

    values = {
        "name": repository.name,
        "workdir": repository.workdir,
        "report_path": REPORT_PATH,
        "scratch": SCRATCH,
        "fields": _fields(),
        "example": json.dumps({field.name: _EXAMPLE.get(field.name) for field in fields(SelfReport)}, indent=2),
        "checks": {f"{tier} ({tier.heading})": text for tier, text in _CHECKS.items()},
        "reach": str(reach),
        "devices": devices,
        "accelerator": accelerator,
        "timeout_s": timeout_s,
        "time_limit": _in_words(timeout_s),
    }
    # Markdown, not HTML: nothing is to be escaped.
    environment = ImmutableSandboxedEnvironment(undefined=StrictUndefined, autoescape=False, keep_trailing_newline=True)
    source = _source(template)
    try:
        prompt = environment.from_string(source).render(values).strip() + "\n"
    except TemplateError as error:
        line = f", line {number}" if (number := getattr(error, "lineno", None)) else ""
        raise ConfigurationError(
            f"the prompt {template or _SHIPPED}{line} cannot be rendered: {error.message}"
        ) from error
    # A template may do sums with texts, and call what it is given in any wrong way.
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise ConfigurationError(f"the prompt {template or _SHIPPED} cannot be rendered: {error}") from error
    if REPORT_PATH not in prompt:
        raise ConfigurationError(
            f"the prompt {template} does not say where the self-report belongs: write {{{{ report_path }}}} in it"
        )
    return prompt


def prompt_digest(prompt: str) -> str:
    """Return the digest of a rendered prompt, 64 hexadecimal digits."""
    return hashlib.sha256(prompt.encode()).hexdigest()


def _source(template: Path | None) -> str:
    if template is None:
        return (resources.files("pytest_researchenv.agents") / _SHIPPED).read_text(encoding="utf-8")
    try:
        return template.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"--researchenv-prompt {template} cannot be read: {error}") from error


def _fields() -> list[_Field]:
    """Describe the self-report by what its class says of itself, so that no field can be forgotten."""
    meanings = dict(re.findall(r"^\s{4,}(\w+): (.+?)\.?$", SelfReport.__doc__ or "", re.MULTILINE))
    return [
        _Field(one.name, f"{_TYPES[str(one.type).removesuffix(' | None')]} or null", meanings.get(one.name, ""))
        for one in fields(SelfReport)
    ]


def _in_words(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    if minutes and not rest:
        return f"{minutes} minutes" if minutes > 1 else "1 minute"
    return f"{seconds:g} seconds"
