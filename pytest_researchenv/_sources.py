"""Where pinned trees come from: values, for `model.py` to hand on."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar


__all__ = ["STRICT", "GitSource", "PathSource", "PypiSource", "Source"]

#: Keys of a TOML or JSON object that its dataclass does not have are errors.
STRICT = {"extra": "forbid"}

_LONGEST_TAG = 100

#: What `git check-ref-format` allows, of the characters that tags of versions are made of.
_TAG = re.compile(r"[A-Za-z0-9](?!.*(?:\.\.|//|/\.|\.lock(?:/|\Z)))[A-Za-z0-9._+/@-]*(?<![./])")


@dataclass(frozen=True, slots=True)
class GitSource:
    """A commit of a Git repository.

    Attributes:
        git: URL of the repository.
        commit: the full hash, 40 hexadecimal digits.
        tag: name of the nearest tag, where the version is derived from tags (setuptools-scm): the one commit gets it.
        submodules: whether submodules are fetched, too, each at the commit that the tree names: their files become
            ordinary files of the tree.
    """

    __pydantic_config__: ClassVar = STRICT

    git: str
    commit: str
    tag: str = ""
    submodules: bool = False

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[0-9a-f]{40}", self.commit):
            raise ValueError(f"commit must be 40 hexadecimal digits, not {self.commit!r}")
        if self.tag and not _is_tag(self.tag):
            raise ValueError(
                f"tag must be a name that Git takes, such as v1.2.3, of at most {_LONGEST_TAG} letters, digits and "
                f"._+/@-, not {self.tag[: _LONGEST_TAG + 1]!r}"
            )


@dataclass(frozen=True, slots=True)
class PypiSource:
    """A source distribution on the package index.

    Attributes:
        pypi: name of the project on the index.
        version: exact version.
        sha256: digest of the sdist archive, 64 hexadecimal digits.
    """

    __pydantic_config__: ClassVar = STRICT

    pypi: str
    version: str
    sha256: str

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[0-9a-f]{64}", self.sha256):
            raise ValueError(f"sha256 must be 64 hexadecimal digits, not {self.sha256!r}")


@dataclass(frozen=True, slots=True)
class PathSource:
    """A folder on this machine.

    Attributes:
        path: absolute, or relative to the folder that holds the `repo.toml`.
    """

    __pydantic_config__: ClassVar = STRICT

    path: str


Source = GitSource | PypiSource | PathSource


def _is_tag(name: str) -> bool:
    # Git itself refuses a tag HEAD, from 2.48 on.
    return len(name) <= _LONGEST_TAG and name != "HEAD" and _TAG.fullmatch(name) is not None
