"""The place of requests to the coordinators of groups. Its import is that of their shards, which many brokers never need."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeAlias, Union

from ...metadata.features import GROUP_VERSION, STREAMS_VERSION
from ...protocol.errors import ErrorCode
from ..network.api_endpoint import Place
from ..network.call import Call
from . import group_configs, group_shard_driver

if TYPE_CHECKING:
    from ...protocol.messages.alter_share_group_offsets import AlterShareGroupOffsetsRequest
    from ...protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
    from ...protocol.messages.delete_share_group_offsets import DeleteShareGroupOffsetsRequest
    from ...protocol.messages.heartbeat import HeartbeatRequest
    from ...protocol.messages.join_group import JoinGroupRequest
    from ...protocol.messages.leave_group import LeaveGroupRequest
    from ...protocol.messages.offset_commit import OffsetCommitRequest
    from ...protocol.messages.offset_delete import OffsetDeleteRequest
    from ...protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
    from ...protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest
    from ...protocol.messages.streams_group_topology_description_update import (
        StreamsGroupTopologyDescriptionUpdateRequest,
    )
    from ...protocol.messages.sync_group import SyncGroupRequest
    from ...protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
    from ..access.subsystem import AccessSubsystem
    from ..config.broker_config import BrokerConfig
    from ..runtime.metadata_cache import MetadataCache
    from .subsystem import CoordinatorsSubsystem

    #: A request about one group.
    RequestAboutGroup: TypeAlias = Union[
        AlterShareGroupOffsetsRequest,
        ConsumerGroupHeartbeatRequest,
        DeleteShareGroupOffsetsRequest,
        HeartbeatRequest,
        JoinGroupRequest,
        LeaveGroupRequest,
        OffsetCommitRequest,
        OffsetDeleteRequest,
        ShareGroupHeartbeatRequest,
        StreamsGroupHeartbeatRequest,
        StreamsGroupTopologyDescriptionUpdateRequest,
        SyncGroupRequest,
        TxnOffsetCommitRequest,
    ]

#: Imported with this file, on a thread: the event loop imports none of it later.
PRELOADED = (group_configs, group_shard_driver)
#: The level of `group.version` that enables the groups of KIP-848.
_NEEDED_LEVEL = 1
#: For requests about several groups, which may be of different shards.
GROUP_COORDINATORS = Place("the coordinators of the groups that the request names, on the node that takes it")


class GroupServices(Protocol):
    """The parts of a broker that these handlers use."""

    @property
    def config(self) -> BrokerConfig: ...
    @property
    def metadata(self) -> MetadataCache: ...
    @property
    def coordinators(self) -> CoordinatorsSubsystem: ...
    @property
    def access(self) -> AccessSubsystem: ...


def to_coordinator(services: GroupServices, call: Call[RequestAboutGroup]) -> None:
    """Has the coordinator of the group answer."""
    services.coordinators.groups.submit(call.request.group_id, call.request, call.version, call, call.reply)


#: For requests about one group.
GROUP_COORDINATOR: Place[RequestAboutGroup] = Place("the coordinator of the group in `group_id`", to_coordinator)


def consumer_groups_precondition(services: GroupServices, call: Call) -> ErrorCode:
    """Returns UNSUPPORTED_VERSION unless `group.version` and `group.coordinator.rebalance.protocols` enable the groups of
    KIP-848.
    """
    if services.metadata.image.features.level(GROUP_VERSION) < _NEEDED_LEVEL:
        return ErrorCode.UNSUPPORTED_VERSION
    is_on = "consumer" in services.config.get("group.coordinator.rebalance.protocols")
    return ErrorCode.NONE if is_on else ErrorCode.UNSUPPORTED_VERSION


def streams_groups_precondition(services: GroupServices, call: Call) -> ErrorCode:
    """Returns UNSUPPORTED_VERSION unless the broker's configuration and the cluster's features enable streams groups."""
    protocols = {name.lower() for name in services.config.get("group.coordinator.rebalance.protocols")}
    is_on = "streams" in protocols and services.metadata.image.features.level(STREAMS_VERSION) > 0
    return ErrorCode.NONE if is_on else ErrorCode.UNSUPPORTED_VERSION
