"""Requests that are too much for one turn of the loop: decoded, handled and answered in slices.

A frame over SLICED_FRAME_BYTES is decoded in steps. Nearly all such frames are Produce requests with few, large
batches: they are done in the first slice, and handled at once like any other. Unfinished work becomes a `Task` in
`ListenerSet.turns`; the connection takes no other request before it is answered.
"""

from __future__ import annotations

import select
import sys
from collections.abc import Callable, Generator
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from ...protocol.codec import DECODE_FAULTS, Arrays, stepwise_decoder, stepwise_encoder
from ...protocol.schema import Message
from ...replication.controller.result import MAX_RECORDS_PER_REQUEST
from ..runtime.memory import release_after
from ..runtime.sliced_work import SLICE_S, WAITING, Done, Task, Work, run_slice
from .api_endpoint import (
    LARGEST_PORTION,
    LARGEST_WAITING_PORTION,
    ApiEndpoint,
    BoundHandle,
    Merged,
    Portion,
    Portioning,
    portions,
)
from .call import Call, ClientConnection, ProtocolViolation, Relay, RequestDispatch, Route, arrays_of, is_large
from .shared_parts import READ_BUFFER_BYTES

if TYPE_CHECKING:
    from ...protocol.apis import Api
    from ...protocol.checksum import Buffer
    from .file_sender import Piece


T = TypeVar("T")

#: A request of this many items, of whatever kind, is handled in portions.
PLAIN_ITEMS = 1000
#: A decoder's clock is read once in so many items.
ITEMS_PER_CLOCK = 32
#: The buffers that a response encoded in slices is made of.
RESPONSE_PIECE_BYTES = 256 * 1024
#: Portions grow while they take less than a third of a slice, and shrink when they take more than a whole one.
SHORT_S, LONG_S = SLICE_S / 3, SLICE_S
#: Memory that a decoded item takes, with its response.
_ITEM_BYTES = 500


# ---- requests


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
        call.request = decode_large(route.version, frame, pos)
        if call.request is not None:
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
        _begin(dispatcher, route, call, _served(dispatcher, call, route, frame, pos))

    if route.prepare is None:
        begin()
    else:  # modules, too, are imported before there are many objects that will go: see `cli/foreground.py`
        route.prepare(begin)
    return False


def _begin(dispatcher: RequestDispatch, route: Route, call: Call, steps: Work) -> Task:
    def failed(failure: Exception) -> None:
        dispatcher.failed_later(call, route, failure)

    task = call.connection.listener.shared.turns.begin(steps, failed)
    if call.observer is not None and call.observer.meter is not None:
        task.spent = partial(call.observer.meter.spent, call)
    task.api, task.version, task.client_id, task.size = route.api.name, route.version, call.client_id, call.size
    return task


def _served(dispatcher: RequestDispatch, call: Call, route: Route, frame: Buffer, pos: int) -> Work:
    try:
        call.request, end, items = yield from decoded(route.api, route.version, frame, pos, route.endpoint.item_limit)
    except TooManyItems as error:
        raise ProtocolViolation(str(error)) from None
    except DECODE_FAULTS as error:
        raise dispatcher.explained(frame, error) from None
    if end > len(frame):
        raise dispatcher.explained(frame, IndexError("the message ends after the frame"))
    del frame
    if not call.connection.closed:
        yield
        dispatcher.handle(call, route, route.handle_large)
    release_after(items * _ITEM_BYTES)


class TooManyItems(ValueError):
    """A request has more items than its API allows."""


def decoded(api: Api, version: int, data: Buffer, pos: int, limit: int) -> Generator[None, None, tuple[Any, int, int]]:
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
    release_after(items * _ITEM_BYTES)
    raise fault


def in_portions(endpoint: ApiEndpoint, handle: BoundHandle) -> BoundHandle:
    """The handler of an API whose requests are handled a portion at a time when they have many items."""
    portionings, records_asked = endpoint.portionings, endpoint.records_asked

    def handle_in_portions(call: Call) -> Message | None:
        for portioning in portionings:
            if has_more_than(call.request, portioning.asked, portioning.first):
                if records_asked is not None and records_asked(call.request) > MAX_RECORDS_PER_REQUEST:
                    break  # the controller refuses it as a whole, so it must see it as a whole
                PortionedCall(call, handle, portioning).begin()
                return None
        return handle(call)

    return handle_in_portions


def has_more_than(request: Message, path: tuple[str, ...], limit: int) -> bool:
    """Returns True if the request has more than `limit` items; counting stops at the limit."""
    nodes = getattr(request, path[0]) or ()
    if len(nodes) > limit or len(path) == 1:
        return len(nodes) > limit
    left = limit
    for node in nodes:
        items = getattr(node, path[1])
        left -= len(items) if items else 1
        if left < 0 or (len(path) > 2 and items and has_more_than(node, path[1:], left + len(items))):
            return True
    return False


class PortionedCall:
    """A call whose request is handled in portions, one after the other."""

    def __init__(self, call: Call, handle: BoundHandle, portioning: Portioning) -> None:
        self._call = call
        self._handle = handle
        self._portioning = portioning
        self._size = portioning.first
        self._items = 0
        self._task: Task

    def begin(self) -> None:
        call = self._call
        if not call.is_parked:
            call.connection.park(call)
        call.hold_connection()
        route, dispatcher = call.route, call.connection.dispatcher
        self._task = _begin(dispatcher, route, call, self._steps())

    def _steps(self) -> Work:
        call = self._call
        merged = Merged(self._portioning.answered)
        for portion in portions(call.request, self._portioning, lambda: self._size):
            if portion is None:
                yield
                continue
            self._items += portion.items
            response = yield from self._respond(portion)
            if has_left(call.connection):
                break
            if response is None:
                continue
            if getattr(response, "error_code", 0):
                merged.response = response  # of the whole request
                break
            merged.add(response, portion)
            yield
        if call.connection.closed:
            pass
        elif merged.response is None:
            call.reply_nothing()
        elif _may_slice(call) and is_large(merged.response, arrays_of(type(merged.response))):
            call.announce_throttle(merged.response)
            reply_in_slices(call, merged.response, call.route.response_version, self._portioning.answered)
        else:
            call.reply(merged.response)
        yield from released(call.request, self._portioning.asked)
        release_after(self._items * _ITEM_BYTES)

    def _respond(self, portion: Portion) -> Generator[Any, None, Message | None]:
        clock = self._call.connection.listener.shared.turns.clock
        began = clock()
        part_response = _PartResponse(self._call)
        part = _part_of(self._call, portion.request, part_response)
        response = self._handle(part)
        if response is None and not part_response.is_there:
            took = clock() - began
            largest = LARGEST_WAITING_PORTION
            part_response.awaited_by = self._task
            yield WAITING
        else:
            took = clock() - began
            largest = LARGEST_PORTION
        if took < SHORT_S and portion.items >= self._size:
            self._size = max(min(2 * self._size, largest), self._portioning.first)
        elif took > LONG_S:
            self._size = max(1, self._size // 2)
        call = self._call
        call.throttle_time_ms = max(call.throttle_time_ms, part.throttle_time_ms)
        return response if response is not None else part_response.response


def _may_slice(call: Call) -> bool:
    return call.observer is None or call.observer.may_reply_in_slices


def _part_of(whole: Call, request: Message, response: _PartResponse) -> Call:
    """Returns the call of a portion of a request."""
    part = Call(whole.connection, whole.route, whole.correlation_id, whole.client_id, request)
    part.api, part.version = whole.api, whole.version  # those of a request in an Envelope are not its route's
    part.client, part.observer = whole.client, response
    return part


class _PartResponse(Relay):
    """The response to a portion of a request: a part of the response to the whole."""

    __slots__ = ("awaited_by", "is_there", "response")

    def __init__(self, whole: Call) -> None:
        super().__init__(whole)
        self.response: Message | None = None
        self.is_there = False
        self.awaited_by: Task | None = None

    def taken(self, part: Call, response: Message | None) -> None:
        self.response, self.is_there = response, True
        if self.awaited_by is not None:
            self.awaited_by.resume()

    def failing(self, call: Call) -> bool:
        self.awaited_by = None
        return super().failing(call)


def work_in_turns(
    call: Call,
    steps: Generator[Any, None, T],
    done: Callable[[T], None],
    failed: Callable[[Exception], None] | None = None,
) -> None:
    """Has a handler's own work done: its first slice now, the rest in turns. `done` gets what comes of it.

    `failed`: called with what a later slice raises, in place of the usual response to a bug.
    """
    end = run_slice(steps, call.connection.listener.shared.turns.clock, most_steps=sys.maxsize)
    if isinstance(end, Done):
        done(end.result)
        return
    if not call.is_parked:
        call.connection.park(call)
    call.hold_connection()

    def rest() -> Generator[Any, None, None]:
        made = yield from steps
        if not call.connection.closed:
            done(made)

    task = _begin(call.connection.dispatcher, call.route, call, rest())
    if failed is not None:
        task.failed = failed


# ---- responses


def reply_in_slices(call: Call, response: Message, version: int, own: tuple[str, ...] = ()) -> None:
    """Encodes the response, and frees its structures, in turns of its own.

    `own`: the path of nested arrays that belong to this response only. Those of others may be kept for later responses.
    """
    if not call.is_parked:
        call.connection.park(call)
    call.hold_connection()
    _begin(call.connection.dispatcher, call.route, call, _encoded(call, response, version, own))


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


_ONLY_BYTES = {bytes}


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


# Connections whose peer has gone while the broker does not read from them.
#
# The transport notices the end of a connection when it reads. While a large request is handled nothing is read, so the
# work would continue to its end without a client.
#: Linux reports a peer's end of sending without a read; other systems report only a broken connection.
_GONE = getattr(select, "POLLRDHUP", 0) | select.POLLHUP | select.POLLERR if hasattr(select, "poll") else 0


def has_left(connection: Any) -> bool:
    """Returns True if the peer has ended or broken the connection, which is then aborted. Takes two microseconds.
    A request in an Envelope has no connection of its own, and a simulated one has no socket: their peers are never
    taken for gone.
    """
    if connection.closed:
        return True
    transport = getattr(connection, "_transport", None)
    connected = transport.get_extra_info("socket") if transport is not None else None
    if connected is None or not _GONE or connected.fileno() < 0:
        return False
    poll = select.poll()
    poll.register(connected.fileno(), _GONE)
    if not any(events & _GONE for _, events in poll.poll(0)):
        return False
    connection.abort()
    return True
