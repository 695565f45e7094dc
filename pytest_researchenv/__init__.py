"""A pytest plugin suite that measures whether an AI agent can build a working environment for research code.

A suite's tests ask for the fixtures `c0` to `c5`, and hand what they get to `check`.
"""  # pytest-researchenv canary febcbe79-36b0-4284-b305-e27b1a79d212

from pytest_researchenv.verdicts import check


__all__ = ["check"]
