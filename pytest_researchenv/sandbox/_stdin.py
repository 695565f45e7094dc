"""What a container's main process reads, sent to it by way of the engine."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from pytest_researchenv.sandbox._stream import hang_up


if TYPE_CHECKING:
    from docker.api import APIClient


__all__ = ["Feed"]

#: How long the goodbye of an encrypted connection may take, and the thread, in seconds.
_CLOSE_S = 5.0


class Feed:
    """Sends bytes to a container's main process, and then the end of the file, while a block runs.

    A thread writes: the process may never read. It has a connection of its own beside that of the output, since its end
    is the end of the file: not every transport can close one direction only.

    Args:
        api: the engine.
        container: one that was created with an open stdin, and not started yet.
        content: what the process reads.
    """

    def __init__(self, api: APIClient, container: str, content: bytes) -> None:
        self._api = api
        self._container = container
        self._content = content
        self._file: Any = None
        self._socket: Any = None
        self._thread = threading.Thread(target=self._write, name="researchenv-stdin", daemon=True)

    def __enter__(self) -> Self:
        self._file = self._api.attach_socket(self._container, params={"stdin": 1, "stream": 1})
        # Over SSH there is no socket, but the pipes of a process.
        self._socket = getattr(self._file, "_sock", self._file)
        self._socket.settimeout(None)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        process = getattr(self._socket, "proc", None)
        # Wakes the thread when it still writes.
        if process:
            hang_up(process)
        else:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(_CLOSE_S)
        self._file._response.close()  # noqa: SLF001 - docker-py leaves it there, and has no public way.

    def _write(self) -> None:
        # The process may end without reading, and its end of the connection with it.
        with contextlib.suppress(OSError, ValueError):
            self._socket.sendall(self._content)
            if process := getattr(self._socket, "proc", None):
                process.stdin.close()
            elif isinstance(self._socket, ssl.SSLSocket):
                self._socket.settimeout(_CLOSE_S)
                self._socket.unwrap()
            else:
                self._socket.shutdown(socket.SHUT_WR)
