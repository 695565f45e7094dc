"""A frozen image, read through the engine in a container that never runs."""

from __future__ import annotations

import functools
import posixpath
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, MutableMapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar, final

from pytest_researchenv.errors import SandboxError, UnknownChangesError
from pytest_researchenv.integrity._files import Below, Bounds, Files
from pytest_researchenv.integrity._layer import Layer
from pytest_researchenv.integrity._memory import Memory
from pytest_researchenv.integrity.canaries import canaries_of
from pytest_researchenv.integrity.protocol import Entry, Snapshot
from pytest_researchenv.integrity.unsteady import Unsteady
from pytest_researchenv.probes.launch import attempt_labels
from pytest_researchenv.probes.lookup import printable
from pytest_researchenv.probes.protocol import ProbeTask
from pytest_researchenv.sandbox.protocol import Change, ChangeKind, Container, ContainerSpec, Sandbox


__all__ = ["ImageSnapshot", "opened_snapshot"]

#: Most paths that `touched` answers with: 200 MB of memory.
_MOST_TOUCHED = 1_000_000
#: Changed paths of which one by one is asked whether they are folders; more are asked by listing the folder.
_FEW = 20
#: Most problems that are kept; one is enough to tell.
_MOST_PROBLEMS = 20

_T = TypeVar("_T")

#: Engine → base image → what was read of it.
_MEMORIES: MutableMapping[Sandbox, dict[str, Memory]] = weakref.WeakKeyDictionary()


@contextmanager
def opened_snapshot(
    task: ProbeTask, changes: Callable[[], Iterable[Change]], cache: Path | None = None
) -> Iterator[Snapshot]:
    """Open the snapshot that is judged.

    Args:
        task: what is judged.
        changes: gives what the agent's layer changed, as it was recorded (`Attempt.changes`).
        cache: where what was read of base images is kept for other processes; None: nowhere.
    """
    with ExitStack() as stack:

        @functools.cache
        def container(image: str) -> Container:
            spec = ContainerSpec(image=image, argv=("/bin/true",), labels=attempt_labels(task))
            return stack.enter_context(task.sandbox.opened(spec))

        base = task.environment.base_image
        memory = _memory_of(task.sandbox, base, cache)
        snapshot = ImageSnapshot(
            partial(container, task.environment.image),
            partial(container, base),
            changes,
            canaries_of(task.repository),
            memory=memory,
            unsteady=Unsteady(task),
        )
        yield snapshot
        # What was read to a bound only is not all there is.
        if not snapshot.problems:
            memory.write()


def _memory_of(sandbox: Sandbox, image: str, cache: Path | None) -> Memory:
    """What was read of a base image, which many environments grew from."""
    known = _MEMORIES.setdefault(sandbox, {})
    if image not in known:
        known[image] = Memory(image, cache)
    return known[image]


@final
class ImageSnapshot:
    """A snapshot over two containers.

    Args:
        container: gives one made from the snapshot and never started, so that nothing in it can have changed.
        base: gives one made from the base image, likewise.
        changes: gives what the agent's layer changed; may raise `UnknownChangesError`.
        canaries: texts that each file is searched for.
        memory: what was read of the base image before.
        unsteady: whether a probe finds something else at a path than is there now.
    """

    def __init__(
        self,
        container: Callable[[], Container],
        base: Callable[[], Container],
        changes: Callable[[], Iterable[Change]],
        canaries: Collection[str] = (),
        *,
        memory: Memory | None = None,
        unsteady: Callable[[str, Entry | None], bool] = lambda *_: False,
    ) -> None:
        self._problems: dict[str, None] = {}
        self._base_container = base
        self._base = Files(base, Bounds(self._note), memory=memory)
        self._layer = Layer(changes())
        if self._layer.mark:
            mark = printable(self._layer.mark)
            self._note(
                f"{mark} is named like a layer's mark of what it removes: something is gone, and no record tells"
            )
        below = Below(self._base, self._layer)
        self._files = Files(container, Bounds(self._note), canaries, below=below, unsteady=unsteady)
        self._changes = changes
        self._touched: dict[tuple[str, ...], Mapping[str, str]] = {}

    @property
    def problems(self) -> tuple[str, ...]:
        """What could not be read until now."""
        return tuple(self._problems)

    def entry(self, path: str) -> Entry | None:
        """What a path leads to, links followed, with its content."""
        return self._asked(path, lambda: self._files.entry(path))

    def link(self, path: str) -> Entry | None:
        """What is at a path itself, with its content."""
        return self._asked(path, lambda: self._files.itself(path))

    def resolved(self, path: str) -> str:
        """Where a path leads when every link in it is followed; empty where to nothing."""
        return self._asked(path, lambda: self._files.resolved(path)) or ""

    def tree(self, path: str, keep: Callable[[str], bool] = lambda _: False) -> Iterator[Entry]:
        """Everything below a folder. It is read as a whole first: the engine keeps all others out while it reads."""
        listing = self._asked(path, lambda: self._files.listing(path, keep))
        if listing is None:
            return
        for entry in listing:
            yield entry if entry.content is None or keep(entry.path) else replace(entry, content=None)

    def base(self, path: str) -> Entry | None:
        """What is at a path of the base image, links followed, with its content."""
        return self._base.entry(path)

    def base_tree(self, path: str, keep: Callable[[str], bool] = lambda _: False) -> Iterator[Entry]:
        """Everything below a folder of the base image."""
        yield from self._base.listing(path, keep) or ()

    def changes(self) -> Iterator[Change]:
        """What the agent's layer changed, as it was recorded."""
        try:
            yield from self._changes()
        except UnknownChangesError as error:
            self._note(f"what the agent changed is not known: {printable(str(error))}")

    def touched(self, *folders: str) -> Mapping[str, str]:
        """What the agent added, changed or removed in or below some folders."""
        if folders not in self._touched:
            self._touched[folders] = self._without_folders(self._recorded(folders), folders)
        return self._touched[folders]

    def _recorded(self, folders: tuple[str, ...]) -> dict[str, str]:
        """The record's part about some folders; folders that only hold something changed are in it."""
        # To read a record of 100,000 paths takes a second, and hundreds of folders may be on the path.
        kept = self._layer.below(folders)
        if kept is not None and len(kept) <= _MOST_TOUCHED:
            return {path: kind.value for path, kind in kept.items()}
        below = tuple(f"{folder.rstrip('/')}/" for folder in folders)
        found: dict[str, str] = {}
        for change in self.changes():
            if change.path not in folders and not change.path.startswith(below):
                continue
            if len(found) == _MOST_TOUCHED:
                self._note(f"more than {_MOST_TOUCHED} paths changed below {', '.join(folders)}")
                break
            found[change.path] = change.kind.value
        return found

    def _without_folders(self, found: dict[str, str], folders: tuple[str, ...]) -> dict[str, str]:
        """Leave out folders of which only the content changed, or times and rights."""
        changed, removed = ChangeKind.CHANGED.value, ChangeKind.REMOVED.value
        # What holds something that was not removed is a folder.
        holding = {posixpath.dirname(path) for path, kind in found.items() if kind != removed}
        unclear = {path for path, kind in found.items() if kind == changed and path not in holding}
        # The folders that were asked about are in no tree of them.
        alone = unclear.intersection(folders) if len(unclear) > _FEW else unclear
        kept = unclear.difference(path for path in alone if (entry := self.link(path)) is not None and entry.is_folder)
        if len(unclear) > _FEW:
            kept = kept.difference(entry.path for folder in folders for entry in self.tree(folder) if entry.is_folder)
        return {path: kind for path, kind in found.items() if kind != changed or path in kept}

    def _asked(self, path: str, call: Callable[[], _T]) -> _T | None:
        """Ask the engine, once more when it fails, and find out who is to blame when it fails again."""
        for _ in range(2):
            try:
                return call()
            except SandboxError as error:
                problem = str(error)
        with self._base_container().get("/researchenv") as archive:
            if archive is None:
                raise SandboxError(f"the base image has no /researchenv; and {problem}")
        self._note(f"{printable(path)} cannot be read: {printable(problem)}")
        return None

    def _note(self, problem: str) -> None:
        if len(self._problems) < _MOST_PROBLEMS:
            self._problems[problem] = None
