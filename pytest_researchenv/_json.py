"""What `--json` means, for every command: one document on stdout, and nothing else there.

What goes on meanwhile is told on stderr, and so are errors: then there is no document, and the exit code is not 0.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable
from typing import Any


__all__ = ["add_json", "print_json", "teller"]


def add_json(parser: argparse._ActionsContainer) -> None:
    """Declare the option."""
    parser.add_argument("--json", action="store_true", help="print one JSON document on stdout, and nothing else there")


def print_json(document: object) -> None:
    """Print a document. What JSON has no number for, which a damaged record may hold, is null."""
    try:
        text = json.dumps(document, indent=2, allow_nan=False)
    except ValueError:
        text = json.dumps(_finite(document), indent=2, allow_nan=False)
    print(text, flush=True)


def teller(arguments: argparse.Namespace) -> Callable[[str], None]:
    """Return what tells people what goes on: on stdout, and with `--json` on stderr."""

    def tell(text: str) -> None:
        print(text, file=sys.stderr if arguments.json else sys.stdout, flush=True)

    return tell


def _finite(value: Any) -> Any:  # noqa: ANN401 - whatever a document is made of
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    return [_finite(one) for one in value] if isinstance(value, (list, tuple)) else value
