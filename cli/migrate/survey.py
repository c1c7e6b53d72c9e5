"""A running cluster as it is before a step of a migration, read through the Kafka protocol. Nothing is changed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...metadata.delta import TIERED_TOPIC_KEY
from ..client.admin_calls import config_values, described_topics
from ..client.wire_requests import ask

if TYPE_CHECKING:
    from ..client.admin import AdminClient, QuorumPartition, Topic


APACHE, ODRADEK = "Apache Kafka", "Odradek"
#: The highest stable metadata.version of each release of Apache Kafka.
RELEASES = {21: "3.9", 25: "4.0", 27: "4.1", 29: "4.2", 30: "4.3", 33: "4.4"}
#: The loggers that a node of Odradek describes begin with this.
_OWN_LOGGERS = "odradek."
#: Topics in one DescribeConfigs request: a response has every key of each.
_TOPICS_PER_REQUEST = 200


@dataclass
class Node:
    """A broker, or a controller that is no broker: of that one only its place in the quorum is known."""

    id: int
    is_broker: bool
    is_voter: bool = False
    is_active: bool = False
    is_fenced: bool = False
    program: str | None = None
    #: Feature to its (lowest, highest) supported level.
    supported: dict[str, tuple[int, int]] = field(default_factory=dict)
    #: Keys that differ from their defaults, with their values; None for secrets and texts that are not shown.
    configs: dict[str, str | None] = field(default_factory=dict)

    @property
    def release(self) -> str:
        level = self.supported.get("metadata.version", (0, 0))[1]
        return RELEASES.get(level, "unknown") if level else "unknown"

    @property
    def roles(self) -> str:
        quorum = "active controller" if self.is_active else "controller"
        return ", ".join((*(["broker"] if self.is_broker else []), *([quorum] if self.is_voter else [])))


@dataclass
class Survey:
    cluster_id: str
    nodes: dict[int, Node]
    #: Finalized levels by feature.
    levels: dict[str, int]
    quorum: QuorumPartition
    topics: list[Topic]
    tiered: list[str]

    @property
    def is_dynamic(self) -> bool:
        return self.levels.get("kraft.version", 0) > 0

    @property
    def brokers(self) -> list[Node]:
        return [node for node in self.nodes.values() if node.is_broker]


def survey(admin: AdminClient) -> Survey:
    cluster = admin.describe_cluster()
    (partition,) = admin.describe_metadata_quorum()["topics"][0]["partitions"]
    nodes = {
        broker["broker_id"]: Node(broker["broker_id"], True, is_fenced=bool(broker.get("is_fenced")))
        for broker in cluster["brokers"]
    }
    for voter in partition["current_voters"]:
        node = nodes.setdefault(voter["replica_id"], Node(voter["replica_id"], False))
        node.is_voter, node.is_active = True, node.id == partition["leader_id"]
    for node in nodes.values():
        if node.is_broker and not node.is_fenced:
            _describe(admin, node)
    features = admin.describe_features()
    levels = {name: int(one["finalized"][1]) for name, one in features.items() if one.get("finalized")}
    topics = described_topics(admin, None)
    found = dict(sorted(nodes.items()))
    return Survey(str(cluster["cluster_id"]), found, levels, partition, topics, _tiered(admin, topics))


def _describe(admin: AdminClient, node: Node) -> None:
    from ...protocol.messages.api_versions import ApiVersionsRequest

    loggers = config_values(admin, "broker_logger", str(node.id))
    node.program = ODRADEK if any(name.startswith(_OWN_LOGGERS) for name in loggers) else APACHE
    set_ones = config_values(admin, "broker", str(node.id), which="modified")
    node.configs = {name: one["value"] for name, one in sorted(set_ones.items())}
    request = ApiVersionsRequest(client_software_name="odradek-cli", client_software_version="1")
    response = ask(admin, request, node.id)
    node.supported = {one.name: (one.min_version, one.max_version) for one in response.supported_features or ()}


def _tiered(admin: AdminClient, topics: list[Topic]) -> list[str]:
    """Returns the topics with segments in remote storage."""
    from kafka.admin import ConfigResource, ConfigResourceType

    names = [str(topic["name"]) for topic in topics]
    found: list[str] = []
    for first in range(0, len(names), _TOPICS_PER_REQUEST):
        asked = [
            ConfigResource(ConfigResourceType.TOPIC, name, {TIERED_TOPIC_KEY: None})
            for name in names[first : first + _TOPICS_PER_REQUEST]
        ]
        response = admin.describe_configs(asked, config_filter="all").get("topic", {})
        found += [
            name
            for name, one in response.items()
            if TIERED_TOPIC_KEY in one and one[TIERED_TOPIC_KEY]["value"] == "true"
        ]
    return sorted(found)
