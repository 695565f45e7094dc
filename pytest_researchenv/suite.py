"""Suites on disk: find them, read them, and say exactly what is wrong with them.

The format is described in `docs/suite-format.md`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, TypeVar

from pydantic import TypeAdapter

from pytest_researchenv._problems import Problem, all_problems, described, read_value, shown
from pytest_researchenv._shorthand import write_out
from pytest_researchenv._sources import STRICT
from pytest_researchenv._suite_problems import FOREIGN, repository_problems, suite_problems, validation_problems
from pytest_researchenv.errors import ConfigurationError, SuiteError
from pytest_researchenv.model import Deviation, Repository, Tier, TierSpec


if TYPE_CHECKING:
    from rich.console import Console


__all__ = [
    "SUITE_FILE",
    "Suite",
    "find_suite",
    "holds_tasks",
    "load_suite",
    "resolve_probe",
    "shared_modules",
    "suite_names",
    "validate",
]

_T = TypeVar("_T")

#: What makes a folder a suite.
SUITE_FILE = "suite.toml"
_REPOSITORY_FILE = "repo.toml"
_TASK_FILE = "task.toml"
_DEVIATIONS_FILE = "deviations.toml"
_SHARED = "_shared"
_KIT = Path(__file__).resolve().parent / "probes" / "kit"


@dataclass(frozen=True, slots=True)
class Suite:
    """A set of repositories that are measured together.

    Attributes:
        name: name from `suite.toml`.
        folder: absolute path of its folder.
        repositories: sorted by name.
        description: one sentence.
        canary: text that each probe and recipe must hold, so that training data with them in it can be recognised.
        deviations: where all its probes differ from the published ones.
    """

    name: str
    folder: Path
    repositories: tuple[Repository, ...]
    description: str = ""
    canary: str = ""
    deviations: tuple[Deviation, ...] = ()


@dataclass(frozen=True, slots=True)
class _Header:
    """What `suite.toml` holds."""

    __pydantic_config__: ClassVar = STRICT

    name: str
    description: str = ""
    canary: str = ""
    #: Tiers that apply to every repository, also where its file has no table of them.
    tiers: tuple[Tier, ...] = ()
    deviations: tuple[Deviation, ...] = ()


@dataclass(frozen=True, slots=True)
class _Deviations:
    """What a `deviations.toml` holds."""

    __pydantic_config__: ClassVar = STRICT

    deviations: tuple[Deviation, ...]


def suite_names(*, of_tasks: bool | None = None) -> tuple[str, ...]:
    """Return the names of the suites that come with this package, sorted.

    Args:
        of_tasks: whether only those of research tasks, or only those of repositories.
    """
    return tuple(
        sorted(name for name, folder in _shipped().items() if of_tasks is None or holds_tasks(folder) is of_tasks)
    )


def find_suite(name_or_path: str) -> Path:
    """Find a suite's folder by the name of a shipped suite or by a path.

    A shipped suite wins over a folder of the same name; `./name` is always the folder.

    Raises:
        ConfigurationError: there is no such suite.
    """
    shipped = _shipped()
    if name_or_path in shipped:
        return shipped[name_or_path]
    path = Path(name_or_path).expanduser()
    if (path / SUITE_FILE).is_file():
        return path.resolve()
    known = ", ".join(sorted(shipped)) or "none"
    if path.is_dir():
        raise ConfigurationError(
            f"no suite in the folder {path.resolve()}: it has no {SUITE_FILE}; known suites: {known}"
        )
    near = difflib.get_close_matches(name_or_path, shipped, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise ConfigurationError(
        f"unknown suite {name_or_path!r}{hint} (known suites: {known}; or give the path of a folder with {SUITE_FILE})"
    )


def holds_tasks(folder: Path) -> bool:
    """Whether a suite is one of research tasks (`research/suite.py`), not of repositories."""
    return bool(described(folder, _TASK_FILE))


def load_suite(folder: Path) -> Suite:
    """Read a suite.

    Args:
        folder: the folder that holds `suite.toml`; each sub-folder with a `repo.toml` is a repository.

    Raises:
        SuiteError: something in it is wrong; the message lists every problem of every file.
    """
    folder = folder.resolve()
    if holds_tasks(folder):
        raise SuiteError(f"{folder} holds research tasks, and this is for repositories: name another suite")
    problems: list[Problem] = []
    header = _read(_header_adapter(), _Header, folder / SUITE_FILE, problems)
    repositories: list[Repository] = []
    for file in described(folder, _REPOSITORY_FILE):
        repository = _read_repository(file, problems, always=header.tiers if header else ())
        if repository is not None:
            repositories.append(repository)
    problems.extend(suite_problems(folder, repositories, canary=header.canary if header else ""))
    if problems or header is None:
        raise SuiteError(all_problems(folder, problems))
    return Suite(
        name=header.name,
        folder=folder,
        repositories=tuple(
            replace(repository, suite=header.name) for repository in sorted(repositories, key=attrgetter("name"))
        ),
        description=header.description,
        canary=header.canary,
        deviations=header.deviations,
    )


def resolve_probe(repository: Repository, tier: Tier) -> Path:
    """Return the probe script of a tier.

    Raises:
        SuiteError: the tier has none, or the file is missing or lies outside the repository's folder.
    """
    spec = repository.tiers.get(tier)
    file = Path(repository.folder, _REPOSITORY_FILE)
    if spec is None or not spec.probe:
        raise SuiteError(f"{file}: tiers.{tier}.probe: {repository.name} has no probe script for {tier}")
    for problem in repository_problems(file, repository):
        if problem.key == f"tiers.{tier}.probe":
            raise SuiteError(str(problem))
    return Path(repository.folder, spec.probe).resolve()


def shared_modules(repository: Repository) -> tuple[Path, ...]:
    """Return what all probe scripts of the suite can import, sorted by name.

    It is the kit that comes with this package (`probes/kit`), and the Python files in the suite's folder `_shared`. Of
    one name, the suite's own wins.
    """
    folders = (_KIT, Path(repository.folder).parent / _SHARED)
    found = {file.name: file for folder in folders for file in folder.glob("*.py")}
    return tuple(found[name] for name in sorted(found))


def validate(folder: Path, *, console: Console) -> bool:
    """Check a suite without Docker, and print what it holds or what is wrong with it.

    Args:
        folder: the folder that holds `suite.toml`.
        console: where to print.

    Returns:
        Whether the suite is fine.
    """
    try:
        if holds_tasks(folder):
            # Suites of repositories need none of it.
            from pytest_researchenv.research.suite import show_research_suite  # noqa: PLC0415 - see above

            show_research_suite(folder, console=console)
        else:
            _show_suite(folder, console=console)
    except SuiteError as error:
        console.print(str(error), style="red", markup=False, highlight=False, soft_wrap=True)
        return False
    return True


def _show_suite(folder: Path, *, console: Console) -> None:
    # Collecting tests needs this module and no tables.
    from pytest_researchenv._suite_table import suite_counts, suite_table  # noqa: PLC0415 - see above

    suite = load_suite(folder)
    console.print(suite_table(suite))
    console.print(suite_counts(suite), markup=False, highlight=False)


def _shipped() -> dict[str, Path]:
    """Find the suites that come with this package: name → folder."""
    package = Path(__file__).resolve().parent
    parents = [package / "suites"]
    # In site-packages a neighbour called `suites` is somebody else's.
    if (package.parent / "pyproject.toml").is_file():
        parents.append(package.parent / "suites")
    return {file.parent.name: file.parent for parent in parents for file in parent.glob(f"*/{SUITE_FILE}")}


@cache
def _header_adapter() -> TypeAdapter[_Header]:
    return TypeAdapter(_Header)


@cache
def _deviations_adapter() -> TypeAdapter[_Deviations]:
    return TypeAdapter(_Deviations)


@cache
def _repository_adapter() -> TypeAdapter[Repository]:
    return TypeAdapter(Repository)


def _read_repository(file: Path, problems: list[Problem], *, always: tuple[Tier, ...]) -> Repository | None:
    repository = _read(_repository_adapter(), Repository, file, problems)
    if repository is None:
        return None
    beside = file.with_name(_DEVIATIONS_FILE)
    deviations = _read(_deviations_adapter(), _Deviations, beside, problems) if beside.exists() else None
    repository = replace(
        repository,
        folder=str(file.parent),
        tiers={tier: TierSpec() for tier in always} | repository.tiers,
        deviations=deviations.deviations if deviations else (),
    )
    problems.extend(repository_problems(file, repository))
    return repository


def _read(adapter: TypeAdapter[_T], root: type[_T], file: Path, problems: list[Problem]) -> _T | None:
    return read_value(
        adapter,
        file,
        problems,
        prepare=_written_out if root is Repository else lambda _: (),
        explain=lambda raw, error: validation_problems(file, root, raw, error),
    )


def _written_out(raw: dict[str, object]) -> Iterator[tuple[str, str]]:
    # Set by `load_suite`, not by the file.
    for key, advice in FOREIGN.items():
        if key in raw:
            yield key, f"unknown key (value {shown(raw.pop(key))}); {advice}"
    yield from write_out(raw)
