"""Leaders of partitions, and moving them through the controller."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..protocol.election_types import PREFERRED
from ..protocol.errors import ErrorCode
from ..protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ..protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersTopic
from .controller_request import ask_controller

if TYPE_CHECKING:
    from ..metadata.image import PartitionImage
    from ..server.broker import BrokerServer


_TIMEOUT_MS = 30_000


def leader_of(server: BrokerServer, topic: str, partition: int) -> int:
    """Returns the leader of a partition in this broker's metadata. Raises KeyError for an unknown partition."""
    return _partition(server, topic, partition).leader


def _partition(server: BrokerServer, topic: str, partition: int) -> PartitionImage:
    found = server.node.metadata.image.topic(topic)
    if found is None or partition not in found.partitions:
        raise KeyError(f"there is no partition {topic}-{partition}")
    return found.partitions[partition]


async def move_leader(controller: BrokerServer, topic: str, partition: int, to: int) -> None:
    """Has the active controller prefer a replica, and elect it. Raises ValueError, KeyError, RuntimeError, TimeoutError."""
    known = _partition(controller, topic, partition)
    if to not in known.isr:
        raise ValueError(f"{topic}-{partition} broker {to} is not in the ISR {sorted(known.isr)}")
    if known.leader == to:
        return
    replicas = [to, *(replica for replica in known.replicas if replica != to)]
    parts = [ReassignablePartition(partition_index=partition, replicas=replicas)]
    topics = [ReassignableTopic(name=topic, partitions=parts)]
    response = await ask_controller(
        controller, AlterPartitionReassignmentsRequest(timeout_ms=_TIMEOUT_MS, topics=topics), 0
    )
    _check(response.error_code, *(one.error_code for each in response.responses for one in each.partitions))
    election = [ElectLeadersTopic(topic=topic, partitions=[partition])]
    request = ElectLeadersRequest(election_type=PREFERRED, topic_partitions=election, timeout_ms=_TIMEOUT_MS)
    elected = await ask_controller(controller, request, 2)
    _check(
        elected.error_code,
        *(result.error_code for topic in elected.replica_election_results for result in topic.partition_result),
    )


def _check(*codes: int) -> None:
    failed = [ErrorCode(code).name for code in codes if code not in (0, ErrorCode.ELECTION_NOT_NEEDED)]
    if failed:
        raise RuntimeError(f"the controller returned errors: {', '.join(failed)}")
