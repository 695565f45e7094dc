"""A pytest plugin suite that measures whether an AI agent can build a working environment for research code.

A suite's tests ask for the fixtures `c0` to `c5`, and hand what they get to `check`.
"""

from pytest_researchenv.verdicts import check


__all__ = ["check"]
