"""The state that the controller's decisions read: the image with all decided records, committed or not."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from immutables import Map

from ...metadata.configs import BrokerValues, Value, definition, topic_default, usable_dynamic_configs
from ...metadata.credentials import TokenIds, TokenSizes
from ...metadata.delta import MetadataDelta, TopicsDelta
from ...metadata.features import ELIGIBLE_LEADER_REPLICAS
from ...metadata.image import (
    BROKER_RESOURCE,
    EMPTY_IMAGE,
    MIGRATING_DIRECTORY,
    NO_LEADER,
    TOPIC_RESOURCE,
    UNASSIGNED_DIRECTORY,
    AclImage,
    BrokerImage,
    MetadataImage,
    PartitionImage,
    TopicImage,
    TopicsImage,
)
from ...protocol.errors import ErrorCode
from ...protocol.internal.cluster_metadata import (
    DelegationTokenRecord,
    PartitionChangeRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from ...protocol.schema import Message
from .policies import Policies
from .result import ApiError

if TYPE_CHECKING:
    from ...protocol.messages.topics import CreatableTopicConfigs

T = TypeVar("T")

# Randomness as an argument: the part of `random.Random` that decisions use, so that a seed reproduces them.


class RandomSource(Protocol):
    """The subset of `random.Random` that decisions use."""

    def randrange(self, stop: int, /) -> int: ...

    def randbytes(self, count: int, /) -> bytes: ...

    def shuffle(self, items: list[T], /) -> None: ...


#: The six highest bits make the first base64 character. 62 is "-", which tools would take for an option.
_DASH = 62


def random_uuid(rng: RandomSource) -> bytes:
    """Returns a random UUID (version 4) whose text form does not start with a dash, as Kafka's."""
    while True:
        raw = bytearray(rng.randbytes(16))
        raw[6] = raw[6] & 0x0F | 0x40
        raw[8] = raw[8] & 0x3F | 0x80
        if raw[0] >> 2 != _DASH:
            return bytes(raw)


# An index of the partitions by broker, so that an election visits only the affected ones (Kafka's BrokersToIsrs).
#
# A partition is listed under its leader, its ISR members, and its eligible leader replicas (KIP-966). It is also
# listed under the special keys below, since partitions in those states are looked up too. The index follows from the
# image alone and is updated with each decision.
#
# The partitions of one topic on one broker are one integer whose bits are their indexes. A replica costs 2 bytes if
# topics have a thousand partitions on thirty brokers, and 21 bytes if they have one partition.


#: The partition has no leader.
LEADERLESS = NO_LEADER
#: The leader is not the preferred replica, or there is none.
IMBALANCED = -2
#: Replicas are being added or removed (KIP-455).
REASSIGNING = -3


class BrokersToPartitions:
    def __init__(self) -> None:
        #: Maps a broker or special key to topic names, and those to partition indexes.
        self._indexes: dict[int, dict[str, int]] = {}

    def find(self, topics: TopicsImage, *places: int) -> Iterator[tuple[TopicImage, Iterator[int]]]:
        """Yields the partitions listed under any of these keys, by topic name and index. `topics`: the indexed topics."""
        first, *others = places
        found = self._indexes.get(first, {})
        for place in others:
            found = dict(found)
            for name, indexes in self._indexes.get(place, {}).items():
                found[name] = found.get(name, 0) | indexes
        for name in sorted(found):
            yield topics.by_name[name], _ascending(found[name])

    def learn(self, topics: TopicsImage) -> Iterator[None]:
        """Rebuilds the index from these topics, one topic per step. The index must not be read before the last step."""
        self._indexes = {}
        for topic in topics.by_id.values():
            for index, partition in topic.partitions.items():
                self._add(topic.name, index, _places(partition))
            yield

    def replay(self, delta: TopicsDelta) -> None:
        """Applies what has changed since the indexed topics."""
        for gone in delta.deleted.values():
            for topics in self._indexes.values():
                topics.pop(gone.name, None)
        for topic in delta.changed.values():
            for index, partition in topic.changed.items():
                before, now = topic.before.partitions.get(index), _places(partition)
                then = _places(before) if before is not None else ()
                if now != then:
                    self._remove(topic.before.name, index, {*then} - {*now})
                    self._add(topic.before.name, index, now)

    def _add(self, name: str, index: int, places: tuple[int, ...]) -> None:
        bit = 1 << index
        for place in places:
            topics = self._indexes.get(place)
            if topics is None:
                topics = self._indexes[place] = {}
            topics[name] = topics.get(name, 0) | bit

    def _remove(self, name: str, index: int, places: set[int]) -> None:
        for place in places:
            topics = self._indexes[place]
            assert topics[name] >> index & 1, "the removed entry exists"
            topics[name] ^= 1 << index
            if not topics[name]:
                del topics[name]


def _places(partition: PartitionImage) -> tuple[int, ...]:
    """Returns the keys of a partition. Usually they are its ISR, and no new tuple is built."""
    leader, places = partition.leader, partition.isr
    if leader not in places:
        places = (*places, leader)
    if partition.elr:
        places += partition.elr
    if leader != partition.preferred_replica:
        places += (IMBALANCED,)
    if partition.is_reassigning:
        places += (REASSIGNING,)
    return places


def _ascending(indexes: int) -> Iterator[int]:
    """Yields the set bits. Searching a string finds the next one quickly at any distance."""
    bits = f"{indexes:b}"[::-1]
    index = bits.find("1")
    while index >= 0:
        yield index
        index = bits.find("1", index + 1)


# Validation of topic names.


MAX_NAME_LENGTH = 249
CLUSTER_METADATA_TOPIC = "__cluster_metadata"

_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def topic_name_fault(name: str) -> str | None:
    """Returns what is wrong with a name, in Kafka's text; None if it is valid."""
    if not name:
        return "the empty string is not allowed"
    if name in (".", ".."):
        return f"'{name}' is not allowed"
    if len(name) > MAX_NAME_LENGTH:
        return f"the length of '{name}' is longer than the max allowed length {MAX_NAME_LENGTH}"
    if not _LEGAL.fullmatch(name):
        return f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    return None


def check_name(name: str) -> ApiError | None:
    fault = topic_name_fault(name)
    return ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {fault}") if fault else None


def has_collision_chars(name: str) -> bool:
    """Returns whether a name contains "." or "_": names that differ only in these have the same metric name in Kafka."""
    return "." in name or "_" in name


def unified(name: str) -> str:
    return name.replace(".", "_")


def check_collision(name: str, existing: Mapping[str, Set[str]]) -> ApiError | None:
    """Rejects a name that collides with an existing one. `existing`: unified names to topics."""
    colliding = existing.get(unified(name)) if has_collision_chars(name) else None
    if not colliding:
        return None
    message = f"Topic '{name}' collides with existing topic: {min(colliding)}"
    return ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, message)


# Broker sessions of the active controller, and each broker's metadata offset.
#
# A broker without a heartbeat for `broker.session.timeout.ms` is fenced (KIP-631). Sessions are not persisted. A new
# active controller gives every unfenced broker a full session from its takeover, since it cannot know the heartbeats
# that its predecessor received.
#
# A broker in controlled shutdown may stop only when every active broker has the metadata of its new leaders, so that
# clients are not sent to it any more (`may_stop`).


#: The metadata offset of a broker before its first heartbeat.
_NOTHING = -1


@dataclass(slots=True)
class _Session:
    epoch: int
    deadline: int
    metadata_offset: int


class BrokerSessions:
    def __init__(self, session_timeout_ms: int) -> None:
        self.session_timeout_ms = session_timeout_ms
        self._sessions: dict[int, _Session] = {}
        #: The offset that the other brokers must reach before a broker in controlled shutdown may stop.
        self._shutdown_offsets: dict[int, int] = {}

    def begin(self, image: MetadataImage, now: int) -> None:
        """Starts the sessions when this controller becomes active."""
        self._sessions.clear()
        self._shutdown_offsets.clear()
        for broker in image.cluster.brokers.values():
            if not broker.fenced:
                self._sessions[broker.id] = _Session(broker.epoch, now + self.session_timeout_ms, _NOTHING)

    def heard(self, broker_id: int, epoch: int, metadata_offset: int, now: int) -> None:
        """Records a heartbeat. The broker epoch is checked against the registration when the session expires."""
        self._sessions[broker_id] = _Session(epoch, now + self.session_timeout_ms, metadata_offset)

    def has(self, broker: BrokerImage) -> bool:
        """Returns whether this incarnation of the broker has a session."""
        session = self._sessions.get(broker.id)
        return session is not None and session.epoch == broker.epoch

    def shuts_down(self, broker_id: int, offset: int) -> None:
        """Starts a controlled shutdown. `offset`: the offset of the last record so far that moved its leaderships."""
        self._shutdown_offsets.setdefault(broker_id, offset)

    def moved(self, broker_id: int, offset: int) -> None:
        """Records that further leaderships moved off a broker, if it is in controlled shutdown."""
        if broker_id in self._shutdown_offsets:
            self._shutdown_offsets[broker_id] = offset

    def may_stop(self, broker: BrokerImage, image: MetadataImage) -> bool:
        """Returns whether every active broker with a session has the metadata in which this broker leads nothing."""
        offset = self._shutdown_offsets.get(broker.id, _NOTHING)
        return all(
            session.metadata_offset >= offset
            for broker_id, session in self._sessions.items()
            if broker_id != broker.id and (other := image.broker(broker_id)) is not None and other.is_active
        )

    def forget(self, broker_id: int) -> None:
        """Removes the session of a broker that was fenced or has stopped."""
        self._sessions.pop(broker_id, None)
        self._shutdown_offsets.pop(broker_id, None)

    def deadline(self) -> int | None:
        return min((session.deadline for session in self._sessions.values()), default=None)

    def expire(self, now: int, image: MetadataImage) -> list[BrokerImage]:
        """Returns the unfenced brokers whose sessions expired, each once.

        If the clock was set back, no session lasts longer than the full timeout.
        """
        for session in self._sessions.values():
            session.deadline = min(session.deadline, now + self.session_timeout_ms)
        over = [broker_id for broker_id, session in self._sessions.items() if session.deadline <= now]
        found: list[BrokerImage] = []
        for broker_id in sorted(over):
            session, broker = self._sessions[broker_id], image.broker(broker_id)
            self.forget(broker_id)
            if broker is not None and broker.epoch == session.epoch and not broker.fenced:
                found.append(broker)
        return found


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


class Elections:
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
        self.elections = Elections()
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
