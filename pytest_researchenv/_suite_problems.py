"""What can be wrong with a suite, one sentence each."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path, PurePosixPath

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version
from pydantic import ValidationError

from pytest_researchenv._problems import (
    Problem,
    canary_problems,
    confusable,
    explained,
    nearest,
    shown,
    stray_problems,
)
from pytest_researchenv.model import (
    Asset,
    Cause,
    Deviation,
    Evidence,
    FileEvidence,
    GitSource,
    ImportPolicy,
    JsonEvidence,
    Parallel,
    PathSource,
    PypiSource,
    Repository,
    Sabotage,
    SabotageKind,
    Source,
    Tier,
    TierSpec,
)


__all__ = [
    "FOREIGN",
    "FRAMEWORKS",
    "PLACEHOLDERS",
    "repository_problems",
    "suite_problems",
    "validation_problems",
]

#: What `{…}` may name in a command, a working directory, an environment variable or an evidence path.
PLACEHOLDERS = ("python", "repo", "out", "device", "nproc", "observer", "assets")

#: Frameworks that C2 knows how to ask.
FRAMEWORKS = ("torch", "tensorflow", "jax")

#: Tiers that run the repository's own code; the others are the harness's own.
_LAUNCHED = (Tier.C1, Tier.C3, Tier.C4)

# As part of an image's name it must be one that engines accept: no sign at either end, no two dots.
_SLUG = re.compile(r"[A-Za-z0-9]+((\.|_{1,2}|-+)[A-Za-z0-9]+)*")
_OWNER = re.compile(r"[A-Za-z0-9._-]*[A-Za-z0-9][A-Za-z0-9._-]*")
_PROJECT = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
_PLACEHOLDER = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

#: Fields of a repository that are no keys of its file, with what to do about them there.
FOREIGN = {"folder": "remove it", "suite": "remove it", "deviations": "move it to deviations.toml beside this file"}

_SOURCES: dict[str, type] = {"git": GitSource, "pypi": PypiSource, "path": PathSource}
_TABLES: dict[str, type] = {
    "imports": ImportPolicy,
    "evidence": Evidence,
    "files": FileEvidence,
    "json": JsonEvidence,
    "deviations": Deviation,
} | {kind.__name__: kind for kind in _SOURCES.values()}

#: Keys that are written out before (`_shorthand.py`).
_SHORT: dict[type, tuple[str, ...]] = {Evidence: ("observed",), TierSpec: ("like",)}

#: Tables of tables, whose names the suite chooses.
_KEYED: dict[str, type] = {"assets": Asset, "sabotage": Sabotage}


# --- what pydantic found ----------------------------------------------------------------------------------


def validation_problems(file: Path, root: type, raw: Mapping[str, object], error: ValidationError) -> Iterator[Problem]:
    """Say in words what pydantic found.

    Args:
        file: the file that was read.
        root: the dataclass that its top level becomes.
        raw: what the file holds.
        error: what pydantic found.
    """
    source = _source_kind(raw)
    seen: set[str] = set()
    for detail in error.errors(include_url=False):
        location = detail["loc"]
        if len(location) > 1 and location[0] == "source" and location[1] != source:
            if source:
                continue  # Pydantic tried all three kinds of source.
            key, text = "source", _source_choice(raw.get("source"))
        else:
            key = _dotted(location)
            text = _text(detail["type"], detail["msg"], location, detail["input"], root)
        # A value that may be of several types has one entry for each.
        if key not in seen:
            seen.add(key)
            yield Problem(file, key, text)


def _source_kind(raw: Mapping[str, object]) -> str:
    """Tell by its keys which kind of source is meant; empty when it is not exactly one."""
    source = raw.get("source")
    kinds = [kind.__name__ for key, kind in _SOURCES.items() if isinstance(source, dict) and key in source]
    return kinds[0] if len(kinds) == 1 else ""


def _source_choice(source: object) -> str:
    meant = "give git and commit; or pypi, version and sha256; or path"
    if not isinstance(source, dict):
        return f"{shown(source)} is no table: {meant}"
    keys = [key for key in _SOURCES if key in source]
    return f"{' and '.join(keys)} exclude one another: {meant}" if keys else f"{shown(source)} names no source: {meant}"


def _dotted(location: Sequence[int | str]) -> str:
    """Return a location in the words of the file: `tiers.C1.evidence.files[0].path`."""
    parts: list[str] = []
    for index, part in enumerate(location):
        if isinstance(part, int):
            parts[-1] += f"[{part}]"
        elif part == "[key]" or (index == 1 and part in _TABLES and location[0] == "source"):
            continue
        else:
            parts.append(part)
            if part == "equals":
                break
    return ".".join(parts)


def _text(kind: str, message: str, location: Sequence[int | str], value: object, root: type) -> str:
    if location[-1] == "[key]" and kind not in ("missing", "value_error"):
        members = [*map(str, SabotageKind if location[0] == "sabotage" else Tier)]
        return f"unknown name{nearest(str(value), members)}"
    if "equals" in location and kind not in ("unexpected_keyword_argument", "missing", "value_error"):
        return f"must be true, false, a number or a string, not {shown(value)}"
    return explained(kind, message, value, key=str(location[-1]), known=lambda: _keys(_table(location, root)))


def _keys(table: type) -> list[str]:
    known = [field.name for field in fields(table) if table is not Repository or field.name not in FOREIGN]
    return [*known, *_SHORT.get(table, ())]


def _table(location: Sequence[int | str], root: type) -> type:
    """Return the dataclass that the last key of a location is a field of."""
    names = [part for part in location[:-1] if isinstance(part, str)]
    if not names:
        return root
    if names[0] in _KEYED:
        return _KEYED[names[0]]
    return _TABLES.get(names[-1], TierSpec)


# --- what types cannot say --------------------------------------------------------------------------------


def suite_problems(folder: Path, repositories: Sequence[Repository], *, canary: str = "") -> Iterator[Problem]:
    """Say what is wrong with a suite as a whole.

    Args:
        folder: the suite's folder.
        repositories: those of its repositories that could be read.
        canary: what each probe and recipe must hold; empty for nothing.
    """
    answers = (file for file in (*folder.rglob("*.py"), *folder.glob("*/oracle.sh")) if file.parent != folder)
    yield from canary_problems(answers, canary)
    yield from stray_problems(folder, "repo.toml", "repository", signs=("oracle.sh", "*.t*ml"))
    by_slug: dict[str, Repository] = {}
    for repository in repositories:
        first = by_slug.setdefault(repository.slug.casefold(), repository)
        if first is not repository:
            yield Problem(
                Path(repository.folder, "repo.toml"),
                "name",
                f"{repository.name!r} has the same short name as {first.name!r} ({first.folder}): "
                "ids and folders are made of it, so it must be unique in a suite",
            )


def repository_problems(file: Path, repository: Repository) -> Iterator[Problem]:
    """Say what is wrong with a repository.

    Args:
        file: its `repo.toml`.
        repository: what was read from it.
    """
    for key, text in _repository(repository):
        yield Problem(file, key, text)
    for tier, spec in sorted(repository.tiers.items()):
        for key, text in _tier(repository, tier, spec):
            yield Problem(file, f"tiers.{tier}.{key}" if key else f"tiers.{tier}", text)


def _repository(repository: Repository) -> Iterator[tuple[str, str]]:
    yield from _name(repository)
    yield from _source(repository.source)
    if not _is_specifier(repository.python):
        yield "python", f"{repository.python!r} is no version specifier; write it like '>=3.10' or '>=3.10,<3.13'"
    for framework in repository.frameworks:
        if framework not in FRAMEWORKS:
            yield "frameworks", f"unknown framework {framework!r}{nearest(framework, FRAMEWORKS)}"
    yield from _imports(repository.imports)
    for package, specifier in repository.pins.items():
        if not _is_specifier(specifier):
            yield f"pins.{package}", f"{specifier!r} is no version specifier; write it like '==2.1.0' or '>=2.1,<3'"
    for name in repository.assets:
        if not _SLUG.fullmatch(name):
            yield f"assets.{name}", "must be a plain file name: letters and digits, with single '.', '_' or '-' between"
    yield from _sabotage(repository)
    if not repository.tiers:
        yield "tiers", "missing: without a table [tiers.C0] … nothing is verified"


def _imports(policy: ImportPolicy) -> Iterator[tuple[str, str]]:
    total = policy.published_total
    if total is not None and total < 1:
        yield "imports.published_total", f"must be at least 1, not {total}; leave it out when there is none"
    for name, reason in policy.unsatisfiable.items():
        if not name.isidentifier():
            yield f"imports.unsatisfiable.{name}", "must be a top-level import name, without dots or dashes"
        if not reason.strip():
            yield f"imports.unsatisfiable.{name}", "needs a reason: why can no environment satisfy this import?"


def _is_specifier(text: str) -> bool:
    try:
        SpecifierSet(text)
    except InvalidSpecifier:
        return False
    return True


def _sabotage(repository: Repository) -> Iterator[tuple[str, str]]:
    for kind, sabotage in repository.sabotage.items():
        key = f"sabotage.{kind}"
        if kind is SabotageKind.PACKAGE and not _PROJECT.fullmatch(sabotage.target):
            yield f"{key}.target", f"{sabotage.target!r} is no name of one package"
        if kind is SabotageKind.ENTRY and not sabotage.target.endswith(".py"):
            yield f"{key}.target", f"{sabotage.target!r} must be a Python file: others cannot be made to do nothing"
        if not sabotage.tiers:
            yield f"{key}.tiers", "missing: which tiers must notice?"
        for tier in sabotage.tiers:
            if repository.spec(tier).idle[0] is not Cause.NONE:
                yield f"{key}.tiers", f"{tier} is not probed, so it cannot notice"
        if kind is SabotageKind.VERSION:
            try:
                Requirement(sabotage.target)
            except InvalidRequirement as error:
                yield f"{key}.target", f"{sabotage.target!r} is no requirement like 'transformers==4.20.0': {error}"


def _name(repository: Repository) -> Iterator[tuple[str, str]]:
    slug = repository.slug
    parts = repository.name.split("/")
    if len(parts) > 2 or not _SLUG.fullmatch(slug) or not _OWNER.fullmatch(parts[0]):  # noqa: PLR2004
        text = (
            f"{repository.name!r} must be NAME or OWNER/NAME in letters and digits, with single '.', '_' or '-' between"
        )
        yield "name", text
    elif text := confusable(slug):
        yield "name", text


def _source(source: Source) -> Iterator[tuple[str, str]]:
    if not isinstance(source, PypiSource):
        return
    if not _PROJECT.fullmatch(source.pypi):
        yield "source.pypi", f"{source.pypi!r} is no name of a project on a package index"
    try:
        Version(source.version)
    except InvalidVersion:
        yield "source.version", f"{source.version!r} is no version: give exactly one, like '0.5.5'"


def _tier(repository: Repository, tier: Tier, spec: TierSpec) -> Iterator[tuple[str, str]]:
    if tier in _LAUNCHED and spec.idle[0] is Cause.NONE:
        if not spec.argv and not spec.probe:
            yield "", "needs argv or probe: how is the repository's own code started?"
        if spec.evidence.empty:
            yield "evidence", "missing: exit code 0 alone never passes; demand files, json values or output patterns"
    elif tier not in _LAUNCHED and (spec.argv or spec.probe or not spec.evidence.empty):
        yield "", f"{tier} is probed by the harness itself: remove argv, probe and evidence"
    yield from _needs(repository, tier, spec)
    if spec.probe and (text := _probe(Path(repository.folder), spec.probe)):
        yield "probe", text
    if not math.isfinite(spec.timeout_s):
        yield "timeout_s", f"must be a finite number of seconds, not {spec.timeout_s}"
    yield from _placeholders(spec)
    yield from _environment(spec)
    for key, text in (*_files(spec.evidence), *_output(tier, spec.evidence), *_parallel(tier, spec)):
        yield f"evidence.{key}", text


def _needs(repository: Repository, tier: Tier, spec: TierSpec) -> Iterator[tuple[str, str]]:
    if spec.needs_cuda and tier not in (Tier.C3, Tier.C4):
        yield "needs_cuda", f"{tier} takes no devices: it is a key of C3 and C4"
    for name in spec.assets:
        if name not in repository.assets:
            near = nearest(name, repository.assets)
            yield "assets", f"no asset is called {name!r}{near}: describe it in [assets.{name}]"


def _placeholders(spec: TierSpec) -> Iterator[tuple[str, str]]:
    for key, value in _templates(spec):
        for name in _PLACEHOLDER.findall(value):
            if name not in PLACEHOLDERS:
                yield key, f"unknown placeholder {{{name}}} in {shown(value)}{nearest(name, PLACEHOLDERS)}"


def _environment(spec: TierSpec) -> Iterator[tuple[str, str]]:
    for name in spec.environment:
        if not _VARIABLE.fullmatch(name):
            yield "environment", f"{name!r} is no name of a variable"
        elif name.startswith("RESEARCHENV_"):
            yield "environment", f"{name} is set by the harness: names that start with RESEARCHENV_ are its own"


def _probe(folder: Path, probe: str) -> str:
    """Say what is wrong with a probe script; nothing when it is fine."""
    file = folder / probe
    if any(part.startswith(".") and part != ".." for part in PurePosixPath(probe).parts):
        return f"{probe!r} is hidden, and no lock holds hidden files: rename it"
    if PurePosixPath(probe).is_absolute() or not file.resolve().is_relative_to(folder.resolve()):
        return f"{probe!r} lies outside the repository's folder {folder}"
    if not file.is_file():
        present = [path.relative_to(folder).as_posix() for path in folder.rglob("*.py")]
        return f"no file {file}{nearest(probe, present)}"
    if file.suffix != ".py":
        return f"{probe!r} must be a Python script (*.py)"
    return ""


def _templates(spec: TierSpec) -> Iterator[tuple[str, str]]:
    """Every value in which placeholders are filled in, with its key."""
    for index, argument in enumerate(spec.argv):
        yield f"argv[{index}]", argument
    yield "workdir", spec.workdir
    for name, value in spec.environment.items():
        yield f"environment.{name}", value
    for index, file in enumerate(spec.evidence.files):
        yield f"evidence.files[{index}].path", file.path
    for index, value_of in enumerate(spec.evidence.json):
        yield f"evidence.json[{index}].path", value_of.path


def _files(evidence: Evidence) -> Iterator[tuple[str, str]]:
    for index, file in enumerate(evidence.files):
        yield from _path(f"files[{index}]", file.path)
        if file.min_bytes < 0:
            yield f"files[{index}].min_bytes", f"must not be negative: {file.min_bytes}"
    for index, demand in enumerate(evidence.json):
        yield from _path(f"json[{index}]", demand.path)
        yield from _bounds(f"json[{index}]", demand)


def _output(tier: Tier, evidence: Evidence) -> Iterator[tuple[str, str]]:
    for index, pattern in enumerate(evidence.output):
        try:
            demands_nothing = re.compile(pattern, re.MULTILINE).search("")
        except re.error as error:
            yield f"output[{index}]", f"{pattern!r} is no regular expression: {error}"
        else:
            if demands_nothing:
                yield f"output[{index}]", f"{pattern!r} matches an empty output, so it demands nothing"
            # Tried: two ranks wrote `step 19 loss 0.3574step 19 loss 0.3574`, and a working environment failed.
            if tier is Tier.C4 and (pattern.startswith("^") or pattern.endswith("$")):
                yield f"output[{index}]", f"{pattern!r}: ranks tear each other's lines; leave out ^ and $"


def _parallel(tier: Tier, spec: TierSpec) -> Iterator[tuple[str, str]]:
    seen = spec.evidence.parallel
    if seen and tier is not Tier.C4:
        yield "parallel", f"{str(seen)!r} cannot be seen in {tier}, only in C4"
    if not seen and tier is Tier.C4 and spec.idle[0] is Cause.NONE:
        yield "parallel", f"C4 needs the kind of work that must be seen: {', '.join(Parallel)}"


def _path(key: str, path: str) -> Iterator[tuple[str, str]]:
    if not path.startswith("{out}/") or ".." in path.split("/"):
        yield f"{key}.path", f"{path!r} must lie in the output folder: start it with {{out}}/"


def _bounds(key: str, demand: JsonEvidence) -> Iterator[tuple[str, str]]:
    if not demand.field or "" in demand.field.split("."):
        yield f"{key}.field", f"{demand.field!r} must be keys joined by dots"
    bounds = [bound for bound in (demand.min, demand.max) if bound is not None]
    if demand.equals is not None and bounds:
        yield key, "give equals, or min and max, not both"
    if any(bound != bound for bound in bounds):  # noqa: PLR0124 - this is how nan shows
        yield key, "nan is no bound: nothing compares with it"
    if demand.min is not None and demand.max is not None and demand.min > demand.max:
        yield key, f"min {demand.min} is larger than max {demand.max}"
