"""How a call is ended from another thread."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from typing import List

from .errors import CallCancelled


class Cancellation:
    """Give it to a call, and cancel() ends that call, wherever it is, and the work on the server.

    Thread safe.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._event = threading.Event()
        self._sockets: List[socket.socket] = []

    def cancel(self) -> None:
        with self._lock:
            self._event.set()
            for sock in self._sockets:
                with contextlib.suppress(OSError):  # It has ended.
                    # Closed with a reset: a server whose peer only says that it sends no more may
                    # wait.
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    sock.shutdown(socket.SHUT_RDWR)

    @property
    def cancelled(self) -> bool:
        return self._event.is_set()

    def check(self) -> None:
        """Raises CallCancelled after cancel()."""
        if self.cancelled:
            raise CallCancelled({"detail": "the caller has cancelled the call"})

    def sleep(self, seconds: float) -> None:
        """Waits, but not after cancel()."""
        self._event.wait(seconds)
        self.check()

    def hold(self, sock: socket.socket) -> None:
        """Has cancel() end a connection: whoever waits for it wakes, and closes it."""
        with self._lock:
            self.check()
            self._sockets.append(sock)
