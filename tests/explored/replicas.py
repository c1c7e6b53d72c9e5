"""One partition with three replicas: fetches, truncation, changes of the ISR, elections, crashes and power losses.

The replicas are the product's `ReplicaRole` with replication/replica_role.py; the controller is the product's, which decides
on each AlterPartition, fencing and registration. A broker has the metadata in their order, each change at any time.
Fetches, AlterPartition requests and their responses are lost, doubled and reordered.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from odradek.metadata.image import NO_LEADER, MetadataImage, PartitionImage
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartition,
    AlterPartitionRequestTopic,
    BrokerState,
)
from odradek.replication import divergence
from odradek.replication.controller.controller import Controller
from odradek.replication.isr import IsrProposal
from odradek.replication.replica_role import ReplicaRole

from tests.explored.explorer import Choice
from tests.replication.controller_transcript import CLUSTER_ID, NODE_ID, Transcript
from tests.replication.replica_simulator import SimulatedLog

BROKERS = (1, 2, 3)
LAG_TIME_MAX_MS = 1_000
TOPIC = "t"


class Budget(NamedTuple):
    """How often each thing happens in one run."""

    records: int = 1
    crashes: int = 0
    power_losses: int = 0
    #: Brokers whose sessions end while they run.
    fenced: int = 0
    #: The time passes in which a follower without a fetch leaves the ISR.
    late: int = 0
    lost: int = 0
    doubled: int = 0


class Message(NamedTuple):
    """A request or a response of the broker `node`; `number` is that of its last request of the kind, when it was sent."""

    kind: str
    node: int
    number: int
    body: tuple[Any, ...]


class Decisions:
    """The controller's decisions on an image. Each is made once and kept."""

    def __init__(self) -> None:
        self._transcript = Transcript()
        for broker in BROKERS:
            self._transcript.command(f"broker {broker}")
        topic = {"name": TOPIC, "num_partitions": -1, "replication_factor": -1}
        topic["assignments"] = [{"partition_index": 0, "broker_ids": list(BROKERS)}]
        topic["configs"] = [{"name": "min.insync.replicas", "value": "2"}]
        topics = repr([topic]).replace('"', "'").replace(" ", "")
        self._transcript.command(f'CreateTopics v=4 topics="{topics}"')
        self.start = self._transcript.controller.image
        self._made: dict[tuple[int, Hashable], tuple[MetadataImage, Any]] = {}
        self._kept: list[MetadataImage] = []

    def command(self, image: MetadataImage, line: str) -> MetadataImage:
        """Runs a line of a transcript of the controller."""
        return self._decided(image, line, lambda: self._transcript.command(line))[0]

    def alter(self, image: MetadataImage, request: AlterPartitionRequest, key: Hashable) -> tuple[MetadataImage, Any]:
        def run() -> Any:
            controller = self._transcript.controller
            result = controller.handle(request, 3)
            if result.records:
                controller.replay(result.records, 1, 0)
            return result.response

        return self._decided(image, key, run)

    def _decided(self, image: MetadataImage, key: Hashable, run: Any) -> tuple[MetadataImage, Any]:
        found = self._made.get((id(image), key))
        if found is None:
            transcript = self._transcript
            transcript.controller = Controller(NODE_ID, CLUSTER_ID, transcript.static, random.Random(1))
            transcript.controller.load(image, image.offset + 1, 1)
            response = run()
            found = self._made[id(image), key] = (transcript.controller.image, response)
            self._kept.append(image)  # its id must stay its own
        return found


def partition_of(image: MetadataImage) -> PartitionImage:
    found = image.partition(TOPIC, 0)
    assert found is not None
    return found


@dataclass
class Node:
    number: int
    broker_epoch: int
    role: ReplicaRole
    log: SimulatedLog
    #: The image that it has; and the numbers of its last Fetch and AlterPartition.
    image: MetadataImage
    fetch: int = 0
    question: int = 0
    is_fetching: bool = False
    is_asking: bool = False

    def may_join(self, replica: int, broker_epoch: int) -> bool:
        broker = self.image.broker(replica)
        return broker is not None and not broker.fenced and broker.epoch == broker_epoch

    def copy(self) -> Node:
        role, log = copy.copy(self.role), SimulatedLog()
        role.followers = {number: copy.copy(state) for number, state in self.role.followers.items()}
        log.records, log.synced, log.epochs = list(self.log.records), self.log.synced, list(self.log.epochs)
        node = replace(self, role=role, log=log)
        role.may_join = node.may_join
        return node


class ReplicaWorld:
    partition = ReplicaRole

    def __init__(self, budget: Budget, decisions: Decisions | None = None) -> None:
        self.budget = budget
        self.decisions = decisions or Decisions()
        self.now = 1_000_000
        #: Every image that changed the partition or a broker, from the oldest that a broker still has.
        self.images = [self.decisions.start]
        self.nodes: dict[int, Node] = {}
        #: The logs of brokers that do not run.
        self.disks = {number: SimulatedLog() for number in BROKERS}
        self.messages: list[Message] = []
        self.committed: list[tuple[int, int]] = []
        self.leaders: dict[int, int] = {}
        for number in BROKERS:
            self._start(number)

    @property
    def image(self) -> MetadataImage:
        """The controller's image."""
        return self.images[-1]

    def copy(self) -> ReplicaWorld:
        world = object.__new__(type(self))
        world.budget, world.decisions, world.now = self.budget, self.decisions, self.now
        world.images, world.messages = list(self.images), list(self.messages)
        world.nodes = {number: node.copy() for number, node in self.nodes.items()}
        world.disks = dict(self.disks)  # changed only by copies
        world.committed, world.leaders = list(self.committed), dict(self.leaders)
        return world

    def canonical(self) -> Hashable:
        messages = sorted(
            (kind, node, self._age(kind, node, number), body) for kind, node, number, body in self.messages
        )
        nodes = tuple(self._form(node) for _, node in sorted(self.nodes.items()))
        disks = tuple((n, tuple(log.records), log.synced) for n, log in sorted(self.disks.items()))
        images = tuple(self._image(image) for image in self.images)
        return (self.budget, self.now, nodes, disks, tuple(messages), images, tuple(self.committed))

    def _age(self, kind: str, number: int, of: int) -> int:
        node = self.nodes.get(number)
        if node is None:
            return -1
        return (node.fetch if kind in ("fetch", "data", "cut") else node.question) - of

    def _form(self, node: Node) -> Hashable:
        role, log = node.role, node.log
        followers = tuple(
            (n, *(getattr(state, name) for name in type(state).__slots__))
            for n, state in sorted(role.followers.items())
        )
        own = (role.leader, role.leader_epoch, role.partition_epoch, role.isr, role.high_watermark, role.proposal)
        return (
            node.number, node.broker_epoch, own, role.leader_epoch_start_offset, followers, tuple(log.records),
            tuple(log.epochs), log.synced, self.images.index(node.image), node.is_fetching, node.is_asking,
        )  # fmt: skip

    def _image(self, image: MetadataImage) -> Hashable:
        brokers = tuple((b.id, b.epoch, b.fenced) for b in sorted(image.cluster.brokers.values(), key=lambda b: b.id))
        return (partition_of(image), brokers)

    # ---- choices

    def choices(self) -> Iterable[Choice]:
        budget = self.budget
        for number, node in self.nodes.items():
            role = node.role
            if node.image is not self.image:
                yield "learn", number
            if role.is_leader and budget.records and role.has_enough_in_sync:
                yield "append", number
            if not role.is_leader and role.leader in BROKERS and not node.is_fetching:
                yield "fetch", number
            if role.is_leader and role.proposal is not None and not node.is_asking:
                yield "ask", number
            if node.log.synced < node.log.end and budget.power_losses:
                yield "sync", number
            if budget.crashes:
                yield "crash", number
            if budget.power_losses and partition_of(self.image).isr != (number,):
                yield "lose-power", number
            if budget.fenced and not self._is_fenced(number):
                yield "fence", number
            if budget.late and role.is_leader:
                yield "late", number
        for number in self.disks:
            if number not in self.nodes:
                yield "return", number
                if not self._is_fenced(number):
                    yield "fence", number
        for message in dict.fromkeys(self.messages):
            yield "deliver", message
            if budget.lost:
                yield "lose", message
            if budget.doubled:
                yield "double", message

    def _is_fenced(self, number: int) -> bool:
        broker = self.image.broker(number)
        assert broker is not None
        return broker.fenced

    def apply(self, choice: Choice) -> None:
        kind, subject = choice
        getattr(self, "_" + kind.replace("-", "_"))(subject)
        self._forget_images()
        self._check()

    def _spend(self, name: str) -> None:
        self.budget = self.budget._replace(**{name: getattr(self.budget, name) - 1})

    # ---- brokers

    def _start(self, number: int) -> None:
        log = self.disks.pop(number)
        broker = self.image.broker(number)
        assert broker is not None
        role = self.partition(number, log.end, 0)
        role.min_insync_replicas, role.lag_time_max_ms = 2, LAG_TIME_MAX_MS
        node = self.nodes[number] = Node(number, broker.epoch, role, log, self.image)
        role.may_join = node.may_join
        self._apply_image(node)

    def _apply_image(self, node: Node) -> None:
        if node.role.apply(partition_of(node.image), self.now):
            node.is_fetching = False
            if node.role.is_leader:
                node.log.assign(node.role.leader_epoch, node.log.end)
        if node.role.proposal is None:
            node.is_asking = False

    def _learn(self, number: int) -> None:
        node = self.nodes[number]
        node.image = self.images[self.images.index(node.image) + 1]
        self._apply_image(node)

    def _append(self, number: int) -> None:
        node = self.nodes[number]
        node.log.append(node.role.leader_epoch, self.budget.records)
        node.role.appended(node.log.end, self.now)
        self._spend("records")

    def _sync(self, number: int) -> None:
        self.nodes[number].log.synced = self.nodes[number].log.end

    def _late(self, number: int) -> None:
        self._spend("late")
        self.now += LAG_TIME_MAX_MS + 1
        self.nodes[number].role.propose_shrinking(self.now)

    def _crash(self, number: int) -> None:
        """Ends the process: what it wrote stays."""
        self._spend("crashes")
        self.disks[number] = self.nodes.pop(number).log

    def _lose_power(self, number: int) -> None:
        self._spend("power_losses")
        log = self.nodes.pop(number).log
        log.truncate(log.synced)
        self.disks[number] = log

    def _return(self, number: int) -> None:
        """The broker registers anew. It has not stopped cleanly."""
        self._decided(self.decisions.command(self.image, f"crash {number}"))
        log = self.disks[number]
        self.disks[number] = copy.deepcopy(log)
        self._start(number)

    # ---- the controller

    def _fence(self, number: int) -> None:
        if number in self.nodes:
            self._spend("fenced")
        self._decided(self.decisions.command(self.image, f"fence {number}"))

    def _decided(self, image: MetadataImage) -> None:
        if image is not self.image:
            self.images.append(image)

    def _forget_images(self) -> None:
        oldest = min((self.images.index(node.image) for node in self.nodes.values()), default=len(self.images) - 1)
        del self.images[:oldest]

    # ---- messages

    def _lose(self, message: Message) -> None:
        self._spend("lost")
        self.messages.remove(message)
        node = self.nodes.get(message.node)
        if node is not None and self._age(message.kind, message.node, message.number) == 0:
            # The request times out.
            if message.kind in ("fetch", "data", "cut"):
                node.is_fetching = False
            else:
                node.is_asking = False

    def _double(self, message: Message) -> None:
        self._spend("doubled")
        self.messages.append(message)

    def _deliver(self, message: Message) -> None:
        self.messages.remove(message)
        getattr(self, f"_deliver_{message.kind}")(message)

    def _fetch(self, number: int) -> None:
        node = self.nodes[number]
        node.fetch += 1
        node.is_fetching = True
        body = (node.role.leader, node.role.leader_epoch, node.log.end, node.log.latest, node.broker_epoch)
        self.messages.append(Message("fetch", number, node.fetch, body))

    def _deliver_fetch(self, message: Message) -> None:
        leader_id, epoch, offset, last_epoch, broker_epoch = message.body
        leader = self.nodes.get(leader_id)
        if leader is None or not leader.role.is_leader or leader.role.leader_epoch != epoch:
            self._fetch_fails(message)
            return
        role, log = leader.role, leader.log
        if last_epoch >= 0:
            known, end = log.end_offset_for(last_epoch)
            differs = divergence.diverging(offset, last_epoch, known, end)
            if differs is not None:
                self.messages.append(Message("cut", message.node, message.number, (epoch, differs)))
                return
        if offset > log.end:
            self._fetch_fails(message)
            return
        role.follower_fetched(message.node, offset, self.now, broker_epoch=broker_epoch)
        role.propose_joining(message.node)
        data = (epoch, tuple(log.records[offset : offset + 1]), role.high_watermark)
        self.messages.append(Message("data", message.node, message.number, data))

    def _fetch_fails(self, message: Message) -> None:
        node = self.nodes.get(message.node)
        if node is not None and node.fetch == message.number:
            node.is_fetching = False

    def _awaits(self, message: Message) -> Node | None:
        node = self.nodes.get(message.node)
        if node is None or node.fetch != message.number or not node.is_fetching:
            return None
        node.is_fetching = False
        return node if not node.role.is_leader and node.role.leader_epoch == message.body[0] else None

    def _deliver_cut(self, message: Message) -> None:
        node = self._awaits(message)
        if node is not None:
            log, role = node.log, node.role
            end = divergence.truncation_offset(
                *message.body[1],
                log_end_offset=log.end,
                high_watermark=role.high_watermark,
                end_offset_for=log.end_offset_for,
            )
            log.truncate(end)
            role.truncated(log.end)

    def _deliver_data(self, message: Message) -> None:
        node = self._awaits(message)
        if node is not None:
            _, records, high_watermark = message.body
            for record in records:
                node.log.append(*record)
            node.role.appended(node.log.end, self.now)
            node.role.follow(high_watermark)

    def _ask(self, number: int) -> None:
        node = self.nodes[number]
        proposal = node.role.proposal
        assert proposal is not None
        node.question += 1
        node.is_asking = True
        epochs = {n: state.broker_epoch for n, state in node.role.followers.items()} | {number: node.broker_epoch}
        members = tuple((member, epochs[member]) for member in proposal.isr)
        self.messages.append(Message("alter", number, node.question, (node.broker_epoch, proposal, members)))

    def _deliver_alter(self, message: Message) -> None:
        broker_epoch, proposal, members = message.body
        states = [BrokerState(broker_id=member, broker_epoch=epoch) for member, epoch in members]
        asked = AlterPartitionRequestPartition(
            partition_index=0,
            leader_epoch=proposal.leader_epoch,
            partition_epoch=proposal.partition_epoch,
            new_isr_with_epochs=states,
        )
        topic = self.image.topic(TOPIC)
        assert topic is not None
        request = AlterPartitionRequest(
            broker_id=message.node,
            broker_epoch=broker_epoch,
            topics=[AlterPartitionRequestTopic(topic_id=topic.id, partitions=[asked])],
        )
        image, response = self.decisions.alter(self.image, request, ("alter", message.node, message.body))
        self._decided(image)
        if response.error_code:
            body: tuple[Any, ...] = (proposal, response.error_code, None)
        else:
            (data,) = response.topics[0].partitions
            accepted = (tuple(data.isr), data.leader_epoch, data.partition_epoch)
            body = (proposal, data.error_code, accepted)
        self.messages.append(Message("altered", message.node, message.number, body))

    def _deliver_altered(self, message: Message) -> None:
        proposal, error, accepted = message.body
        node = self.nodes.get(message.node)
        if node is None or node.question != message.number or not node.is_asking:
            return
        node.is_asking = False
        if error == ErrorCode.NONE:
            node.role.accepted(IsrProposal(*proposal), *accepted, self.now)  # type: ignore[call-arg]
        elif error not in (
            ErrorCode.FENCED_LEADER_EPOCH,
            ErrorCode.INVALID_UPDATE_VERSION,
            ErrorCode.STALE_BROKER_EPOCH,
        ):
            node.role.withdraw(IsrProposal(*proposal))

    # ---- invariants

    def _check(self) -> None:
        for node in self.nodes.values():
            if node.role.is_leader:
                self._check_leader(node)
        for node in self.nodes.values():
            end = node.role.high_watermark
            assert end <= node.log.end == node.role.log_end_offset, f"broker {node.number} lacks what it has committed"
            assert node.log.records[:end] == self.committed[:end], (
                f"broker {node.number} differs below its high watermark"
            )
        registered = partition_of(self.image)
        logs = {**self.disks, **{number: node.log for number, node in self.nodes.items()}}
        for member in registered.isr:
            broker = self.image.broker(member)
            is_its_own = member in self.nodes and broker is not None and self.nodes[member].broker_epoch == broker.epoch
            if is_its_own or registered.leader in (member, NO_LEADER):
                kept = logs[member].records[: len(self.committed)]
                assert member not in self.nodes or kept == self.committed, (
                    f"broker {member} is in the ISR and lacks acknowledged records"
                )

    def _check_leader(self, node: Node) -> None:
        epoch, end = node.role.leader_epoch, node.role.high_watermark
        assert self.leaders.setdefault(epoch, node.number) == node.number, f"epoch {epoch} has two leaders"
        self.committed += node.log.records[len(self.committed) : end]
