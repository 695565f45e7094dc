"""What agents are told: everything they need, and nothing of how they are judged."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

from pytest_researchenv.agents import prompt as module
from pytest_researchenv.agents.prompt import prompt_digest, render_prompt
from pytest_researchenv.agents.protocol import REPORT_PATH, SCRATCH
from pytest_researchenv.errors import ConfigurationError
from pytest_researchenv.gateway.protocol import Reach
from pytest_researchenv.model import PathSource, Repository, SelfReport, Tier
from pytest_researchenv.suite import find_suite, load_suite, suite_names


REPOSITORY = Repository(name="owner/some-repo", source=PathSource("."))

#: Words of a suite's files that say nothing of it: they are in our prompt for other reasons.
_SHORTEST = 12


def rendered(repository: Repository = REPOSITORY, *, template: Path | None = None, devices: int = 2) -> str:
    """Render with ordinary values."""
    return render_prompt(repository, template=template, reach=Reach.ALLOWLIST, devices=devices, timeout_s=3600)


def shipped() -> Iterator[Repository]:
    """Every repository of every suite that comes with this package."""
    for name in suite_names(of_tasks=False):
        yield from load_suite(find_suite(name)).repositories


def test_an_agent_is_told_what_it_needs() -> None:
    """Where the repository lies, the limits, the report with its fields, and which kinds of checks follow."""
    text = rendered()

    for needed in (REPOSITORY.name, REPOSITORY.workdir, REPORT_PATH, SCRATCH, "60 minutes", "foreground", "null"):
        assert needed in text
    for tier in Tier:
        assert f"{tier} ({tier.heading})" in text
    assert "Do not edit" in text


def test_every_field_of_the_self_report_is_explained() -> None:
    """The schema comes from the class that reads it: a new field cannot be forgotten here."""
    text = rendered()

    for field in fields(SelfReport):
        row = re.search(rf"^\| `{field.name}` \| ([^|]+) \| ([^|]+) \|$", text, re.MULTILINE)
        assert row, field.name
        assert row[1].endswith("or null")
        assert len(row[2].strip()) > 5


def test_the_example_is_a_report_with_unknown_values() -> None:
    """An agent that copies its form writes a valid report, and sees that `null` is allowed."""
    block = re.search(r"```json\n(.*?)```", rendered(), re.DOTALL)
    assert block

    example = json.loads(block[1])

    SelfReport(**example)
    assert list(example) == [field.name for field in fields(SelfReport)]
    assert None in example.values()


@pytest.mark.parametrize("repository", list(shipped()), ids=lambda repository: f"{repository.suite}-{repository.slug}")
def test_nothing_of_how_a_repository_is_judged_is_told(repository: Repository) -> None:
    """No command, probe, evidence, asset or recipe of it stands in its prompt."""
    text = rendered(repository)
    secrets: set[str] = set()
    for spec in repository.tiers.values():
        secrets |= {spec.probe, *spec.argv, *spec.environment, *spec.environment.values()}
        secrets |= {file.path for file in spec.evidence.files} | {one.path for one in spec.evidence.json}
        secrets |= {one.field for one in spec.evidence.json} | set(spec.evidence.output)
        secrets.add(" ".join(spec.argv))
    for file in Path(repository.folder).rglob("*"):
        if file.suffix in {".sh", ".py", ".toml"}:
            secrets |= {line.strip() for line in file.read_text(encoding="utf-8").splitlines()}
            secrets.add(file.name)

    told = [secret for secret in secrets if len(secret) >= _SHORTEST and secret in text]

    assert not [one for one in told if one != repository.name and "name = " not in one]
    assert "oracle" not in text.casefold()
    assert "probe" not in text.casefold()


def test_network_and_hardware_are_told_as_they_are() -> None:
    """An agent that expects a GPU or a network that is not there wastes its hour."""
    texts = {reach: render_prompt(REPOSITORY, reach=reach, devices=0, timeout_s=90) for reach in Reach}

    assert "Network: open." in texts[Reach.OPEN]
    assert "proxy" in texts[Reach.ALLOWLIST]
    assert "Network: none." in texts[Reach.NONE]
    assert all("no accelerator" in text and "90 seconds" in text for text in texts.values())
    assert "2 accelerators" in rendered()
    one = render_prompt(REPOSITORY, reach=Reach.OPEN, devices=1, timeout_s=60, accelerator="NVIDIA H200")
    assert "1 accelerator (NVIDIA H200)." in one
    assert "1 minute of" in one


def test_the_digest_tells_prompts_apart() -> None:
    """What agents are told shapes their environments: another prompt is another environment."""
    assert prompt_digest(rendered()) == prompt_digest(rendered())
    assert prompt_digest(rendered()) != prompt_digest(rendered(devices=1))
    assert re.fullmatch(r"[0-9a-f]{64}", prompt_digest(rendered()))


def test_a_template_of_the_users_takes_its_place(tmp_path: Path) -> None:
    """It knows what ours knows."""
    file = tmp_path / "my.md"
    file.write_text(
        "{{ name }} {{ devices }} {{ fields | length }} {{ checks['C0 (static imports)'] }} {{ report_path }}"
    )

    assert rendered(template=file) == f"owner/some-repo 2 9 {module._CHECKS[Tier.C0]} {REPORT_PATH}\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{ nobody }}", r"my\.md.* cannot be rendered: 'nobody' is undefined"),
        ("one\n{% if %}", r"my\.md, line 2 cannot be rendered"),
        ("{{ name + 1 }}", r"my\.md.* cannot be rendered"),
        ("{{ name.__class__.__mro__[1].__subclasses__() }}", r"my\.md.* cannot be rendered"),
        ("{% include '/etc/passwd' %}", r"my\.md.* cannot be rendered"),
        ("write no report", r"does not say where the self-report belongs"),
    ],
)
def test_a_wrong_template_is_told_before_money_is_spent(tmp_path: Path, text: str, expected: str) -> None:
    """With the file, and what is wrong with it; a template from somewhere cannot run code or read files."""
    file = tmp_path / "my.md"
    file.write_text(text)

    with pytest.raises(ConfigurationError, match=expected):
        rendered(template=file)


def test_a_template_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    """Its name is in the message."""
    with pytest.raises(ConfigurationError, match=r"--researchenv-prompt .*none\.md cannot be read"):
        rendered(template=tmp_path / "none.md")
