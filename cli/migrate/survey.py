"""A running cluster as it is before a step of a migration, read through the Kafka protocol. Nothing is changed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...admin.configs import Kind, describe_configs, describe_topic_configs
from ...admin.errors import ResponseError
from ...admin.features import describe_features
from ...admin.metadata_quorum import QuorumDescription, describe_quorum
from ...admin.nodes import describe_cluster
from ...admin.topics import described_topics
from ...metadata.unsupported import TIERED_TOPIC_KEY

if TYPE_CHECKING:
    from ...admin.session import Admin
    from ...admin.topics import Topic

APACHE, ODRADEK = "Apache Kafka", "Odradek"
#: The highest stable metadata.version of each release of Apache Kafka.
RELEASES = {21: "3.9", 25: "4.0", 27: "4.1", 29: "4.2", 30: "4.3", 33: "4.4"}
#: The source of a key that is set nowhere.
_DEFAULT = "DEFAULT_CONFIG"
#: The loggers that a node of Odradek describes begin with this.
_OWN_LOGGERS = "odradek."


@dataclass
class SurveyedNode:
    """A broker, or a controller that is no broker: of that one only its place in the quorum is known."""

    id: int
    is_broker: bool
    is_voter: bool = False
    is_active: bool = False
    is_fenced: bool = False
    program: str | None = None
    #: Feature to its (lowest, highest) supported level.
    supported: Mapping[str, tuple[int, int]] = field(default_factory=dict)
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
    nodes: dict[int, SurveyedNode]
    #: Finalized levels by feature.
    levels: dict[str, int]
    quorum: QuorumDescription
    topics: list[Topic]
    tiered: list[str]

    @property
    def is_dynamic(self) -> bool:
        return self.levels.get("kraft.version", 0) > 0

    @property
    def brokers(self) -> list[SurveyedNode]:
        return [node for node in self.nodes.values() if node.is_broker]


def survey(admin: Admin) -> Survey:
    cluster = describe_cluster(admin)
    partition = describe_quorum(admin)
    nodes = {
        broker.broker_id: SurveyedNode(broker.broker_id, True, is_fenced=bool(broker.is_fenced))
        for broker in cluster.brokers
    }
    for voter in partition.current_voters:
        node = nodes.setdefault(voter.replica_id, SurveyedNode(voter.replica_id, False))
        node.is_voter, node.is_active = True, node.id == partition.leader_id
    for node in nodes.values():
        if node.is_broker and not node.is_fenced:
            _describe(admin, node)
    features = describe_features(admin)
    levels = {name: one.finalized.highest for name, one in features.items() if one.finalized}
    topics = described_topics(admin, None)
    found = dict(sorted(nodes.items()))
    return Survey(str(cluster.cluster_id), found, levels, partition, topics, _tiered(admin, topics))


def _describe(admin: Admin, node: SurveyedNode) -> None:
    node.program = ODRADEK if any(name.startswith(_OWN_LOGGERS) for name in _loggers(admin, node.id)) else APACHE
    found = describe_configs(admin, Kind.BROKER, str(node.id))
    node.configs = {name: one.value for name, one in sorted(found.items()) if one.config_source != _DEFAULT}
    levels = describe_features(admin, node.id)
    node.supported = {name: one.supported for name, one in levels.items() if one.supported is not None}


def _loggers(admin: Admin, node_id: int) -> Collection[str]:
    """The loggers of a node; none where the logging of Apache Kafka cannot list them. Raises ResponseError for a denial."""
    try:
        return describe_configs(admin, Kind.BROKER_LOGGER, str(node_id))
    except ResponseError as error:
        if error.is_denial:
            raise
        return ()


def _tiered(admin: Admin, topics: list[Topic]) -> list[str]:
    """Returns the topics with segments in remote storage."""
    found = describe_topic_configs(admin, [topic.name for topic in topics], [TIERED_TOPIC_KEY])
    return sorted(
        name for name, one in found.items() if TIERED_TOPIC_KEY in one and one[TIERED_TOPIC_KEY].value == "true"
    )
