"""The partitions that each member serves to interactive queries. Members exchange them through the coordinator."""

from __future__ import annotations

from collections.abc import Iterable

from ....metadata.image import MetadataImage
from ....protocol.messages.streams_group_heartbeat import EndpointToPartitions, EndpointTopicPartitions
from ....protocol.messages.streams_members import UserEndpoint
from .configured import ConfiguredTopology
from .group import StreamsGroup
from .member import StreamsMember
from .tasks import TaskId, by_subtopology


def endpoints(group: StreamsGroup, last: StreamsMember, image: MetadataImage) -> list[EndpointToPartitions]:
    """Returns the partitions of every member with an endpoint; those of `last` come last."""
    configured = group.configured
    if configured is None or not configured.subtopologies:
        return []
    others = [member for member_id, member in group.members.items() if member_id != last.member_id]
    return [
        EndpointToPartitions(
            user_endpoint=UserEndpoint(host=endpoint.host, port=endpoint.port),
            active_partitions=_partitions(member.assigned.active, configured, image),
            standby_partitions=_partitions(member.assigned.standby | member.assigned.warmup, configured, image),
        )
        for member in (*others, last)
        if (endpoint := member.metadata.user_endpoint) is not None
    ]


def _partitions(
    tasks: Iterable[TaskId], configured: ConfiguredTopology, image: MetadataImage
) -> list[EndpointTopicPartitions]:
    found = []
    for subtopology_id, partitions in by_subtopology(tasks).items():
        subtopology = configured.subtopologies.get(subtopology_id)
        for name in subtopology.inputs if subtopology is not None else ():
            topic = image.topic(name)
            indexes = [index for index in partitions if topic is not None and index < len(topic.partitions)]
            if indexes:
                found.append(EndpointTopicPartitions(topic=name, partitions=indexes))
    return found
