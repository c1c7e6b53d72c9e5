"""Requests that faults strike: which a fault matches, as data, and one between the dispatcher and its handler.

The handler gets a call of its own, whose response comes here first. A waiting request keeps copies of its record
batches: those of a request are views of a buffer that other requests use.
"""

from __future__ import annotations

import contextlib
import copy
import difflib
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, Union

from ...protocol.apis import APIS
from ...protocol.error_responses import ERROR_FIELDS, cached, error_response, has_place_for_errors, merge, struct_arrays
from ...protocol.errors import ErrorCode
from ...protocol.messages.fetch import FetchResponse
from ...protocol.schema import INT32, RECORDS, ArrayOf, Field, Message
from ...server.network.call import Call, Relay
from ...server.runtime.clock import TIMER_RESOLUTION_S

if TYPE_CHECKING:
    import asyncio

    from ...server.network.file_sender import Piece
    from .disk import WriteMatch

# ---- topics, partitions, groups and transactions that a request names, and a request divided by them.
#
# An item is a topic where its structure names a topic; its partitions are structures with an index, or plain numbers.

_PARTITION = ("partition", "partition_index", "index", "partition_id")
_PARTITION_NUMBERS = ("partitions", "partition_indexes", "partition_indices")
_GROUPS = ("group_id", "groups", "group_ids", "groups_names", "key", "coordinator_keys")
_TRANSACTIONS = (
    "transactional_id", "transactional_ids", "v3_and_below_transactional_id", "key", "coordinator_keys"
)  # fmt: skip
#: An index that no partition has: the whole topic.
WHOLE_TOPIC = -1

#: Returns the name of the topic with an id, None for an unknown one.
TopicNames = Callable[[bytes], "str | None"]
#: Returns whether a topic and partition are meant; `WHOLE_TOPIC` where the request names none.
IsMeant = Callable[[str, int], bool]


def topics_of(request: Message | None, version: int, names: TopicNames) -> list[tuple[str, int]]:
    """Returns the topics and partitions that a request names, in its order."""
    return list(_topics(request, version, names)) if request is not None else []


def groups_of(request: Message | None) -> Iterator[str]:
    """Returns the groups that a request names; a key of FindCoordinator counts, whatever it is for."""
    yield from _texts(request, _GROUPS)
    for group in getattr(request, "groups", None) or ():
        if isinstance(group, Message):
            yield from _texts(group, ("group_id",))


def transactional_ids_of(request: Message | None) -> Iterator[str]:
    yield from _texts(request, _TRANSACTIONS)
    for transaction in getattr(request, "transactions", None) or ():
        yield from _texts(transaction, ("transactional_id",))


def divided(
    request: Message, version: int, names: TopicNames, is_meant: IsMeant
) -> tuple[Message | None, Message | None]:
    """Returns the request with the items that are meant, and the one with all others; None for one without any."""
    meant, rest = copy.copy(request), copy.copy(request)
    any_meant = any_rest = False
    for field in request.SCHEMA.fields:
        element = field.type.element if isinstance(field.type, ArrayOf) else None
        if version not in field.versions or not getattr(request, field.name):
            continue
        if isinstance(element, type) and (_names_topic(element, version) or _holds_topics(element, version)):
            one, other = _divided_items(getattr(request, field.name), version, names, is_meant)
        elif field.name == "topic_names":
            values = getattr(request, field.name)
            one = [name for name in values if is_meant(name, WHOLE_TOPIC)]
            other = [name for name in values if not is_meant(name, WHOLE_TOPIC)]
        else:
            continue
        setattr(meant, field.name, one)
        setattr(rest, field.name, other)
        any_meant, any_rest = any_meant or bool(one), any_rest or bool(other)
    return meant if any_meant else None, rest if any_rest else None


def _divided_items(
    items: list[Message], version: int, names: TopicNames, is_meant: IsMeant
) -> tuple[list[Message], list[Message]]:
    meant, rest = [], []
    for item in items:
        if not _names_topic(type(item), version):
            parts = divided(item, version, names, is_meant)
            meant += [part for part in parts[:1] if part is not None]
            rest += [part for part in parts[1:] if part is not None]
            continue
        topic, field = _topic(item, version, names), _partitions(type(item), version)
        if field is None:
            (meant if is_meant(topic, WHOLE_TOPIC) else rest).append(item)
            continue
        inner = getattr(item, field.name) or []
        one = [each for each in inner if is_meant(topic, _index(each))]
        other = [each for each in inner if not is_meant(topic, _index(each))]
        for kept, into in ((one, meant), (other, rest)):
            if kept:
                part = copy.copy(item)
                setattr(part, field.name, kept)
                into.append(part)
    return meant, rest


def _topics(request: Message, version: int, names: TopicNames) -> Iterator[tuple[str, int]]:
    for field in request.SCHEMA.fields:
        value = getattr(request, field.name) if version in field.versions else None
        if not value or not isinstance(field.type, ArrayOf) or field.name == "forgotten_topics_data":
            continue
        if field.name == "topic_names":
            yield from ((name, WHOLE_TOPIC) for name in value)
        elif isinstance(field.type.element, type):
            for item in value:
                if _names_topic(type(item), version):
                    topic, inner = _topic(item, version, names), _partitions(type(item), version)
                    indexes = [_index(each) for each in getattr(item, inner.name) or ()] if inner is not None else []
                    yield from ((topic, index) for index in indexes or (WHOLE_TOPIC,))
                else:
                    yield from _topics(item, version, names)


@cached
def _names_topic(struct: type[Message], version: int) -> bool:
    fields = {field.name for field in struct.SCHEMA.fields if version in field.versions}
    if fields & {"topic", "topic_name", "topic_id"}:
        return True
    return "name" in fields and ("Topic" in struct.__name__ or _partitions(struct, version) is not None)


@cached
def _holds_topics(struct: type[Message], version: int) -> bool:
    elements = [field.type.element for field in struct.SCHEMA.fields if isinstance(field.type, ArrayOf)]
    return any(
        isinstance(one, type) and (_names_topic(one, version) or _holds_topics(one, version)) for one in elements
    )


@cached
def _partitions(struct: type[Message], version: int) -> Field | None:
    """Returns the field with the partitions of a topic."""
    for field in struct.SCHEMA.fields:
        if version not in field.versions or not isinstance(field.type, ArrayOf):
            continue
        element = field.type.element
        if element is INT32 and field.name in _PARTITION_NUMBERS:
            return field
        if isinstance(element, type) and any(inner.name in _PARTITION for inner in element.SCHEMA.fields):
            return field
    return None


def _topic(item: Message, version: int, names: TopicNames) -> str:
    fields = {field.name for field in item.SCHEMA.fields if version in field.versions}
    for name in ("topic", "name", "topic_name"):
        if name in fields and getattr(item, name):
            return str(getattr(item, name))
    topic_id = getattr(item, "topic_id", None) if "topic_id" in fields else None
    return "" if topic_id is None else names(topic_id) or ""


def _index(partition: Message | int) -> int:
    if not isinstance(partition, Message):
        return int(partition)
    return next(int(getattr(partition, name)) for name in _PARTITION if hasattr(partition, name))


def _texts(request: Message | None, names: tuple[str, ...]) -> Iterator[str]:
    for name in names:
        value = getattr(request, name, None)
        if isinstance(value, str):
            yield value
        elif isinstance(value, list):
            yield from (each for each in value if isinstance(each, str))


# ---- matches

#: An API by its name or key, several of them, or None for every API.
ApiNames = Union[str, int, Iterable[str], None]
#: A version, or the lowest and the highest of a range.
VersionRange = Union[int, tuple[int, int], None]
#: The client ids of brokers' own requests to each other, and in it the node.
PEER_CLIENT_ID = re.compile(r"odradek-(\d+)")
#: The client id of the test kit's own requests, which no fault strikes and no log shows.
OWN_CLIENT_ID = "odradek-testing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """The requests meant: of these APIs, and with all of what is given here. Text may have `*` and `?` (fnmatch).

    `topic` and `partition` choose parts of a request: a Produce to two topics fails for the one that is meant. `nth`: the
    n-th request that fits, counted from 1; with `times` the following ones too. `brokers`: True for the requests of other
    brokers and controllers instead of clients'.
    """

    apis: frozenset[int] | None = None
    version: VersionRange = None
    topic: str | None = None
    partition: int | None = None
    client_id: str | None = None
    group: str | None = None
    transactional_id: str | None = None
    node_id: int | None = None
    nth: int = 1
    brokers: bool = False

    @property
    def names_items(self) -> bool:
        """Returns whether parts of requests are meant."""
        return self.topic is not None or self.partition is not None

    def fits(self, call: Call, node_id: int, names: TopicNames) -> bool:
        """Returns whether a request is meant, or a part of it."""
        if self.apis is not None and call.api.key not in self.apis:
            return False
        if self.node_id is not None and node_id != self.node_id:
            return False
        if call.client_id == OWN_CLIENT_ID:
            return False
        is_peer = PEER_CLIENT_ID.fullmatch(call.client_id or "") is not None
        if is_peer is not self.brokers:
            return False
        if self.version is not None:
            low, high = (self.version, self.version) if isinstance(self.version, int) else self.version
            if not low <= call.version <= high:
                return False
        return self._fits_names(call, names)

    def _fits_names(self, call: Call, names: TopicNames) -> bool:
        if self.client_id is not None and not fnmatchcase(call.client_id or "", self.client_id):
            return False
        for pattern, found in ((self.group, groups_of), (self.transactional_id, transactional_ids_of)):
            if pattern is not None and not any(fnmatchcase(name, pattern) for name in found(call.request)):
                return False
        return not self.names_items or any(
            self.means(topic, partition) for topic, partition in topics_of(call.request, call.version, names)
        )

    def means(self, topic: str, partition: int) -> bool:
        """Returns whether a topic and partition are meant."""
        if self.topic is not None and not fnmatchcase(topic, self.topic):
            return False
        return self.partition is None or partition in (self.partition, -1)

    def __str__(self) -> str:
        apis = "any request" if self.apis is None else ", ".join(APIS[key].name for key in sorted(self.apis))
        reported = {
            name: getattr(self, name)
            for name in ("version", "topic", "partition", "client_id", "group", "transactional_id", "node_id")
        }
        return " ".join([apis, *(f"{name}={value!r}" for name, value in reported.items() if value is not None)])


def keys_of(apis: ApiNames) -> frozenset[int] | None:
    """Returns the keys of APIs given by name or key; None for every API. Raises ValueError for one that is not there."""
    if apis is None or apis == "*":
        return None
    if isinstance(apis, str | int):
        apis = [apis]  # type: ignore[list-item]
    return frozenset(_key(api) for api in apis)


def _key(api: str | int) -> int:
    if isinstance(api, int):
        if api in APIS:
            return api
        raise ValueError(f"there is no API with key {api}")
    by_name = {one.name.lower(): key for key, one in APIS.items()}
    key = by_name.get(api.replace("_", "").lower())
    if key is not None:
        return key
    raise ValueError(f"there is no API {api!r}{_suggested(api, [one.name for one in APIS.values()])}")


def error_of(error: str | int | ErrorCode) -> ErrorCode:
    """Returns an error code given by name or number. Raises ValueError for one that is not there."""
    if isinstance(error, int):
        return ErrorCode(error)
    name = error.upper().replace("-", "_")
    if name in ErrorCode.__members__:
        return ErrorCode[name]
    raise ValueError(f"Kafka has no error {error!r}{_suggested(name, list(ErrorCode.__members__))}")


def _suggested(name: str, names: list[str]) -> str:
    close = difflib.get_close_matches(name, names, 1)
    return f": did you mean {close[0]!r}?" if close else ""


# ---- a request that is struck

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
        if call.api.name == "Produce" and call.request.acks == 0:
            self.abort()  # the only way to say so
            return
        if call.api.name == "Fetch" and call.request.session_epoch > 0:
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

    def _divided(self) -> tuple[Message, Message | None]:
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
        whole = Call(recorder, call.route, call.correlation_id, call.client_id, None)
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


M = TypeVar("M", bound=Message)


def kept(message: M) -> M:
    """Returns the message with copies of its record batches."""
    made = copy.copy(message)
    for field in message.SCHEMA.fields:
        value = getattr(message, field.name)
        if field.type is RECORDS and value is not None:
            setattr(made, field.name, memoryview(bytearray(value)))
        elif isinstance(field.type, ArrayOf) and isinstance(field.type.element, type) and value:
            setattr(made, field.name, [kept(item) for item in value])
    return made


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
