"""Requests of any API with any number of items: one generator for all APIs, from the schema.

A `Shape` names an API and one array of its request. `request_of(shape, world, count)` returns a request with `count` items
in that array: all alike (one existing resource, repeated) or all distinct.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from odradek.protocol.apis import APIS, Api
from odradek.protocol.schema import ArrayOf, Field, Message, Scalar


@dataclass(frozen=True)
class World:
    """The resources of the broker that receives the requests."""

    topic: str
    topic_id: bytes
    group: str
    node_id: int = 0


@dataclass(frozen=True)
class Shape:
    api: Api
    version: int
    #: The names of the arrays down to the one with many items.
    path: tuple[str, ...]
    #: True if the items are all alike.
    repeats: bool

    def __str__(self) -> str:
        return f"{self.api.name}-v{self.version}-{'.'.join(self.path)}-{'repeated' if self.repeats else 'distinct'}"


def shapes(kind: str, served: frozenset[str]) -> Iterator[Shape]:
    """Yields every array of every request that a listener of this kind serves, in its newest version, and in the oldest too
    if its form differs.
    """
    for api in APIS.values():
        if kind not in api.listeners or api.name.lower() not in served:
            continue
        seen: set[tuple[str, ...]] = set()
        for version in (api.latest_stable_version, api.versions.low):
            for path in _paths(api.request, version):
                if path not in seen:
                    seen.add(path)
                    for repeats in (True, False):
                        yield Shape(api, version, path, repeats)


def _paths(cls: type[Message], version: int) -> Iterator[tuple[str, ...]]:
    for field in cls.SCHEMA.fields:
        if version not in field.versions:
            continue
        if isinstance(field.type, ArrayOf):
            yield (field.name,)
            if isinstance(field.type.element, type):
                yield from ((field.name, *rest) for rest in _paths(field.type.element, version))
        elif isinstance(field.type, type):
            yield from ((field.name, *rest) for rest in _paths(field.type, version))


def request_of(shape: Shape, world: World, count: int) -> Any:
    return _Maker(shape, world).message(shape.api.request, shape.path, count, 0)


class _Maker:
    def __init__(self, shape: Shape, world: World) -> None:
        self._shape = shape
        self._world = world

    def message(self, cls: type[Message], path: tuple[str, ...], count: int, number: int) -> Any:
        """Returns a message. `number`: that of the item, in the array with many items."""
        made = cls()
        for field in cls.SCHEMA.fields:
            if self._shape.version not in field.versions:
                continue
            if path and field.name == path[0]:
                setattr(made, field.name, self._along(field, path[1:], count))
            elif not isinstance(field.type, ArrayOf):
                value = self._value(cls, field, number)
                if value is not None:
                    setattr(made, field.name, value)
        return made

    def _along(self, field: Field, path: tuple[str, ...], count: int) -> Any:
        if not isinstance(field.type, ArrayOf):
            return self.message(field.type, path, count, 0)  # type: ignore[arg-type]
        element = field.type.element
        if path:
            return [self.message(element, path, count, 0)]  # type: ignore[arg-type]
        numbers = (0 if self._shape.repeats else number for number in range(count))
        if isinstance(element, Scalar):
            return [self._scalar(field.name, element, number) for number in numbers]
        assert isinstance(element, type)
        return [self.message(element, (), 0, number) for number in numbers]

    def _value(self, cls: type[Message], field: Field, number: int) -> Any:
        if not isinstance(field.type, Scalar) or field.name in _KEPT:
            return None
        if field.type.name == "float64":
            return 1.0
        if field.name in _FIXED:
            return _FIXED[field.name]
        if field.name == "resource_name":
            return str(self._world.node_id) if self._shape.repeats else f"name-{number}"
        if field.name == "name" and "Config" in cls.__name__:
            return "retention.ms" if self._shape.repeats else f"key.{number}"
        value = self._scalar(field.name, field.type, number)
        return None if value == field.type.zero else value

    def _scalar(self, name: str, scalar: Scalar, number: int) -> Any:
        kind = scalar.name
        if kind == "uuid":
            return number.to_bytes(16, "big") if number else self._world.topic_id
        if kind == "string":
            known = self._world.group if "group" in name or "key" in name else self._world.topic
            return f"{known}{number or ''}"
        if kind in ("int32", "int64") and ("partition" in name or "index" in name):
            return number
        if name.endswith("_ids") and kind.startswith("int"):
            return number
        if kind in ("bytes", "records"):
            return b"" if kind == "bytes" else None
        return scalar.zero


#: Fields that keep the schema's default: the request is not about them.
_KEPT = frozenset(
    {"cluster_id", "member_id", "group_instance_id", "instance_id", "rack_id", "reason", "server_assignor"}
    | {"subscribed_topic_regex", "transactional_id_pattern", "host", "process_id", "transactional_id"}
)
_FIXED: dict[str, Any] = {
    "acks": 1,
    "validate_only": True,
    "include_synonyms": True,
    "include_documentation": True,
    "allow_auto_topic_creation": False,
    "resource_type": 4,
    "timeout_ms": 1000,
    "max_wait_ms": 0,
    "max_bytes": 1 << 20,
    "partition_max_bytes": 1 << 10,
    "session_epoch": 0,
    "timestamp": -1,
    "num_partitions": 1,
    "count": 2,
    "replication_factor": 1,
    "value": "1",
    "generation_id_or_member_epoch": -1,
    "session_timeout_ms": 10_000,
    "rebalance_timeout_ms": 10_000,
    "response_partition_limit": 2000,
    "protocol_type": "consumer",
    "current_leader_epoch": -1,
    "leader_epoch": 0,
    "replica_id": -1,
}
