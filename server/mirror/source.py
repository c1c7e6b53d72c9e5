"""The cluster that a link follows: its nodes, topics, configs and groups. Requests block, in the link's own thread.

Nothing is written to it. Needed there: DESCRIBE on the cluster and on groups, READ and DESCRIBE_CONFIGS on topics.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from ...admin.configs import Source as ValueSource
from ...admin.configs import describe_topic_configs
from ...admin.followed_groups import followed_offsets
from ...admin.nodes import describe_cluster
from ...admin.places import Place
from ...admin.session import Admin
from ...client.cluster import Address, Cluster
from ...client.security_options import login_of, security_of
from ...client.tls_files import ssl_context
from ...metadata.mirror_keys import FOLLOWED_CONFIGS, MIRROR_ORIGINS
from ...protocol.messages.metadata import MetadataRequest, MetadataResponse
from ...protocol.uuids import ZERO_UUID, uuid_to_text
from ...replication.mirror.link import Link

if TYPE_CHECKING:
    import ssl

    from ...admin.group_offsets import Committed
    from ...client.peers import LoginOf, TlsOf
    from ...client.sasl import Login
    from .access import LinkAccess, SourceAccess

#: Limit of the time in which the source answers a request.
TIMEOUT_S = 10.0


class SourceNode(NamedTuple):
    """An endpoint of the source. `name`: of its listener, "": a client cannot see it."""

    host: str
    port: int
    name: str = ""


class SourceLeader(NamedTuple):
    """The leader of a partition; -1 for none."""

    node: int
    epoch: int


@dataclass(frozen=True, slots=True)
class SourceTopic:
    """`id` is zero where the source has no ids (before Apache Kafka 2.8)."""

    name: str
    id: bytes
    leaders: tuple[SourceLeader, ...]

    @property
    def id_text(self) -> str:
        """The id as a config's value; "" for none."""
        return "" if self.id == ZERO_UUID else uuid_to_text(self.id)

    @property
    def key(self) -> bytes:
        """The id, or the name where the source has no ids: no name has 16 bytes with a zero in front."""
        return self.id if self.id != ZERO_UUID else b"\0" + self.name.encode()


@dataclass(frozen=True, slots=True)
class SourceView:
    """The nodes of a source, and those of its topics that the link follows, by the source's names."""

    nodes: Mapping[int, SourceNode] = field(default_factory=dict)
    topics: Mapping[str, SourceTopic] = field(default_factory=dict)


class Source:
    """The client of a link. Its methods block, and raise RequestFailed."""

    def __init__(self, link: Link) -> None:
        security = security_of(link.client)
        self._link = link
        self._login: Login | None = login_of(security)
        self._tls: ssl.SSLContext | None = ssl_context(security) if security.has_tls else None
        client_id = link.client.get("client.id", f"odradek-mirror-{link.name}")
        self.client_id = client_id
        self._admin = Admin(
            Cluster([Address(*one) for one in link.bootstrap], client_id, TIMEOUT_S, self.login, self.tls)
        )

    @property
    def login(self) -> LoginOf:
        return lambda listener: self._login

    @property
    def tls(self) -> TlsOf:
        context = self._tls
        return lambda listener, host: {} if context is None else {"ssl": context, "server_hostname": host}

    def close(self) -> None:
        self._admin.close()

    def view(self) -> SourceView:
        response: MetadataResponse = self._admin.ask(MetadataRequest(topics=None, allow_auto_topic_creation=False))
        topics = {}
        for topic in response.topics:
            if topic.error_code or topic.name is None or not self._link.follows_topic(topic.name):
                continue
            leaders = {one.partition_index: SourceLeader(one.leader_id, one.leader_epoch) for one in topic.partitions}
            if sorted(leaders) == list(range(len(leaders))):
                topics[topic.name] = SourceTopic(
                    topic.name, topic.topic_id, tuple(leaders[index] for index in range(len(leaders)))
                )
        nodes = {one.node_id: SourceNode(one.host, one.port) for one in response.brokers}
        return SourceView(nodes, topics)

    def configs(self, topics: Iterable[str]) -> dict[str, dict[str, str]]:
        """The followed configs that each topic has itself, and where its records come from."""
        own = ValueSource.DYNAMIC_TOPIC_CONFIG.name
        found = describe_topic_configs(
            self._admin, list(topics), [*FOLLOWED_CONFIGS, MIRROR_ORIGINS], without_denied=True
        )
        return {
            topic: {
                key: value.value
                for key, value in values.items()
                if value.config_source == own and value.value is not None
            }
            for topic, values in found.items()
        }

    def access(self, access: LinkAccess) -> SourceAccess:
        """The rules, quotas and share groups that a link follows."""
        return access.read(self._admin)

    def offsets(self, unreadable: dict[str, str]) -> dict[str, dict[Place, Committed]]:
        """Returns what the followed groups have committed, by names here; `unreadable` gets the others, with the reasons."""
        return followed_offsets(self._admin, self._link, unreadable)

    def cluster_id(self) -> str:
        return describe_cluster(self._admin).cluster_id
