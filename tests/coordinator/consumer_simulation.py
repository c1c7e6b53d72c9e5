"""Seeded simulation of consumer groups: a lossy network, members that crash, stall and return, topics that grow.

A client owns a partition from the response that assigns it until its revocation is reported, or until it leaves or is
fenced. As the protocol requires, a client stops on its own if its session expires or if it misses the revocation
timeout. Two clients must never own the same partition. The coordinator must reject a commit of a member that does not
hold the partition: some clients commit partitions that they owned before they were stopped.

A request may also arrive late, long after later requests of its client. Kafka also accepts a late request with the
member's current or previous epoch (its connections keep requests in order). A request with an older epoch must be fenced.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from odradek.coordinator.groups.consumer.group import ConsumerGroupState
from odradek.coordinator.groups.consumer.member import ConsumerMemberState
from odradek.coordinator.groups_config import GroupsConfig
from odradek.protocol.messages.assignments import TopicPartitions
from odradek.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)

from tests.coordinator.group_simulation import START_ANEW, Client, GroupSimulation, topics_of

SESSION_MS, REVOCATION_MS = 10_000, 6_000
CONFIG = GroupsConfig(
    consumer_session_timeout_ms=SESSION_MS,
    consumer_heartbeat_interval_ms=1_000,
    consumer_assignment_interval_ms=500,
    offsets_retention_check_interval_ms=1_000_000_000,
)
TopicIdPartition = tuple[bytes, int]


class ConsumerClient(Client):
    def __init__(self, number: int, instance_id: str | None) -> None:
        super().__init__(number, instance_id)
        self.owned: set[TopicIdPartition] = set()
        self.wanted: set[TopicIdPartition] = set()
        self.must_say_all = True
        #: The member id, epoch and partitions when it was last stopped.
        self.before: tuple[str, int, set[TopicIdPartition]] = ("", 0, set())

    def start_anew(self) -> None:
        if self.owned:
            self.before = (self.member_id, self.epoch, set(self.owned))
        super().start_anew()
        self.must_say_all = True
        self.owned.clear()
        self.wanted.clear()


class ConsumerSimulation(GroupSimulation):
    CONFIG = CONFIG
    SURVIVES = ("epoch", "metadata_hash", "static_members", "holders")

    def __init__(self, seed: int, clients: int = 5) -> None:
        super().__init__(seed, {"ta": 5, "tb": 3})
        self.clients = [ConsumerClient(i, f"i{i}" if i == 0 else None) for i in range(clients)]
        self.late: list[tuple[ConsumerClient, ConsumerGroupHeartbeatRequest]] = []
        self.commits = 0

    def moves(self) -> dict[Callable[[Any], None], int]:
        return {**super().moves(), self._add_a_partition: 1}

    def besides(self, is_calm: bool = False) -> None:
        if not is_calm:
            self._deliver_late()
            self._commit(self.rng.choice(self.clients))

    def _add_a_partition(self, client: ConsumerClient) -> None:
        self.change_topics(self.counts | {"tb": self.counts["tb"] + 1})

    def check_converged(self) -> None:
        group = self.group
        alive = [client for client in self.clients if client.is_alive]
        if group is None or not alive:
            return
        assert group.state is ConsumerGroupState.STABLE, f"the group is {group.state.value}"
        owned = [place for client in alive for place in client.owned]
        assert len(owned) == sum(self.counts.values()), "some partitions have no owner"
        loads = [len(client.owned) for client in alive]
        assert max(loads) - min(loads) <= 1, f"loads are {loads}"

    def heartbeat(self, client: ConsumerClient, is_lossy: bool = True) -> None:
        # The client revokes partitions before it reports that.
        if self.rng.random() < 0.8 or not is_lossy:
            client.owned &= client.wanted
        says_all = client.must_say_all or self.rng.random() < 0.3
        request = ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id=client.member_id,
            member_epoch=client.epoch,
            instance_id=client.instance_id,
            rebalance_timeout_ms=REVOCATION_MS if says_all else -1,
            subscribed_topic_names=["ta", "tb"] if says_all else None,
            topic_partitions=[TopicPartitions(topic_id=t, partitions=p) for t, p in topics_of(client.owned).items()],
        )
        if is_lossy and self.rng.random() < 0.05:
            self.late.append((client, request))
            return
        response = self.ask(request)
        if is_lossy and self.rng.random() < 0.1:
            client.must_say_all = True
            return
        self._reported(client, response)

    def _deliver_late(self) -> None:
        """Delivers delayed requests of clients that have sent others since, preferably at the worst moment."""
        group = self.group
        for client, request in self.late[:]:
            is_of_a_former_life = request.member_id != client.member_id
            if is_of_a_former_life or request.member_epoch == 0:
                self.late.remove((client, request))
            elif group is not None and (member := group.members.get(client.member_id)) is not None:
                is_worst = member.state is ConsumerMemberState.UNREVOKED_PARTITIONS
                if request.member_epoch in (member.epoch, member.previous_epoch):
                    continue
                if is_worst or self.rng.random() < 0.02:
                    self.late.remove((client, request))
                    self.ask(request)

    def _commit(self, client: ConsumerClient) -> None:
        is_stopped = self.rng.random() < 0.5
        now = (client.member_id, client.epoch, client.owned)
        member_id, epoch, owned = client.before if is_stopped else now
        for topic_id, index in sorted(owned):
            partition = OffsetCommitRequestPartition(partition_index=index, committed_offset=1)
            topic = OffsetCommitRequestTopic(
                name=topic_id.decode().strip("."), topic_id=topic_id, partitions=[partition]
            )
            request = OffsetCommitRequest(
                group_id="g", member_id=member_id, generation_id_or_member_epoch=epoch, topics=[topic]
            )
            response = self.ask(request, 9)
            assert isinstance(response, OffsetCommitResponse)
            error = response.topics[0].partitions[0].error_code
            group = self.group
            is_held = group is not None and group.holders.get((topic_id, index)) == member_id
            assert error != 0 or is_held, f"{member_id} committed {topic_id!r} {index} without owning it"
            assert is_stopped or error == 0 or not is_held, f"{member_id} owns {topic_id!r} {index}: {error}"
            self.commits += error == 0

    def _reported(self, client: ConsumerClient, response: ConsumerGroupHeartbeatResponse) -> None:
        client.heard_at = self.now
        if response.error_code in START_ANEW:
            client.start_anew()
        else:
            assert response.error_code == 0, (response.error_code, response.error_message)
            assert response.member_epoch >= client.epoch, "an epoch decreased"
            client.epoch, client.must_say_all = response.member_epoch, False
            if response.assignment is not None:
                client.wanted = {
                    (topic.topic_id, index)
                    for topic in response.assignment.topic_partitions
                    for index in topic.partitions
                }
                client.owned |= client.wanted
                self.handed_out += len(client.wanted)

    def leave(self, client: ConsumerClient) -> None:
        epoch = -2 if client.instance_id is not None else -1
        client.is_alive = False
        client.owned.clear()
        self.ask(
            ConsumerGroupHeartbeatRequest(
                group_id="g", member_id=client.member_id, member_epoch=epoch, instance_id=client.instance_id
            )
        )

    def give_up(self) -> None:
        """Stops clients whose session or revocation timeout has expired."""
        group = self.group
        for client in self.clients:
            revocation = (
                group.timers.get(client.member_id, {}).get("consumer revocation") if group is not None else None
            )
            is_too_slow = revocation is not None and revocation.deadline_ms <= self.now
            if is_too_slow or self.now - client.heard_at >= SESSION_MS - 1:
                client.start_anew()

    def check(self) -> None:
        owners: dict[TopicIdPartition, int] = {}
        for client in self.clients:
            for place in client.owned if client.is_alive else ():
                other = owners.setdefault(place, client.number)
                assert other == client.number, f"{other} and {client.number} own {place}"
        group = self.group
        for member in group.members.values() if group is not None else ():
            for place in member.held():
                assert group is not None and group.holders[place] == member.member_id, f"{place} has two holders"
