"""What stored failures are diagnosed as: by category, the share unknown, and how long it takes.

Takes results folders, and looks at every result in them, also those that a later one has taken the place of.
"""

from __future__ import annotations

import argparse
import random
import time
from collections import Counter
from pathlib import Path

from rich.console import Console

from pytest_researchenv.diagnosis import Category
from pytest_researchenv.diagnosis.stored import Diagnosed, diagnosed
from pytest_researchenv.report.diagnoses import diagnoses_table, diagnosis_lines
from pytest_researchenv.verifying.attempts import Chosen, attempts_of


def main() -> None:
    """Diagnose, count and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", nargs="+", type=Path, metavar="RESULTS", help="results folders, of any runs")
    parser.add_argument("--sample", type=int, default=0, metavar="N", help="also print N of them, drawn by chance")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    begin = time.perf_counter()
    found: list[Diagnosed] = []
    for folder in arguments.results:
        for run in sorted(path.name for path in folder.iterdir() if path.is_dir()):
            found += diagnosed(attempts_of(folder, run, Chosen()), every=True)
    seconds = time.perf_counter() - begin
    console = Console(highlight=False, markup=False)
    if arguments.sample:
        chance = random.Random(arguments.seed)  # noqa: S311 - a benchmark
        for one in chance.sample(found, min(arguments.sample, len(found))):
            console.print("\n".join((*diagnosis_lines(one), f"  rule: {one.diagnosis.rule}")), soft_wrap=True)
    console.print(diagnoses_table(found))
    unknown = [one.diagnosis.line for one in found if one.diagnosis.category is Category.UNKNOWN]
    texts = {one.diagnosis.line for one in found}
    console.print(f"{len(found)} failures, {len(unknown)} unknown ({len(unknown) / max(1, len(found)):.1%})")
    console.print(f"{len(texts)} different lines, {len(set(unknown))} of them unknown")
    for line, count in Counter(unknown).most_common():
        console.print(f"  {count} x {line}", soft_wrap=True)
    console.print(f"{seconds:.1f} s with reading, {1000 * seconds / max(1, len(found)):.1f} ms each")


if __name__ == "__main__":
    main()
