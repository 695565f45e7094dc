"""Prices come from a dated table, and the user's own above it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_researchenv.errors import ConfigurationError
from pytest_researchenv.gateway.prices import load_prices, price_of
from pytest_researchenv.gateway.protocol import Price


def test_the_shipped_table_is_sound() -> None:
    """Reading from a cache is never dearer than reading afresh, and writing to it never cheaper."""
    prices = load_prices()

    assert prices["claude-sonnet-4-5"] == Price(3.0, 15.0, 0.3, 3.75, 6.0)
    for price in prices.values():
        assert 0 < price.tokens_in < price.tokens_out
        assert price.cache_read is None or price.cache_read < price.tokens_in
        assert price.cache_write is None or price.cache_write >= price.tokens_in


def test_a_users_table_wins(tmp_path: Path) -> None:
    """By whole entries: a price that is half the user's and half ours would be nobody's."""
    path = tmp_path / "prices.toml"
    path.write_text('[claude-sonnet-4-5]\ntokens_in = 1\ntokens_out = 2\n["my.model"]\ntokens_in = 0\ntokens_out = 0\n')

    prices = load_prices(path)

    assert prices["claude-sonnet-4-5"] == Price(1.0, 2.0)
    assert prices["my.model"] == Price(0.0, 0.0)
    assert prices["gpt-5"] == load_prices()["gpt-5"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[m]\ntokens_in = 1", 'tokens_out of "m" is missing'),
        ("[m]\ntokens_in = 1\ntokens_out = -1", 'tokens_out of "m" is -1'),
        ('[m]\ntokens_in = "1"\ntokens_out = 1', "tokens_in of \"m\" is '1'"),
        ("[m]\ntokens_in = true\ntokens_out = 1", 'tokens_in of "m" is True'),
        ("[m]\ntokens_in = inf\ntokens_out = 1", 'tokens_in of "m" is inf'),
        ("[m]\ntokens_in = 1\ntokens_out = 1\ncached = 1", 'cached of "m" is not known'),
        ("m = 3", "m = 3 is no price"),
        ("[gpt-9.1]\ntokens_in = 1\ntokens_out = 1", 'needs quotes, as in \\["gpt-9.1"\\]'),
        ("[", "is no TOML"),
        (f"a = {'9' * 5000}", "is no TOML"),
        (f"a = {'[' * 5000}", "is no TOML"),
    ],
)
def test_a_wrong_table_is_refused_by_file_and_key(tmp_path: Path, text: str, words: str) -> None:
    """The message says what to write."""
    path = tmp_path / "prices.toml"
    path.write_text(text)

    with pytest.raises(ConfigurationError, match=words) as caught:
        load_prices(path)

    assert str(path) in str(caught.value)


def test_a_missing_table_is_named(tmp_path: Path) -> None:
    """With its path."""
    with pytest.raises(ConfigurationError, match=r"nosuch\.toml"):
        load_prices(tmp_path / "nosuch.toml")


@pytest.mark.parametrize(
    ("model", "found"),
    [
        ("gpt-5", 1),
        ("gpt-5-2025-08-07", 1),
        ("gpt-5-latest", 1),
        ("gpt-5-mini", 2),
        ("gpt-5-mini-2025-08-07", 2),
        ("claude-x-20251002", 3),
        ("claude-x-20251001", 4),
        ("claude-x-20251001-20251001", 4),
        ("gpt-5-pro", None),
        ("gpt-5.1", None),
        ("my-gpt-5", None),
        ("", None),
    ],
)
def test_dated_names_have_the_price_of_the_plain_one(model: str, found: int | None) -> None:
    """The longest name wins; another model's name is no version of this one."""
    names = {"gpt-5": 1, "gpt-5-mini": 2, "claude-x": 3, "claude-x-20251001": 4}
    prices = {name: Price(number, number) for name, number in names.items()}

    price = price_of(model, prices)

    assert (price.tokens_in if price else None) == found
