"""What agents are told in words is rendered from templates, all in the same way."""

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
from pytest_researchenv.model import SelfReport


__all__ = ["in_words", "prompt_digest", "render", "report_values"]

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


def render(shipped: str, values: Mapping[str, object], *, template: Path | None, option: str) -> str:
    """Render a template of Jinja, in its sandbox.

    Args:
        shipped: name of the template that comes with this package.
        values: what the template knows.
        template: file of the user's, in place of the shipped one.
        option: which option names that file.

    Raises:
        ConfigurationError: it cannot be read or rendered, or does not say where the self-report belongs.
    """
    # Jinja must cost nothing where no agent works.
    from jinja2 import StrictUndefined, TemplateError  # noqa: PLC0415 - see above
    from jinja2.sandbox import ImmutableSandboxedEnvironment  # noqa: PLC0415 - likewise

    # Markdown, not HTML: nothing is to be escaped.
    environment = ImmutableSandboxedEnvironment(undefined=StrictUndefined, autoescape=False, keep_trailing_newline=True)
    source = _source(shipped, template, option)
    try:
        prompt = environment.from_string(source).render(values).strip() + "\n"
    except TemplateError as error:
        line = f", line {number}" if (number := getattr(error, "lineno", None)) else ""
        raise ConfigurationError(
            f"the prompt {template or shipped}{line} cannot be rendered: {error.message}"
        ) from error
    # A template may do sums with texts, and call what it is given in any wrong way.
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise ConfigurationError(f"the prompt {template or shipped} cannot be rendered: {error}") from error
    if REPORT_PATH not in prompt:
        raise ConfigurationError(
            f"the prompt {template} does not say where the self-report belongs: write {{{{ report_path }}}} in it"
        )
    return prompt


def prompt_digest(prompt: str) -> str:
    """Return the digest of a rendered prompt, 64 hexadecimal digits."""
    return hashlib.sha256(prompt.encode()).hexdigest()


def report_values() -> Mapping[str, object]:
    """What templates know of the self-report: `report_path`, `fields`, `example`; and `scratch`.

    The report is described by what its class says of itself, so that no field can be forgotten.
    """
    meanings = dict(re.findall(r"^\s{4,}(\w+): (.+?)\.?$", SelfReport.__doc__ or "", re.MULTILINE))
    described = [
        _Field(one.name, f"{_TYPES[str(one.type).removesuffix(' | None')]} or null", meanings.get(one.name, ""))
        for one in fields(SelfReport)
    ]
    example = json.dumps({field.name: _EXAMPLE.get(field.name) for field in fields(SelfReport)}, indent=2)
    return {"report_path": REPORT_PATH, "scratch": SCRATCH, "fields": described, "example": example}


def in_words(seconds: float) -> str:
    """Return a time in words: `12 hours`, `90 minutes`, `45.5 seconds`."""
    minutes, rest = divmod(round(seconds), 60)
    if not minutes or rest:
        return f"{seconds:g} seconds"
    hours, odd = divmod(minutes, 60)
    if hours > 1 and not odd:
        return f"{hours} hours"
    return f"{minutes} minutes" if minutes > 1 else "1 minute"


def _source(shipped: str, template: Path | None, option: str) -> str:
    if template is None:
        return (resources.files("pytest_researchenv.agents") / shipped).read_text(encoding="utf-8")
    try:
        return template.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{option} {template} cannot be read: {error}") from error
