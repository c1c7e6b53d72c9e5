"""Requests with many items are handled a portion at a time, each portion as a request of its own.

A `Portioning` has the paths of the items in an API's request and of their responses: ("topics", "partitions") are
the partitions in the topics. `portions` cuts a request into smaller ones, `Merged` puts their responses together; a topic
that was cut in two is one topic in the response.

Repeated items are work that a client asks for twice:

- EACH: every one is answered, as in Kafka; the cost is in proportion to the request.
- ONCE: the first one is answered. So where the response may be much larger than the item (the configuration of a broker, a
  group with its members), since a small request could ask for any amount of it; and where Kafka does so.
- TOGETHER: Kafka refuses items that are repeated. Two of them are handed on, side by side, for the handler to refuse.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterator
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

from ...protocol.schema import Message, Request
from ..runtime.parted_set import PartedSet

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

#: Keys of resources of configurations, and of topics.
by_resource = attrgetter("resource_type", "resource_name")
by_name = attrgetter("name")

#: The fields by which requests and responses name topics, groups and producers.
_NAMES = ("name", "topic", "topic_name", "topic_id", "group_id", "producer_id")


class Portioning(NamedTuple):
    asked: tuple[str, ...]
    answered: tuple[str, ...]
    repeats: int = EACH
    #: Two items with the same key are the same one; the item itself where it is a number or a text.
    key: Key = lambda item: item
    first: int = FIRST_PORTION


#: Portions of requests about partitions of topics, and about share partitions.
TOPIC_PARTITIONS = (Portioning(("topics", "partitions"), ("topics", "partitions")),)
SHARE_STATE_PARTITIONS = (Portioning(("topics", "partitions"), ("results", "partitions")),)


class Portion(NamedTuple):
    request: Any
    #: The groups or topics of the first item that the portion before has begun.
    continued: Ancestors
    items: int


def portions(request: Request, portioning: Portioning, size: Callable[[], int]) -> Iterator[Portion | None]:
    """The request in parts, each of about `size()` items; None for each step between two of them.

    `request` stays as it is.
    """
    repeated: PartedSet[Hashable] = PartedSet()
    if portioning.repeats == TOGETHER:
        repeated = yield from _repeated(request, portioning)
    seen: PartedSet[Hashable] = PartedSet()
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


def _repeated(request: Message, portioning: Portioning) -> Generator[None, None, PartedSet[Hashable]]:
    seen: PartedSet[Hashable] = PartedSet()
    repeated: PartedSet[Hashable] = PartedSet()
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

    def __init__(self, request: Request, path: tuple[str, ...]) -> None:
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


class Merged:
    """The response to a request that was handled in portions."""

    def __init__(self, path: tuple[str, ...]) -> None:
        self._path = path
        self.response: Message | None = None
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


def _copied(message: M, emptied: str | None) -> M:
    """A copy whose list `emptied` is empty."""
    made = object.__new__(type(message))
    made.unknown_tags = message.unknown_tags
    for field in message.SCHEMA.fields:
        setattr(made, field.name, getattr(message, field.name))
    if emptied is not None:
        setattr(made, emptied, [])
    return made


def _identity(message: Message) -> frozenset[Hashable]:
    return frozenset(value for name in _NAMES if (value := getattr(message, name, None)))
