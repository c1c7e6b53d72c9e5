"""The input and output of a coordinator shard: requests, replies and records."""

from __future__ import annotations

from collections.abc import Callable, Collection, Set
from dataclasses import dataclass
from typing import NamedTuple

from ..metadata.image import MetadataImage
from ..protocol.schema import Message


class Record(NamedTuple):
    """One record of `__consumer_offsets`: typed key and value; a value of None is a tombstone."""

    key: Message
    value: Message | None
    value_version: int = 0
    #: The producer of a transactional record, which takes effect once the transaction is committed.
    producer_id: int = -1
    producer_epoch: int = -1


class Reply(NamedTuple):
    token: object
    response: Message


class Output(NamedTuple):
    records: list[Record]
    replies: list[Reply]


@dataclass(slots=True)
class GroupRequest:
    """A request to the shard that owns its group.

    `token`: returned with the reply, once. `request`: in the form of its newest version. `version`: the version that
    the client sent. `member_uuid`: a random UUID for a member id that may have to be generated. `describable` returns
    those of some topics that the client may describe; without it, it may describe all.
    """

    token: object
    request: Message
    version: int = 0
    client_id: str = ""
    client_host: str = ""
    member_uuid: str = ""
    describable: Callable[[Collection[str]], Set[str]] | None = None


@dataclass(frozen=True, slots=True)
class TopicsDeleted:
    """Deleted topics, name -> id. Their committed offsets are deleted."""

    topics: dict[str, bytes]


@dataclass(frozen=True, slots=True)
class MetadataChanged:
    """New metadata for assignments. `topics`: the names of created, deleted and repartitioned topics."""

    image: MetadataImage
    topics: frozenset[str] = frozenset()
