"""How benchmarks start pytest."""

from __future__ import annotations

import sys


__all__ = ["PYTEST"]

#: Without its cache, and without Hypothesis: a tool of our own tests, which takes half of the time that pytest needs to
#: start.
PYTEST = (sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:hypothesispytest")
