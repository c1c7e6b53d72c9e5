"""An API as a node serves it: one value in one file of `server/endpoints/`, named after the API.

The value declares the authorization of the request, its place, its limits and costs, and its handler. Nothing else in
`server/` names an API. Files are found by their names, so a start imports none of them; the first
request of an API has its file imported, on a thread, with all that its handler needs.

`Portioning` declares how a request with many items is cut into portions, each handled as a request of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterator
from dataclasses import dataclass
from enum import Enum
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ...protocol.error_responses import error_response
from ...protocol.errors import ErrorCode
from ...protocol.schema import Message
from ..access.authorization.requirements import OF_NODES, Requirements, Sessions, of_whole_request
from ..runtime.sliced_work import SeenValues

if TYPE_CHECKING:
    pass

#: Limit for any request: Kafka's own for one array, and some for the others. Decoded items take some 300 bytes each.
MAX_REQUEST_ITEMS = 1_200_000
#: The limit of requests whose items are decided together: what such a decision can process in the budget of a turn.
DEFAULT_ITEM_LIMIT = 10_000
#: Kafka refuses what takes more than 10,000 records of the metadata log: a request with more items cannot succeed.
CONTROLLER_ITEM_LIMIT = 20_000
#: Bytes that stay free on the disk of the metadata log after requests that make the metadata larger, and after all others
#: of clients. With DeleteTopics and the like an operator makes room.
LARGE_RESERVE, SMALL_RESERVE = 64 << 10, 16 << 10
#: The wait of a request that depends on other clients.
ANY_TIME_MS = 1 << 43

#: A `Call`, which has a route: its class is not named here.
AnyCall = Any
#: Takes the parts of the node and the call. Returns the response, or None when `call.reply(response)` comes later.
Handle = Callable[[Any, AnyCall], Message | None]
#: Takes the call: its first argument above is bound.
BoundHandle = Callable[[AnyCall], Message | None]


class Cost(Enum):
    """The cost that counts for a client's quota."""

    TIME = "the time that the request held the event loop"
    PRODUCED = "the bytes of the request, and its time"
    FETCHED = "the bytes of the records in the response, and the time of the request"
    NOTHING = "nothing: the request is one of brokers"


@dataclass(frozen=True, slots=True)
class Place:
    """Where an API is answered, and the handler that has it answered there. `words`: complete "It is answered by …"."""

    words: str
    handle: Handle | None = None
    #: Whether the active controller decides, and so authorizes the client that sent the request.
    is_controller: bool = False
    #: Whether a broker's Envelope may carry the request to the active controller.
    is_enveloped: bool = False


HERE = Place("the node that takes the request")


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiEndpoint:
    """The contract of one API. Fields without a value have the usual one."""

    #: The requirements, in the order of the checks. An endpoint without any is not served.
    authorization: Requirements
    #: Where it is answered.
    place: Place = HERE
    #: None: that of the place.
    handle: Handle | None = None
    #: A check before the authorization. Returns an error of the whole request, NONE if there is none.
    precondition: Callable[[Any, AnyCall], ErrorCode] | None = None
    #: Makes the response to a request that is rejected as a whole.
    reject: Callable[[AnyCall, ErrorCode, str | None], Message] | None = None
    #: Whether the node that takes the request checks the authorization, too, of what the active controller decides: its
    #: handler does work for the client before.
    is_authorized_twice: bool = False
    #: Whether clients that have logged in with a delegation token are refused.
    rejects_token_clients: bool = False

    # ---- bounds

    #: How a request of many items is handled in portions: the first row that has items in the request applies, since
    #: their place depends on the version. Without one, all items are decided at once.
    portionings: tuple[Portioning, ...] = ()
    #: Whether the handler itself yields to the event loop.
    is_sliced: bool = False
    #: The most items of a request; a request with more ends its connection. None: the usual limit. An item is an element
    #: of an array anywhere in the request.
    most_items: int | None = None
    #: The records that a request makes the controller write. With more than fit in one batch, the controller refuses the
    #: request as a whole, as Kafka does, so it is handled as a whole.
    records_asked: Callable[[Any], int] | None = None
    #: Whether requests with many items are what brokers are made for: handler and codec bound the cost themselves.
    handles_many_whole: bool = False
    encodes_many_whole: bool = False

    #: Decodes the large requests of a kind faster: called with the version, the frame and the position of the request.
    #: Returns None for others, which are decoded in steps. What it returns has no views of the frame.
    decode_large: Callable[[int, Any, int], Message | None] | None = None

    # ---- what it takes

    #: The bytes that must stay free on the disk of the metadata log after its records; 0: it is written in any case.
    log_reserve: int = 0
    #: The cost that counts for a client's quota.
    cost: Cost = Cost.TIME
    #: The first version whose requests are held strictly to the quota of changes to topics (KIP-599); None: it makes none.
    strict_mutations_since: int | None = None
    #: How long the client lets the request wait, in ms: no part of what the log of slow requests shows.
    wanted_wait_ms: Callable[[Any], int] | None = None

    @property
    def item_limit(self) -> int:
        if self.most_items is not None:
            return self.most_items
        return MAX_REQUEST_ITEMS if self.portionings or self.is_sliced else DEFAULT_ITEM_LIMIT

    @property
    def is_of_nodes(self) -> bool:
        """Returns whether only nodes may send the request, about themselves."""
        return OF_NODES in self.authorization

    def rejection(self, call: AnyCall, error: ErrorCode, message: str | None = None) -> Message:
        """Returns the response to a request that fails as a whole."""
        if self.reject is not None:
            return self.reject(call, error, message)
        return error_response(call.api.response, call.version, call.request, error, message)

    def bound(self, services: Any, authorizer: Sessions | None, listener_kind: str) -> BoundHandle:
        """Returns what the dispatcher of listeners of that kind calls: the handler, after the checks of this node."""
        made = self.handle or self.place.handle
        assert made is not None, "neither the endpoint nor its place has a handler"
        handle: BoundHandle = partial(made, services)
        if authorizer is not None and (not self.place.is_controller or self.is_authorized_twice):
            handle = self._authorized(handle, authorizer, listener_kind)
        if self.precondition is not None:
            handle = self._checked(handle, partial(self.precondition, services))
        return handle

    def _authorized(self, handle: BoundHandle, authorizer: Sessions, listener_kind: str) -> BoundHandle:
        """The dispatcher's runner of the requirements."""
        needs = of_whole_request(self.authorization, listener_kind)
        if not needs:
            return handle

        def authorized(call: AnyCall) -> Message | None:
            session = authorizer.session(call)
            for need in needs:
                denial = need.denial(session, call)
                if denial is not None:
                    return self.rejection(call, denial.error, denial.message)
            return handle(call)

        return authorized

    def _checked(self, handle: BoundHandle, precondition: Callable[[AnyCall], ErrorCode]) -> BoundHandle:
        def checked(call: AnyCall) -> Message | None:
            error = precondition(call)
            return handle(call) if not error else self.rejection(call, error)

        return checked


# ---- portions
#
# Requests with many items are handled a portion at a time, each portion as a request of its own.
#
# A `Portioning` has the paths of the items in an API's request and of their responses: ("topics", "partitions") are
# the partitions in the topics. `portions` cuts a request into smaller ones, `Merged` puts their responses together; a topic
# that was cut in two is one topic in the response.
#
# Repeated items are work that a client asks for twice:
#
# - EACH: every one is answered, as in Kafka; the cost is in proportion to the request.
# - ONCE: the first one is answered. So where the response may be much larger than the item (the configuration of a broker, a
#   group with its members), since a small request could ask for any amount of it; and where Kafka does so.
# - TOGETHER: Kafka refuses items that are repeated. Two of them are handed on, side by side, for the handler to refuse.


EACH, ONCE, TOGETHER = range(3)

#: The first portion; a request with fewer items is handled whole. At 20 us an item, which is much, it takes a millisecond.
FIRST_PORTION = 64
#: No portion is larger, however quick the ones before it were.
LARGEST_PORTION = 4096
#: The same where the response comes later, from work whose time is not seen.
LARGEST_WAITING_PORTION = 512

#: A topic without partitions, a group with a request for all its topics.
_NOTHING = object()

M = TypeVar("M", bound=Message)

#: The structures that an item is in, from the outermost.
Ancestors = tuple[Message, ...]
Key = Callable[[Any], Hashable]


class Portioning(NamedTuple):
    asked: tuple[str, ...]
    answered: tuple[str, ...]
    repeats: int = EACH
    #: Two items with the same key are the same one; the item itself where it is a number or a text.
    key: Key = lambda item: item
    first: int = FIRST_PORTION


#: Keys of resources of configurations, and of topics.
by_resource = attrgetter("resource_type", "resource_name")
by_name = attrgetter("name")
#: Portions of requests about partitions of topics, and about share partitions.
TOPIC_PARTITIONS = (Portioning(("topics", "partitions"), ("topics", "partitions")),)
SHARE_STATE_PARTITIONS = (Portioning(("topics", "partitions"), ("results", "partitions")),)


class Portion(NamedTuple):
    request: Any
    #: The groups or topics of the first item that the portion before has begun.
    continued: Ancestors
    items: int


def portions(request: Message, portioning: Portioning, size: Callable[[], int]) -> Iterator[Portion | None]:
    """The request in parts, each of about `size()` items; None for each step between two of them.

    `request` stays as it is.
    """
    repeated: set[Hashable] = set()
    if portioning.repeats == TOGETHER:
        repeated = yield from _repeated(request, portioning)
    seen = SeenValues()
    cut = _Cut(request, portioning.asked)
    place: Ancestors | None = None
    identities: tuple[frozenset[Hashable], ...] = ()
    for ancestors, item in _walk(request, portioning.asked, ()):
        yield None
        times = 1
        if portioning.repeats != EACH and item is not _NOTHING:
            if ancestors is not place:
                place, identities = ancestors, tuple(map(_identity, ancestors))
            key = (identities, portioning.key(item))
            if key in seen:
                continue
            times = 2 if key in repeated else 1
            if portioning.repeats == ONCE or times == 2:
                seen.add(key)
        for _ in range(times):
            cut.add(ancestors, item)
        if cut.count >= size():
            yield cut.taken()
    if cut.count:
        yield cut.taken()


def _repeated(request: Message, portioning: Portioning) -> Generator[None, None, set[Hashable]]:
    seen = SeenValues()
    repeated: set[Hashable] = set()
    place: Ancestors | None = None
    identities: tuple[frozenset[Hashable], ...] = ()
    for ancestors, item in _walk(request, portioning.asked, ()):
        yield None
        if item is _NOTHING:
            continue
        if ancestors is not place:
            place, identities = ancestors, tuple(map(_identity, ancestors))
        key = (identities, portioning.key(item))
        if not seen.add(key):
            repeated.add(key)
    return repeated


def _walk(node: Message, path: tuple[str, ...], above: Ancestors) -> Iterator[tuple[Ancestors, object]]:
    """(the structures that an item is in, the item), in order."""
    items = getattr(node, path[0])
    if not items and above:
        yield above, _NOTHING
        return
    for item in items or ():
        if len(path) == 1:
            yield above, item
        else:
            yield from _walk(item, path[1:], (*above, item))


class _Cut:
    """The part of a request that is being put together."""

    def __init__(self, request: Message, path: tuple[str, ...]) -> None:
        self._whole = request
        self._path = path
        self._last: Ancestors = ()
        self._begin()

    def _begin(self) -> None:
        self._made = _copied(self._whole, self._path[0])
        #: The structures that the last item is in, and their copies in this part.
        self._originals: list[Message] = []
        self._copies: list[Message] = [self._made]
        self._continued: Ancestors | None = None
        self.count = 0

    def add(self, ancestors: Ancestors, item: object) -> None:
        if self._continued is None:
            self._continued = tuple(a for a, b in zip(ancestors, self._last) if a is b)
        for depth, ancestor in enumerate(ancestors):
            if depth >= len(self._originals) or self._originals[depth] is not ancestor:
                del self._originals[depth:], self._copies[depth + 1 :]
                is_whole = item is _NOTHING and depth == len(ancestors) - 1
                copy = _copied(ancestor, None if is_whole else self._path[depth + 1])
                getattr(self._copies[depth], self._path[depth]).append(copy)
                self._originals.append(ancestor)
                self._copies.append(copy)
        if item is not _NOTHING:
            getattr(self._copies[len(ancestors)], self._path[len(ancestors)]).append(item)
        self._last = ancestors
        self.count += 1

    def taken(self) -> Portion:
        made = Portion(self._made, self._continued or (), self.count)
        self._begin()
        return made


def _copied(message: M, emptied: str | None) -> M:
    """A copy whose list `emptied` is empty."""
    made = object.__new__(type(message))
    made.unknown_tags = message.unknown_tags
    for field in message.SCHEMA.fields:
        setattr(made, field.name, getattr(message, field.name))
    if emptied is not None:
        setattr(made, emptied, [])
    return made


#: The fields by which requests and responses name topics, groups and producers.
_NAMES = ("name", "topic", "topic_name", "topic_id", "group_id", "producer_id")


def _identity(message: Message) -> frozenset[Hashable]:
    return frozenset(value for name in _NAMES if (value := getattr(message, name, None)))


class Merged:
    """The response to a request that was handled in portions."""

    def __init__(self, path: tuple[str, ...]) -> None:
        self._path = path
        self.response: Any = None
        #: The structures to which the last portion was added, by depth.
        self._recent: list[list[Message]] = []

    def add(self, response: Message, portion: Portion) -> None:
        if self.response is None:
            self.response = _copied(response, self._path[0])
        recent: list[list[Message]] = [[] for _ in self._path]
        self._join(self.response, response, [_identity(a) for a in portion.continued], 0, recent)
        self._recent = recent

    def _join(
        self,
        into: Message,
        given: Message,
        continued: list[frozenset[Hashable]],
        depth: int,
        recent: list[list[Message]],
    ) -> None:
        nodes = getattr(given, self._path[depth]) or []
        merged = getattr(into, self._path[depth])
        if depth == len(self._path) - 1:
            merged += nodes
            return
        for node in nodes:
            found = self._begun(node, continued[0], depth) if continued else None
            if found is not None:
                self._join(found, node, continued[1:], depth + 1, recent)
            else:
                merged.append(node)
            recent[depth].append(found or node)
            below = getattr(node, self._path[depth + 1]) or ()
            if depth + 2 < len(self._path):
                recent[depth + 1] += below

    def _begun(self, node: Message, identity: frozenset[Hashable], depth: int) -> Message | None:
        """The structure that the previous portion has begun and this one continues."""
        if not identity or not identity <= _identity(node):
            return None
        return next((one for one in self._recent[depth] if identity <= _identity(one)), None)
