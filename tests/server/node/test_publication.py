"""The publisher: subsystems follow the parts of the metadata that they declare, and read no other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, cast

import odradek
import pytest
from odradek.metadata.delta import PARTS, MetadataDelta, Part
from odradek.metadata.image import EMPTY_IMAGE, MetadataImage
from odradek.metadata.internal_topics import INTERNAL_TOPICS
from odradek.metadata.topics_delta import TopicDelta
from odradek.protocol.internal import cluster_metadata as records
from odradek.protocol.schema import Message
from odradek.server.config.broker_config import BrokerConfig
from odradek.server.publisher import Publisher
from odradek.server.runtime.metadata_cache import MetadataCache
from odradek.server.runtime.subsystem import Subsystem

TOPIC_ID, INTERNAL_ID = bytes(15) + b"\x07", bytes(15) + b"\x08"
INTERNAL = "__consumer_offsets"
TOPIC = records.TopicRecord("t", TOPIC_ID)
CHANGES: dict[str, tuple[Message, set[Part]]] = {
    "a topic": (records.TopicRecord("u", bytes(15) + b"\x09"), {"topics"}),
    "a topic of coordinators": (records.TopicRecord("__transaction_state", bytes(16)), {"topics", "internal_topics"}),
    "a partition": (records.PartitionRecord(0, TOPIC_ID, [1], [1]), {"topics"}),
    "a partition of coordinators": (records.PartitionRecord(0, INTERNAL_ID, [1], [1]), {"topics", "internal_topics"}),
    "a topic that goes": (records.RemoveTopicRecord(TOPIC_ID), {"topics", "deleted_topics"}),
    "a topic of coordinators that goes": (
        records.RemoveTopicRecord(INTERNAL_ID),
        {"topics", "internal_topics", "deleted_topics"},
    ),
    "a broker": (records.RegisterBrokerRecord(2), {"cluster"}),
    "a controller": (records.RegisterControllerRecord(2), {"cluster"}),
    "a feature": (records.FeatureLevelRecord("group.version", 1), {"features"}),
    "a configuration": (records.ConfigRecord(2, "t", "retention.ms", "1"), {"configs"}),
    "a quota": (
        records.ClientQuotaRecord([records.QuotaRecordEntity("user", "alice")], "request_percentage", 1.0),
        {"client_quotas"},
    ),
    "an ACL": (records.AccessControlEntryRecord(bytes(16), 2, "t", 3, "User:a", "*", 3, 3), {"acls"}),
    "a password": (records.UserScramCredentialRecord("alice", 1, b"s", b"k", b"k", 4096), {"scram"}),
    "a token": (records.DelegationTokenRecord(token_id="i"), {"delegation_tokens"}),
    "nothing": (records.NoOpRecord(), set()),
}


def before() -> MetadataImage:
    delta = MetadataDelta(EMPTY_IMAGE)
    delta.replay(TOPIC)
    delta.replay(records.TopicRecord(INTERNAL, INTERNAL_ID))
    return delta.apply(1, 1, 1)


@pytest.mark.parametrize("change", CHANGES)
def test_delta_names_the_parts_that_it_changes(change: str) -> None:
    record, parts = CHANGES[change]
    delta = MetadataDelta(before())
    delta.replay(record)
    delta.apply(2, 1, 1)
    assert delta.parts() == parts


def test_changes_reach_every_part() -> None:
    assert set().union(*(parts for _, parts in CHANGES.values())) == PARTS


class Follower(Subsystem):
    def __init__(self, name: str, *interest: Part) -> None:
        self.name = name
        self.interest: Set[Part] = set(interest)
        self.followed: list[int] = []
        self.fails = False

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> Iterable[None]:
        self.followed.append(image.offset)
        if self.fails:
            raise ZeroDivisionError
        return ()


class Publishing:
    def __init__(self, *subsystems: Subsystem) -> None:
        self.metadata = MetadataCache()
        self.publisher = Publisher(BrokerConfig(), self.metadata, subsystems)

    def publish(self, *changes: Message) -> None:
        image = self.metadata.image
        delta = MetadataDelta(image)
        for change in changes:
            delta.replay(change)
        self.publisher.publish(delta, delta.apply(image.offset + 1, 1, 1))


def test_subsystem_follows_the_first_image_and_changes_of_the_parts_that_it_declares() -> None:
    quotas, topics, nothing = Follower("q", "client_quotas", "acls"), Follower("t", "topics"), Follower("n")
    publishing = Publishing(quotas, topics, nothing)
    publishing.publish()
    publishing.publish(TOPIC)
    publishing.publish(CHANGES["a quota"][0])
    publishing.publish(CHANGES["nothing"][0])
    publishing.publish(CHANGES["an ACL"][0], CHANGES["a topic"][0])
    assert (quotas.followed, topics.followed, nothing.followed) == ([0, 2, 4], [0, 1, 4], [])


def test_subsystem_that_failed_follows_the_next_image_whatever_changes_in_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    quotas = Follower("q", "client_quotas")
    publishing = Publishing(quotas)
    publishing.publish()
    quotas.fails = True
    publishing.publish(CHANGES["a quota"][0])
    assert "a bug: applying the metadata to q failed" in caplog.text
    publishing.publish(TOPIC)
    quotas.fails = False
    publishing.publish(CHANGES["a topic"][0])
    publishing.publish(CHANGES["a broker"][0])
    assert quotas.followed == [0, 1, 2, 3]


class Replaying(Subsystem):
    """A subsystem that has only what the deltas say: topics with their partitions, and configurations."""

    name = "r"
    interest: Set[Part] = frozenset({"topics", "configs"})

    def __init__(self) -> None:
        self.topics: dict[bytes, dict[int, tuple[int, ...]]] = {}
        self.configs: dict[tuple[int, str], dict[str, str]] = {}
        #: The changes after which the next publication fails; None: it does not.
        self.fails_after: int | None = None

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> Iterator[None]:
        changes = [
            *(partial(self.topics.pop, id_, None) for id_ in delta.topics.deleted),
            *(partial(self._change_topic, id_, topic) for id_, topic in delta.topics.changed.items()),
            *(partial(self._configure, resource, keys) for resource, keys in delta.configs.items()),
        ]
        for number, change in enumerate([*changes, lambda: None]):
            if number == self.fails_after:
                raise ZeroDivisionError
            change()
            yield

    def _change_topic(self, topic_id: bytes, topic: TopicDelta) -> None:
        partitions = self.topics.setdefault(topic_id, {})
        partitions.update({index: partition.replicas for index, partition in topic.changed.items()})

    def _configure(self, resource: tuple[int, str], keys: dict[str, str | None]) -> None:
        known = self.configs.get(resource, {})
        left = {key: value for key, value in {**known, **keys}.items() if value is not None}
        self.configs.pop(resource, None)
        if left:
            self.configs[resource] = left


def random_changes(rng: Random, image: MetadataImage) -> Iterator[Message]:
    """Yields changes of some topics: each comes, gets a partition, is moved or goes; with a change of its configuration."""
    for number in rng.sample(range(6), rng.randrange(4)):
        topic = image.topic(f"t{number}")
        id_ = topic.id if topic is not None else rng.randbytes(16)
        if topic is None:
            yield records.TopicRecord(f"t{number}", id_)
            yield records.PartitionRecord(0, id_, [1], [1])
        elif rng.random() < 0.3:
            yield records.RemoveTopicRecord(id_)
            continue
        elif rng.random() < 0.5:
            yield records.PartitionRecord(len(topic.partitions), id_, [2], [2])
        else:
            yield records.PartitionChangeRecord(0, id_, replicas=[rng.randrange(9)])
        if rng.random() < 0.5:
            value = rng.choice(["1", "2", None])
            if value is not None or image.config(2, f"t{number}"):
                yield records.ConfigRecord(2, f"t{number}", "retention.ms", value)


@pytest.mark.parametrize("seed", range(40))
def test_subsystem_that_failed_misses_no_change(seed: int) -> None:
    rng, follower = Random(seed), Replaying()
    publishing = Publishing(follower)
    publishing.publish()
    followed = 0
    for _ in range(30):
        follower.fails_after = rng.choice([None, 0, 1, 2])
        publishing.publish(*random_changes(rng, publishing.metadata.image))
        if follower.name not in publishing.publisher._behind:
            image = publishing.metadata.image
            expected = {
                id_: {index: partition.replicas for index, partition in topic.partitions.items()}
                for id_, topic in image.topics.by_id.items()
            }
            assert follower.topics == expected
            assert follower.configs == {resource: dict(keys) for resource, keys in image.configs.items()}
            followed += 1
    assert 0 < followed < 30


def test_configuration_that_failed_follows_the_next_image_whatever_changes_in_it(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    publishing, followed = Publishing(), []

    def apply(config: BrokerConfig, delta: MetadataDelta, image: MetadataImage) -> None:
        followed.append(image.offset)
        if len(followed) == 2:
            raise ZeroDivisionError

    monkeypatch.setattr(BrokerConfig, "apply", apply)
    publishing.publish()
    publishing.publish(CHANGES["a configuration"][0])
    assert "a bug: applying the metadata to the broker's configuration failed" in caplog.text
    publishing.publish(TOPIC)
    publishing.publish(CHANGES["a topic"][0])
    assert followed == [0, 1, 2]


def test_part_that_begins_during_a_publication_has_the_image_that_is_published() -> None:
    """A shard may end its loading between two steps. Its groups get no change that came before."""

    class Beginning(Follower):
        def publish(self, delta: MetadataDelta, image: MetadataImage) -> Iterable[None]:
            yield
            newest.append((publishing.metadata.newest.offset, publishing.metadata.image.offset))

    newest: list[tuple[int, int]] = []
    publishing = Publishing(Beginning("b", "topics"))
    publishing.publish()
    publishing.publish(TOPIC)
    assert newest[-1] == (1, 0) and publishing.metadata.newest.offset == 1


# ---- what the subsystems of a broker read

#: Field of an image, or attribute of a delta -> the part. Others are no parts: each delta changes them.
_FIELDS: dict[str, Part] = {part: part for part in PARTS}


class ReadImage(MetadataImage):
    """An image that notes which of its parts are read."""

    read: set[Part]

    def __getattribute__(self, name: str) -> Any:
        if name in _FIELDS:
            super().__getattribute__("read").add(_FIELDS[name])
        return super().__getattribute__(name)

    def topic(self, name: str) -> Any:
        if name not in INTERNAL_TOPICS:
            return super().topic(name)
        self.read.add("internal_topics")
        return super().__getattribute__("topics").by_name.get(name)


class ReadTopics:
    """The changed topics of a delta; notes whether more than the deleted ones and those of coordinators are read."""

    def __init__(self, topics: Any, read: set[Part]) -> None:
        self._topics, self._read = topics, read

    @property
    def deleted(self) -> Any:
        self._read.add("deleted_topics")
        return self._topics.deleted

    def __bool__(self) -> bool:
        return bool(self._topics)

    def __getattr__(self, name: str) -> Any:
        self._read.add("topics")
        return getattr(self._topics, name)


class ReadDelta:
    """A delta that notes which of its parts are read."""

    def __init__(self, delta: MetadataDelta, read: set[Part]) -> None:
        self._delta, self._read = delta, read
        self.topics = ReadTopics(delta.topics, read)

    def __getattr__(self, name: str) -> Any:
        if name in _FIELDS:
            self._read.add(_FIELDS[name])
        return getattr(self._delta, name)


def following(server: Any) -> Iterator[Subsystem]:
    for subsystem in server.subsystems:
        if type(subsystem).publish is not Subsystem.publish:
            yield subsystem


@pytest.mark.usefixtures("sockets")
@pytest.mark.parametrize("parts_are_made", [False, True])
async def test_subsystems_of_a_broker_read_only_the_parts_that_they_declare(
    parts_are_made: bool, tmp_path: Path
) -> None:
    broker = odradek.Broker(
        config={
            "odradek.metrics.port": "0",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "allow.everyone.if.no.acl.found": "true",
            "remote.log.storage.system.enable": "true",
            "remote.log.storage.manager.class.name": "folder",
            "rsm.config.dir": str(tmp_path / "remote"),
        }
    )
    await broker.start()
    try:
        server = broker.server
        if parts_are_made:
            server.coordinators.transactions()
            server.share.states()
            server.share.partitions()
            server.coordinators.groups.interest.add("topics")  # as the first group does that is assigned partitions
        names = {subsystem.name for subsystem in following(server)}
        assert names == {
            "access",
            "network",
            "client telemetry",
            "partitions",
            "coordinators",
            "share groups",
            "remote",
        }
        published = server.node.metadata.image
        changes = [record for record, _ in CHANGES.values()]
        removals = [record for record in changes if isinstance(record, records.RemoveTopicRecord)]
        made = [TOPIC, records.TopicRecord(INTERNAL, INTERNAL_ID), *(one for one in changes if one not in removals)]
        for changed in (made, removals):
            delta = MetadataDelta(published)
            for record in changed:
                delta.replay(record)
            published = delta.apply(published.offset + 1, 1, 1)
            for subsystem in following(server):
                image = ReadImage(*published)
                image.read = set()
                for _ in subsystem.publish(cast(MetadataDelta, ReadDelta(delta, image.read)), image):
                    pass
                any_topic = {"internal_topics", "deleted_topics"} if "topics" in subsystem.interest else set()
                assert image.read <= subsystem.interest | any_topic, subsystem.name
                if changed is made:
                    assert image.read, f"{subsystem.name} follows nothing"
    finally:
        await broker.stop()
