"""Random valid histories of metadata records: each record is consistent with the ones before it."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from odradek.protocol.internal import cluster_metadata as records
from odradek.protocol.schema import Message

_IDS = st.binary(min_size=16, max_size=16)
_NAMES = st.sampled_from(["a", "b", "c", "d.e", "f_g"])
_TEXTS = st.text(max_size=5)
_NODES = st.integers(1, 4)
_NODE_LISTS = st.lists(_NODES, min_size=1, max_size=3, unique=True)


class History:
    """The state after the records so far, as far as the next valid records depend on it."""

    def __init__(self, draw: Any) -> None:
        self.draw = draw
        self.topics: dict[bytes, tuple[str, int]] = {}
        #: The ids of all topics so far: an id is never used again.
        self.used_ids: set[bytes] = set()
        self.brokers: dict[int, int] = {}
        self.epoch = 0

    def next(self) -> Message:
        kinds = [self.topic, self.broker, self.config, self.feature, self.quota, self.producer_ids, self.no_op]
        kinds += [self.acl, self.remove_acl, self.scram, self.remove_scram, self.token, self.remove_token]
        kinds += [self.controller, self.unregister_controller, self.migration]
        kinds += [self.partition, self.remove_topic, self.clear_elr] if self.topics else []
        kinds += [self.partition_change] if any(count for _, count in self.topics.values()) else []
        kinds += [self.broker_change, self.fence, self.unfence, self.unregister_broker] if self.brokers else []
        made: Message = self.draw(st.sampled_from(kinds))()
        return made

    def topic(self) -> Message:
        taken = {name for name, _ in self.topics.values()}
        name = self.draw(_NAMES.filter(lambda n: n not in taken)) if len(taken) < 5 else f"t{len(self.topics)}"
        topic_id = self.draw(_IDS.filter(lambda i: i not in self.used_ids))
        self.used_ids.add(topic_id)
        self.topics[topic_id] = (name, 0)
        return records.TopicRecord(name=name, topic_id=topic_id)

    def _topic_id(self) -> bytes:
        found: bytes = self.draw(st.sampled_from(sorted(self.topics)))
        return found

    def partition(self) -> Message:
        topic_id = self._topic_id()
        name, count = self.topics[topic_id]
        self.topics[topic_id] = (name, count + 1)
        replicas = self.draw(_NODE_LISTS)
        return records.PartitionRecord(
            partition_id=count,
            topic_id=topic_id,
            replicas=replicas,
            isr=self.draw(st.lists(st.sampled_from(replicas), unique=True)),
            leader=self.draw(st.sampled_from([-1, *replicas])),
            leader_epoch=self.draw(st.integers(0, 9)),
            partition_epoch=self.draw(st.integers(0, 9)),
            leader_recovery_state=self.draw(st.integers(0, 1)),
            directories=[self.draw(_IDS) for _ in replicas] if self.draw(st.booleans()) else [],
            adding_replicas=self.draw(st.lists(_NODES, max_size=2)),
            removing_replicas=self.draw(st.lists(_NODES, max_size=2)),
            eligible_leader_replicas=self.draw(st.none() | st.lists(_NODES, max_size=2)),
            last_known_elr=self.draw(st.none() | st.lists(_NODES, max_size=1)),
        )

    def partition_change(self) -> Message:
        topic_id = self.draw(st.sampled_from(sorted(i for i, (_, count) in self.topics.items() if count)))
        change = records.PartitionChangeRecord(
            topic_id=topic_id,
            partition_id=self.draw(st.integers(0, self.topics[topic_id][1] - 1)),
            isr=self.draw(st.none() | st.lists(_NODES, max_size=3)),
            leader=self.draw(st.sampled_from([-2, -1, 1, 2])),
            leader_recovery_state=self.draw(st.sampled_from([-1, 0, 1])),
            eligible_leader_replicas=self.draw(st.none() | st.lists(_NODES, max_size=2)),
            adding_replicas=self.draw(st.none() | st.lists(_NODES, max_size=2)),
        )
        if self.draw(st.booleans()):
            change.replicas = self.draw(_NODE_LISTS)
            change.directories = [self.draw(_IDS) for _ in change.replicas]
        return change

    def clear_elr(self) -> Message:
        return records.ClearElrRecord(
            topic_name=self.draw(st.sampled_from(["", *(n for n, _ in self.topics.values())]))
        )

    def remove_topic(self) -> Message:
        topic_id = self._topic_id()
        del self.topics[topic_id]
        return records.RemoveTopicRecord(topic_id=topic_id)

    def broker(self) -> Message:
        broker_id = self.draw(_NODES)
        self.epoch += 1
        self.brokers[broker_id] = self.epoch
        return records.RegisterBrokerRecord(
            broker_id=broker_id,
            incarnation_id=self.draw(_IDS),
            broker_epoch=self.epoch,
            end_points=[
                records.BrokerEndpoint(name=n, host=self.draw(_TEXTS), port=9, security_protocol=0) for n in "XY"
            ],
            features=[records.BrokerFeature(name="f", min_supported_version=0, max_supported_version=2)],
            rack=self.draw(st.none() | _TEXTS),
            fenced=self.draw(st.booleans()),
            in_controlled_shutdown=self.draw(st.booleans()),
            log_dirs=self.draw(st.lists(_IDS, max_size=3, unique=True)),
            cordoned_log_dirs=self.draw(st.none() | st.lists(_IDS, max_size=2, unique=True)),
        )

    def _broker_and_epoch(self) -> tuple[int, int]:
        broker_id = self.draw(st.sampled_from(sorted(self.brokers)))
        return broker_id, self.brokers[broker_id]

    def broker_change(self) -> Message:
        broker_id, epoch = self._broker_and_epoch()
        return records.BrokerRegistrationChangeRecord(
            broker_id=broker_id,
            broker_epoch=epoch,
            fenced=self.draw(st.sampled_from([-1, 0, 1])),
            in_controlled_shutdown=self.draw(st.sampled_from([0, 1])),
            log_dirs=self.draw(st.lists(_IDS, max_size=2, unique=True)),
            cordoned_log_dirs=self.draw(st.none() | st.lists(_IDS, max_size=2, unique=True)),
        )

    def fence(self) -> Message:
        broker_id, epoch = self._broker_and_epoch()
        return records.FenceBrokerRecord(id=broker_id, epoch=epoch)

    def unfence(self) -> Message:
        broker_id, epoch = self._broker_and_epoch()
        return records.UnfenceBrokerRecord(id=broker_id, epoch=epoch)

    def unregister_broker(self) -> Message:
        broker_id, epoch = self._broker_and_epoch()
        del self.brokers[broker_id]
        return records.UnregisterBrokerRecord(broker_id=broker_id, broker_epoch=epoch)

    def controller(self) -> Message:
        endpoint = records.ControllerEndpoint(name="C", host="h", port=1, security_protocol=0)
        return records.RegisterControllerRecord(
            controller_id=self.draw(_NODES), incarnation_id=self.draw(_IDS), end_points=[endpoint]
        )

    def unregister_controller(self) -> Message:
        return records.UnregisterControllerRecord(controller_id=self.draw(_NODES))

    def config(self) -> Message:
        names = [name for name, _ in self.topics.values()] or ["1"]
        return records.ConfigRecord(
            resource_type=self.draw(st.sampled_from([2, 4, 16, 32])),
            resource_name=self.draw(st.sampled_from(["", *names])),
            name=self.draw(_NAMES),
            value=self.draw(st.none() | _TEXTS),
        )

    def feature(self) -> Message:
        name, low = self.draw(st.sampled_from([("metadata.version", 7), ("group.version", 0), ("share.version", 0)]))
        return records.FeatureLevelRecord(name=name, feature_level=low + self.draw(st.integers(0, 3)))

    def migration(self) -> Message:
        return records.ZkMigrationStateRecord(zk_migration_state=self.draw(st.integers(0, 3)))

    def quota(self) -> Message:
        types = self.draw(st.lists(st.sampled_from(["user", "client-id", "ip"]), min_size=1, max_size=2, unique=True))
        entity = [records.QuotaRecordEntity(entity_type=t, entity_name=self.draw(st.none() | _TEXTS)) for t in types]
        value = self.draw(st.integers(0, 9)) + 0.5
        return records.ClientQuotaRecord(
            entity=entity, key=self.draw(_NAMES), value=value, remove=self.draw(st.booleans())
        )

    def producer_ids(self) -> Message:
        return records.ProducerIdsRecord(
            broker_id=1, broker_epoch=1, next_producer_id=self.draw(st.integers(1, 9)) * 1000
        )

    def acl(self) -> Message:
        return records.AccessControlEntryRecord(id=bytes(15) + bytes([self.draw(_NODES)]), principal=self.draw(_TEXTS))

    def remove_acl(self) -> Message:
        return records.RemoveAccessControlEntryRecord(id=bytes(15) + bytes([self.draw(_NODES)]))

    def scram(self) -> Message:
        return records.UserScramCredentialRecord(name=self.draw(_NAMES), mechanism=1, salt=b"s", iterations=4096)

    def remove_scram(self) -> Message:
        return records.RemoveUserScramCredentialRecord(name=self.draw(_NAMES), mechanism=1)

    def token(self) -> Message:
        return records.DelegationTokenRecord(
            token_id=self.draw(_NAMES), owner="o", renewers=self.draw(st.lists(_TEXTS))
        )

    def remove_token(self) -> Message:
        return records.RemoveDelegationTokenRecord(token_id=self.draw(_NAMES))

    def no_op(self) -> Message:
        return records.NoOpRecord()


@st.composite
def histories(draw: Any, most: int = 40) -> list[Message]:
    history = History(draw)
    return [history.next() for _ in range(draw(st.integers(0, most)))]
