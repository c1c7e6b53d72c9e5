"""Responses that hold stretches of log files, sent over TLS: read from the file, encrypted and written a chunk at a time.

The socket takes nothing from a file past the encryption (Python's ssl offers no kernel TLS over a transport). A reader
that is slow costs the chunks that the transport has taken, and not the response.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from ...storage.segments.slices import LogSlice
from .file_sender import joined
from .transfer_turns import CALL_BYTES

if TYPE_CHECKING:
    from .file_sender import Piece
    from .transfer_turns import TransferTurns

#: Bytes that are read and encrypted at once: eight records of TLS. They stay in the processor's cache between the two.
CHUNK_BYTES = 128 << 10
#: Reads of files for one chunk: some 10 us each.
CHUNK_READS = 64
#: To encrypt a byte costs as much as to copy two: so a byte counts twice in the bytes of a turn.
COST = 2

#: All senders read into it: a transport with TLS encrypts what it is given before `write` returns.
_chunk = memoryview(bytearray(CHUNK_BYTES))


class CopiedSender:
    """Sends pieces in order: bytes, and `LogSlice`s. `drained` is called when all is sent after it had to wait; `failed`
    when a file is no good any more. The connection sets `is_paused` while its transport takes no more.
    """

    __slots__ = (
        "_drained",
        "_failed",
        "_is_scheduled",
        "_pieces",
        "_position",
        "_transport",
        "_turns",
        "_waited",
        "is_paused",
    )

    def __init__(
        self,
        transport: asyncio.WriteTransport,
        turns: TransferTurns,
        drained: Callable[[], None],
        failed: Callable[[OSError], None],
    ) -> None:
        self.is_paused = False
        self._turns = turns
        self._transport = transport
        self._drained = drained
        self._failed = failed
        self._pieces: deque[Piece] = deque()
        #: How much of the first piece has been sent.
        self._position = 0
        self._waited = self._is_scheduled = False

    @property
    def is_busy(self) -> bool:
        return bool(self._pieces)

    @property
    def unsent_bytes(self) -> int:
        return sum(map(len, self._pieces)) - self._position

    def send(self, pieces: list[Piece]) -> None:
        is_first = not self._pieces
        self._pieces += joined(pieces)
        if is_first:
            self._waited = False
            self._push()

    def resume(self) -> None:
        """The transport takes more."""
        self.is_paused = False
        if self._pieces and not self._is_scheduled:
            self._push()

    def _push(self) -> None:
        self._is_scheduled = False
        pieces, turns = self._pieces, self._turns
        while pieces and turns.left > 0 and not self.is_paused:
            try:
                size, reads = self._fill_chunk()
            except OSError as error:
                self.close()
                self._failed(error)
                return
            turns.spend(COST * size + CALL_BYTES * reads)
            if size:
                self._transport.write(_chunk[:size])
        if pieces:
            self._waited = True
            if not self.is_paused:
                self._is_scheduled = True
                turns.wait(self._push)
        elif self._waited:
            self._waited = False
            self._drained()

    def _fill_chunk(self) -> tuple[int, int]:
        """Takes what comes next into the chunk, until it is full: a short piece is no record of TLS and no write of its
        own. Returns the bytes in it, and how many reads of files they took.
        """
        pieces, position, size, reads = self._pieces, self._position, 0, 0
        while pieces and size < CHUNK_BYTES and reads < CHUNK_READS:
            piece = pieces[0]
            count = min(CHUNK_BYTES - size, len(piece) - position)
            if type(piece) is LogSlice:
                count = self._read(piece, position, _chunk[size : size + count]) if count else 0
                reads += 1
            else:
                _chunk[size : size + count] = memoryview(piece)[position : position + count]
            size += count
            position += count
            if position >= len(piece):
                pieces.popleft()
                position = 0
        self._position = position
        return size, reads

    @staticmethod
    def _read(piece: LogSlice, position: int, room: memoryview) -> int:
        found = os.preadv(piece.fd, [room], piece.position + position)
        if not found:
            raise OSError(errno.EIO, f"{piece!r}: the file ends too early")
        return found

    def close(self) -> None:
        self._pieces.clear()
