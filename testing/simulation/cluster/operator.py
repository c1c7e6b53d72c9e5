"""Changes the cluster constantly: creates, deletes, grows and configures topics, moves replicas and leaders, and removes
and adds voters.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import fields
from random import Random
from typing import TYPE_CHECKING

from ....metadata.image import TOPIC_RESOURCE
from ....protocol.errors import ErrorCode
from ....protocol.messages.add_raft_voter import AddRaftVoterRequest
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
from ....protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from ....protocol.messages.voter_listeners import VoterListener
from ....protocol.schema import Message, Request
from .client import Unreachable
from .invariants import NO_BUG, Broken
from .nodes import CLUSTER_ID, VOTER_IDS, voter_port
from .workload import PARTITIONS, TOPIC

if TYPE_CHECKING:
    from .client import Client

_TIMEOUT_MS = 3000
_AGAIN_S = 3.0
_TOPICS = ("letters", "parcels")
_MOST_PARTITIONS = 4
#: The kinds of changes; those of voters need voters that are named by the log.
CHANGES = ("create", "delete", "grow", "configure", "elect", "reassign", "remove voter", "add voter")
_OF_VOTERS = ("remove voter", "add voter")


class Operator:
    """Sends each request once. A request may fail, but not by a bug.

    `partitions`: the number of those that it moves, by topic. `names`: the kinds of changes. `directory_ids`: those of
    voters, if the log names them.
    """

    def __init__(
        self,
        client: Client,
        node_ids: Sequence[int],
        rng: Random,
        partitions: Mapping[str, int] | None = None,
        names: Collection[str] = CHANGES,
        directory_ids: Mapping[int, bytes] | None = None,
    ) -> None:
        self._client = client
        self._node_ids = node_ids
        self._rng = rng
        self._partitions = {TOPIC: PARTITIONS} if partitions is None else partitions
        self._directory_ids = directory_ids or {}
        #: The number of requests of each kind that a controller accepted.
        self.counts: Counter[str] = Counter()
        kinds: dict[str, Callable[[], tuple[Request, int]]] = {
            "create": self._create,
            "delete": self._delete,
            "grow": self._grow,
            "configure": self._configure,
            "elect": self._elect,
            "reassign": self._reassign,
            "remove voter": self._remove_voter,
            "add voter": self._add_voter,
        }
        self._kinds = {
            name: kind for name, kind in kinds.items() if name in names and (directory_ids or name not in _OF_VOTERS)
        }

    async def run(self, interval_s: float) -> None:
        while True:
            await asyncio.sleep(self._rng.uniform(0, 2 * interval_s))
            if self._kinds:
                name = self._rng.choice(list(self._kinds))
                self.counts[name] += await self._ask(*self._kinds[name]())

    async def end(self) -> None:
        """Reassigns every partition to its original replicas, until it is cancelled. Earlier requests may still be in
        flight.
        """
        while True:
            await self._ask(*self._reassignment(list(VOTER_IDS), self._partitions))
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
        # A run of one topic draws nothing for it: its seeds are known for the bugs that they find.
        topics = list(self._partitions)
        name = topics[0] if len(topics) == 1 else self._rng.choice(topics)
        count = self._partitions[name]
        partition = ReassignablePartition(self._rng.randrange(count), replicas)
        return AlterPartitionReassignmentsRequest(_TIMEOUT_MS, topics=[ReassignableTopic(name, [partition])]), 1

    def _reassignment(self, replicas: list[int], partitions: Mapping[str, int]) -> tuple[Request, int]:
        topics = [
            ReassignableTopic(name, [ReassignablePartition(index, replicas) for index in range(count)])
            for name, count in partitions.items()
        ]
        return AlterPartitionReassignmentsRequest(_TIMEOUT_MS, topics=topics), 1

    def _remove_voter(self) -> tuple[Request, int]:
        voter = self._rng.choice(VOTER_IDS)
        return RemoveRaftVoterRequest(CLUSTER_ID, voter, self._directory_ids[voter]), 0

    def _add_voter(self) -> tuple[Request, int]:
        voter = self._rng.choice(VOTER_IDS)
        listener = VoterListener("CONTROLLER", "127.0.0.1", voter_port(voter))
        return AddRaftVoterRequest(CLUSTER_ID, _TIMEOUT_MS, voter, self._directory_ids[voter], [listener]), 0

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
