"""A pytest plugin suite that measures whether an AI agent can build a working environment for research code.

A suite's tests ask for the fixtures `c0` to `c5`, and hand what they get to `check`.
"""  # pytest-researchenv canary febcbe79-36b0-4284-b305-e27b1a79d212

from __future__ import annotations

from typing import TYPE_CHECKING


if TYPE_CHECKING:
    from pytest_researchenv.verdicts import check
else:

    def __getattr__(name: str) -> object:
        """Import what is public on first use: pytest imports this package in every run of an environment with it."""
        if name == "check":
            from pytest_researchenv.verdicts import check  # noqa: PLC0415

            return check
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["check"]
