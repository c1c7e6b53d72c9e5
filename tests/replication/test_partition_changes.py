"""Changes of one partition: who leads, who is in the ISR and eligible, when a reassignment ends, and which epochs rise."""

from __future__ import annotations

from typing import Any

import pytest
from immutables import Map
from odradek.metadata.delta import MetadataDelta
from odradek.metadata.image import (
    EMPTY_IMAGE,
    LOST_DIRECTORY,
    NO_LEADER,
    UNASSIGNED_DIRECTORY,
    BrokerImage,
    PartitionImage,
    TopicImage,
)
from odradek.metadata.metadata_version import DIRECTORY_ASSIGNMENT, NO_EPOCH_BUMP_ON_ISR_SHRINK
from odradek.protocol.errors import ErrorCode
from odradek.protocol.internal.cluster_metadata import FeatureLevelRecord, PartitionChangeRecord
from odradek.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartition,
    AlterPartitionRequestTopic,
    BrokerState,
)
from odradek.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsRequestDirectory,
)
from odradek.protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequestPartition as AssignedPartition
from odradek.protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequestTopic as AssignedTopic
from odradek.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from odradek.protocol.messages.unregister_broker import UnregisterBrokerRequest
from odradek.replication.controller.partition_change import Election, PartitionChange

from tests.replication.controller_transcript import Transcript, directory_id

TOPIC_ID = b"a".ljust(16, b".")
DIRECTORIES = {broker: directory_id(f"d{broker}") for broker in range(5)}
UNCHANGED = {"partition_id", "topic_id"}


def partition(
    *replicas: int, isr: tuple[int, ...] | None = None, leader: int | None = None, **fields: Any
) -> PartitionImage:
    """Returns a partition of these replicas, led by the first one."""
    directories = fields.pop("directories", tuple(DIRECTORIES[broker] for broker in replicas))
    made = PartitionImage(
        replicas, replicas if isr is None else isr, replicas[0] if leader is None else leader, 4, 9, directories
    )
    return made._replace(**fields)


class Cluster:
    """Brokers 0 to 4, those of `down` fenced; eligible leader replicas are enabled, and the ISR should have two."""

    def __init__(self, *down: int, elr: bool = True, min_isr: int = 2, level: int = 30, offline: int = -1) -> None:
        self.elr_enabled = elr
        brokers = {
            number: BrokerImage(number, 1, bytes(16), Map(), Map(), fenced=number in down, directories=(directory,))
            for number, directory in DIRECTORIES.items()
        }
        if offline >= 0:
            brokers[offline] = brokers[offline]._replace(directories=(b"x" * 16,))
        self.min_isr = lambda topic: min_isr
        delta = MetadataDelta(EMPTY_IMAGE)
        delta.replay(FeatureLevelRecord(name="metadata.version", feature_level=level))
        image = delta.apply(0, 1, 0)
        self.image = image._replace(cluster=image.cluster._replace(brokers=Map(brokers)))
        self.is_active = lambda broker: broker in brokers and brokers[broker].is_active
        self.default_directory = DIRECTORIES.__getitem__

    def change(self, partition: PartitionImage, **targets: Any) -> dict[str, Any]:
        """Returns the fields of the record, without those that are unchanged."""
        state: Any = self
        change = PartitionChange(state, TopicImage("a", TOPIC_ID, Map({3: partition})), 3)
        for name, value in targets.items():
            setattr(change, name, value)
        record = change.record()
        if record is None:
            return {}
        assert (record.partition_id, record.topic_id) == (3, TOPIC_ID)
        fields = [field for field in record.SCHEMA.fields if field.name not in UNCHANGED]
        return {
            one.name: getattr(record, one.name) for one in fields if getattr(record, one.name) != one.fresh_default()
        }


# ---- elections


@pytest.mark.parametrize(
    ("down", "found", "expected"),
    [
        ((), partition(0, 1, 2), {}),
        ((), partition(0, 1, 2, leader=1), {}),
        ((1,), partition(0, 1, 2, leader=1), {"leader": 0}),
        ((0,), partition(0, 1, 2), {"leader": 1}),
        ((0,), partition(0, 1, 2, isr=(0, 2)), {"leader": 2}),
        ((0, 1, 2), partition(0, 1, 2), {"leader": NO_LEADER}),
        ((), partition(1, 0, 2, isr=(0,), leader=NO_LEADER), {"leader": 0, "eligible_leader_replicas": None}),
    ],
)
def test_first_live_replica_of_the_isr_leads(
    down: tuple[int, ...], found: PartitionImage, expected: dict[str, Any]
) -> None:
    """The leader stays if it may. Node 0 leads as any other."""
    fields = Cluster(*down, min_isr=1).change(found)
    assert fields == {name: value for name, value in expected.items() if value is not None}


@pytest.mark.parametrize(
    ("election", "down", "leader"),
    [
        (Election.ONLINE, (), None),
        (Election.PREFERRED, (), 0),
        (Election.PREFERRED, (0,), None),
        (Election.UNCLEAN, (), None),
    ],
)
def test_preferred_replica_leads_if_an_election_asks_for_it(
    election: Election, down: tuple[int, ...], leader: int | None
) -> None:
    fields = Cluster(*down).change(partition(0, 1, 2, leader=1), election=election)
    assert fields == ({} if leader is None else {"leader": leader})


@pytest.mark.parametrize("directory", [LOST_DIRECTORY, b"y" * 16])
def test_replica_whose_directory_is_lost_does_not_lead(directory: bytes) -> None:
    found = partition(0, 1, directories=(directory, DIRECTORIES[1]))
    assert Cluster().change(found, isr=[0, 1])["leader"] == 1
    unassigned = partition(0, 1, directories=(UNASSIGNED_DIRECTORY, DIRECTORIES[1]))
    assert Cluster().change(unassigned) == {}
    assert Cluster(offline=0).change(partition(0, 1))["leader"] == 1


@pytest.mark.parametrize(
    ("election", "down", "expected"),
    [
        (Election.ONLINE, (0,), {"leader": NO_LEADER}),
        (Election.UNCLEAN, (0,), {"leader": 1, "isr": [1], "leader_recovery_state": 1}),
        (Election.UNCLEAN, (0, 1), {"leader": 2, "isr": [2], "leader_recovery_state": 1}),
        (Election.UNCLEAN, (0, 1, 2), {"leader": NO_LEADER}),
    ],
)
def test_unclean_election_takes_any_live_replica_which_then_recovers(
    election: Election, down: tuple[int, ...], expected: dict[str, Any]
) -> None:
    assert Cluster(*down, elr=False).change(partition(0, 1, 2, isr=(0,)), election=election) == expected
    recovering = partition(0, 1, 2, isr=(0,), leader_recovery_state=1)
    again = Cluster(*down, elr=False).change(recovering, election=election, recovery_state=1)
    assert again == {name: value for name, value in expected.items() if name != "leader_recovery_state"}


def test_recovered_leader_says_so() -> None:
    found = partition(0, 1, isr=(0,), leader_recovery_state=1)
    assert Cluster(elr=False).change(found, recovery_state=0, isr=[0, 1]) == {"isr": [0, 1], "leader_recovery_state": 0}


# ---- eligible leader replicas


@pytest.mark.parametrize(
    ("isr", "elr", "unclean", "expected"),
    [
        ([0, 1], (), (), {"isr": [0, 1]}),
        ([0], (), (), {"isr": [0], "eligible_leader_replicas": [1, 2]}),
        ([0], (), (2,), {"isr": [0], "eligible_leader_replicas": [1]}),
        ([0, 1, 2], (3,), (), {"eligible_leader_replicas": []}),
    ],
)
def test_members_that_leave_a_small_isr_stay_eligible(
    isr: list[int], elr: tuple[int, ...], unclean: tuple[int, ...], expected: dict[str, Any]
) -> None:
    found = partition(0, 1, 2, 3, isr=(0, 1, 2), elr=elr)
    assert Cluster().change(found, isr=isr, unclean_shutdowns=unclean) == expected
    without = {name: value for name, value in expected.items() if name == "isr"}
    assert Cluster(elr=False).change(found._replace(elr=()), isr=isr) == without


def test_eligible_replica_leads_when_the_isr_is_empty() -> None:
    found = partition(0, 1, 2, isr=(0,), elr=(1, 2))
    assert Cluster(0).change(found, isr=[]) == {"isr": [1], "leader": 1, "eligible_leader_replicas": [0, 2]}
    assert Cluster(0, 1).change(found, isr=[]) == {"isr": [2], "leader": 2, "eligible_leader_replicas": [0, 1]}
    gone = {"isr": [], "leader": NO_LEADER, "eligible_leader_replicas": [0, 1, 2], "last_known_elr": [0]}
    assert Cluster(0, 1, 2).change(found, isr=[]) == gone


@pytest.mark.parametrize(
    ("last", "elr", "down", "returns"),
    [
        ((1,), (), (), True),
        ((1,), (), (1,), False),
        ((1, 2), (), (), False),
        ((1,), (2,), (2,), False),
        ((), (), (), False),
    ],
)
def test_last_known_leader_returns_where_no_other_replica_is_left(
    last: tuple[int, ...], elr: tuple[int, ...], down: tuple[int, ...], returns: bool
) -> None:
    found = partition(0, 1, 2, isr=(), leader=NO_LEADER, last_known_elr=last, elr=elr)
    fields = Cluster(*down).change(found)
    if returns:
        assert fields == {"leader": 1, "isr": [1], "leader_recovery_state": 1, "last_known_elr": []}
    else:
        assert fields == {}
    assert Cluster(*down, elr=False).change(found._replace(elr=())) == {}


def test_last_known_leader_is_forgotten_once_the_partition_has_a_leader() -> None:
    found = partition(0, 1, isr=(0, 1), last_known_elr=(1,))
    assert Cluster().change(found) == {"last_known_elr": []}
    alone = partition(0, 1, isr=(0,), elr=(1,), leader=0, last_known_elr=(0,))
    assert Cluster(0, 1).change(alone, isr=[])["isr"] == []
    assert "last_known_elr" not in Cluster(0, 1).change(alone, isr=[]), "it is kept already"


# ---- epochs


def test_leader_epoch_rises_where_replicas_are_removed() -> None:
    """A record that names the leader raises its epoch."""
    found = partition(0, 1, 2)
    assert Cluster().change(found, replicas=[0, 1], isr=[0, 1])["leader"] == 0
    assert "leader" not in Cluster().change(found, replicas=[0, 1, 2, 3])
    assert "leader" not in Cluster().change(found, replicas=[2, 1, 0])


@pytest.mark.parametrize(
    ("level", "isr", "rises"),
    [
        (NO_EPOCH_BUMP_ON_ISR_SHRINK - 1, [0, 1], True),
        (NO_EPOCH_BUMP_ON_ISR_SHRINK, [0, 1], False),
        (NO_EPOCH_BUMP_ON_ISR_SHRINK - 1, [0, 1, 2, 3], False),
        (NO_EPOCH_BUMP_ON_ISR_SHRINK - 1, [0, 1, 3], True),
    ],
)
def test_leader_epoch_rises_with_a_smaller_isr_in_old_versions(level: int, isr: list[int], rises: bool) -> None:
    fields = Cluster(level=level, elr=False).change(partition(0, 1, 2, 3, isr=(0, 1, 2)), isr=isr)
    assert fields["isr"] == isr and ("leader" in fields) == rises
    if rises:
        assert fields["leader"] == 0


# ---- reassignments


@pytest.mark.parametrize(
    ("isr", "adding", "removing", "expected"),
    [
        ([0, 1, 2], (), (), {}),
        ([0, 1, 2], (2,), (), {"adding_replicas": []}),
        ([0, 1, 2], (), (1,), {"isr": [0, 2], "replicas": [0, 2], "removing_replicas": [], "leader": 0}),
        ([0, 1], (2,), (1,), {"isr": [0, 1]}),
        (
            [0, 2],
            (2,),
            (1,),
            {"isr": [0, 2], "replicas": [0, 2], "adding_replicas": [], "removing_replicas": [], "leader": 0},
        ),
        ([1], (0,), (1,), {"isr": [1], "leader": 1}),
    ],
)
def test_reassignment_ends_once_the_isr_has_all_replicas_that_stay(
    isr: list[int], adding: tuple[int, ...], removing: tuple[int, ...], expected: dict[str, Any]
) -> None:
    found = partition(0, 1, 2, isr=(0, 1, 2), adding_replicas=adding, removing_replicas=removing)
    fields = Cluster(elr=False).change(found, isr=isr)
    assert {name: value for name, value in fields.items() if name != "directories"} == expected


@pytest.mark.parametrize(("level", "is_named"), [(DIRECTORY_ASSIGNMENT - 1, False), (DIRECTORY_ASSIGNMENT, True)])
def test_directories_of_new_replicas_are_recorded_since_their_version(level: int, is_named: bool) -> None:
    fields = Cluster(level=level).change(partition(0, 1), replicas=[0, 1, 2])
    assert fields["replicas"] == [0, 1, 2]
    assert fields.get("directories") == ([DIRECTORIES[number] for number in (0, 1, 2)] if is_named else None)


# ---- requests of brokers


@pytest.fixture
def cluster() -> Transcript:
    """Returns a cluster of brokers 0, 2 and 3 with a topic that 0 leads."""
    transcript = Transcript()
    assigned = "[{'partition_index':0,'broker_ids':[0,2,3]}]"
    topic = "{'name':'a','num_partitions':-1,'replication_factor':-1,'assignments':" + assigned + "}"
    transcript.run(f'> broker 0\n> broker 2\n> broker 3\n> CreateTopics v=4 topics="[{topic}]"\n')
    return transcript


def led(transcript: Transcript) -> PartitionImage:
    topic = transcript.controller.image.topic("a")
    assert topic is not None
    return topic.partitions[0]


def decide(transcript: Transcript, request: Any, version: int) -> Any:
    result = transcript.controller.handle(request, version)
    if result.records:
        transcript.controller.replay(result.records, 1, 0)
    return result


def alter(transcript: Transcript, isr: tuple[int, ...], recovery: int, **fields: int) -> Any:
    found, topic = led(transcript), transcript.controller.image.topic("a")
    broker = transcript.controller.image.broker(found.leader)
    assert topic is not None and broker is not None
    states = [BrokerState(number) for number in isr]
    asked = AlterPartitionRequestPartition(
        0,
        fields.get("leader_epoch", found.leader_epoch),
        new_isr_with_epochs=states,
        leader_recovery_state=recovery,
        partition_epoch=found.partition_epoch,
    )
    request = AlterPartitionRequest(broker.id, broker.epoch, [AlterPartitionRequestTopic(topic.id, [asked])])
    return decide(transcript, request, 3).response.topics[0].partitions[0]


@pytest.mark.parametrize(
    ("isr", "recovery", "error", "state"),
    [
        ((2,), 1, ErrorCode.NONE, 1),
        ((2,), 0, ErrorCode.NONE, 0),
        ((2, 3), 0, ErrorCode.NONE, 0),
        ((2, 3), 1, ErrorCode.INVALID_REQUEST, 1),
        ((2,), 2, ErrorCode.INVALID_REQUEST, 1),
        ((2,), -1, ErrorCode.INVALID_REQUEST, 1),
    ],
)
def test_recovering_leader_is_alone_until_it_has_recovered(
    cluster: Transcript, isr: tuple[int, ...], recovery: int, error: ErrorCode, state: int
) -> None:
    topic = cluster.controller.image.topic("a")
    assert topic is not None
    change = PartitionChangeRecord(partition_id=0, topic_id=topic.id, isr=[2], leader=2, leader_recovery_state=1)
    cluster.controller.replay([change], 1, 0)
    response = alter(cluster, isr, recovery)
    assert response.error_code == error
    if not error:
        assert (response.leader_recovery_state, response.isr, response.leader_id) == (state, list(isr), 2)


def test_broker_without_leaders_of_its_own_is_fenced_at_its_request(cluster: Transcript) -> None:
    def beat(broker_id: int, offset_behind: int = 0, **wants: bool) -> Any:
        broker = cluster.controller.image.broker(broker_id)
        assert broker is not None
        offset = broker.epoch - offset_behind
        return decide(cluster, BrokerHeartbeatRequest(broker_id, broker.epoch, offset, **wants), 2)

    result = beat(2, want_fence=True)
    assert (result.response.is_fenced, result.response.is_caught_up) == (True, True)
    assert led(cluster).isr == (0, 3)
    assert beat(2, want_fence=True).records == []
    result = beat(2, offset_behind=1)
    assert (result.response.is_fenced, result.response.is_caught_up, result.records) == (True, False, [])
    assert not beat(2).response.is_fenced
    assert not beat(3, offset_behind=1).response.is_fenced, "a broker that is unfenced may be behind"
    result = beat(0, want_shut_down=True)
    assert not result.response.should_shut_down and led(cluster).leader == 3
    assert beat(2, want_shut_down=True, want_fence=True).response.should_shut_down


@pytest.mark.parametrize(
    ("topic", "index", "broker", "error"),
    [
        ("a", 0, 2, ErrorCode.NONE),
        ("a", 1, 2, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("none", 0, 2, ErrorCode.UNKNOWN_TOPIC_ID),
        ("a", 0, 4, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
)
def test_directory_of_a_replica_is_reported_by_its_broker(
    cluster: Transcript, topic: str, index: int, broker: int, error: ErrorCode
) -> None:
    cluster.run("> broker 4\n")
    image = cluster.controller.image
    found, registered = image.topic(topic), image.broker(broker)
    assert registered is not None
    topic_id = found.id if found is not None else b"?" * 16
    for directory, stays in ((registered.directories[0], True), (LOST_DIRECTORY, False)):
        data = AssignReplicasToDirsRequestDirectory(directory, [AssignedTopic(topic_id, [AssignedPartition(index)])])
        result = decide(cluster, AssignReplicasToDirsRequest(broker, registered.epoch, [data]), 0)
        assert result.response.directories[0].topics[0].partitions[0].error_code == error
        if error is ErrorCode.NONE:
            assert (broker in led(cluster).isr) == stays
    assert led(cluster).leader == 0


def test_broker_that_is_unregistered_leaves_its_partitions(cluster: Transcript) -> None:
    result = decide(cluster, UnregisterBrokerRequest(2), 0)
    assert result.response.error_code == 0 and led(cluster).isr == (0, 3)
    assert cluster.controller.image.broker(2) is None
    again = decide(cluster, UnregisterBrokerRequest(2), 0)
    assert again.response.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED
