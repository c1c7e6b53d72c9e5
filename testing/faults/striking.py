"""A request that faults strike, between the dispatcher and its handler.

The handler gets a call of its own, whose response comes here first. A waiting request keeps copies of its record
batches.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Protocol

from ...protocol.error_responses import ERROR_FIELDS, error_response, has_place_for_errors, merge, struct_arrays
from ...protocol.errors import ErrorCode
from ...protocol.messages.fetch import FetchRequest, FetchResponse
from ...protocol.messages.produce import ProduceRequest
from ...server.network.call import Call
from ...server.network.no_request import NO_REQUEST
from ...server.network.relay import Relay
from ...server.runtime.clock import TIMER_RESOLUTION_S
from .kept import kept
from .matching import Match
from .named_items import divided

if TYPE_CHECKING:
    import asyncio

    from ...protocol.schema import Message, Request
    from ...server.network.file_sender import Piece
    from .disk import WriteMatch
    from .named_items import TopicNames

#: APIs whose clients act on the errors of partitions and topics. A Fetch with an error of the whole request ends the fetch
#: session (KIP-227), so clients would not read those of its partitions.
ITEM_ERRORS = ("Fetch", "ShareFetch", "ShareAcknowledge", "Metadata", "ElectLeaders", "AlterPartitionReassignments")
#: Errors of the whole request in these.
_REQUEST_ERRORS = frozenset((
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH, ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    ErrorCode.SHARE_SESSION_NOT_FOUND, ErrorCode.INVALID_SHARE_SESSION_EPOCH, ErrorCode.SHARE_SESSION_LIMIT_REACHED,
    ErrorCode.REBOOTSTRAP_REQUIRED,
))  # fmt: skip

Handle = Callable[[Call], "Message | None"]
#: Gets the broker's response, None where the protocol gives none.
Answered = Callable[["Message | None"], None]
#: How often a connection is looked at that ends once its last bytes are handed over.
_SENT_CHECK_S = 0.001


class Strikes(Protocol):
    """A fault, as a request meets it."""

    @property
    def match(self) -> Match | WriteMatch:
        """The `Match` that the request fits."""

    def strike(self, request: InterceptedRequest) -> bool:
        """Strikes a request that fits, unless its turn has not come."""


class Flow:
    """The way of one request: past the faults that fit it, in their order, and then to the handler."""

    def __init__(
        self, call: Call, handle: Handle, fits: Iterator[Strikes], names: TopicNames, loop: asyncio.AbstractEventLoop
    ) -> None:
        self.call = call
        self.names = names
        self.loop = loop
        self._handle = handle
        self._fits = fits

    def begin(self) -> None:
        self.go_on(self._send)

    def go_on(self, answered: Answered) -> None:
        """Lets the next fault strike, or else the handler take the request. `answered` gets the response."""
        for fault in self._fits:
            if fault.strike(InterceptedRequest(self, fault, answered)):
                return
        inner = _struck_call(self.call, answered)
        response = self._handle(inner)
        if response is not None:
            inner.reply(response)

    def _send(self, response: Message | None) -> None:
        if response is None:
            self.call.reply_nothing()
        elif not self.call.connection.closed:
            self.call.reply(response)


class InterceptedRequest:
    """A request as one fault has it. All methods belong to the loop's thread.

    `answer` sends a response, None where the protocol gives none, past the faults that struck before.
    """

    def __init__(self, flow: Flow, fault: Strikes, respond: Answered) -> None:
        self.call = flow.call
        self.respond = respond
        self._flow = flow
        assert isinstance(fault.match, Match)
        self._match = fault.match

    def proceed(self, answered: Answered | None = None) -> None:
        """Lets the request go on to the broker. `answered` gets the response, which otherwise is sent as it is."""
        self._flow.go_on(answered or self.respond)

    # ---- ways to fail

    def fail(self, error: ErrorCode) -> None:
        """Answers the parts that are meant with an error, and has the broker do the rest."""
        call = self.call
        if not has_place_for_errors(call.api.response, call.version):
            self.abort()
            return
        if isinstance(call.request, ProduceRequest) and call.request.acks == 0:
            self.abort()  # the only way to say so
            return
        if isinstance(call.request, FetchRequest) and call.request.session_epoch > 0:
            # A session's request names no partitions. As when sessions are evicted, the client names them anew.
            self.respond(FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND))
            return
        meant, rest = self._divided()
        errors = _error_response(call, meant, error)
        if rest is None:
            self.respond(errors)
            return
        call.request = rest

        def answered(response: Message | None) -> None:
            if response is not None and not getattr(response, "error_code", 0):
                merge(response, errors, call.version)
            self.respond(response)

        self.proceed(answered)

    def _divided(self) -> tuple[Request, Request | None]:
        call = self.call
        if not self._match.names_items:
            return call.request, None
        meant, rest = divided(call.request, call.version, self._flow.names, self._match.means)
        return meant or call.request, rest

    def with_errors(self, response: Message | None, error: ErrorCode) -> Message | None:
        """Returns the broker's response with an error in place of each result that is meant."""
        if response is None:
            return None
        call = self.call
        if call.api.name == "Metadata":
            if error is ErrorCode.REBOOTSTRAP_REQUIRED:
                response.error_code = error  # type: ignore[attr-defined]
                return response
            for topic in response.topics:  # type: ignore[attr-defined]
                if self._match.means(topic.name or "", -1):
                    topic.error_code, topic.partitions = error, []
            return response
        if self._match.names_items:
            meant, _ = divided(response, call.version, self._flow.names, self._match.means)
            if meant is not None:
                _set_errors(meant, call.version, error)
            return response
        return _error_response(call, call.request, error)

    def abort(self) -> None:
        """Ends the connection now."""
        connection: Any = self.call.connection
        connection.abort()

    def respond_with_part(self, response: Message | None, size: int) -> None:
        """Sends the first `size` bytes of the response, its length included, and ends the connection."""
        call = self.call
        if response is None:
            self.abort()
            return
        recorder: Any = _Recorder()
        whole = Call(recorder, call.route, call.correlation_id, call.client_id, NO_REQUEST)
        whole.arrays = ()
        whole.reply(response)
        data = b"".join(piece.bytes() if hasattr(piece, "bytes") else bytes(piece) for piece in recorder.pieces)
        call.pieces = [data[: size if size >= 0 else max(0, len(data) + size)]]
        call.size = len(call.pieces[0])
        self.hold()
        call.connection.answered(call)
        self._end_when_sent()

    def _end_when_sent(self) -> None:
        connection: Any = self.call.connection
        if self.call in connection.calls:
            self.later(_SENT_CHECK_S, self._end_when_sent)
        else:
            self._flow.loop.call_soon(connection.close)

    # ---- waiting

    def hold(self) -> None:
        """Takes no further request of the connection before this one is answered, as Kafka's brokers do."""
        if self.call.pieces is None:
            self.call.hold_connection()

    def keep(self) -> None:
        """Makes the request outlive its turn."""
        self.hold()
        self.call.request = kept(self.call.request)

    def later(self, seconds: float, function: Callable[[], None]) -> None:
        """Calls `function` after at least that time, unless the connection has ended."""
        self._flow.loop.call_later(seconds + TIMER_RESOLUTION_S, self._guarded, function)

    def resume(self) -> None:
        """Lets a kept request go on to the broker. Any thread may call this."""
        with contextlib.suppress(RuntimeError):  # the broker has stopped
            self._flow.loop.call_soon_threadsafe(self._guarded, self.proceed)

    def _guarded(self, function: Callable[[], None]) -> None:
        call = self.call
        if call.connection.closed:
            return
        try:
            function()
        except Exception as failure:
            call.connection.dispatcher.failed_later(call, call.route, failure)


def _struck_call(outer: Call, answered: Answered) -> Call:
    """Returns the call that the handler gets in place of the client's: its response passes the faults before it is sent."""
    call = Call(outer.connection, outer.route, outer.correlation_id, outer.client_id, outer.request)
    call.observer = _Strike(outer, answered)
    call.is_parked = True  # the client's call is what the connection keeps
    return call


class _Strike(Relay):
    """The response to a call that faults strike."""

    __slots__ = ("_pass_on",)

    def __init__(self, outer: Call, answered: Answered) -> None:
        super().__init__(outer)
        self._pass_on = answered

    def taken(self, call: Call, response: Message | None) -> None:
        self._outer.throttle_time_ms = max(self._outer.throttle_time_ms, call.throttle_time_ms)
        self._pass_on(response)

    def finishing(self, call: Call, pieces: list[Piece]) -> bool:
        """A response that is encoded already passes as it is."""
        call.pieces = []
        self._outer.finish(pieces)
        return False


class _Recorder:
    """A connection whose encoded responses are taken instead of sent."""

    def __init__(self) -> None:
        self.pieces: list[Piece] = []

    def answered(self, call: Call) -> None:
        self.pieces += call.pieces or ()


def _error_response(call: Call, request: Message, error: ErrorCode) -> Message:
    at_items = call.api.name in ITEM_ERRORS and error not in _REQUEST_ERRORS
    message = f"{error.name}, injected by a fault of the test kit"
    return error_response(call.api.response, call.version, request, error, message, at_items=at_items)


def _set_errors(message: Message, version: int, error: ErrorCode) -> None:
    """Sets the errors of all items of a response."""
    for field, element in struct_arrays(type(message), version):
        own = [one.name for one in element.SCHEMA.fields if one.name in ERROR_FIELDS and version in one.versions]
        for item in getattr(message, field.name) or ():
            for name in own:
                setattr(item, name, int(error))
            if not own:
                _set_errors(item, version, error)
