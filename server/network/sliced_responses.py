"""Large responses, encoded and freed in turns of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.codec import stepwise_encoder
from ..runtime.memory import release_after
from .work_in_turns import ITEMS_PER_CLOCK, begin_work

if TYPE_CHECKING:
    from ...protocol.schema import Message
    from ..runtime.turns import Work
    from .call import Call
    from .file_sender import Piece

#: The buffers that a response encoded in slices is made of.
RESPONSE_PIECE_BYTES = 256 * 1024

_ONLY_BYTES = {bytes}


def reply_in_slices(call: Call, response: Message, version: int, own: tuple[str, ...] = ()) -> None:
    """Encodes the response, and frees its structures, in turns of its own.

    `own`: the path of nested arrays that belong to this response only. Those of others may be kept for later responses.
    """
    if not call.is_parked:
        call.connection.park(call)
    call.hold_connection()
    begin_work(call.connection.dispatcher, call.route, call, _encoded(call, response, version, own))


def _encoded(call: Call, response: Message, version: int, own: tuple[str, ...]) -> Work:
    pieces = _Pieces()
    steps = stepwise_encoder(type(response), version)(response, pieces.new.append)
    for number, _ in enumerate(steps):
        if not number % ITEMS_PER_CLOCK:
            pieces.join()
            yield
    if not call.connection.closed:
        call.finish([b"", *pieces.taken()])
    size = call.size
    if own:
        yield from released(response, own)
    for name, _ in call.route.arrays:
        yield from released(response, (name,))
    release_after(4 * size)


class _Pieces:
    """Many small pieces of a response, joined to few. An encoder adds to `new`."""

    def __init__(self) -> None:
        self.new: list[Piece] = []
        self._made: list[Piece] = []
        self._last = bytearray()

    def join(self) -> None:
        """Joins what was added since the last call. Most items have several pieces, all bytes: these take one call."""
        new = self.new
        if set(map(type, new)) <= _ONLY_BYTES:
            self._last += b"".join(new)  # type: ignore[arg-type]
        else:
            for piece in new:
                if type(piece) is bytes:
                    self._last += piece
                else:
                    self._made += [self._last, piece]
                    self._last = bytearray()
        new.clear()
        if len(self._last) > RESPONSE_PIECE_BYTES:
            self._made.append(self._last)
            self._last = bytearray()

    def taken(self) -> list[Piece]:
        self.join()
        return [*self._made, self._last]


def released(message: Message, path: tuple[str, ...]) -> Work:
    """Frees the items at `path` in steps: to free a million at once takes a tenth of a second."""
    items = getattr(message, path[0]) or []
    if len(path) == 1:
        yield from freed(items)
        return
    while items:
        part = items[-ITEMS_PER_CLOCK:]
        del items[-ITEMS_PER_CLOCK:]
        for item in part:
            yield from released(item, path[1:])
        yield


def freed(items: list[Message]) -> Work:
    """Empties a list that nothing else uses, in steps."""
    while items:
        del items[-ITEMS_PER_CLOCK:]
        yield
