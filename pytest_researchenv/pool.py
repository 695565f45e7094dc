"""Several container engines at once: an environment is built where there is most room, and stays there.

A frozen image is in one engine. So what is judged later, in this session or another, is judged in the engine that its
environment was built in, whichever worker does it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn, final

from pydantic import TypeAdapter, ValidationError

from pytest_researchenv.engine import Engine, in_words
from pytest_researchenv.environments import Environments
from pytest_researchenv.errors import ConfigurationError, DaemonUnavailableError, ElsewhereError, InfrastructureError
from pytest_researchenv.harness import Harness, Judged
from pytest_researchenv.model import Examination, Repository, Tier
from pytest_researchenv.sandbox.labels import Owner, alive
from pytest_researchenv.store import locked, write_whole


__all__ = ["Host", "Pool"]


@dataclass(frozen=True, slots=True)
class Host:
    """What a container engine is.

    Attributes:
        id: what tells it from all others.
        slots: how many agents and probes its host can do at once.
    """

    id: str
    slots: int


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a process is at work.

    Attributes:
        host: hash of the process's machine.
        process: what tells the process from all others of its machine.
        session: id of its session.
        engine: the user's name for the engine.
    """

    host: str
    process: str
    session: str
    engine: str


_PLACES = TypeAdapter(list[_Place])


@final
class Places:
    """Where each process of a run is at work, so that they spread. The file is all that they share.

    Args:
        folder: the run's.
        session: this session's id.
    """

    def __init__(self, folder: Path, session: str) -> None:
        self._path = folder / ".places.json"
        self._session = session
        self._ours = Owner.current(folder.name)

    def take(self, slots: dict[str, int]) -> str:
        """Return the engine with the most free slots, and count this process in there.

        Args:
            slots: name of each engine → how many it has; of engines with equally many free, the first is taken.

        Raises:
            StoreError: the run's folder cannot be written.
        """
        with locked(self._path):
            others = self._others()
            busy = Counter(place.engine for place in others)
            chosen = max(slots, key=lambda name: slots[name] - busy[name])
            self._write([*others, _Place(self._ours.host, self._ours.process, self._session, chosen)])
        return chosen

    def leave(self) -> None:
        """Count this process out.

        Raises:
            StoreError: the run's folder cannot be written.
        """
        if self._path.exists():
            with locked(self._path):
                self._write(self._others())

    def go(self, engine: str) -> None:
        """Count this process in at an engine.

        Raises:
            StoreError: the run's folder cannot be written.
        """
        self.take({engine: 0})

    def _others(self) -> list[_Place]:
        try:
            places = _PLACES.validate_json(self._path.read_bytes())
        except (OSError, ValidationError):
            # Not there yet, or not ours: it is about room, and about no verdict.
            return []
        return [place for place in places if place.process != self._ours.process and self._lives(place)]

    def _lives(self, place: _Place) -> bool:
        living = alive(place.process) if place.host == self._ours.host else None
        return place.session == self._session if living is None else living

    def _write(self, places: list[_Place]) -> None:
        write_whole(self._path, _PLACES.dump_json(places))


@final
class Pool:
    """Does what `Harness` does, in several container engines.

    Args:
        names: Docker contexts of the engines, in the order of preference.
        make: gives what works with the engine that it can ask for.
        connect: makes one of them ready; called once for each that is needed.
        look: tells what one of them is.
        folder: the run's.
        session: this session's id.
    """

    def __init__(
        self,
        names: Sequence[str],
        *,
        make: Callable[[Callable[[], Engine]], Harness],
        connect: Callable[[str], Engine],
        look: Callable[[str], Host],
        folder: Path,
        session: str,
    ) -> None:
        self._names = names
        self._make = make
        self._connect = connect
        self._look = look
        self._places = Places(folder, session)
        self._harnesses: dict[str, Harness] = {}
        self._engines: dict[str, Engine] = {}
        self._hosts: dict[str, Host | DaemonUnavailableError] = {}
        self._any = make(lambda: self._engine(next(iter(self._room()))))

    @property
    def environments(self) -> Environments:
        """What is stored; the same whichever engine is asked. What needs one asks the first that answers."""
        # One that has opened its engine knows what must be kept secret of the host's settings.
        return next(iter(self._harnesses.values()), self._any).environments

    @property
    def research(self) -> NoReturn:
        """Research tasks are worked at in one engine.

        Raises:
            ConfigurationError: always.
        """
        raise ConfigurationError(
            "research tasks run in one container engine: leave --researchenv-docker out, and choose the engine by "
            "DOCKER_CONTEXT or DOCKER_HOST"
        )

    def close(self) -> None:
        """Let go of the engines."""
        for engine in self._engines.values():
            engine.close()
        self._places.leave()

    def judge(
        self,
        agent_name: str,
        repository: Repository,
        tier: Tier | Examination,
        *,
        retry: bool = False,
        trial: int = 1,
    ) -> Judged:
        """Return the verdict on a tier or of the audit, as `Harness.judge` does, where the environment is.

        Raises:
            DaemonUnavailableError: the engine that holds the environment does not answer.
            ElsewhereError: it is none of this session's.
            InfrastructureError: no verdict is possible.
        """
        pinned = self.environments.pinned(agent_name, repository, trial=trial)
        if pinned is not None and pinned.engine:
            name = self._named(pinned.engine, pinned.engine_name)
            self._places.go(name)
        else:
            name = self._places.take(self._room())
        try:
            judged = self._harness(name).judge(agent_name, repository, tier, retry=retry, trial=trial)
        except ElsewhereError as error:
            # Another worker has built it meanwhile.
            there = self._named(error.engine, error.name)
            if there == name:
                raise
            self._places.go(there)
            judged = self._harness(there).judge(agent_name, repository, tier, retry=retry, trial=trial)
        except InfrastructureError:
            # It may be gone for good: it is asked again before anything else is built there.
            self._hosts.pop(name, None)
            raise
        return replace(judged, notes=(*judged.notes, *self._silent()))

    def _harness(self, name: str) -> Harness:
        if name not in self._harnesses:
            self._harnesses[name] = self._make(lambda: self._engine(name))
        return self._harnesses[name]

    def _engine(self, name: str) -> Engine:
        if name not in self._engines:
            self._engines[name] = self._connect(name)
        return self._engines[name]

    def _silent(self) -> Iterator[str]:
        for name, host in self._hosts.items():
            if isinstance(host, DaemonUnavailableError):
                yield f"nothing was built in the container engine {name!r}, which did not answer"

    def _host(self, name: str) -> Host | DaemonUnavailableError:
        """What an engine is, or why it does not answer; those that did not are asked again."""
        known = self._hosts.get(name)
        if not isinstance(known, Host):
            try:
                known = self._look(name)
            except DaemonUnavailableError as error:
                known = error
            self._hosts[name] = known
        return known

    def _room(self) -> dict[str, int]:
        hosts = {name: self._host(name) for name in self._names}
        room = {name: host.slots for name, host in hosts.items() if isinstance(host, Host)}
        if not room:
            raise DaemonUnavailableError("\n".join(str(error) for error in hosts.values()))
        return room

    def _named(self, engine: str, name: str) -> str:
        """Which of the engines has this id: contexts may have been renamed, or mean another host on another machine.

        Raises:
            DaemonUnavailableError: the one by its name does not answer, and no other is it.
            ElsewhereError: none is it.
        """
        for candidate in sorted(self._names, key=lambda other: other != name):
            host = self._host(candidate)
            if isinstance(host, Host) and host.id == engine:
                return candidate
        failed = self._hosts.get(name)
        if isinstance(failed, DaemonUnavailableError):
            raise DaemonUnavailableError(f"{failed}\nThe environment is there: start that engine, or build it again.")
        unreachable = "".join(f"\n{error}" for error in self._hosts.values() if not isinstance(error, Host))
        raise ElsewhereError(
            f"the environment is in the container engine {in_words(engine, name)}, which is none of "
            f"{', '.join(self._names)}: give its Docker context with --researchenv-docker, or build it again with "
            f"--researchenv-rebuild{unreachable}",
            engine=engine,
            name=name,
        )
