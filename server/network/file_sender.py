"""Answers that hold ranges of log files, sent from the file to the socket without passing through this process.

The transport of the event loop cannot do that beside its own writes, so this goes past it, through a descriptor of its own
for the same socket, and only while the transport has nothing to send. Bytes that the socket does not take wait here as a
place in a file, not as bytes: a slow reader costs no memory.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from ...storage.segments.slices import LogSlice
from .descriptors import DESCRIPTORS

_MORE = getattr(socket, "MSG_MORE", 0)


#: Bytes that one answer sends in one turn of the loop: to copy them to the socket takes some 2 ms.
SENT_PER_TURN_BYTES = 4 << 20
#: Bytes that are not worth a copy to save a call.
UNJOINED_BYTES = 64 << 10


class AnswerSender(Protocol):
    """Sends answers that are too large for one write."""

    @property
    def is_busy(self) -> bool:
        """Returns True while something waits to be sent."""

    def send(self, pieces: list[Any]) -> None:
        """Sends bytes and `LogSlice`s, in order."""

    def close(self) -> None:
        """Drops what waits."""


class FileSender:
    """Sends pieces in order: bytes, and `LogSlice`s. `drained` is called when all is sent after it had to wait;
    `failed` when the connection or the file is no good any more.
    """

    __slots__ = ("_drained", "_failed", "_is_waiting", "_loop", "_pieces", "_position", "_socket")

    def __init__(
        self, fd: int, loop: asyncio.AbstractEventLoop, drained: Callable[[], None], failed: Callable[[OSError], None]
    ) -> None:
        """`fd`: the connection's socket. Raises OSError when there are no descriptors left."""
        self._loop = loop
        self._drained = drained
        self._failed = failed
        self._socket = socket.socket(fileno=os.dup(fd))
        self._socket.setblocking(False)
        self._pieces: deque[Any] = deque()
        #: How much of the first piece has been sent.
        self._position = 0
        self._is_waiting = False

    @classmethod
    def of(
        cls, transport: asyncio.Transport, drained: Callable[[], None], failed: Callable[[OSError], None]
    ) -> FileSender | None:
        """None when the connection is a simulated one, or no descriptor can be spared: answers are copied then."""
        found = transport.get_extra_info("socket")
        if found is None or not DESCRIPTORS.take_extra():
            return None
        try:
            return cls(found.fileno(), asyncio.get_running_loop(), drained, failed)
        except OSError:
            DESCRIPTORS.return_extra()
            return None

    @property
    def is_busy(self) -> bool:
        return bool(self._pieces)

    def send(self, pieces: list[Any]) -> None:
        self._pieces += joined(pieces)
        if not self._is_waiting:
            self._push()

    def _push(self) -> None:
        """Sends until all is gone or the socket takes no more."""
        pieces, left = self._pieces, SENT_PER_TURN_BYTES
        try:
            while pieces and left > 0:
                piece = pieces[0]
                size = len(piece)
                while self._position < size and left > 0:
                    sent = self._send_some(piece, min(size, self._position + left))
                    self._position += sent
                    left -= sent
                if self._position == size:
                    pieces.popleft()
                    self._position = 0
        except BlockingIOError:
            left = 0
        except OSError as error:
            self.close()
            self._failed(error)
            return
        if pieces:
            if not self._is_waiting:
                self._is_waiting = True
                self._loop.add_writer(self._socket.fileno(), self._push)
        elif self._is_waiting:
            self._is_waiting = False
            self._loop.remove_writer(self._socket.fileno())
            self._drained()

    def _send_some(self, piece: Any, stop: int) -> int:
        """Sends bytes of a piece before `stop`. Returns their number."""
        position = self._position
        if type(piece) is LogSlice:
            sent = os.sendfile(self._socket.fileno(), piece.fd, piece.position + position, stop - position)
            if not sent:
                raise OSError(errno.EIO, f"{piece!r}: the file ends too early")
            return sent
        flags = _MORE if len(self._pieces) > 1 else 0
        is_whole = not position and stop == len(piece)
        return self._socket.send(piece if is_whole else memoryview(piece)[position:stop], flags)

    def close(self) -> None:
        self._pieces.clear()
        if self._is_waiting:
            self._is_waiting = False
            self._loop.remove_writer(self._socket.fileno())
        self._socket.close()
        DESCRIPTORS.return_extra()


def joined(pieces: list[Any]) -> list[Any]:
    """The bytes between slices in one piece each; long ones stay as they are."""
    joined: list[Any] = []
    run: list[Any] = []
    for piece in pieces:
        if type(piece) is LogSlice or (len(piece) >= UNJOINED_BYTES and type(piece) is not memoryview):
            if run:
                joined.append(b"".join(run))
                run = []
            joined.append(piece)
        else:
            run.append(piece)
    if run:
        joined.append(b"".join(run))
    return joined
