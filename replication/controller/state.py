"""The state that the controller's decisions read: the image with all decided records, committed or not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from immutables import Map

from ...metadata.configs import BrokerValues, Value, definition, topic_default, usable_dynamic_configs
from ...metadata.delegation_tokens import TokenIds, TokenSizes
from ...metadata.delta import MetadataDelta
from ...metadata.features import ELIGIBLE_LEADER_REPLICAS
from ...metadata.image import (
    BROKER_RESOURCE,
    EMPTY_IMAGE,
    MIGRATING_DIRECTORY,
    TOPIC_RESOURCE,
    UNASSIGNED_DIRECTORY,
    AclImage,
    MetadataImage,
    TopicImage,
    TopicsImage,
)
from ...protocol.internal.cluster_metadata import (
    DelegationTokenRecord,
    PartitionChangeRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from ...protocol.schema import Message
from ..random_source import RandomSource
from .brokers_to_partitions import BrokersToPartitions
from .policies import Policies
from .sessions import BrokerSessions
from .topic_names import has_collision_chars, unified

if TYPE_CHECKING:
    from ...protocol.messages.create_topics import CreatableTopicConfigs

#: The recovery state of a partition after an unclean election (KIP-704).
RECOVERING = 1


class MutationQuota(Protocol):
    """The quota of a client for partitions that it creates and deletes (KIP-599)."""

    def rejects(self, partitions: int) -> bool:
        """Counts so many partitions. Returns True if the change may not be made."""


class Caller(NamedTuple):
    """The sender of the request that is decided on, and the time, in milliseconds since 1970."""

    principal: str
    now_ms: int


ANONYMOUS = Caller("User:ANONYMOUS", 0)


class ElectionCount:
    """The number of elections since this controller became active."""

    def __init__(self) -> None:
        self.leaders = 0
        self.unclean = 0

    def count(self, record: PartitionChangeRecord) -> None:
        if record.leader >= 0:
            self.leaders += 1
            self.unclean += record.leader_recovery_state == RECOVERING


class ControllerState:
    """The controller's state. Only `replay` changes it, except for `static`, `rng` and `sessions`."""

    def __init__(self, node_id: int, cluster_id: str, static: Mapping[str, str], rng: RandomSource) -> None:
        self.node_id = node_id
        self.cluster_id = cluster_id
        #: The raw values of this controller's own properties: defaults for topics and brokers without own values.
        self.static = static
        self.rng = rng
        self.image: MetadataImage = EMPTY_IMAGE
        #: The offset of the first record of the next decision; also a new broker's epoch (KIP-500).
        self.next_offset = 0
        #: The record format of the quorum's log (KIP-853). The image does not contain it.
        self.kraft_version = 0
        #: The reason why the quorum cannot raise it to a level now, or None. The driver of the controller provides it.
        self.kraft_upgrade_error: Callable[[int], str | None] = lambda level: None
        #: Topics with "." or "_" in their names, by their unified name.
        self.colliding_names: dict[str, set[str]] = {}
        self._partitions = BrokersToPartitions()
        #: The topics from which these two were built.
        self._learned: TopicsImage = EMPTY_IMAGE.topics
        #: Whether this node has an authorizer that uses the rules of the metadata log. The driver provides it.
        self.uses_acls = False
        #: The user's own policies. The driver provides them.
        self.policies = Policies()
        #: The id of each access rule.
        self.acls: dict[AclImage, bytes] = {}
        self._learned_acls: Map[bytes, AclImage] = EMPTY_IMAGE.acls
        self._values: tuple[object, object, BrokerValues] | None = None
        #: Whether this node is the only voter and registers its own broker: see `brokers.register_broker`.
        self.registers_alone = False
        #: The configs in the response to a topic that sets none, and the values that they were made of.
        self.shown_configs: tuple[BrokerValues, list[CreatableTopicConfigs]] | None = None
        session_timeout_ms = BrokerValues(static).get("broker.session.timeout.ms")
        assert isinstance(session_timeout_ms, int)
        #: Broker sessions; they are not in the log.
        self.sessions = BrokerSessions(session_timeout_ms)
        self.elections = ElectionCount()
        #: The client of the request that is decided; `Controller.handle` sets it.
        self.caller = ANONYMOUS
        #: Made with the first use of a delegation token.
        self.token_ids: TokenIds | None = None
        self._token_sizes: TokenSizes | None = None
        #: The quota of that client for partition mutations.
        self.mutation_quota: MutationQuota | None = None

    def load(self, image: MetadataImage, next_offset: int, kraft_version: int) -> None:
        """Starts with an existing image. Topics prepared with `learn` are not processed again."""
        self.image = image
        self._token_sizes = None
        self.next_offset = next_offset
        self.kraft_version = kraft_version
        if image.topics is not self._learned or image.acls is not self._learned_acls:
            for _ in self.learn(image):
                pass

    def learn(self, image: MetadataImage) -> Iterator[None]:
        """Runs the slow part of `load`, one topic or access rule per step."""
        topics = image.topics
        self.acls = {}
        for acl_id, rule in image.acls.items():
            self.acls[rule] = acl_id
            yield
        self._learned_acls = image.acls
        self.colliding_names = {}
        for name, _ in zip(topics.by_name, self._partitions.learn(topics), strict=True):
            self._count_name(name)
            yield
        self._learned = topics

    def replay(self, records: Sequence[Message], epoch: int, append_timestamp_ms: int) -> None:
        """Replays the records of one decision, located at `next_offset` and after."""
        delta = MetadataDelta(self.image)
        for record in records:
            if isinstance(record, TopicRecord):
                self._count_name(record.name)
            elif isinstance(record, RemoveTopicRecord):
                self._discount_name(self.image.topics.by_id[record.topic_id].name)
            elif isinstance(record, PartitionChangeRecord):
                self.elections.count(record)
            elif isinstance(record, RemoveAccessControlEntryRecord):
                self.acls.pop(self.image.acls[record.id], None)
            elif isinstance(record, DelegationTokenRecord | RemoveDelegationTokenRecord):
                self._count_token(record)
            delta.replay(record)
        self.next_offset += len(records)
        self._partitions.replay(delta.topics)
        self.image = delta.apply(self.next_offset - 1, epoch, append_timestamp_ms)
        self._learned = self.image.topics
        for acl_id, rule in delta.acls.items():
            if rule is not None:
                self.acls[rule] = acl_id
        self._learned_acls = self.image.acls

    @property
    def token_sizes(self) -> TokenSizes:
        """Returns the sizes of delegation tokens, which are counted from the first use on."""
        if self._token_sizes is None:
            self._token_sizes = TokenSizes(self.image.delegation_tokens.values())
        return self._token_sizes

    def _count_token(self, record: DelegationTokenRecord | RemoveDelegationTokenRecord) -> None:
        if self._token_sizes is None:
            return
        known = self.image.delegation_tokens.get(record.token_id)
        if isinstance(record, RemoveDelegationTokenRecord):
            if known is not None:
                self._token_sizes.remove(known)
        elif known is None:  # else it is renewed, with the same principals
            self._token_sizes.add(record)

    def partitions_of(self, *places: int) -> Iterator[tuple[TopicImage, Iterator[int]]]:
        """Yields the partitions that any of these brokers leads, has in sync, or may come to lead.

        They are in the order of topic names and indexes. See `BrokersToPartitions` for other keys.
        """
        return self._partitions.find(self.image.topics, *places)

    @property
    def values(self) -> BrokerValues:
        """Returns this controller's configuration with the dynamic layers of the image."""
        default = self.image.config(BROKER_RESOURCE, "")
        own = self.image.config(BROKER_RESOURCE, str(self.node_id))
        if self._values is None or self._values[0] is not default or self._values[1] is not own:
            self._values = (default, own, _values(self.static, default, own))
        return self._values[2]

    def topic_value(self, topic: str, key: str) -> Value:
        """Returns the effective typed value of a topic's config."""
        text = self.image.config(TOPIC_RESOURCE, topic).get(key)
        return topic_default(key, self.values) if text is None else definition(TOPIC_RESOURCE)[key].parse(text)

    @property
    def elr_enabled(self) -> bool:
        return self.image.features.level(ELIGIBLE_LEADER_REPLICAS) > 0

    def min_isr(self, topic: TopicImage) -> int:
        """Returns min.insync.replicas, at most the number of replicas."""
        configured = self.topic_value(topic.name, "min.insync.replicas")
        assert isinstance(configured, int)
        return min(configured, len(topic.partitions[0].replicas))

    def unclean_elections(self, topic: str) -> bool:
        return self.topic_value(topic, "unclean.leader.election.enable") is True

    def rejects_mutation(self, partitions: int) -> bool:
        """Counts created or deleted partitions. Returns True if the client's quota is exceeded."""
        return self.mutation_quota is not None and self.mutation_quota.rejects(partitions)

    def is_active(self, broker_id: int) -> bool:
        broker = self.image.broker(broker_id)
        return broker is not None and broker.is_active

    def default_directory(self, broker_id: int) -> bytes:
        """Returns the directory of a new replica: that of a broker with only one, otherwise unassigned (KIP-858)."""
        broker = self.image.broker(broker_id)
        if broker is None:
            return UNASSIGNED_DIRECTORY
        if not broker.directories:
            return MIGRATING_DIRECTORY
        return broker.directories[0] if len(broker.directories) == 1 else UNASSIGNED_DIRECTORY

    def _count_name(self, name: str) -> None:
        if has_collision_chars(name):
            self.colliding_names.setdefault(unified(name), set()).add(name)

    def _discount_name(self, name: str) -> None:
        names = self.colliding_names.get(unified(name), set())
        names.discard(name)
        if not names:
            self.colliding_names.pop(unified(name), None)


def _values(static: Mapping[str, str], default: Mapping[str, str], own: Mapping[str, str]) -> BrokerValues:
    """Returns the values. Stored values that are invalid are ignored; the broker logs them when it applies them."""
    return BrokerValues(
        static,
        usable_dynamic_configs(default, per_broker=False, rejected=_ignore),
        usable_dynamic_configs(own, per_broker=True, rejected=_ignore),
    )


def _ignore(_name: str, _why: str) -> None:
    pass
