"""Measure every baseline of our own research tasks, and the withheld method, on the public data.

    python benchmarks/research_baselines.py [TASK...] [--write] [--seeds 0 1 2 3 4] [--python INTERPRETER]

It prints mean and standard error over seeds, and how far the withheld method is from the best baseline, seed by seed.
`--write` puts the numbers into `evaluation/recorded.json`, which evaluations compare an environment with.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import statistics
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


SUITE = Path(__file__).resolve().parents[1] / "suites" / "researchgym"

# Sub-task -> method -> seed -> metric -> value.
Recorded = dict[str, dict[str, dict[str, dict[str, float]]]]


@dataclass(frozen=True, slots=True)
class OwnTask:
    """One of our own tasks.

    Attributes:
        name: its folder.
        package: package of its code.
        option: what its runner is told of a sub-task.
        settings: sub-task → value of that option.
        methods: its baselines.
        primary: the metric that decides.
    """

    name: str
    package: str
    option: str
    settings: dict[str, int]
    methods: tuple[str, ...]
    primary: str


TASKS = (
    OwnTask(
        "digits-continual",
        "continual",
        "steps",
        {"steps2": 2, "steps5": 5, "steps10": 10},
        ("finetune", "ewc", "lwf", "nearest-mean", "lda"),
        "Acc",
    ),
    OwnTask(
        "morpheme-tokens",
        "pieces",
        "size",
        {"pieces100": 100, "pieces150": 150, "pieces200": 200},
        ("letters", "words", "bpe", "wordpiece"),
        "Macro-F1",
    ),
)


def measured(task: OwnTask, seeds: Sequence[int], python: str) -> Recorded:
    """Run the runner for each sub-task and method, in a copy of the code that holds the withheld method."""
    found: Recorded = {}
    with tempfile.TemporaryDirectory() as made:
        code = Path(made) / "code"
        shutil.copytree(SUITE / task.name / "code", code, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(SUITE / task.name / "withheld" / "own.py", code / task.package / "methods" / "own.py")
        for subtask, value in task.settings.items():
            for method in (*task.methods, "own"):
                out = Path(made) / "results.json"
                command = [python, "-m", f"{task.package}.run", f"--method={method}", f"--{task.option}={value}"]
                command += [f"--out={out}", "--seeds", *map(str, seeds)]
                subprocess.run(command, cwd=code, check=True, stdout=subprocess.DEVNULL)
                records = json.loads(out.read_text(encoding="utf-8"))
                name = "withheld" if method == "own" else method
                found.setdefault(subtask, {})[name] = {
                    str(record["seed"]): {key: one for key, one in record.items() if isinstance(one, float)}
                    for record in records
                }
    return found


def mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    """Return the mean, and its standard error."""
    spread = statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else 0.0
    return statistics.fmean(values), spread


def table(task: OwnTask, found: Recorded) -> str:
    """Return what was found, as lines."""
    lines = []
    for subtask, methods in found.items():
        for method, seeds in methods.items():
            names = next(iter(seeds.values()))
            shown = [(name, *mean_and_error([values[name] for values in seeds.values()])) for name in names]
            words = "  ".join(f"{name} {mean:6.2f} ± {error:.2f}" for name, mean, error in shown)
            lines.append(f"{task.name}  {subtask:10} {method:13} {words}")
        best = best_baseline(task, methods)
        gains = [
            values[task.primary] - methods[best][seed][task.primary] for seed, values in methods["withheld"].items()
        ]
        mean, error = mean_and_error(gains)
        lines.append(f"{task.name}  {subtask:10} withheld - {best}: {mean:.2f} ± {error:.2f} {task.primary}")
    return "\n".join(lines)


def best_baseline(task: OwnTask, methods: dict[str, dict[str, dict[str, float]]]) -> str:
    """Return the baseline with the best mean of the metric that decides."""
    return max(task.methods, key=lambda method: statistics.fmean(one[task.primary] for one in methods[method].values()))


def required_seeds(task: OwnTask) -> list[int]:
    """Return the seeds that a result has to be the mean of, as `task.toml` says."""
    said = tomllib.loads((SUITE / task.name / "task.toml").read_text(encoding="utf-8"))
    return list(next(iter(said["subtasks"].values()))["required"]["seeds"])


def main() -> None:
    """Measure what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tasks", nargs="*", default=[task.name for task in TASKS])
    parser.add_argument("--seeds", type=int, nargs="+")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    for task in TASKS:
        if task.name in given.tasks:
            found = measured(task, given.seeds or required_seeds(task), given.python)
            print(table(task, found))
            if given.write:
                path = SUITE / task.name / "evaluation" / "recorded.json"
                path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
