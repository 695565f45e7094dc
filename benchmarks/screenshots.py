"""Screenshots of a report about a made-up run, for the documentation: `python -m benchmarks.screenshots [FOLDER]`.

The folder is `docs/images` when left out. They are taken in the font Inter where it is installed.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.browsing import browser, look_as
from benchmarks.synthetic import AGENTS, make_run
from pytest_researchenv import cli
from pytest_researchenv.suite import find_suite, load_suite


if TYPE_CHECKING:
    from selenium.webdriver import Chrome

_IMAGES = Path(__file__).parents[1] / "docs" / "images"
_DESK, _PHONE = (1280, 860), (390, 844)


def made(folder: Path) -> Path:
    """Write a run and its report; returns the report's folder."""
    repositories = load_suite(find_suite("researchenvbench")).repositories
    make_run(folder / "results", "november", repositories, agents=AGENTS, seed=12)
    cli.main(["report", "november", "--results", str(folder / "results"), "--output", str(folder / "report")])
    return folder / "report"


def shoot(chrome: Chrome, report: Path, folder: Path) -> None:
    """Take all of them."""

    def take(name: str, page: Path, screen: Sequence[int], *, scheme: str = "light", script: str = "") -> None:
        look_as(chrome, width=screen[0], height=screen[1], scheme=scheme)
        chrome.get(page.as_uri())
        if script:
            chrome.execute_script(script)
        chrome.save_screenshot(str(folder / f"report-{name}.png"))

    index = report / "index.html"
    failed = next(
        page
        for page in sorted(report.glob("environments/codex/**/*.html"))
        if "native extension missing or ABI mismatch" in page.read_text()
    )
    matrix = "document.querySelector('#repositories').scrollIntoView();"
    take("desktop", index, _DESK)
    take("matrix", index, _DESK, script=matrix)
    take("dark", index, _DESK, scheme="dark", script=matrix)
    cell = f"{matrix} document.querySelector('.matrix tr:nth-child(6) a.c.failed').click()"
    take("cell", index, _DESK, script=cell)
    take("causes", index, _DESK, script="document.querySelector('#failing').scrollIntoView()")
    take("claims", index, _DESK, script="document.querySelector('#belief').scrollIntoView()")
    take("environment", failed, _DESK, script="document.querySelector('section.tier .why').scrollIntoView()")
    take("phone", index, _PHONE)
    take("phone-matrix", index, _PHONE, script="document.querySelector('.count').scrollIntoView()")


def main() -> None:
    """Make a run, and look at it."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else _IMAGES
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary, browser() as chrome:
        shoot(chrome, made(Path(temporary)), folder)


if __name__ == "__main__":
    main()
