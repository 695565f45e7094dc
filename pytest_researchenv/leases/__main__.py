"""Say who holds and who waits: `python -m pytest_researchenv.leases`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from pytest_researchenv.errors import LeaseError
from pytest_researchenv.leases.choice import FOLDER
from pytest_researchenv.leases.desk import Desk, since_start
from pytest_researchenv.leases.telling import ticket_in_words
from pytest_researchenv.sandbox.labels import Owner


def main() -> int:
    """Print the lines of this host; the exit code is 1 where one cannot be read."""
    parser = argparse.ArgumentParser(prog="python -m pytest_researchenv.leases", description=__doc__)
    parser.add_argument("--folder", type=Path, default=FOLDER, help=f"where the lines lie (default: {FOLDER})")
    folder = parser.parse_args().folder
    try:
        lines = list(_lines(folder))
    except (LeaseError, OSError) as error:
        print(error, file=sys.stderr)  # noqa: T201 - a command's
        return 1
    print("\n".join(lines) or f"nobody holds or waits for anything in {folder}")  # noqa: T201 - likewise
    return 0


def _lines(folder: Path) -> Iterator[str]:
    host = Owner.current("").host
    for place in sorted(folder.glob(f"{host}-*")):
        line = Desk(place).line()
        yield from (ticket_in_words(ticket, now=since_start()) for ticket in line.tickets)


if __name__ == "__main__":
    sys.exit(main())
