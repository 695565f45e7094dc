"""Computes ResearchGym's published tables 3 to 6 again, and says what does not follow from what."""

from __future__ import annotations

import argparse
from pathlib import Path

from pytest_researchenv.research.paper import paper
from pytest_researchenv.research.paperpage import paper_page
from pytest_researchenv.research.reconcile import checks


def main() -> None:
    """Compute, print, and write the page where asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path, metavar="PAGE", help="write the page, docs/researchgym-paper.md")
    arguments = parser.parse_args()
    every = checks(paper())
    for one in every:
        note = f" ({one.note})" if one.note else ""
        verdict = "holds" if one.holds else "DIFFERS"
        print(f"{verdict:8}{one.where}: {one.what}: computed {one.computed}, published {one.published}{note}")
    print(f"{sum(one.holds for one in every)} of {len(every)} hold")
    if arguments.write:
        arguments.write.write_text(paper_page(paper()), "utf-8")


if __name__ == "__main__":
    main()
