"""The port of a link to the broker that it runs on."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from ...admin.share_offsets import alteration
from ...metadata.image import TOPIC_RESOURCE
from ...metadata.mirror_keys import MIRROR_NAME
from ...protocol.errors import ErrorCode
from ...protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ...protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ...protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)

if TYPE_CHECKING:
    from ...client.peers import Peers
    from ...protocol.messages.alter_configs_results import AlterConfigsResourceResponse
    from ...protocol.messages.alter_share_group_offsets import AlterShareGroupOffsetsResponse
    from ...protocol.schema import Message, Request
    from ..controller.controller_request import Submit
    from ..controller.leaders import Leaders
    from ..coordinators.group_driver import GroupDriver
    from ..partitions.partitions import Partitions
    from ..replicas.truncations import Truncations
    from ..runtime.lazy import Lazy
    from ..runtime.node import Node

T = TypeVar("T")
ResponseT = TypeVar("ResponseT", bound="Message")
#: The last versions that name topics.
_COMMIT_VERSION = OffsetCommitRequestTopic.versions_with("name")[-1]
_FETCH_VERSION = OffsetFetchRequestTopics.versions_with("name")[-1]
_TIMEOUT_MS = 10_000
# IncrementalAlterConfigs' operation codes.
_SET, _DELETE = 0, 1
#: Partitions in one commit: a group's shard writes them in one turn.
MOST_COMMITTED = 500


@dataclass(frozen=True, slots=True)
class Commit:
    """An offset of a partition, and a text with it."""

    offset: int
    text: str = ""


def changed(config: str, value: str | None) -> AlterableConfig:
    """The change of a config; None deletes it."""
    return AlterableConfig(config, _SET if value is not None else _DELETE, value)


def of_mirror(link: str, topic: str, *configs: AlterableConfig) -> AlterConfigsResource:
    """The changes of a mirror by its link, which they name."""
    own = [*configs, changed(MIRROR_NAME, link)]
    return AlterConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=topic, configs=own)


class _Asker:
    """This broker as the client of its own shards."""

    client_id: str | None = "odradek-mirror"
    client_host = ""


@dataclass(frozen=True, slots=True)
class Here:
    """The broker: its partitions and coordinators. `submit` has the active controller decide a request."""

    node: Node
    partitions: Partitions
    groups: GroupDriver
    leaders: Leaders
    peers: Lazy[Peers]
    submit: Submit
    truncations: Lazy[Truncations]

    def link_of(self, topic: str) -> str:
        """The link that a topic follows; "" for none."""
        return self.node.metadata.image.config(TOPIC_RESOURCE, topic).get(MIRROR_NAME, "")

    def reached(
        self, link: str, offsets: Mapping[tuple[str, int], int], ends: Mapping[tuple[str, int], int]
    ) -> dict[tuple[str, int], int]:
        """The offsets of a group in topics of a link, none beyond what is replicated here (`ends`)."""
        return {
            place: min(offset, ends[place])
            for place, offset in offsets.items()
            if place in ends and self.link_of(place[0]) == link
        }

    def coordinates(self, group: str) -> bool:
        """Whether this broker is the coordinator of a group."""
        groups = self.groups
        partition = self.node.metadata.image.partition(groups.topic, groups.partition_for(group))
        return partition is not None and partition.leader == self.node.identity.node_id

    async def ensure_groups(self) -> None:
        """Makes the topic of groups where there is none yet: a link has a group."""
        if self.node.metadata.image.topic(self.groups.topic) is None:
            made: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self.groups.ensure_topic(lambda: _set(made, None))
            await made

    async def decide(self, request: Request, version: int, kind: type[ResponseT]) -> ResponseT:
        """The active controller's response, which is of this kind."""
        reply: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self.submit(request, version, partial(_set, reply))
        response = await reply
        assert isinstance(response, kind)
        return response

    async def alter_configs(self, *resources: AlterConfigsResource) -> list[AlterConfigsResourceResponse]:
        """Has the active controller change configs. Returns the outcome for each resource."""
        request = IncrementalAlterConfigsRequest(resources=list(resources))
        return (await self.decide(request, request.newest_version(), IncrementalAlterConfigsResponse)).responses

    async def commit(self, group: str, offsets: Mapping[tuple[str, int], Commit]) -> int:
        """Commits offsets for a group without members, as clients do. Returns the first error code, 0 for none."""
        topics: dict[str, list[OffsetCommitRequestPartition]] = {}
        for (name, index), one in offsets.items():
            topics.setdefault(name, []).append(
                OffsetCommitRequestPartition(index, committed_offset=one.offset, committed_metadata=one.text)
            )
        request = OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=-1,
            topics=[OffsetCommitRequestTopic(name=name, partitions=parts) for name, parts in topics.items()],
        )
        response = await self._ask_coordinator(group, request)
        if response is None:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        errors = (one.error_code for named in response.topics for one in named.partitions if one.error_code)
        return next(errors, 0)

    async def committed(self, group: str) -> dict[tuple[str, int], int]:
        """The offsets of a group that this broker coordinates; none while its shard is loaded."""
        reply: asyncio.Future[OffsetFetchResponse] = asyncio.get_running_loop().create_future()
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=None)])
        self.groups.submit(group, request, _FETCH_VERSION, _Asker(), partial(_set, reply))
        response = await reply
        return {
            (topic.name, one.partition_index): one.committed_offset
            for found in response.groups
            for topic in found.topics
            for one in topic.partitions
        }

    async def alter_share_offsets(
        self, group: str, offsets: Mapping[tuple[str, int], int]
    ) -> AlterShareGroupOffsetsResponse | None:
        """Sets the start offsets of a share group without members, as clients do. None where its coordinator moves."""
        partition = self.node.metadata.image.partition(self.groups.topic, self.groups.partition_for(group))
        endpoint = self.leaders.broker_endpoint(partition.leader) if partition is not None else None
        if endpoint is None:
            return None
        reply: asyncio.Future[AlterShareGroupOffsetsResponse | None] = asyncio.get_running_loop().create_future()
        request = alteration(group, offsets)
        self.peers().send(
            endpoint,
            request,
            partial(_set, reply),
            timeout_ms=_TIMEOUT_MS,
            version=request.newest_version(),
            purpose="mirrors",
        )
        return await reply

    async def _ask_coordinator(self, group: str, request: OffsetCommitRequest) -> OffsetCommitResponse | None:
        reply: asyncio.Future[OffsetCommitResponse | None] = asyncio.get_running_loop().create_future()
        endpoint = self.leaders.other_leader(self.groups.topic, self.groups.partition_for(group))
        done = partial(_set, reply)
        if endpoint is None:
            self.groups.submit(group, request, _COMMIT_VERSION, _Asker(), done)
        else:
            self.peers().send(
                endpoint, request, done, timeout_ms=_TIMEOUT_MS, version=_COMMIT_VERSION, purpose="mirrors"
            )
        return await reply


def _set(future: asyncio.Future[T], value: T) -> None:
    if not future.done():
        future.set_result(value)
