"""Where the environment's own interpreter finds modules: what `inside/find_modules.py` is asked and answers.

The answer is a claim: whoever made the environment decides what its interpreter prints. `outside.py` looks whether it
is true.
"""

from __future__ import annotations

import json
import keyword
import secrets
import sys
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError, model_validator


__all__ = ["Lookup", "LookupFailedError", "Module", "Question", "escaped", "parse_lookup", "printable"]

#: Folders that installers fill; what lies there is no stand-in, even where the environment is in the repository.
_SITE = frozenset({"site-packages", "dist-packages"})

#: Length of a made-up name.
_SHORTEST, _LONGEST = 4, 14

_random = secrets.SystemRandom()


class LookupFailedError(Exception):
    """The interpreter did not answer, or not as asked."""


class Module(BaseModel):
    """One module that the interpreter says it finds.

    Attributes:
        finder: class of the finder on `sys.meta_path` that knows it.
        origin: its file, or the first folder of a namespace package.
        files: files that it is made of; of packages outside the repository only the first.
        real: the same without links.
        native: whether a compiled extension is among them.
        owner: the distribution that installed it; empty when none claims it.
    """

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    finder: str
    origin: str
    files: list[str]
    real: list[str]
    native: bool
    owner: str

    @model_validator(mode="after")
    def _paired(self) -> Self:
        if len(self.files) != len(self.real):
            raise ValueError(f"{len(self.files)} files have {len(self.real)} real paths")
        return self

    def __str__(self) -> str:
        return f"{self.finder} {self.origin}".rstrip()

    def untracked_in(self, repository: str, tracked: Collection[str], editable: Collection[str]) -> str:
        """The file that makes this module an untracked pure-Python stand-in in the repository, or an empty string.

        No stand-in is: what is tracked, even in part; what is compiled; what a distribution claims, or an editable
        install of a project in a sub-folder; and what lies in an environment's own `site-packages`.

        Args:
            repository: absolute path of the repository's folder.
            tracked: its tracked paths, relative.
            editable: folders of editable installs.
        """
        if self.native or self.owner or not self.files:
            return ""
        first = ""
        for file, real in zip(self.files, self.real, strict=True):
            inside = [path for path in (_below(file, repository), _below(real, repository)) if path]
            if not inside or any(path in tracked or _SITE & set(PurePosixPath(path).parts) for path in inside):
                return ""
            if any(_below(folder, repository) and _below(file, folder) for folder in editable):
                return ""
            first = first or inside[0]
        return first


class Lookup(BaseModel):
    """What the interpreter answered.

    Attributes:
        version: of the interpreter.
        editable: folders of editable installs.
        modules: top-level name → what was found; names that it does not find are absent.
        passed_over: distributions and finders that could not be read or asked, and why.
    """

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    version: Annotated[str, StringConstraints(pattern=r"^\d+\.\d+\.\S+$")]
    editable: list[str]
    modules: dict[str, Module]
    passed_over: list[str] = []


@dataclass(frozen=True, slots=True)
class Question:
    """What the script in the container is asked.

    Among the names are some that no environment can know, made up anew each time: an interpreter that finds them finds
    everything. Nothing in the question tells them from the others.

    Attributes:
        names: top-level names that the tree imports.
        repository: absolute path of the repository's folder.
        nonce: what the answer starts with.
        controls: the names that are made up.
    """

    names: tuple[str, ...]
    repository: str
    nonce: str = field(default_factory=lambda: secrets.token_hex(8))
    controls: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "controls", _made_up(self.names))

    def text(self) -> str:
        """The request that the script reads."""
        names = [*self.names, *self.controls]
        return json.dumps(
            {
                "nonce": self.nonce,
                "names": _random.sample(names, len(names)),
                "repository": self.repository,
                "roots": [self.repository, f"{self.repository}/src"],
            }
        )


def parse_lookup(output: str, question: Question) -> Lookup:
    """Read the answer from all that the container printed.

    Raises:
        LookupFailedError: there is no answer, or not exactly one, or it is not of the agreed form.
    """
    answers = [line for line in output.splitlines() if line.startswith(f"{question.nonce} ")]
    if len(answers) != 1:
        raise LookupFailedError(f"the interpreter gave {len(answers)} answers instead of 1: {_last_line(output)}")
    try:
        lookup = Lookup.model_validate_json(answers[0].removeprefix(f"{question.nonce} "))
    except ValidationError as error:
        raise LookupFailedError(f"the interpreter's answer is malformed: {error.errors()[0]['msg']}") from error
    surplus = set(lookup.modules).difference(question.names, question.controls)
    if surplus:
        name = printable(min(surplus))
        raise LookupFailedError(f"the interpreter's answer holds names that were not asked for: {name}")
    return lookup


def printable(text: str, most: int = 200) -> str:
    """What a hostile interpreter or a file's name says, fit for a reason: one line of text that can be encoded.

    Args:
        text: control characters in it become escapes, and so do bytes of a path that are no text.
        most: how many characters are left.
    """
    return "".join(letter if letter.isprintable() else escaped(letter) for letter in text[:most])[:most]


def escaped(letter: str) -> str:
    """Write a character out; one that stands for a byte of a path that is no text, as that byte."""
    if 0xDC80 <= ord(letter) <= 0xDCFF:  # noqa: PLR2004 - where PEP 383 keeps bytes
        return f"\\x{ord(letter) - 0xDC00:02x}"
    return letter.encode("unicode_escape").decode()


def _made_up(names: Collection[str]) -> tuple[str, ...]:
    """Make up names that look like the given ones: each letter follows two that it follows somewhere among them."""
    models = sorted({*names, *(name for name in sys.stdlib_module_names if not name.startswith("_"))})
    followers: dict[str, list[str]] = {}
    for name in models:
        for start, letter in enumerate(f"{name}$"):
            followers.setdefault(f"^^{name}"[start : start + 2], []).append(letter)
    made: set[str] = set()
    while len(made) < max(4, len(names) // 4):
        word = "^^"
        while not word.endswith("$") and len(word) < _LONGEST + 3:
            word += _random.choice(followers[word[-2:]])
        name = word.strip("^$")
        fits = _SHORTEST <= len(name) <= _LONGEST and name.isidentifier() and not keyword.iskeyword(name)
        if fits and name not in models:
            made.add(name)
    return tuple(sorted(made))


def _below(path: str, folder: str) -> str:
    """The path relative to the folder; empty where it does not lie strictly below it."""
    pure = PurePosixPath(path)
    return pure.relative_to(folder).as_posix() if pure.is_relative_to(folder) and pure != PurePosixPath(folder) else ""


def _last_line(output: str) -> str:
    lines = output.strip().splitlines()
    return printable(lines[-1]) if lines else "(nothing printed)"
