"""How an environment came about, written as a Dockerfile: a record of what an agent did, and no promise.

What a trajectory holds of it is here, in order. What a tool did not tell is not, and what was fetched then may be gone
now: the frozen image is the environment, and this is for people who want to know, or to build one of their own.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pytest_researchenv.agents.trajectory import shell_command
from pytest_researchenv.model import Environment
from pytest_researchenv.probes.world import Interpreter, probe_environment
from pytest_researchenv.report.html.text import visible


__all__ = ["recipe"]

#: Larger trajectories are not read.
_MOST_BYTES = 256 * 1024**2


def recipe(environment: Environment, folder: Path, *, base: str) -> str:
    """Return the record of an environment as a Dockerfile.

    Args:
        environment: what is told of.
        folder: its attempt's.
        base: a name of the base image; empty where none is known.
    """
    lines = [*_head(environment), "", f"FROM {base or environment.base_image}", f"WORKDIR {environment.workdir}", ""]
    lines += _source(environment)
    lines += _steps(folder / "trajectory.json")
    lines += _foot(environment)
    return "\n".join(visible(line) for line in lines) + "\n"


def _head(environment: Environment) -> Iterator[str]:
    yield "# How this environment came about, as far as it was recorded. It is no guarantee: commands that failed are"
    yield "# among these, what was fetched may have changed, and what the agent did by other tools is only a comment."
    yield from _comment(
        "",
        f"attempt:       {environment.key}",
        f"agent's end:   {environment.ended}",
        f"frozen:        {environment.created}",
        f"frozen image:  {environment.image}",
        f"base image:    {environment.base_image}",
        *(f"{f'{name}:':<14} {value}" for name, value in sorted(environment.inputs.items())),
    )


def _source(environment: Environment) -> Iterator[str]:
    yield from _comment(
        f"The pinned tree of {environment.key.repository}: {environment.inputs.get('source', 'not recorded')}"
    )
    yield f"COPY . {environment.workdir}"
    if environment.changed:
        yield from _comment(
            f"Tracked files that the agent changed, and that probes put back: {', '.join(environment.changed)}"
        )


def _steps(path: Path) -> Iterator[str]:
    steps, problem = _read(path)
    if problem:
        yield ""
        yield from _comment(f"{problem} What the agent printed: researchenv logs ATTEMPT --transcript")
    for number, step in enumerate(steps, start=1):
        for call in _mappings(step.get("tool_calls")):
            yield ""
            yield from _comment(f"step {number}, {step.get('timestamp') or 'at no recorded time'}")
            command = shell_command(call.get("arguments"))
            if command is None:
                said = json.dumps(call.get("arguments"), ensure_ascii=False, indent=1)
                yield from _comment(f"by the tool {call.get('function_name')}: {said}")
            else:
                yield from _run(command)


def _run(command: str) -> Iterator[str]:
    # A delimiter that stands in no line of the command, whatever the agent chose to write.
    word = f"END_{hashlib.sha256(command.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"
    yield f"RUN <<'{word}'"
    yield from command.split("\n")
    yield word


def _foot(environment: Environment) -> Iterator[str]:
    yield ""
    report = environment.report
    if report is None:
        yield from _comment(f"There is no self-report: {environment.report_problem}")
        return
    yield from _comment(
        "The self-report is in report.json. Probes run with these variables, and those of its environment:"
    )
    for name, value in probe_environment(Interpreter(report.python_path or "/usr/bin/python3")).items():
        yield from _comment(f"  {name}={value}")


def _comment(*texts: str) -> Iterator[str]:
    for text in texts:
        yield from (f"# {line}".rstrip() for line in str(text).split("\n"))


def _read(path: Path) -> tuple[list[Mapping[str, Any]], str]:
    try:
        if path.stat().st_size > _MOST_BYTES:
            return [], "The trajectory is too large to be read."
        document = json.loads(path.read_bytes())
    except FileNotFoundError:
        return [], "No trajectory was recorded, so that commands cannot be told apart."
    except (OSError, ValueError, RecursionError) as error:
        return [], f"The trajectory cannot be read: {error}."
    return list(_mappings(document.get("steps") if isinstance(document, dict) else None)), ""


def _mappings(found: object) -> list[Mapping[str, Any]]:
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
