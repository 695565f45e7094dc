"""Which frozen images are kept once they were judged: `--researchenv-keep`. Importing it imports nothing heavy."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from pytest_researchenv.errors import ConfigurationError
from pytest_researchenv.model import Verdict


__all__ = ["ALL", "Keep", "parse_keep"]

_FORMS = "all, failed, none, or how many of the newest"
_WORDS = ("all", "failed", "none")


@dataclass(frozen=True, slots=True)
class Keep:
    """A policy.

    Attributes:
        words: as the user gave it.
        newest: how many are kept of those that were judged last; None where that does not matter.
    """

    words: str = "all"
    newest: int | None = None

    @property
    def evicts(self) -> bool:
        """Whether anything is ever removed."""
        return self.words != "all"

    def keeps(self, verdicts: Collection[Verdict]) -> bool:
        """Whether an environment is kept for what its selected tiers came to, however many others there are.

        An error is no verdict: what ended so is still to be judged, and kept.
        """
        if not verdicts or Verdict.ERROR in verdicts or self.words == "all":
            return True
        return self.words == "failed" and Verdict.FAILED in verdicts


ALL = Keep()


def parse_keep(text: str) -> Keep:
    """Read a policy.

    Raises:
        ConfigurationError: it is none.
    """
    if text in _WORDS:
        return Keep(text)
    if text.isascii() and text.isdecimal() and len(text) < 7:  # noqa: PLR2004 - a million environments
        return Keep(text, int(text))
    raise ConfigurationError(f"{text!r} is no policy: give {_FORMS}")
