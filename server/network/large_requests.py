"""Requests that are too large to be decoded in one turn of the loop.

A frame over SLICED_FRAME_BYTES is decoded in steps. Nearly all such frames are Produce requests with few, large
batches: they are done in the first slice, and handled at once like any other. Unfinished work becomes a `Task` in
`ListenerSet.turns`; the connection takes no other request before it is answered.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

from ...protocol.codec import DECODE_FAULTS, Arrays, stepwise_decoder, stepwise_encoder
from ..runtime.memory import release_after
from ..runtime.turn_budget import SLICE_S
from .frame_buffer import READ_BUFFER_BYTES
from .protocol_violation import ProtocolViolation
from .sliced_responses import freed
from .work_in_turns import ITEMS_PER_CLOCK, begin_work

if TYPE_CHECKING:
    from ...protocol.apis import Api
    from ...protocol.buffer import Buffer
    from ...protocol.schema import Request
    from ..runtime.turns import Work
    from .call import Call, ClientConnection, RequestDispatch
    from .route import Route

#: A request of this many items, of whatever kind, is handled in portions.
PLAIN_ITEMS = 1000
#: Memory that a decoded item takes, with its response.
ITEM_BYTES = 500


def take(
    dispatcher: RequestDispatch,
    connection: ClientConnection,
    route: Route,
    call: Call,
    frame: Buffer,
    pos: int,
) -> bool:
    """Decodes a large frame. True when it is done and `call.request` is to be handled; else it is handled in later turns.

    Raises DECODE_FAULTS.
    """
    decode_large = route.endpoint.decode_large
    if decode_large is not None:
        request = decode_large(route.version, frame, pos)
        if request is not None:
            call.request = request
            return True
    steps = stepwise_decoder(route.api.request, route.version)(frame, pos, {})
    clock = connection.listener.shared.turns.clock
    until, items = clock() + SLICE_S, 0
    while items <= PLAIN_ITEMS:
        try:
            count = next(steps)
        except StopIteration as over:
            call.request, end = over.value
            if end > len(frame):
                raise IndexError("the message ends after the frame") from None
            return True
        items += count or 1
        if (count or not items % ITEMS_PER_CLOCK) and clock() >= until:
            break
    if len(frame) <= READ_BUFFER_BYTES:
        frame = bytearray(
            frame
        )  # it stands in a buffer that other connections use; record batches are patched in place
    stepwise_encoder(route.api.response, route.response_version)  # made now: it stays, and the request's objects do not
    connection.park(call)
    call.hold_connection()
    call.size = len(frame)  # of the request, until there is a response

    def begin() -> None:
        begin_work(dispatcher, route, call, _served(dispatcher, call, route, frame, pos))

    if route.prepare is None:
        begin()
    else:  # modules, too, are imported before there are many objects that will go: see `cli/preload.py`
        route.prepare(begin)
    return False


def _served(dispatcher: RequestDispatch, call: Call, route: Route, frame: Buffer, pos: int) -> Work:
    try:
        call.request, end, items = yield from decoded(route.api, route.version, frame, pos, route.endpoint.item_limit)
    except TooManyItems as error:
        raise ProtocolViolation(str(error)) from None
    except DECODE_FAULTS as error:
        raise dispatcher.violation_of(frame, error) from None
    if end > len(frame):
        raise dispatcher.violation_of(frame, IndexError("the message ends after the frame"))
    del frame
    if not call.connection.closed:
        yield
        dispatcher.handle(call, route, route.handle_large)
    release_after(items * ITEM_BYTES)


class TooManyItems(ValueError):
    """A request has more items than its API allows."""


def decoded(
    api: Api, version: int, data: Buffer, pos: int, limit: int
) -> Generator[None, None, tuple[Request, int, int]]:
    """Decodes a request in steps. Returns it, the position after it, and the number of its items. `limit`: the most items.

    Raises TooManyItems and DECODE_FAULTS, when what was decoded of the request is freed.
    """
    items, arrays = 0, Arrays()
    steps = stepwise_decoder(api.request, version)(data, pos, arrays)
    try:
        while True:
            count = next(steps)
            items += count or 1
            if items > limit:
                raise TooManyItems(f"{api.name} request with more than {limit} items")
            if count or not items % ITEMS_PER_CLOCK:
                yield
    except StopIteration as over:
        return (*over.value, items)
    except DECODE_FAULTS as error:
        fault = error
    for array in arrays.values():
        yield from freed(array)
    release_after(items * ITEM_BYTES)
    raise fault
