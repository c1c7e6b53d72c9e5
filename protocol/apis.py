"""The one list of APIs: key, name, versions, listeners. ApiVersions and dispatch are computed from it.

The headers of their requests and responses are here, too.
"""

from __future__ import annotations

from functools import cached_property
from importlib import import_module

from .schema import INT16, INT32, STRING, Message, Versions, message, wire

# ---- headers
#
# `RequestHeader`: version 1 is for versions of a request that are not flexible, 2 for those that are. The client id is never
# a compact string: a broker can read it before it has parsed the version (KIP-482). `ResponseHeader`: version 1 goes with
# flexible versions, but the ApiVersions response always has header 0 (KIP-511). `Api.request_header_version` and
# `Api.response_header_version` return the versions.


@message("1-2", flexible="2+")
class RequestHeader(Message):
    request_api_key: int = wire(INT16)
    request_api_version: int = wire(INT16)
    correlation_id: int = wire(INT32)
    client_id: str | None = wire(STRING, "1+", nullable="1+", may_be_compact=False)


@message("0-1", flexible="1+")
class ResponseHeader(Message):
    correlation_id: int = wire(INT32)


# ---- APIs


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

# key, name, module in messages/ (of its noun), versions, flexible versions, listeners, whether the latest version is stable
APIS: dict[int, Api] = {
    api.key: api
    for api in (
        # KIP-896: versions 0 to 2 are listed, and refused; older librdkafka derives from them which codecs there are.
        Api(0, "Produce", "produce", "3-13", "9+", "broker", advertised_from=0),
        Api(1, "Fetch", "fetch", "4-18", "12+", "broker,controller"),
        Api(2, "ListOffsets", "log_offsets", "1-11", "6+", "broker"),
        Api(3, "Metadata", "metadata", "0-13", "9+", "broker"),
        Api(8, "OffsetCommit", "offsets", "2-10", "8+", "broker"),
        Api(9, "OffsetFetch", "offsets", "1-10", "6+", "broker"),
        Api(10, "FindCoordinator", "metadata", "0-6", "3+", "broker"),
        Api(11, "JoinGroup", "groups", "0-9", "6+", "broker"),
        Api(12, "Heartbeat", "groups", "0-4", "4+", "broker"),
        Api(13, "LeaveGroup", "groups", "0-5", "4+", "broker"),
        Api(14, "SyncGroup", "groups", "0-5", "4+", "broker"),
        Api(15, "DescribeGroups", "groups", "0-6", "5+", "broker"),
        Api(16, "ListGroups", "groups", "0-5", "3+", "broker"),
        Api(17, "SaslHandshake", "sasl", "0-1", "none", "broker,controller"),
        Api(18, "ApiVersions", "api_versions", "0-5", "3+", "broker,controller"),
        Api(19, "CreateTopics", "topics", "2-7", "5+", "broker,controller"),
        Api(20, "DeleteTopics", "topics", "1-6", "4+", "broker,controller"),
        Api(21, "DeleteRecords", "topics", "0-2", "2+", "broker"),
        Api(22, "InitProducerId", "producers", "0-6", "2+", "broker", stable=False),
        Api(23, "OffsetForLeaderEpoch", "log_offsets", "2-4", "4+", "broker"),
        Api(24, "AddPartitionsToTxn", "transactions", "0-5", "3+", "broker"),
        Api(25, "AddOffsetsToTxn", "transactions", "0-4", "3+", "broker"),
        Api(26, "EndTxn", "transactions", "0-5", "3+", "broker"),
        Api(27, "WriteTxnMarkers", "transactions", "1-2", "1+", "broker"),
        Api(28, "TxnOffsetCommit", "offsets", "0-6", "3+", "broker"),
        Api(29, "DescribeAcls", "acls", "1-3", "2+", "broker,controller"),
        Api(30, "CreateAcls", "acls", "1-3", "2+", "broker,controller"),
        Api(31, "DeleteAcls", "acls", "1-3", "2+", "broker,controller"),
        Api(32, "DescribeConfigs", "configs", "1-4", "4+", "broker,controller"),
        Api(33, "AlterConfigs", "configs", "0-2", "2+", "broker,controller"),
        Api(34, "AlterReplicaLogDirs", "log_dirs", "1-2", "2+", "broker"),
        Api(35, "DescribeLogDirs", "log_dirs", "1-5", "2+", "broker"),
        Api(36, "SaslAuthenticate", "sasl", "0-2", "2+", "broker,controller"),
        Api(37, "CreatePartitions", "topics", "0-3", "2+", "broker,controller"),
        Api(38, "CreateDelegationToken", "credentials", "1-3", "2+", "broker,controller"),
        Api(39, "RenewDelegationToken", "credentials", "1-2", "2+", "broker,controller"),
        Api(40, "ExpireDelegationToken", "credentials", "1-2", "2+", "broker,controller"),
        Api(41, "DescribeDelegationToken", "credentials", "1-3", "2+", "broker,controller"),
        Api(42, "DeleteGroups", "groups", "0-3", "2+", "broker"),
        Api(43, "ElectLeaders", "partitions", "0-2", "2+", "broker,controller"),
        Api(44, "IncrementalAlterConfigs", "configs", "0-1", "1+", "broker,controller"),
        Api(45, "AlterPartitionReassignments", "partitions", "0-1", "0+", "broker,controller"),
        Api(46, "ListPartitionReassignments", "partitions", "0", "0+", "broker,controller"),
        Api(47, "OffsetDelete", "offsets", "0", "none", "broker"),
        Api(48, "DescribeClientQuotas", "client_quotas", "0-1", "1+", "broker"),
        Api(49, "AlterClientQuotas", "client_quotas", "0-1", "1+", "broker,controller"),
        Api(50, "DescribeUserScramCredentials", "credentials", "0", "0+", "broker,controller"),
        Api(51, "AlterUserScramCredentials", "credentials", "0", "0+", "broker,controller"),
        Api(52, "Vote", "quorum", "0-2", "0+", "controller"),
        Api(53, "BeginQuorumEpoch", "quorum", "0-1", "1+", "controller"),
        Api(54, "EndQuorumEpoch", "quorum", "0-1", "1+", "controller"),
        Api(55, "DescribeQuorum", "quorum", "0-2", "0+", "broker,controller"),
        Api(56, "AlterPartition", "partitions", "2-3", "0+", "controller"),
        Api(57, "UpdateFeatures", "api_versions", "0-2", "0+", "broker,controller"),
        Api(58, "Envelope", "nodes", "0", "0+", "controller"),
        Api(59, "FetchSnapshot", "quorum", "0-1", "0+", "controller"),
        Api(60, "DescribeCluster", "metadata", "0-2", "0+", "broker,controller"),
        Api(61, "DescribeProducers", "producers", "0", "0+", "broker"),
        Api(62, "BrokerRegistration", "nodes", "0-4", "0+", "controller"),
        Api(63, "BrokerHeartbeat", "nodes", "0-2", "0+", "controller"),
        Api(64, "UnregisterBroker", "nodes", "0", "0+", "broker,controller"),
        Api(65, "DescribeTransactions", "transactions", "0", "0+", "broker"),
        Api(66, "ListTransactions", "transactions", "0-2", "0+", "broker"),
        Api(67, "AllocateProducerIds", "producers", "0", "0+", "controller"),
        Api(68, "ConsumerGroupHeartbeat", "consumer_groups", "0-1", "0+", "broker"),
        Api(69, "ConsumerGroupDescribe", "consumer_groups", "0-1", "0+", "broker"),
        Api(70, "ControllerRegistration", "nodes", "0", "0+", "controller"),
        Api(71, "GetTelemetrySubscriptions", "telemetry", "0", "0+", "broker"),
        Api(72, "PushTelemetry", "telemetry", "0", "0+", "broker"),
        Api(73, "AssignReplicasToDirs", "log_dirs", "0", "0+", "controller"),
        Api(74, "ListConfigResources", "configs", "0-1", "0+", "broker"),
        Api(75, "DescribeTopicPartitions", "topics", "0", "0+", "broker"),
        Api(76, "ShareGroupHeartbeat", "share_groups", "1", "0+", "broker"),
        Api(77, "ShareGroupDescribe", "share_groups", "1", "0+", "broker"),
        Api(78, "ShareFetch", "share_records", "1-2", "0+", "broker"),
        Api(79, "ShareAcknowledge", "share_records", "1-2", "0+", "broker"),
        Api(80, "AddRaftVoter", "quorum", "0-1", "0+", "controller,broker"),
        Api(81, "RemoveRaftVoter", "quorum", "0", "0+", "controller,broker"),
        Api(82, "UpdateRaftVoter", "quorum", "0", "0+", "controller"),
        Api(83, "InitializeShareGroupState", "share_group_state", "0", "0+", "broker"),
        Api(84, "ReadShareGroupState", "share_group_state", "0", "0+", "broker"),
        Api(85, "WriteShareGroupState", "share_group_state", "0-1", "0+", "broker"),
        Api(86, "DeleteShareGroupState", "share_group_state", "0", "0+", "broker"),
        Api(87, "ReadShareGroupStateSummary", "share_group_state", "0-1", "0+", "broker"),
        Api(88, "StreamsGroupHeartbeat", "streams_groups", "0-1", "0+", "broker"),
        Api(89, "StreamsGroupDescribe", "streams_groups", "0-1", "0+", "broker"),
        Api(90, "DescribeShareGroupOffsets", "share_groups", "0-1", "0+", "broker"),
        Api(91, "AlterShareGroupOffsets", "share_groups", "0", "0+", "broker"),
        Api(92, "DeleteShareGroupOffsets", "share_groups", "0", "0+", "broker"),
        Api(
            93,
            "StreamsGroupTopologyDescriptionUpdate",
            "streams_groups",
            "0",
            "0+",
            "broker",
        ),
        Api(94, "UnregisterController", "nodes", "0", "0+", "broker,controller"),
    )
}
