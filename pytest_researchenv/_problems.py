"""What can be wrong with any file of a suite, and how such files are read, with words for each slip."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from types import NoneType
from typing import TypeVar, get_args, get_origin, get_type_hints

import tomli
from pydantic import TypeAdapter, ValidationError

from pytest_researchenv.agents.registry import AGENTS


__all__ = [
    "Problem",
    "all_problems",
    "canary_problems",
    "confusable",
    "contained_in_agent",
    "described",
    "explained",
    "nearest",
    "read_value",
    "shown",
    "stray_problems",
    "typed_problems",
]

_T = TypeVar("_T")

_SHOWN = 80
_TIER = re.compile(r"c[0-5]", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong.

    Attributes:
        file: where.
        key: dotted key in it; empty for the file as a whole.
        text: what is wrong, with the value and the fix.
    """

    file: Path
    key: str
    text: str

    def __str__(self) -> str:
        return f"{self.file}: {self.key}: {self.text}" if self.key else f"{self.file}: {self.text}"


def all_problems(folder: Path, problems: Sequence[Problem]) -> str:
    """Return what is said of a suite with problems: all of them."""
    count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
    return "\n".join([f"suite {folder} has {count}:", *(f"  {problem}" for problem in problems)])


def described(folder: Path, name: str) -> list[Path]:
    """Return the files that describe what a suite holds, one a folder, sorted.

    What is hidden, like an editor's copies, is in no lock.

    Args:
        folder: the suite's folder.
        name: what such a file is called.
    """
    return sorted(file for file in folder.glob(f"*/{name}") if not file.parent.name.startswith("."))


def stray_problems(folder: Path, name: str, kind: str, *, signs: Sequence[str]) -> Iterator[Problem]:
    """Say which folders of a suite look as if they were to hold such a file: a misspelt one must not make them vanish.

    Args:
        folder: the suite's folder.
        name: what the file is called.
        kind: what it describes.
        signs: patterns of files that only such a folder has.
    """
    for subfolder in sorted(path for path in folder.glob("*/") if not path.name.startswith(("_", "."))):
        if not (subfolder / name).exists() and any(any(subfolder.glob(sign)) for sign in signs):
            yield Problem(subfolder, "", f"has no {name}, but files of a {kind}: add it, or remove the folder")


def canary_problems(files: Iterable[Path], canary: str) -> Iterator[Problem]:
    """Say which files lack a suite's canary; where it has none, none does."""
    for file in sorted(files) if canary else ():
        if canary not in file.read_text(encoding="utf-8", errors="replace"):
            yield Problem(file, "", f"lacks the suite's canary: add a comment line with {canary!r}")


def read_value(
    adapter: TypeAdapter[_T],
    file: Path,
    problems: list[Problem],
    *,
    prepare: Callable[[dict[str, object]], Iterable[tuple[str, str]]],
    explain: Callable[[Mapping[str, object], ValidationError], Iterable[Problem]],
) -> _T | None:
    """Read a TOML file into a value; on failure say why in `problems`.

    Args:
        adapter: what makes the value.
        file: the file.
        problems: added to.
        prepare: puts right what the file holds before it is looked at, and says what is wrong with it: key and text.
        explain: says in words what pydantic found.
    """
    try:
        raw = tomli.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        problems.append(Problem(file, "", "does not exist"))
        return None
    except (OSError, UnicodeDecodeError) as error:
        problems.append(Problem(file, "", f"cannot be read: {error}"))
        return None
    # A number that is too long is no TOMLDecodeError, and what is nested too deeply is neither.
    except (ValueError, RecursionError) as error:
        problems.append(Problem(file, "", f"is not valid TOML: {error}"))
        return None
    own = len(problems)
    problems.extend(Problem(file, key, text) for key, text in prepare(raw))
    try:
        # Through JSON, since only there pydantic's strict mode takes a list for a tuple and a string for an enum.
        value = adapter.validate_json(json.dumps(raw), strict=True)
    except TypeError as error:
        problems.append(Problem(file, "", f"holds a date or a time, which no key takes; put it in quotes: {error}"))
        return None
    except ValidationError as error:
        problems.extend(explain(raw, error))
        return None
    return value if len(problems) == own else None


def explained(kind: str, message: str, value: object, *, key: str, known: Callable[[], Iterable[str]]) -> str:
    """Say in words what pydantic found at one place.

    Args:
        kind: pydantic's name of it.
        message: pydantic's words.
        value: what stands there.
        key: the last part of the place.
        known: gives the keys that may stand there.
    """
    if kind == "unexpected_keyword_argument":
        return f"unknown key (value {shown(value)}){nearest(key, known())}"
    if kind == "missing":
        return "missing"
    if kind == "value_error":
        return message.removeprefix("Value error, ")
    words = message.replace("Input should be", "must be").replace("a valid array", "a list")
    return f"{words}, not {shown(value)}"


def typed_problems(file: Path, root: type, error: ValidationError, *, foreign: Iterable[str] = ()) -> Iterator[Problem]:
    """Say in words what pydantic found in a file whose tables are the dataclasses that its values are annotated with.

    Args:
        file: the file that was read.
        root: the dataclass that its top level becomes.
        error: what pydantic found.
        foreign: fields of the root that are no keys of the file.
    """
    seen: set[str] = set()
    hidden = set(foreign)
    for detail in error.errors(include_url=False):
        location = [part for part in detail["loc"] if part != "[key]"]
        key = _dotted(location)

        def known(location: Sequence[int | str] = location) -> Iterable[str]:
            table = _table(root, location[:-1])
            return [field.name for field in fields(table) if table is not root or field.name not in hidden]

        # A value that may be of several types has one entry for each.
        if key not in seen:
            seen.add(key)
            last = str(location[-1]) if location else ""
            text = explained(detail["type"], detail["msg"], detail["input"], key=last, known=known)
            yield Problem(file, key, text)


def _dotted(location: Sequence[int | str]) -> str:
    parts: list[str] = []
    for part in location:
        if isinstance(part, int) and parts:
            parts[-1] += f"[{part}]"
        else:
            text = str(part)
            parts.append(text if re.fullmatch(r"[\w-]+", text) else f'"{text}"')
    return ".".join(parts)


def _table(root: type, location: Sequence[int | str]) -> type:
    """Return the dataclass at a place of a file: through lists, tables of tables, and what may be left out."""
    here: object = root
    for part in location:
        if isinstance(part, str) and isinstance(here, type) and is_dataclass(here):
            here = get_type_hints(here)[part]
        else:
            here = get_args(here)[1 if get_origin(here) is dict else 0]
        options = [option for option in get_args(here) if option is not NoneType]
        if len(options) == 1 and get_origin(here) not in (tuple, dict):
            here = options[0]
    if not (isinstance(here, type) and is_dataclass(here)):
        raise TypeError(f"{here} at {_dotted(location)} is no table")
    return here


def confusable(name: str) -> str:
    """Say what would select tests by a part of their ids and find this name by accident; empty when nothing would.

    `-k` matches parts of names without regard to case: `-k codex` must select an agent, `-k C2` a tier.
    """
    if agent := next((agent for agent in AGENTS if agent in name.casefold()), ""):
        return f"{name!r} contains {agent!r}: `-k {agent}` would select its tests of every agent; choose another name"
    if match := _TIER.search(name):
        return (
            f"{name!r} contains {match.group()!r}: `-k {match.group().upper()}` would select every test of it, since "
            "-k matches parts of names without regard to case; choose another name"
        )
    return ""


def contained_in_agent(name: str) -> str:
    """Say which agents' names hold a name, so that who selects by it would get their tests; empty where none does."""
    agents = ", ".join(repr(agent) for agent in AGENTS if name.casefold() in agent)
    return (
        f"{name!r} is a part of {agents}: `-k {name}` would select their tests; choose another name" if agents else ""
    )


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the end of a sentence about an unknown name: the nearest one, and all there are."""
    names = list(known)
    folded = {candidate.casefold(): candidate for candidate in names}
    near = difflib.get_close_matches(name.casefold(), folded, n=1)
    meant = f"; did you mean {folded[near[0]]!r}?" if near else ""
    return f"{meant} (known: {', '.join(names)})" if names else ""


def shown(value: object) -> str:
    """Return a value as a message shows it: cut where it is long."""
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
