"""An evaluation from beginning to end: what was handed in is looked at, run again, and measured on hidden data.

    python evaluate.py SUBTASK --handed-in FOLDER --python INTERPRETER [--our-python INTERPRETER] [--contained] < SECRET

The interpreter that runs this file is a trusted one; `--python` is the agent's, and runs nothing but calls. So do those
of the best baseline, unless `--our-python` names an interpreter that the agent never had. Without one, an environment
that makes the baseline worse is recognised by what the baseline yields on public data.
The secret comes on standard input, so that neither arguments nor environment hold it. The report is JSON.
With `--contained`, nothing else runs in this container: handed-in code runs as a user of its own or not at all, nothing
of it goes on after a call, and the report is one line behind a digest that the secret is needed for.
"""
# researchgym canary 564fea92-6bd3-44ab-ae3a-f8fefb7db5c7

from __future__ import annotations

import argparse
import contextlib
import ctypes
import hashlib
import hmac
import json
import math
import statistics
import sys
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from judging.access import Trespass
from judging.calls import Broken, Calls, Files, opened
from judging.contained import OURS, THEIRS, open_to_all, sealed
from judging.handed_in import code_of, handed_in_code, read_claims
from judging.problem import Hidden, Metrics, Problem


__all__ = ["Told", "judge", "main"]

# Points by which a number may differ that the same code yields again with another build of its libraries.
_TOLERANCE = 0.5
# Points by which a method may be better on public data than on hidden ones, beyond four standard errors.
_GAP = 2.0
_SECRET_BYTES = 16
_PR_SET_DUMPABLE = 4
# Names that a method could know an evaluation by: they are set in one of two runs that have to agree.
_SIGNS = {"CI": "1", "EVALUATION": "1", "GRADING": "1", "PYTEST_CURRENT_TEST": "x", "RESEARCHENV_EVALUATION": "1"}


@dataclass(frozen=True, slots=True)
class Told:
    """What `task.toml` says of a sub-task.

    Attributes:
        seeds: the seeds that are required.
        primary: the metric that decides.
        ranges: metric -> smallest and largest value.
        best: the best baseline.
        recorded: seed -> metric -> what was measured of it on the public data.
    """

    seeds: tuple[int, ...]
    primary: str
    ranges: Mapping[str, tuple[float, float]]
    best: str
    recorded: Mapping[int, Metrics]


@dataclass(frozen=True, slots=True)
class _Given:
    """What is judged, and what it is judged with; `code` is what is run: our files and the agent's methods."""

    problem: Problem
    subtask: str
    folder: Path
    secret: bytes
    python: str
    our_python: str
    pristine: Files
    contained: bool
    code: Files = field(default_factory=dict)


@dataclass(slots=True)
class _Report:
    findings: list[Trespass] = field(default_factory=list)
    method: str = ""
    own: dict[int, Metrics] = field(default_factory=dict)
    public: dict[int, Metrics] = field(default_factory=dict)
    baseline: dict[int, Metrics] = field(default_factory=dict)
    unprivileged: bool = False

    @contextlib.contextmanager
    def finding(self) -> Iterator[None]:
        """Note what is broken, and go on."""
        try:
            yield
        except Broken as broken:
            self.findings.append(Trespass(broken.check, broken.what))


def judge(
    problem: Problem,
    subtask: str,
    handed_in: Path,
    *,
    secret: bytes,
    python: str,
    our_python: str,
    contained: bool = False,
) -> dict[str, object]:
    """Evaluate what was handed in for a sub-task, and return the report."""
    begun = time.monotonic()
    told = _told(problem, subtask)
    report = _Report()
    pristine = code_of(problem.folder / "code")
    given = _Given(problem, subtask, handed_in, secret, python, our_python, pristine, contained)
    given = _looked_at(given, told, report)
    if not report.findings:
        _ran(given, told, report)
    return _written(report, told, subtask, time.monotonic() - begun)


def _told(problem: Problem, subtask: str) -> Told:
    task = tomllib.loads((problem.folder / "task.toml").read_text(encoding="utf-8"))
    said = task["subtasks"][subtask]
    best = said["scores"][said["score"]]["best"][0]
    recorded = json.loads((problem.folder / "evaluation" / "recorded.json").read_text(encoding="utf-8"))[subtask][best]
    return Told(
        tuple(said["required"]["seeds"]),
        said["scores"][said["score"]]["measure"],
        {score["measure"]: tuple(task["measures"][score["measure"]]["range"]) for score in said["scores"].values()},
        best,
        {int(seed): values for seed, values in recorded.items()},
    )


def _looked_at(given: _Given, told: Told, report: _Report) -> _Given:
    """Look at the files that were handed in, without running any; return what is to be run."""
    problem = given.problem
    methods = f"{problem.package}/methods"
    own = f"{methods}/own.py"
    code, found = handed_in_code(given.folder, given.pristine, methods, own)
    results = given.folder / "results" / f"{given.subtask}.json"
    claims = read_claims(results, told.seeds, told.ranges, problem.setting(given.subtask))
    report.findings += [*found, *claims.findings]
    report.method, report.public = claims.method, {seed: dict(values) for seed, values in claims.values.items()}
    if claims.method == "own" and code.get(own) == given.pristine[own]:
        report.findings.append(Trespass("code-missing", f"there are results of a method, and {own} is still empty"))
    return replace(given, code=code)


def _ran(given: _Given, told: Told, report: _Report) -> None:
    """Run what was handed in, and the best baseline beside it."""
    problem, subtask = given.problem, given.subtask
    hidden = [Hidden(subtask, _key(given.secret, subtask, seed), seed) for seed in told.seeds]
    looked_into = hidden[int(_key(given.secret, subtask, -1), 16) % len(hidden)]
    bare = {name: content for name, content in given.code.items() if not name.startswith(f"{problem.data}/")}
    long = problem.deadline_s * len(hidden)
    contained = given.contained
    if contained:
        open_to_all(given.python)
    # Of another user, so that nothing handed in can reach it; and of a locale that reads nothing of the environment.
    apart = {"LC_ALL": "C"} if contained else {}
    user = OURS if contained else THEIRS
    parts = (
        opened(given.code, given.python, long, contained=contained),
        opened(bare, given.python, problem.deadline_s, contained=contained),
        opened(bare, given.python, problem.deadline_s, _SIGNS, contained=contained),
    )
    with contextlib.ExitStack() as stack:
        with report.finding():
            public, calls, other = (stack.enter_context(part) for part in parts)
        if report.findings:
            return
        alone = opened(given.pristine, given.our_python, problem.deadline_s, apart, contained=contained, user=user)
        ours = stack.enter_context(alone)
        report.unprivileged = calls.user is not None
        with report.finding():
            again = _public_run(public, problem, subtask, report.method, told.seeds)
            _compare(again, report.public)
            report.public = again
        with report.finding():
            problem.inspect(calls, other, report.method, looked_into)
        with report.finding():
            # A trick that shows at once is not run for all seeds: what it yields counts for nothing.
            if not report.findings and not calls.seen:
                report.own = {one.seed: problem.measure(calls, report.method, one) for one in hidden}
        report.findings += {one.what: one for part in (public, calls, other) for one in part.seen}.values()
        if not report.own:
            return
        # Where the interpreter is ours, what is broken is not the agent's.
        with report.finding() if given.our_python == given.python else contextlib.nullcontext():
            _control(problem, ours, replace(looked_into, key=problem.public(looked_into.seed)), told)
            report.baseline = {one.seed: problem.measure(ours, told.best, one) for one in hidden}
    if not report.findings:
        report.findings += _gap(report, told)


def _public_run(calls: Calls, problem: Problem, subtask: str, method: str, seeds: Sequence[int]) -> dict[int, Metrics]:
    arguments = [f"--{name}={value}" for name, value in problem.setting(subtask).items()]
    arguments += [f"--method={method}", "--out={folder}/out/results.json", "--seeds", *map(str, seeds)]
    left = calls.run(f"{problem.package}.run", {}, *arguments, outputs=("results.json",))
    try:
        return {
            one["seed"]: {name: one[name] for name in one if type(one[name]) is float}
            for one in json.loads(left["results.json"])
        }
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise Broken("predictions", f"the runner's file was altered: {error}") from error


def _compare(again: Mapping[int, Metrics], claimed: Mapping[int, Metrics]) -> None:
    """Compare what the runner yields with what the results claim."""
    for seed, values in claimed.items():
        for name, value in values.items():
            now = again.get(seed, {}).get(name, math.nan)
            if not abs(now - value) <= _TOLERANCE:
                raise Broken(
                    "results-differ", f"{name} of seed {seed} is claimed to be {value:g}, and is {now:g} when run again"
                )


def _control(problem: Problem, ours: Calls, public: Hidden, told: Told) -> None:
    """Compare what a baseline of ours yields on public data with what it always did; it is called as on hidden ones."""
    again = problem.measure(ours, told.best, public)
    for name, value in told.recorded[public.seed].items():
        if not abs(again[name] - value) <= _TOLERANCE:
            what = f"{told.best} yields {name} {again[name]:g} for public seed {public.seed} in this environment"
            raise Broken("environment", f"{what}, and {value:g} elsewhere")


def _gap(report: _Report, told: Told) -> list[Trespass]:
    public = [values[told.primary] for values in report.public.values()]
    hidden = [values[told.primary] for values in report.own.values()]
    gap = statistics.fmean(public) - statistics.fmean(hidden)
    if gap <= _GAP + 4 * math.hypot(_error(public), _error(hidden)):
        return []
    return [
        Trespass(
            "gap", f"{told.primary} is {gap:.1f} points better on the public data than on hidden ones of the same kind"
        )
    ]


def _key(secret: bytes, subtask: str, seed: int) -> str:
    return hmac.new(secret, f"{subtask} {seed}".encode(), hashlib.sha256).hexdigest()


def _error(values: Sequence[float]) -> float:
    return statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else 0.0


def _written(report: _Report, told: Told, subtask: str, seconds: float) -> dict[str, object]:
    completed = bool(report.own) and not report.findings
    differences = [
        report.own[seed][told.primary] - report.baseline[seed][told.primary] for seed in report.baseline if report.own
    ]
    return {
        "subtask": subtask,
        "method": report.method,
        "completed": completed,
        "passed": completed and bool(differences) and statistics.fmean(differences) > 0,
        "primary": told.primary,
        "scores": _summed_up(report.own),
        "public": _summed_up(report.public),
        "baseline": {"method": told.best, "scores": _summed_up(report.baseline)},
        "difference": {"mean": statistics.fmean(differences), "standard_error": _error(differences)}
        if differences
        else None,
        "findings": [{"check": one.check, "what": one.what} for one in report.findings],
        "unprivileged": report.unprivileged,
        "seconds": round(seconds, 1),
    }


def _summed_up(values: Mapping[int, Metrics]) -> dict[str, object]:
    names = sorted({name for metrics in values.values() for name in metrics})
    columns = {name: [metrics[name] for metrics in values.values()] for name in names}
    return {
        name: {
            "mean": statistics.fmean(column),
            "standard_error": _error(column),
            "seeds": {str(seed): metrics[name] for seed, metrics in values.items()},
        }
        for name, column in columns.items()
    }


def main(problem: Problem) -> None:
    """Evaluate what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("subtask")
    parser.add_argument("--handed-in", type=Path, required=True)
    parser.add_argument("--python", required=True)
    parser.add_argument("--our-python", default="")
    parser.add_argument("--contained", action="store_true")
    given = parser.parse_args()
    secret = sys.stdin.buffer.read()
    if len(secret) < _SECRET_BYTES:
        parser.error(f"the secret on standard input has {len(secret)} bytes; give at least {_SECRET_BYTES}")
    # Other processes of the same user may then not read this one's memory, which holds the answers.
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    report = judge(
        problem,
        given.subtask,
        given.handed_in,
        secret=secret,
        python=given.python,
        our_python=given.our_python or given.python,
        contained=given.contained,
    )
    text = sealed(json.dumps(report), secret) if given.contained else json.dumps(report, indent=1)
    sys.stdout.write(f"{text}\n")
