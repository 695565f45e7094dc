"""The table of rules, from `rules.toml`."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import ClassVar

import tomli
from pydantic import TypeAdapter

from pytest_researchenv._sources import STRICT
from pytest_researchenv.diagnosis.texts import Text
from pytest_researchenv.diagnosis.words import Category, Confidence, Origin, Where
from pytest_researchenv.model import Cause, Tier


__all__ = ["Rule", "read_rules", "shipped_rules"]


@dataclass(frozen=True, slots=True)
class Rule:
    """One thing that is known to go wrong. All conditions that it names must hold; `rules.toml` describes the keys.

    Attributes:
        name: short and unique.
        category: what it counts as.
        confidence: how sure it is.
        next: what to do, in one sentence.
        says: patterns, one of which a line must fit (`texts.Text`).
        where: which lines are looked at.
        causes: the record's cause must be one of these.
        tiers: the record must be of one of these.
        ended: patterns, one of which must fit how the agent's work ended.
        origin: whose code raised the exception.
        own_module: the module that a line calls missing must have the repository's name.
        only_missing: top-level modules: all that C0 misses must be among them.
        last_resort: it is tried only when no other rule fits.
        texts: `says`, ready to be matched.
        ended_texts: `ended`, likewise.
    """

    __pydantic_config__: ClassVar = STRICT

    name: str
    category: Category
    confidence: Confidence
    next: str
    says: tuple[str, ...] = ()
    where: Where = Where.EXCEPTIONS
    causes: frozenset[Cause] = frozenset()
    tiers: frozenset[Tier] = frozenset()
    ended: tuple[str, ...] = ()
    origin: Origin | None = None
    own_module: bool = False
    only_missing: frozenset[str] = frozenset()
    last_resort: bool = False
    texts: tuple[Text, ...] = field(init=False, repr=False, compare=False)
    ended_texts: tuple[Text, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "texts", tuple(map(Text.of, self.says)))
        object.__setattr__(self, "ended_texts", tuple(map(Text.of, self.ended)))


_RULES = TypeAdapter(tuple[Rule, ...])


def read_rules(table: str) -> tuple[Rule, ...]:
    """Read a table of rules.

    Raises:
        ValueError: it is no table of rules, or two have one name.
    """
    rules = _RULES.validate_python(tomli.loads(table)["rules"], strict=False)
    names = [rule.name for rule in rules]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"several rules have the same name: {', '.join(twice)}")
    return rules


@cache
def shipped_rules() -> tuple[Rule, ...]:
    """The rules that come with this package, in their order."""
    return read_rules(resources.files(__package__).joinpath("rules.toml").read_text("utf-8"))
