"""Where pinned trees come from: values, for `model.py` to hand on."""

from __future__ import annotations

import hashlib
import re
from dataclasses import astuple, dataclass
from typing import ClassVar


__all__ = ["STRICT", "Cut", "GitSource", "PathSource", "PrunedSource", "PypiSource", "Source"]

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


@dataclass(frozen=True, slots=True)
class Cut:
    """What is taken out of a tree.

    Attributes:
        path: file or folder, relative to the tree, `/` between.
        parts: names of definitions in it, as `function` or `Class.method`, where the rest of the file stays.
        secret: whether it holds what may not be found: then nothing that stays may name it.
    """

    path: str
    parts: tuple[str, ...] = ()
    secret: bool = False


@dataclass(frozen=True, slots=True)
class PrunedSource(GitSource):
    """A folder of a commit, without what its readers may not see; no key of a `repo.toml` says so.

    Attributes:
        folder: the folder in the commit; empty for all of it.
        cuts: what is taken out.
        words: what no file that stays may hold, as a whole word in its own case.
        phrases: likewise, in any case and anywhere.
        rules: version of the rules by which it is done, so that a tree that was made by others is made again.
    """

    folder: str = ""
    cuts: tuple[Cut, ...] = ()
    words: tuple[str, ...] = ()
    phrases: tuple[str, ...] = ()
    rules: int = 1

    def __str__(self) -> str:
        # Without what is withheld: it stands in records and messages.
        digest = hashlib.sha256(repr(astuple(self)).encode()).hexdigest()[:32]
        return f"PrunedSource(git={self.git!r}, commit={self.commit!r}, folder={self.folder!r}, digest={digest!r})"


Source = GitSource | PypiSource | PathSource


def _is_tag(name: str) -> bool:
    # Git itself refuses a tag HEAD, from 2.48 on.
    return len(name) <= _LONGEST_TAG and name != "HEAD" and _TAG.fullmatch(name) is not None
