"""The one list of APIs: key, name, versions, listeners. ApiVersions and dispatch are computed from it."""

from __future__ import annotations

import re
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING

from .schema import NEVER, Request, Versions

if TYPE_CHECKING:
    from types import ModuleType

    from .schema import Message

API_VERSIONS_KEY = 18
_WORD_IN_NAME = re.compile("(?<=[a-z])(?=[A-Z])")


class Api:
    """One API. Its messages are imported on first use, which keeps the start of a broker short."""

    def __init__(
        self,
        key: int,
        name: str,
        versions: str,
        flexible: str,
        listeners: str,
        stable: bool = True,
        advertised_from: int | None = None,
    ) -> None:
        self.key = key
        self.name = name
        #: The module of its request and response in `messages/`.
        self.module = _WORD_IN_NAME.sub("_", name).lower()
        self.versions = Versions.parse(versions)
        self.flexible = Versions.parse(flexible)
        #: The types of listener that serve it: "broker", "controller".
        self.listeners = frozenset(listeners.split(","))
        #: The highest version that ApiVersions lists, unless unstable versions are enabled.
        self.latest_stable_version = self.versions.high if stable else self.versions.high - 1
        #: The lowest version that ApiVersions lists.
        self.advertised_from = self.versions.low if advertised_from is None else advertised_from

    @cached_property
    def request(self) -> type[Request]:
        found: type[Request] = getattr(self._messages, self.name + "Request")
        return found

    @cached_property
    def response(self) -> type[Message]:
        found: type[Message] = getattr(self._messages, self.name + "Response")
        return found

    @property
    def _messages(self) -> ModuleType:
        return import_module(f".messages.{self.module}", __package__)

    @property
    def newest_version(self) -> int:
        return self.versions.high

    def versions_from(self, first: int) -> range:
        """Returns the versions from the first one of a behaviour on, where no field tells (`behaviour_versions.py`)."""
        assert first in self.versions, (self.name, first)
        return range(first, NEVER)

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


# key, name, versions, flexible versions, listeners, whether the latest version is stable
APIS: dict[int, Api] = {
    api.key: api
    for api in (
        # KIP-896: versions 0 to 2 are listed, and refused; older librdkafka derives from them which codecs there are.
        Api(0, "Produce", "3-13", "9+", "broker", advertised_from=0),
        Api(1, "Fetch", "4-18", "12+", "broker,controller"),
        Api(2, "ListOffsets", "1-11", "6+", "broker"),
        Api(3, "Metadata", "0-13", "9+", "broker"),
        Api(8, "OffsetCommit", "2-10", "8+", "broker"),
        Api(9, "OffsetFetch", "1-10", "6+", "broker"),
        Api(10, "FindCoordinator", "0-6", "3+", "broker"),
        Api(11, "JoinGroup", "0-9", "6+", "broker"),
        Api(12, "Heartbeat", "0-4", "4+", "broker"),
        Api(13, "LeaveGroup", "0-5", "4+", "broker"),
        Api(14, "SyncGroup", "0-5", "4+", "broker"),
        Api(15, "DescribeGroups", "0-6", "5+", "broker"),
        Api(16, "ListGroups", "0-5", "3+", "broker"),
        Api(17, "SaslHandshake", "0-1", "none", "broker,controller"),
        Api(18, "ApiVersions", "0-5", "3+", "broker,controller"),
        Api(19, "CreateTopics", "2-7", "5+", "broker,controller"),
        Api(20, "DeleteTopics", "1-6", "4+", "broker,controller"),
        Api(21, "DeleteRecords", "0-2", "2+", "broker"),
        Api(22, "InitProducerId", "0-6", "2+", "broker", stable=False),
        Api(23, "OffsetForLeaderEpoch", "2-4", "4+", "broker"),
        Api(24, "AddPartitionsToTxn", "0-5", "3+", "broker"),
        Api(25, "AddOffsetsToTxn", "0-4", "3+", "broker"),
        Api(26, "EndTxn", "0-5", "3+", "broker"),
        Api(27, "WriteTxnMarkers", "1-2", "1+", "broker"),
        Api(28, "TxnOffsetCommit", "0-6", "3+", "broker"),
        Api(29, "DescribeAcls", "1-3", "2+", "broker,controller"),
        Api(30, "CreateAcls", "1-3", "2+", "broker,controller"),
        Api(31, "DeleteAcls", "1-3", "2+", "broker,controller"),
        Api(32, "DescribeConfigs", "1-4", "4+", "broker,controller"),
        Api(33, "AlterConfigs", "0-2", "2+", "broker,controller"),
        Api(34, "AlterReplicaLogDirs", "1-2", "2+", "broker"),
        Api(35, "DescribeLogDirs", "1-5", "2+", "broker"),
        Api(36, "SaslAuthenticate", "0-2", "2+", "broker,controller"),
        Api(37, "CreatePartitions", "0-3", "2+", "broker,controller"),
        Api(38, "CreateDelegationToken", "1-3", "2+", "broker,controller"),
        Api(39, "RenewDelegationToken", "1-2", "2+", "broker,controller"),
        Api(40, "ExpireDelegationToken", "1-2", "2+", "broker,controller"),
        Api(41, "DescribeDelegationToken", "1-3", "2+", "broker,controller"),
        Api(42, "DeleteGroups", "0-3", "2+", "broker"),
        Api(43, "ElectLeaders", "0-2", "2+", "broker,controller"),
        Api(44, "IncrementalAlterConfigs", "0-1", "1+", "broker,controller"),
        Api(45, "AlterPartitionReassignments", "0-1", "0+", "broker,controller"),
        Api(46, "ListPartitionReassignments", "0", "0+", "broker,controller"),
        Api(47, "OffsetDelete", "0", "none", "broker"),
        Api(48, "DescribeClientQuotas", "0-1", "1+", "broker"),
        Api(49, "AlterClientQuotas", "0-1", "1+", "broker,controller"),
        Api(50, "DescribeUserScramCredentials", "0", "0+", "broker,controller"),
        Api(51, "AlterUserScramCredentials", "0", "0+", "broker,controller"),
        Api(52, "Vote", "0-2", "0+", "controller"),
        Api(53, "BeginQuorumEpoch", "0-1", "1+", "controller"),
        Api(54, "EndQuorumEpoch", "0-1", "1+", "controller"),
        Api(55, "DescribeQuorum", "0-2", "0+", "broker,controller"),
        Api(56, "AlterPartition", "2-3", "0+", "controller"),
        Api(57, "UpdateFeatures", "0-2", "0+", "broker,controller"),
        Api(58, "Envelope", "0", "0+", "controller"),
        Api(59, "FetchSnapshot", "0-1", "0+", "controller"),
        Api(60, "DescribeCluster", "0-2", "0+", "broker,controller"),
        Api(61, "DescribeProducers", "0", "0+", "broker"),
        Api(62, "BrokerRegistration", "0-4", "0+", "controller"),
        Api(63, "BrokerHeartbeat", "0-2", "0+", "controller"),
        Api(64, "UnregisterBroker", "0", "0+", "broker,controller"),
        Api(65, "DescribeTransactions", "0", "0+", "broker"),
        Api(66, "ListTransactions", "0-2", "0+", "broker"),
        Api(67, "AllocateProducerIds", "0", "0+", "controller"),
        Api(68, "ConsumerGroupHeartbeat", "0-1", "0+", "broker"),
        Api(69, "ConsumerGroupDescribe", "0-1", "0+", "broker"),
        Api(70, "ControllerRegistration", "0", "0+", "controller"),
        Api(71, "GetTelemetrySubscriptions", "0", "0+", "broker"),
        Api(72, "PushTelemetry", "0", "0+", "broker"),
        Api(73, "AssignReplicasToDirs", "0", "0+", "controller"),
        Api(74, "ListConfigResources", "0-1", "0+", "broker"),
        Api(75, "DescribeTopicPartitions", "0", "0+", "broker"),
        Api(76, "ShareGroupHeartbeat", "1", "0+", "broker"),
        Api(77, "ShareGroupDescribe", "1", "0+", "broker"),
        Api(78, "ShareFetch", "1-2", "0+", "broker"),
        Api(79, "ShareAcknowledge", "1-2", "0+", "broker"),
        Api(80, "AddRaftVoter", "0-1", "0+", "controller,broker"),
        Api(81, "RemoveRaftVoter", "0", "0+", "controller,broker"),
        Api(82, "UpdateRaftVoter", "0", "0+", "controller"),
        Api(83, "InitializeShareGroupState", "0", "0+", "broker"),
        Api(84, "ReadShareGroupState", "0", "0+", "broker"),
        Api(85, "WriteShareGroupState", "0-1", "0+", "broker"),
        Api(86, "DeleteShareGroupState", "0", "0+", "broker"),
        Api(87, "ReadShareGroupStateSummary", "0-1", "0+", "broker"),
        Api(88, "StreamsGroupHeartbeat", "0-1", "0+", "broker"),
        Api(89, "StreamsGroupDescribe", "0-1", "0+", "broker"),
        Api(90, "DescribeShareGroupOffsets", "0-1", "0+", "broker"),
        Api(91, "AlterShareGroupOffsets", "0", "0+", "broker"),
        Api(92, "DeleteShareGroupOffsets", "0", "0+", "broker"),
        Api(93, "StreamsGroupTopologyDescriptionUpdate", "0", "0+", "broker"),
        Api(94, "UnregisterController", "0", "0+", "broker,controller"),
    )
}

_BY_NAME = {api.name: api for api in APIS.values()}


def api_named(name: str) -> Api:
    """Returns the API with Kafka's name, such as "CreateTopics". Raises KeyError."""
    return _BY_NAME[name]
