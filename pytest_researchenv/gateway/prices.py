"""What models cost: our dated table, and the user's own above it."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path

import tomli

from pytest_researchenv.errors import ConfigurationError
from pytest_researchenv.gateway.protocol import Price


__all__ = ["load_prices", "price_of", "unpriced"]

_KEYS = tuple(field.name for field in dataclasses.fields(Price))
_NEEDED = ("tokens_in", "tokens_out")

#: What providers append to a model's name to tell its versions apart.
_VERSION = re.compile(r"-(\d{8}|\d{4}-\d{2}-\d{2}|latest)")


def load_prices(extra: Path | None = None) -> Mapping[str, Price]:
    """Model → price: the shipped table, with the user's own entries in place of it.

    Args:
        extra: the user's table; None for none.

    Raises:
        ConfigurationError: the user's table cannot be read; the message names the file and the key.
    """
    shipped = resources.files("pytest_researchenv.gateway").joinpath("prices.toml")
    prices = _parse(shipped.read_text(encoding="utf-8"), "prices.toml")
    if extra is None:
        return prices
    try:
        text = extra.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"cannot read the prices in {extra}: {error}") from error
    return prices | _parse(text, str(extra))


def price_of(model: str, prices: Mapping[str, Price]) -> Price | None:
    """The price of a model, also under a dated name (`claude-haiku-4-5-20251001`); None when it is not known.

    The longest name that fits wins. `gpt-5` says nothing about `gpt-5-pro`: that is another model.
    """
    fitting = [name for name in prices if model == name or _VERSION.fullmatch(model.removeprefix(name))]
    fitting = [name for name in fitting if model.startswith(name)]
    return prices[max(fitting, key=len)] if fitting else None


def unpriced(models: Iterable[str], prices: Mapping[str, Price]) -> list[str]:
    """Those models whose price is not known: no limit of cost can hold for them."""
    return [model for model in models if price_of(model, prices) is None]


def _parse(text: str, file: str) -> dict[str, Price]:
    try:
        tables = tomli.loads(text)
    # A number that is too long is no TOMLDecodeError, and what is nested too deeply is neither.
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"{file} is no TOML: {error}") from error
    return {name: _price(name, table, file) for name, table in tables.items()}


def _price(name: str, table: object, file: str) -> Price:
    if not isinstance(table, dict):
        raise ConfigurationError(
            f'{file}: {name} = {table!r} is no price: write a table ["{name}"] with {" and ".join(_NEEDED)}, in US '
            "dollars per million tokens"
        )
    for key, value in table.items():
        where = f'{file}: {key} of "{name}"'
        if isinstance(value, dict):
            raise ConfigurationError(f'{where} is a table: a name with a dot needs quotes, as in ["{name}.{key}"]')
        if key not in _KEYS:
            raise ConfigurationError(f"{where} is not known: use {', '.join(_KEYS)}")
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not math.isfinite(value) or value < 0:
            raise ConfigurationError(f"{where} is {value!r}: give US dollars per million tokens, as in 2.5")
    for key in _NEEDED:
        if key not in table:
            raise ConfigurationError(f'{file}: {key} of "{name}" is missing')
    return Price(**{key: float(value) for key, value in table.items()})
