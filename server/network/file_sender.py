"""Responses that hold ranges of log files, sent from the file to the socket without passing through this process.

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
from typing import TYPE_CHECKING, Protocol, Union

from ...storage.segments.slices import LogSlice
from ..runtime.lent_memory import is_lent
from .descriptors import DESCRIPTORS
from .transfer_turns import CALL_BYTES, LEAST_BYTES, TransferTurns

if TYPE_CHECKING:
    from ...protocol.buffer import Buffer


_MORE = getattr(socket, "MSG_MORE", 0)

#: Bytes that are not worth a copy to save a call.
UNJOINED_BYTES = 64 << 10
#: Smaller pieces of lent memory are copied: a response has as many as the request has partitions.
LEAST_LENT_BYTES = 4 << 10


#: A part of a response: bytes, or a range of a log file.
Piece = Union[bytes, bytearray, memoryview, LogSlice]


class ResponseSender(Protocol):
    """Sends responses that are too large for one write."""

    @property
    def is_busy(self) -> bool:
        """Returns True while something waits to be sent."""

    @property
    def unsent_bytes(self) -> int:
        """The bytes that wait."""

    def send(self, pieces: list[Piece]) -> None:
        """Sends bytes and `LogSlice`s, in order."""

    def close(self) -> None:
        """Drops what waits."""


class FileSender:
    """Sends pieces in order: bytes, and `LogSlice`s. `drained` is called when all is sent after it had to wait;
    `failed` when the connection or the file is no good any more. `turns`: the bytes of a turn, which all senders share.
    """

    __slots__ = (
        "_awaits_socket", "_awaits_turn", "_drained", "_failed", "_loop", "_pieces", "_position", "_socket", "_turns",
    )  # fmt: skip

    def __init__(
        self,
        fd: int,
        loop: asyncio.AbstractEventLoop,
        turns: TransferTurns,
        drained: Callable[[], None],
        failed: Callable[[OSError], None],
    ) -> None:
        """`fd`: the connection's socket. Raises OSError when there are no descriptors left."""
        self._loop = loop
        self._turns = turns
        self._drained = drained
        self._failed = failed
        self._socket = socket.socket(fileno=os.dup(fd))
        self._socket.setblocking(False)
        self._pieces: deque[Piece] = deque()
        #: How much of the first piece has been sent.
        self._position = 0
        self._awaits_socket = self._awaits_turn = False

    @classmethod
    def of(
        cls,
        transport: asyncio.Transport,
        turns: TransferTurns,
        drained: Callable[[], None],
        failed: Callable[[OSError], None],
    ) -> FileSender | None:
        """None when the connection is a simulated one, or no descriptor can be spared: responses are copied then."""
        found = transport.get_extra_info("socket")
        if found is None or not DESCRIPTORS.take_extra():
            return None
        try:
            return cls(found.fileno(), asyncio.get_running_loop(), turns, drained, failed)
        except OSError:
            DESCRIPTORS.return_extra()
            return None

    @property
    def is_busy(self) -> bool:
        return bool(self._pieces)

    @property
    def unsent_bytes(self) -> int:
        return sum(map(len, self._pieces)) - self._position

    def send(self, pieces: list[Piece]) -> None:
        self._pieces += joined(pieces)
        if not self._awaits_socket and not self._awaits_turn:
            self._push()

    def _send_more(self) -> None:
        """The socket takes more, or the turn has come."""
        self._awaits_turn = False
        if self._pieces and self._push():
            self._drained()

    def _push(self) -> bool:
        """Sends until all is gone, the socket takes no more, or the bytes of this turn are used up. Returns whether all
        is gone. A response that is nearly sent needs no other turn for its rest, which would cost more.
        """
        pieces, turns = self._pieces, self._turns
        awaits_socket, least = False, 0
        try:
            while pieces and turns.left > least:
                piece = pieces[0]
                size = len(piece)
                if self._position < size:
                    stop = self._position + max(turns.left, LEAST_BYTES)
                    sent = self._send_some(piece, stop if stop + LEAST_BYTES < size else size)
                    self._position += sent
                    turns.spend(sent + CALL_BYTES)
                    least = -LEAST_BYTES
                if self._position == size:
                    pieces.popleft()
                    self._position = 0
        except BlockingIOError:
            awaits_socket = True
        except OSError as error:
            self.close()
            self._failed(error)
            return False
        self._await_socket(awaits_socket)
        if pieces and not awaits_socket:
            self._awaits_turn = True
            turns.wait(self._send_more)
        return not pieces

    def _await_socket(self, awaits: bool) -> None:
        if awaits == self._awaits_socket:
            return
        self._awaits_socket = awaits
        if awaits:
            self._loop.add_writer(self._socket.fileno(), self._send_more)
        else:
            self._loop.remove_writer(self._socket.fileno())

    def _send_some(self, piece: Piece, stop: int) -> int:
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
        self._await_socket(False)
        self._socket.close()
        DESCRIPTORS.return_extra()


def _is_kept(piece: Piece) -> bool:
    """Returns whether a piece of bytes is sent without a copy. A copy of lent memory would not count in its budget."""
    size = len(piece)
    if type(piece) is memoryview:
        return size >= LEAST_LENT_BYTES and is_lent(piece)
    return size >= UNJOINED_BYTES


def joined(pieces: list[Piece]) -> list[Piece]:
    """The bytes between slices in one piece each; long ones stay as they are."""
    joined: list[Piece] = []
    run: list[Buffer] = []
    for piece in pieces:
        if type(piece) is LogSlice or _is_kept(piece):
            if run:
                joined.append(b"".join(run))
                run = []
            joined.append(piece)
        else:
            run.append(piece)
    if run:
        joined.append(b"".join(run))
    return joined
