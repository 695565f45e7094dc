"""The `researchenv` command."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence

from pytest_researchenv.commands import command_of, parser_of
from pytest_researchenv.errors import ResearchEnvError


__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; `commands.EXIT_CODES` says what its exit code means."""
    given = sys.argv[1:] if argv is None else list(argv)
    try:
        return _run(given)
    except KeyboardInterrupt:
        # What was begun is undone, or can be begun again: a traceback would say nothing more.
        sys.stderr.write("researchenv: interrupted\n")
        return 130


def _run(given: list[str]) -> int:
    command = command_of(given)
    end = given.index("--") if command and command.passes_on and "--" in given else len(given)
    own, further = given[:end], given[end + 1 :]
    arguments = parser_of(own).parse_args(own, argparse.Namespace(further=further))
    # Paths and records may hold what cannot be encoded; it is written out, as on stderr.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        code = int(arguments.run(arguments))
        sys.stdout.flush()
    except ResearchEnvError as error:
        # Only who has something to say pays for it.
        from rich.console import Console  # noqa: PLC0415 - see above

        from pytest_researchenv.report.html.text import visible  # noqa: PLC0415 - see above

        # What it names may be what somebody else's records, or folders, are made of.
        said = visible(f"researchenv: {error}")
        Console(stderr=True, soft_wrap=True, highlight=False, markup=False).print(said)
        return 1
    except BrokenPipeError:
        # Whoever read it has seen enough (`researchenv schema result | head`). Python must not flush once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return code


if __name__ == "__main__":
    sys.exit(main())
