"""Which requests to the outside are told: a bounded number, and nothing can be hidden behind many others."""

from __future__ import annotations


__all__ = ["Told"]

#: Requests that are told: an agent could send more without end, and fill the harness's memory.
_REQUESTS = 50_000
#: Of those that belong to the benchmark itself, apart: they must not drown in others.
_OWN = 1000
#: Hosts that are told of after that, once each.
_HOSTS = 10_000


class Told:
    """Counts what was told."""

    def __init__(self) -> None:
        self._requests = self._own = 0
        self._hosts: set[str] = set()

    def admits(self, host: str, *, allowed: bool, own: bool) -> bool:
        """Count a request, and say whether it is told.

        Args:
            host: whom it was for.
            allowed: whether it was answered from there. After many others, each such host is told once more.
            own: whether it was for something of the benchmark's own.
        """
        if own:
            self._own += 1
            return self._own <= _OWN
        self._requests += 1
        if self._requests <= _REQUESTS:
            return True
        if not allowed or host in self._hosts or len(self._hosts) == _HOSTS:
            return False
        self._hosts.add(host)
        return True
