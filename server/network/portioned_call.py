"""A request with many items that is handled in portions, one after the other."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

from ...replication.controller.result import MAX_RECORDS_PER_REQUEST
from ..runtime.memory import release_after
from ..runtime.sliced_work import WAITING
from ..runtime.turn_budget import SLICE_S
from .call import Call
from .disconnect_detection import has_left
from .large_requests import ITEM_BYTES
from .portions import LARGEST_PORTION, LARGEST_WAITING_PORTION, Merged, portions
from .relay import Relay
from .response_size import arrays_of, is_large
from .sliced_responses import released, reply_in_slices
from .work_in_turns import begin_work

if TYPE_CHECKING:
    from ...protocol.schema import Message, Request
    from ..runtime.turns import Task, Work
    from .api_endpoint import ApiEndpoint
    from .call import BoundHandle
    from .portions import Portion, Portioning

#: Portions grow while they take less than a third of a slice, and shrink when they take more than a whole one.
SHORT_S, LONG_S = SLICE_S / 3, SLICE_S


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
        self._task = begin_work(dispatcher, route, call, self._steps())

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
        release_after(self._items * ITEM_BYTES)

    def _respond(self, portion: Portion) -> Generator[object, None, Message | None]:
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


def _part_of(whole: Call, request: Request, response: _PartResponse) -> Call:
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
