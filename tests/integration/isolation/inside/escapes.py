"""Tries, as root in a container, to reach what is outside it; prints name → what became of each attempt, as JSON.

What became of it is the name of the error that refused it, or `done`.
"""

from __future__ import annotations

import json

from tests.integration.isolation.inside import escapes_by_mounts, escapes_to_kernel, escapes_to_others
from tests.integration.isolation.inside.escaping import ATTEMPTS, outcome


__all__ = ["ATTEMPTS"]

#: Each names attempts when it is imported.
MODULES = (escapes_by_mounts, escapes_to_kernel, escapes_to_others)

if __name__ == "__main__":
    print(json.dumps({name: outcome(function) for name, function in ATTEMPTS.items()}))
