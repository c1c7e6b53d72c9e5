"""Topics, partitions, groups and transactions that a request names, and a request divided by them.

An item is a topic where its structure names a topic; its partitions are structures with an index, or plain numbers.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeVar

from ...protocol.error_responses import cached
from ...protocol.schema import INT32, ArrayOf, Message

if TYPE_CHECKING:
    from ...protocol.schema import Field

MessageT = TypeVar("MessageT", bound=Message)
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
    request: MessageT, version: int, names: TopicNames, is_meant: IsMeant
) -> tuple[MessageT | None, MessageT | None]:
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
