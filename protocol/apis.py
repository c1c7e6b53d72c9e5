"""The one list of APIs: key, name, versions, listeners. ApiVersions and dispatch are computed from it."""

from __future__ import annotations

from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING

from .schema import Versions

if TYPE_CHECKING:
    from .schema import Message


class Api:
    """One API. Its messages are imported on first use, which keeps the start of a broker short."""

    def __init__(
        self,
        key: int,
        name: str,
        module: str,
        versions: str,
        flexible: str,
        listeners: str,
        stable: bool = True,
        advertised_from: int | None = None,
    ) -> None:
        self.key = key
        self.name = name
        self.module = module
        self.versions = Versions.parse(versions)
        self.flexible = Versions.parse(flexible)
        #: The types of listener that serve it: "broker", "controller".
        self.listeners = frozenset(listeners.split(","))
        #: The highest version that ApiVersions lists, unless unstable versions are enabled.
        self.latest_stable_version = self.versions.high if stable else self.versions.high - 1
        #: The lowest version that ApiVersions lists.
        self.advertised_from = self.versions.low if advertised_from is None else advertised_from

    @cached_property
    def request(self) -> type[Message]:
        return self._message("Request")

    @cached_property
    def response(self) -> type[Message]:
        return self._message("Response")

    def _message(self, kind: str) -> type[Message]:
        module = import_module(f".messages.{self.module}", __package__)
        found: type[Message] = getattr(module, self.name + kind)
        return found

    @property
    def has_response_to_any_version(self) -> bool:
        """Returns whether a request of an unknown version gets a response, of version 0 (KIP-511)."""
        return self.key == API_VERSIONS_KEY

    def request_header_version(self, version: int) -> int:
        return 2 if version in self.flexible else 1

    def response_header_version(self, version: int) -> int:
        """Returns the version of the response header. ApiVersions always uses 0: the client does not know our versions
        yet (KIP-511).
        """
        return 1 if version in self.flexible and self.key != API_VERSIONS_KEY else 0

    def __repr__(self) -> str:
        return f"<Api {self.key} {self.name} {self.versions}>"


API_VERSIONS_KEY = 18

# key, name, module in messages/ (of a noun), versions, flexible versions, listeners, whether the latest version is stable
APIS: dict[int, Api] = {
    api.key: api
    for api in (
        # KIP-896: versions 0 to 2 are listed, and refused; older librdkafka derives from them which codecs there are.
        Api(0, "Produce", "produce", "3-13", "9+", "broker", advertised_from=0),
        Api(1, "Fetch", "fetch", "4-18", "12+", "broker,controller"),
        Api(2, "ListOffsets", "list_offsets", "1-11", "6+", "broker"),
        Api(3, "Metadata", "metadata", "0-13", "9+", "broker"),
        Api(8, "OffsetCommit", "offset_commit", "2-10", "8+", "broker"),
        Api(9, "OffsetFetch", "offset_fetch", "1-10", "6+", "broker"),
        Api(10, "FindCoordinator", "find_coordinator", "0-6", "3+", "broker"),
        Api(11, "JoinGroup", "join_group", "0-9", "6+", "broker"),
        Api(12, "Heartbeat", "heartbeat", "0-4", "4+", "broker"),
        Api(13, "LeaveGroup", "leave_group", "0-5", "4+", "broker"),
        Api(14, "SyncGroup", "sync_group", "0-5", "4+", "broker"),
        Api(15, "DescribeGroups", "describe_groups", "0-6", "5+", "broker"),
        Api(16, "ListGroups", "list_groups", "0-5", "3+", "broker"),
        Api(17, "SaslHandshake", "sasl_handshake", "0-1", "none", "broker,controller"),
        Api(18, "ApiVersions", "api_versions", "0-5", "3+", "broker,controller"),
        Api(19, "CreateTopics", "create_topics", "2-7", "5+", "broker,controller"),
        Api(20, "DeleteTopics", "delete_topics", "1-6", "4+", "broker,controller"),
        Api(21, "DeleteRecords", "delete_records", "0-2", "2+", "broker"),
        Api(22, "InitProducerId", "init_producer_id", "0-6", "2+", "broker", stable=False),
        Api(23, "OffsetForLeaderEpoch", "offset_for_leader_epoch", "2-4", "4+", "broker"),
        Api(24, "AddPartitionsToTxn", "add_partitions_to_txn", "0-5", "3+", "broker"),
        Api(25, "AddOffsetsToTxn", "add_offsets_to_txn", "0-4", "3+", "broker"),
        Api(26, "EndTxn", "end_txn", "0-5", "3+", "broker"),
        Api(27, "WriteTxnMarkers", "write_txn_markers", "1-2", "1+", "broker"),
        Api(28, "TxnOffsetCommit", "txn_offset_commit", "0-6", "3+", "broker"),
        Api(29, "DescribeAcls", "describe_acls", "1-3", "2+", "broker,controller"),
        Api(30, "CreateAcls", "create_acls", "1-3", "2+", "broker,controller"),
        Api(31, "DeleteAcls", "delete_acls", "1-3", "2+", "broker,controller"),
        Api(32, "DescribeConfigs", "describe_configs", "1-4", "4+", "broker,controller"),
        Api(33, "AlterConfigs", "alter_configs", "0-2", "2+", "broker,controller"),
        Api(34, "AlterReplicaLogDirs", "alter_replica_log_dirs", "1-2", "2+", "broker"),
        Api(35, "DescribeLogDirs", "describe_log_dirs", "1-5", "2+", "broker"),
        Api(36, "SaslAuthenticate", "sasl_authenticate", "0-2", "2+", "broker,controller"),
        Api(37, "CreatePartitions", "create_partitions", "0-3", "2+", "broker,controller"),
        Api(38, "CreateDelegationToken", "create_delegation_token", "1-3", "2+", "broker,controller"),
        Api(39, "RenewDelegationToken", "renew_delegation_token", "1-2", "2+", "broker,controller"),
        Api(40, "ExpireDelegationToken", "expire_delegation_token", "1-2", "2+", "broker,controller"),
        Api(41, "DescribeDelegationToken", "describe_delegation_token", "1-3", "2+", "broker,controller"),
        Api(42, "DeleteGroups", "delete_groups", "0-3", "2+", "broker"),
        Api(43, "ElectLeaders", "elect_leaders", "0-2", "2+", "broker,controller"),
        Api(44, "IncrementalAlterConfigs", "incremental_alter_configs", "0-1", "1+", "broker,controller"),
        Api(45, "AlterPartitionReassignments", "alter_partition_reassignments", "0-1", "0+", "broker,controller"),
        Api(46, "ListPartitionReassignments", "list_partition_reassignments", "0", "0+", "broker,controller"),
        Api(47, "OffsetDelete", "offset_delete", "0", "none", "broker"),
        Api(48, "DescribeClientQuotas", "describe_client_quotas", "0-1", "1+", "broker"),
        Api(49, "AlterClientQuotas", "alter_client_quotas", "0-1", "1+", "broker,controller"),
        Api(50, "DescribeUserScramCredentials", "describe_user_scram_credentials", "0", "0+", "broker,controller"),
        Api(51, "AlterUserScramCredentials", "alter_user_scram_credentials", "0", "0+", "broker,controller"),
        Api(52, "Vote", "vote", "0-2", "0+", "controller"),
        Api(53, "BeginQuorumEpoch", "begin_quorum_epoch", "0-1", "1+", "controller"),
        Api(54, "EndQuorumEpoch", "end_quorum_epoch", "0-1", "1+", "controller"),
        Api(55, "DescribeQuorum", "describe_quorum", "0-2", "0+", "broker,controller"),
        Api(56, "AlterPartition", "alter_partition", "2-3", "0+", "controller"),
        Api(57, "UpdateFeatures", "update_features", "0-2", "0+", "broker,controller"),
        Api(58, "Envelope", "envelope", "0", "0+", "controller"),
        Api(59, "FetchSnapshot", "fetch_snapshot", "0-1", "0+", "controller"),
        Api(60, "DescribeCluster", "describe_cluster", "0-2", "0+", "broker,controller"),
        Api(61, "DescribeProducers", "describe_producers", "0", "0+", "broker"),
        Api(62, "BrokerRegistration", "broker_registration", "0-4", "0+", "controller"),
        Api(63, "BrokerHeartbeat", "broker_heartbeat", "0-2", "0+", "controller"),
        Api(64, "UnregisterBroker", "unregister_broker", "0", "0+", "broker,controller"),
        Api(65, "DescribeTransactions", "describe_transactions", "0", "0+", "broker"),
        Api(66, "ListTransactions", "list_transactions", "0-2", "0+", "broker"),
        Api(67, "AllocateProducerIds", "allocate_producer_ids", "0", "0+", "controller"),
        Api(68, "ConsumerGroupHeartbeat", "consumer_group_heartbeat", "0-1", "0+", "broker"),
        Api(69, "ConsumerGroupDescribe", "consumer_group_describe", "0-1", "0+", "broker"),
        Api(70, "ControllerRegistration", "controller_registration", "0", "0+", "controller"),
        Api(71, "GetTelemetrySubscriptions", "get_telemetry_subscriptions", "0", "0+", "broker"),
        Api(72, "PushTelemetry", "push_telemetry", "0", "0+", "broker"),
        Api(73, "AssignReplicasToDirs", "assign_replicas_to_dirs", "0", "0+", "controller"),
        Api(74, "ListConfigResources", "list_config_resources", "0-1", "0+", "broker"),
        Api(75, "DescribeTopicPartitions", "describe_topic_partitions", "0", "0+", "broker"),
        Api(76, "ShareGroupHeartbeat", "share_group_heartbeat", "1", "0+", "broker"),
        Api(77, "ShareGroupDescribe", "share_group_describe", "1", "0+", "broker"),
        Api(78, "ShareFetch", "share_fetch", "1-2", "0+", "broker"),
        Api(79, "ShareAcknowledge", "share_acknowledge", "1-2", "0+", "broker"),
        Api(80, "AddRaftVoter", "add_raft_voter", "0-1", "0+", "controller,broker"),
        Api(81, "RemoveRaftVoter", "remove_raft_voter", "0", "0+", "controller,broker"),
        Api(82, "UpdateRaftVoter", "update_raft_voter", "0", "0+", "controller"),
        Api(83, "InitializeShareGroupState", "initialize_share_group_state", "0", "0+", "broker"),
        Api(84, "ReadShareGroupState", "read_share_group_state", "0", "0+", "broker"),
        Api(85, "WriteShareGroupState", "write_share_group_state", "0-1", "0+", "broker"),
        Api(86, "DeleteShareGroupState", "delete_share_group_state", "0", "0+", "broker"),
        Api(87, "ReadShareGroupStateSummary", "read_share_group_state_summary", "0-1", "0+", "broker"),
        Api(88, "StreamsGroupHeartbeat", "streams_group_heartbeat", "0-1", "0+", "broker"),
        Api(89, "StreamsGroupDescribe", "streams_group_describe", "0-1", "0+", "broker"),
        Api(90, "DescribeShareGroupOffsets", "describe_share_group_offsets", "0-1", "0+", "broker"),
        Api(91, "AlterShareGroupOffsets", "alter_share_group_offsets", "0", "0+", "broker"),
        Api(92, "DeleteShareGroupOffsets", "delete_share_group_offsets", "0", "0+", "broker"),
        Api(
            93,
            "StreamsGroupTopologyDescriptionUpdate",
            "streams_group_topology_description_update",
            "0",
            "0+",
            "broker",
        ),
        Api(94, "UnregisterController", "unregister_controller", "0", "0+", "broker,controller"),
    )
}
