"""The `researchenv` command."""

from __future__ import annotations

import argparse
import errno
import io
import os
import sys
from collections.abc import Sequence

from pytest_researchenv.commands import command_of, parser_of
from pytest_researchenv.errors import ResearchEnvError


__all__ = ["main"]

#: What a full disk, a quota or a device that is gone says of stdout.
_UNPRINTED = (errno.ENOSPC, errno.EDQUOT, errno.EIO)


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
        # Whoever read it has seen enough (`researchenv schema result | head`).
        _print_no_more()
        return 1
    except OSError as error:
        # Files have names, and those who write them messages of their own.
        if error.filename is not None or error.errno not in _UNPRINTED:
            raise
        _print_no_more()
        sys.stderr.write(f"researchenv: what it says cannot be written: {error}; make room, or have it go elsewhere\n")
        return 1
    return code


def _print_no_more() -> None:
    """Keep Python from flushing once more when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
