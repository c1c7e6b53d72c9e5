"""The response to a request that failed as a whole, built from the schemas of its API.

Responses repeat the keys of their requests: topics, partitions, groups, resources. So a response is filled by walking both
schemas at once: a field of the response takes the value of the request's field for the same thing, an array the items of
the request's array that has its keys. The error is set at the outermost level that has a place for it, once per item there.
A caller may want the error at the items although the response has a place for one of the whole request: clients of some
APIs act on the errors of partitions only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import TYPE_CHECKING, TypeVar, cast

from .apis import APIS
from .schema import INT32, RECORDS, ArrayOf, Message, Scalar

if TYPE_CHECKING:
    from .errors import ErrorCode
    from .schema import Field

F = TypeVar("F", bound=Callable[..., object])
M = TypeVar("M", bound=Message)

ERROR_FIELDS = ("error_code", "partition_error_code")
#: Fields that name the same thing.
_SAME = (
    ("topic", "name", "topic_name"),
    ("partition", "partition_index", "index", "partition_id"),
    ("group_id", "groups", "group_ids", "groups_names"),
    ("resource_name", "name"),
    ("user", "name"),
)
#: Fields by which an item of a response refers to its item of the request.
KEYS = frozenset((
    *(name for names in _SAME for name in names if not name.startswith("groups")), "topic_id", "id", "key", "feature",
    "transactional_id", "producer_id", "member_id", "group_instance_id", "resource_type", "entity_type", "entity_name",
))  # fmt: skip
#: Values that Kafka sets beside an error, where they are not the field's defaults.
UNKNOWN: dict[str, object] = {
    "base_offset": -1, "committed_offset": -1, "high_watermark": -1, "low_watermark": -1, "node_id": -1, "port": -1,
    "producer_id": -1, "producer_epoch": -1, "protocol_name": None,
}  # fmt: skip
_SYNONYMS = {name: names for names in reversed(_SAME) for name in names}


def cached(function: F) -> F:
    """Caches a function's result for a structure and a version; there are a few hundred such pairs."""
    return cast(F, cache(function))


def error_response(
    response: type[M],
    version: int,
    request: Message | None,
    error: ErrorCode,
    message: str | None = None,
    *,
    at_items: bool = False,
) -> M:
    """Returns the response of that version to `request` in which everything that was asked for failed with `error`.

    `message`: the words beside the code, where there is a place. `at_items`: the error is that of each item, if there are
    items.
    """
    made = _Builder(version, error, message).build(response, request, is_item=False, at_items=at_items)
    if at_items and not any(_filled(made, version)) and _has_own_error(response, version):
        made = _Builder(version, error, message).build(response, request, is_item=False)
    return made


def error_response_to(
    request: Message, version: int, error: ErrorCode, message: str | None = None, *, at_items: bool = False
) -> Message:
    """The same for a request that is at hand: its class names the API."""
    key = type(request).SCHEMA.key
    assert key is not None, "a request of an API"
    return error_response(APIS[key].response, version, request, error, message, at_items=at_items)


def has_place_for_errors(response: type[Message], version: int) -> bool:
    """Returns whether a response of that version can say that anything failed."""
    return _has_own_error(response, version) or any(
        has_place_for_errors(element, version) for _, element in struct_arrays(response, version)
    )


def merge(response: Message, errors: Message, version: int) -> None:
    """Adds the items of `errors` to those of `answer`; items of one topic, group or transaction become one."""
    for field, element in struct_arrays(type(response), version):
        mine = getattr(response, field.name)
        if mine is None:
            mine = []
            setattr(response, field.name, mine)
        keys = [
            key for key in ("topic", "name", "topic_name", "topic_id", "group_id") if key in _scalars(element, version)
        ]
        for item in getattr(errors, field.name) or ():
            known = next((one for one in mine if keys and all(getattr(one, k) == getattr(item, k) for k in keys)), None)
            if known is None:
                mine.append(item)
            else:
                merge(known, item, version)


def struct_arrays(struct: type[Message], version: int) -> list[tuple[Field, type[Message]]]:
    """Returns the fields of that version that are arrays of structures, and the structures."""
    return [
        (field, field.type.element)
        for field in struct.SCHEMA.fields
        if version in field.versions and isinstance(field.type, ArrayOf) and isinstance(field.type.element, type)
    ]


class _Builder:
    def __init__(self, version: int, error: ErrorCode, message: str | None) -> None:
        self._version = version
        self._error = error
        self._message = message

    def build(self, struct: type[M], asked: object, *, is_item: bool = True, at_items: bool = False) -> M:
        """`asked`: the request, an item of it, or the scalar that stands for an item. `at_items`: no error here."""
        structure = struct()
        is_set = not at_items and _has_own_error(struct, self._version)
        for field in struct.SCHEMA.fields:
            if isinstance(field.type, ArrayOf | type):
                continue
            if self._version not in field.versions:
                # Never sent, but set: other parts of the broker name a topic in both ways.
                if is_item:
                    _copy_key(structure, field, asked, self._version)
            elif field.type is RECORDS:
                setattr(structure, field.name, b"")
            elif field.name in ERROR_FIELDS:
                if is_set:
                    setattr(structure, field.name, int(self._error))
            elif field.name == "error_message":
                if is_set and self._version in field.nullable:
                    setattr(structure, field.name, self._message)
            elif (
                (is_item and _copy_key(structure, field, asked, self._version))
                or not is_set
                or field.name not in UNKNOWN
            ):
                pass
            elif is_item and field.name.startswith("producer_"):
                pass  # of a described transaction: zeros
            elif UNKNOWN[field.name] is not None or self._version in field.nullable:
                setattr(structure, field.name, UNKNOWN[field.name])
        for field, element in struct_arrays(struct, self._version):
            if not is_set and has_place_for_errors(element, self._version):
                setattr(
                    structure, field.name, [self.build(element, item) for item in _items(asked, element, self._version)]
                )
            elif is_set and _is_repeated(element, asked, field.name):
                setattr(structure, field.name, [self.build(element, item) for item in getattr(asked, field.name)])
        return structure


def _copy_key(message: Message, field: Field, asked: object, version: int) -> bool:
    """Copies a field that refers to an item of the request. Returns whether the field is such a reference."""
    zero = type(field.type.zero)  # type: ignore[union-attr]
    if (
        isinstance(asked, Message)
        and field.name in KEYS
        and version in field.nullable
        and getattr(asked, field.name, zero) is None
    ):
        setattr(message, field.name, None)
        return True
    names = (field.name, *_SYNONYMS.get(field.name, ())) if field.name in KEYS else ()
    values = [getattr(asked, name, None) for name in names] if isinstance(asked, Message) else [asked] * bool(names)
    for value in values:
        if type(value) is zero:
            setattr(message, field.name, value)
            return True
    return False


def _items(asked: object, element: type[Message], version: int) -> Iterator[object]:
    """Returns the items of a request that the items of a response stand for: those of the arrays that share most keys."""
    if not isinstance(asked, Message):
        return
    shared = {
        field.name: _shared_keys(field, element, version)
        for field in asked.SCHEMA.fields
        if version in field.versions and isinstance(field.type, ArrayOf) and field.name != "forgotten_topics_data"
    }
    most = max(shared.values(), default=0)
    if most:
        for name in shared:
            if shared[name] == most:
                yield from getattr(asked, name) or ()
        return
    for field, _ in struct_arrays(type(asked), version):
        for item in getattr(asked, field.name) or ():
            yield from _items(item, element, version)


def _shared_keys(field: Field, element: type[Message], version: int) -> int:
    """Returns how many keys of a response's item an item of this array of a request gives."""
    assert isinstance(field.type, ArrayOf)
    wanted = _scalars(element, version) - {"error_code", "error_message"}
    given_type = field.type.element
    if isinstance(given_type, type):
        given = _scalars(given_type, version)
        named = sum(1 for name in wanted if given & {name, *_SYNONYMS.get(name, ())})
        return named or int(not wanted)  # an array of results that name nothing stands for the only array there is
    names = {*_SYNONYMS.get(field.name, ())}
    assert isinstance(given_type, Scalar)
    if given_type is INT32:
        return int(bool(wanted & {"partition", "partition_index", "index", "partition_id"}))
    return int(bool(wanted & (names | {"name", "key", "transactional_id"}))) if given_type.name == "string" else 0


@cached
def _scalars(struct: type[Message], version: int) -> frozenset[str]:
    return frozenset(
        field.name
        for field in struct.SCHEMA.fields
        if version in field.versions and not isinstance(field.type, ArrayOf | type)
    )


@cached
def _has_own_error(struct: type[Message], version: int) -> bool:
    return any(field.name in ERROR_FIELDS and version in field.versions for field in struct.SCHEMA.fields)


def _is_repeated(element: type[Message], asked: object, name: str) -> bool:
    """Returns whether an item's array without errors is one that names the item: the entity of a quota."""
    return name == "entity" and bool(getattr(asked, name, None))


def _filled(message: Message, version: int) -> Iterator[bool]:
    for field, _ in struct_arrays(type(message), version):
        if getattr(message, field.name):
            yield True
