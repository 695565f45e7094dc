"""What an agent handed in: its code, and the file of results that it claims; both are read, and neither is believed."""
# researchgym canary 564fea92-6bd3-44ab-ae3a-f8fefb7db5c7

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from judging.access import Trespass
from judging.calls import Files
from judging.reading import plain_bytes


__all__ = ["Claims", "code_of", "handed_in_code", "read_claims"]

_CODE_BYTES = 512 * 1024
_CODE_FILES = 64
_RESULTS_BYTES = 1024 * 1024
_KEPT_APART = ("results/",)
_METHOD = re.compile(r"[a-z][a-z-]{0,39}")
# There one may write.
_FREE = ("README.md",)


@dataclass(frozen=True, slots=True)
class Claims:
    """What a file of results says.

    Attributes:
        method: the method that it is about; empty where the file is of no use.
        values: seed -> metric -> value.
        findings: what is wrong with it.
    """

    method: str
    values: Mapping[int, Mapping[str, float]]
    findings: Sequence[Trespass]


def code_of(folder: Path) -> Files:
    """Return the files of a code base of ours."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        and "__pycache__" not in path.parts
        and not path.relative_to(folder).as_posix().startswith(_KEPT_APART)
    }


def handed_in_code(folder: Path, pristine: Files, methods: str, own: str) -> tuple[Files, list[Trespass]]:
    """Return the code base with the agent's Python files in its folder of methods, and what else was changed.

    Args:
        folder: what the agent left.
        pristine: the files that it began with.
        methods: the folder that it may add files to.
        own: the file that it may change.
    """
    code, findings, budget = dict(pristine), [], _CODE_BYTES
    for name, content in pristine.items():
        if name not in {own, *_FREE} and _plain(folder, folder / name, len(content)) != content:
            findings.append(Trespass("files-edited", f"{name} was changed or taken away"))
    added = [path for path in _below(folder / methods) if path.relative_to(folder).as_posix() not in pristine]
    for path in [folder / own, *added]:
        name = path.relative_to(folder).as_posix()
        found = _plain(folder, path, budget) if path.suffix == ".py" else None
        if found is None or len(added) > _CODE_FILES:
            if path.suffix != ".pyc":
                findings.append(Trespass("files-foreign", f"{name[:200]!r} is no plain Python file of bearable size"))
            continue
        budget -= len(found)
        code[name] = found
    return code, findings


def read_claims(
    path: Path, seeds: Sequence[int], ranges: Mapping[str, tuple[float, float]], fixed: Mapping[str, object]
) -> Claims:
    """Read a file of results: exactly one record for each seed.

    Args:
        path: the file.
        seeds: the seeds that there have to be.
        ranges: metric -> smallest and largest value.
        fixed: what each record has to say besides.
    """
    content = _plain(path.parent.parent, path, _RESULTS_BYTES)
    if content is None:
        return Claims("", {}, [Trespass("results-missing", f"there is no {path.parent.name}/{path.name}")])
    try:
        records = json.loads(content)
    except (ValueError, RecursionError) as error:
        return Claims("", {}, [Trespass("results-invalid", f"{path.name} is no JSON: {str(error)[:200]}")])
    if not isinstance(records, list) or not all(isinstance(one, dict) for one in records):
        return Claims("", {}, [Trespass("results-invalid", f"{path.name} is no list of records")])
    findings = [found for one in records for found in _record_findings(one, ranges, fixed)]
    counts = Counter(one.get("seed") for one in records if isinstance(one.get("seed"), int))
    for word, wrong in (
        ("missing", [seed for seed in seeds if seed not in counts]),
        ("more than once", [seed for seed, count in counts.items() if count > 1]),
        ("not asked for", [seed for seed in counts if seed not in seeds]),
    ):
        if wrong:
            findings.append(Trespass("results-seeds", f"seeds {word}: {', '.join(map(str, wrong[:20]))}"))
    methods = {str(one.get("method")) for one in records}
    if len(methods) > 1 or not all(_METHOD.fullmatch(name) for name in methods):
        findings.append(Trespass("results-invalid", f"records are not of one method: {sorted(methods)[:5]!r:.200}"))
    if findings:
        return Claims("", {}, findings)
    values = {int(one["seed"]): {name: float(one[name]) for name in ranges} for one in records}
    return Claims(methods.pop(), values, [])


def _record_findings(
    record: Mapping[str, object], ranges: Mapping[str, tuple[float, float]], fixed: Mapping[str, object]
) -> list[Trespass]:
    wrong = [
        f"{name} is {record.get(name)!r}, not {value!r}" for name, value in fixed.items() if record.get(name) != value
    ]
    if type(record.get("seed")) is not int:
        wrong.append(f"seed is {record.get('seed')!r}")
    for name, (low, high) in ranges.items():
        value = record.get(name)
        # No comparison holds for what is not a number.
        fine = isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high
        if not fine:
            wrong.append(f"{name} is {value!r}, not a number from {low:g} to {high:g}")
    return [Trespass("results-invalid", f"record of seed {str(record.get('seed'))[:20]}: {one[:200]}") for one in wrong]


def _below(folder: Path) -> list[Path]:
    """List files, following no link; a link is listed as a file."""
    found = []
    for place, folders, names in os.walk(folder, followlinks=False):
        links = [name for name in folders if (Path(place) / name).is_symlink()]
        folders[:] = [name for name in folders if name != "__pycache__" and name not in links]
        found += [Path(place) / name for name in (*names, *links)]
        if len(found) > 10 * _CODE_FILES:
            break
    return sorted(found)


def _plain(root: Path, path: Path, most: int) -> bytes | None:
    """Read a plain file of at most so many bytes, that is reached through no link; None for anything else."""
    parents = [place for place in path.parents if place.is_relative_to(root) and place != root]
    if any(place.is_symlink() for place in parents):
        return None
    return plain_bytes(path, most)
