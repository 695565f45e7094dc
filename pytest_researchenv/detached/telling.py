"""Says at the end of a session which runs go on by themselves, and how they are ended."""

from __future__ import annotations

from pathlib import Path
from typing import final

import pytest


__all__ = ["StillAtWork"]


@final
class StillAtWork:
    """Registered on the controller, where an agent was chosen.

    Args:
        results: folder of the runs.
        run: name of the session's.
    """

    def __init__(self, results: Path, run: str) -> None:
        self._results = results
        self._run = run

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Name what is still at work."""
        if not any(self._results.glob(f"{self._run}/**/keeper.json")):
            return
        # Only sessions with such runs pay for reading records.
        from pytest_researchenv.detached.command import at_work_in  # noqa: PLC0415 - see above
        from pytest_researchenv.errors import StoreError  # noqa: PLC0415 - likewise

        try:
            attempts = at_work_in(self._results, self._run)
        except StoreError:
            return
        for attempt in attempts:
            terminalreporter.write_line(
                f"researchenv: {attempt.key} goes on by itself: --researchenv-run={self._run} waits for it, "
                f"`researchenv stop {attempt.folder}` ends it"
            )
