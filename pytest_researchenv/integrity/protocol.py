"""The seams of the audit: what a check gets, and what it gives."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from pytest_researchenv.model import Finding
from pytest_researchenv.probes.protocol import ProbeTask
from pytest_researchenv.sandbox.protocol import Change


__all__ = ["HEAD_BYTES", "KEPT_BYTES", "Check", "Entry", "Kind", "Signs", "Snapshot", "at_most", "merged"]

#: Most bytes of one file whose content is kept. The RECORD of torch has 1.3 MB, that of tensorflow 2.5 MB.
KEPT_BYTES = 8 * 1024 * 1024

#: Bytes of every regular file that are kept, by which its kind is told.
HEAD_BYTES = 64


class Kind(StrEnum):
    """What is at a path."""

    FILE = "file"
    FOLDER = "folder"
    LINK = "link"
    OTHER = "special file"


@dataclass(frozen=True, slots=True)
class Entry:
    """What is at a path of a snapshot.

    Attributes:
        path: absolute path in the image, without links in it.
        kind: what it is.
        mode: permission bits.
        size: of a regular file, in bytes.
        link: target of a symbolic link, as it is written.
        sha256: of a regular file's content, in hexadecimal; empty of anything else.
        content: of a regular file that was asked for, and has at most `KEPT_BYTES`; else None.
        head: of a regular file, asked for or not: its first `HEAD_BYTES`.
        canary: of a regular file, asked for or not: the canary that it holds, packed or not; empty for none.
    """

    path: str
    kind: Kind
    mode: int = 0o644
    size: int = 0
    link: str = ""
    sha256: str = ""
    content: bytes | None = None
    head: bytes = b""
    canary: str = ""

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder, and no link to one."""
        return self.kind is Kind.FOLDER

    @property
    def text(self) -> str:
        """The content that was kept, as text; bytes that are none become U+FFFD."""
        return (self.content or b"").decode(errors="replace")


class Snapshot(Protocol):
    """A frozen image, read through the engine in a container that never runs.

    Every method raises `SandboxError` when the engine refuses, on the base image too, and none for what an agent left:
    what cannot be read of that is absent, and `problems` says so.
    """

    @property
    def problems(self) -> tuple[str, ...]:
        """What could not be read until now, each in words: a bound was reached, or only the snapshot is unreadable."""

    def entry(self, path: str) -> Entry | None:
        """What a path leads to, links followed as the kernel does it, with its content; None when nothing is there.

        A link is returned only where it leads nowhere; of one that leads in a circle the engine may tell nothing.
        """

    def link(self, path: str) -> Entry | None:
        """What is at a path itself: its last component is not followed."""

    def resolved(self, path: str) -> str:
        """Where a path leads when every link in it is followed; empty where to nothing."""

    def tree(self, path: str, keep: Callable[[str], bool] = lambda _: False) -> Iterator[Entry]:
        """Everything below a folder, links not followed, each path once; nothing where there is no folder.

        Args:
            path: the folder; links on the way to it are followed.
            keep: whether the content of the regular file at an absolute path is wanted.
        """

    def base(self, path: str) -> Entry | None:
        """What is at a path of the base image, links followed, with its content."""

    def base_tree(self, path: str, keep: Callable[[str], bool] = lambda _: False) -> Iterator[Entry]:
        """Everything below a folder of the base image, as `tree` has it of the snapshot."""

    def changes(self) -> Iterator[Change]:
        """What the agent's layer changed, as it was recorded: folders in which something changed are in it, too.

        It ends early where that is not known, and `problems` says so.
        """

    def touched(self, *folders: str) -> Mapping[str, str]:
        """What the agent added (`A`), changed (`C`) or removed (`D`), by absolute path, in or below some folders.

        Of folders themselves only those that were added or removed are named, and not what was in one that was
        removed. Bytes of names that are no UTF-8 are U+FFFD here, since engines tell them so: `tree` has the real ones.
        """


def is_in_base(snapshot: Snapshot, path: str, digest: str) -> bool:
    """Whether the base image has a regular file of that SHA-256 where a path of it leads; an empty one is none.

    Raises:
        SandboxError: the engine refuses to read.
    """
    before = snapshot.base(path)
    return before is not None and before.sha256 == digest != ""


@dataclass(frozen=True, slots=True)
class Signs:
    """What one check saw.

    Attributes:
        findings: each with its evidence.
        blanked: path of a hook, or of a program that goes by another's name → what stands there in the probe's world
            instead.
        modules: top-level module that is not what it seems → why.
        interpreter: why the reported interpreter is not genuine; empty when nothing is known against it.
        remarks: what could not be looked at, and is held against nobody.
    """

    findings: tuple[Finding, ...] = ()
    blanked: Mapping[str, str] = field(default_factory=dict)
    modules: Mapping[str, str] = field(default_factory=dict)
    interpreter: str = ""
    remarks: tuple[str, ...] = ()


#: A check looks at one thing, and at nothing that another check does.
Check = Callable[[ProbeTask, Snapshot], Signs]


def at_most(most: int, findings: Sequence[Finding], should: str) -> tuple[Finding, ...]:
    """Return the first of many findings of one kind, and one that says how many more there are.

    Args:
        most: findings that are listed.
        findings: all of them.
        should: what should be there instead of those that are not listed, in words.
    """
    listed, rest = tuple(findings[:most]), findings[most:]
    return (*listed, Finding(rest[0].kind, f"{len(rest)} more", should, "they are not listed")) if rest else listed


def merged(signs: Iterable[Signs]) -> Signs:
    """All that several checks saw."""
    every = list(signs)
    return Signs(
        findings=tuple(finding for one in every for finding in one.findings),
        blanked={path: text for one in every for path, text in one.blanked.items()},
        modules={name: why for one in every for name, why in one.modules.items()},
        interpreter="; ".join(one.interpreter for one in every if one.interpreter),
        remarks=tuple(remark for one in every for remark in one.remarks),
    )
