"""Changes the cluster constantly: creates, deletes, grows and configures topics, and moves replicas and leaders."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from random import Random
from typing import TYPE_CHECKING

from ....metadata.image import TOPIC_RESOURCE
from ....protocol.errors import ErrorCode
from ....protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ....protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ....protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ....protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ....protocol.messages.elect_leaders import ElectLeadersRequest
from ....protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ....protocol.schema import Message, Request
from .client import Unreachable
from .invariants import NO_BUG, Broken
from .nodes import VOTER_IDS
from .workload import PARTITIONS, TOPIC

if TYPE_CHECKING:
    from .client import Client

_TIMEOUT_MS = 3000
_AGAIN_S = 3.0
_TOPICS = ("letters", "parcels")
_MOST_PARTITIONS = 4


class Operator:
    """Sends each request once. A request may fail, but not by a bug."""

    def __init__(self, client: Client, node_ids: Sequence[int], rng: Random) -> None:
        self._client = client
        self._node_ids = node_ids
        self._rng = rng
        self._kinds: list[Callable[[], tuple[Request, int]]] = [
            self._create,
            self._delete,
            self._grow,
            self._configure,
            self._elect,
            self._reassign,
        ]

    async def run(self, interval_s: float) -> None:
        while True:
            await asyncio.sleep(self._rng.uniform(0, 2 * interval_s))
            await self._ask(*self._rng.choice(self._kinds)())

    async def end(self) -> None:
        """Reassigns every partition to its original replicas. Earlier requests may still be in flight."""
        while True:
            await self._ask(*self._reassignment(list(VOTER_IDS), every=True))
            await asyncio.sleep(_AGAIN_S)

    async def _ask(self, request: Request, version: int) -> bool:
        try:
            response = await self._client.ask(self._client.any_address(), request, version, "operator")
        except Unreachable:
            return False
        errors = set(_errors(response))
        if ErrorCode.UNKNOWN_SERVER_ERROR in errors:
            raise Broken(NO_BUG, f"{request}: {response}")
        return errors <= {ErrorCode.NONE}

    # ---- requests, with their versions

    def _create(self) -> tuple[Request, int]:
        topic = CreatableTopic(name=self._topic(), num_partitions=2, replication_factor=3)
        return CreateTopicsRequest([topic], timeout_ms=_TIMEOUT_MS), 7

    def _delete(self) -> tuple[Request, int]:
        return DeleteTopicsRequest(topics=[DeleteTopicState(self._topic())], timeout_ms=_TIMEOUT_MS), 6

    def _grow(self) -> tuple[Request, int]:
        count = self._rng.randint(3, _MOST_PARTITIONS)
        return CreatePartitionsRequest([CreatePartitionsTopic(self._topic(), count, None)], _TIMEOUT_MS), 3

    def _configure(self) -> tuple[Request, int]:
        config = AlterableConfig("retention.ms", 0, str(self._rng.randint(10**9, 10**10)))
        return IncrementalAlterConfigsRequest([AlterConfigsResource(TOPIC_RESOURCE, self._topic(), [config])]), 1

    def _elect(self) -> tuple[Request, int]:
        return ElectLeadersRequest(0, None, _TIMEOUT_MS), 2

    def _reassign(self) -> tuple[Request, int]:
        """Reassigns a partition. Two replicas are the minimum for durability."""
        replicas = self._rng.sample(self._node_ids, self._rng.choice((2, 3)))
        return self._reassignment(replicas, every=False)

    def _reassignment(self, replicas: list[int], *, every: bool) -> tuple[Request, int]:
        indexes = range(PARTITIONS) if every else [self._rng.randrange(PARTITIONS)]
        topic = ReassignableTopic(TOPIC, [ReassignablePartition(index, replicas) for index in indexes])
        return AlterPartitionReassignmentsRequest(_TIMEOUT_MS, topics=[topic]), 1

    def _topic(self) -> str:
        return self._rng.choice(_TOPICS)


def _errors(response: Message) -> Iterator[int]:
    """Yields every error code in a response, at any depth."""
    for field in fields(response):
        value = getattr(response, field.name)
        if field.name == "error_code":
            yield value
        for inner in value if isinstance(value, list) else ():
            if isinstance(inner, Message):
                yield from _errors(inner)
