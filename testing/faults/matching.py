"""The requests that a fault matches, as data."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Union

from ...protocol.apis import APIS
from ...protocol.errors import ErrorCode
from .named_items import groups_of, topics_of, transactional_ids_of
from .named_values import suggested

if TYPE_CHECKING:
    from ...server.network.call import Call
    from .named_items import TopicNames

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
    raise ValueError(f"there is no API {api!r}{suggested(api, [one.name for one in APIS.values()])}")


def error_of(error: str | int | ErrorCode) -> ErrorCode:
    """Returns an error code given by name or number. Raises ValueError for one that is not there."""
    if isinstance(error, int):
        if error not in ErrorCode.__members__.values():
            raise ValueError(f"Kafka has no error {error}")
        return ErrorCode(error)
    name = error.upper().replace("-", "_")
    if name in ErrorCode.__members__:
        return ErrorCode[name]
    raise ValueError(f"Kafka has no error {error!r}{suggested(name, list(ErrorCode.__members__))}")
