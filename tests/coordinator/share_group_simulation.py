"""Seeded simulation of share groups.

Members join, leave, crash and change their subscriptions, topics grow, coordinators move, and the persister responds
late, with an error, or not at all.

Epochs never decrease. Members never get partitions of topics outside their subscription, or partitions that the
persister has not initialized. Old requests are fenced. In the calm phase the group converges: all live members have the
group epoch, and every subscribed partition has a member.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from odradek.coordinator.groups.share.group import ShareGroupState
from odradek.coordinator.groups.share.persister_requests import Followed, StatesInitialized
from odradek.coordinator.groups.share.state_partitions import StatePartitions
from odradek.coordinator.groups_config import GroupsConfig
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.initialize_share_group_state import InitializeShareGroupStateRequest
from odradek.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse

from tests.coordinator.group_simulation import GROUP, START_ANEW, Client, GroupSimulation

SESSION_MS = 10_000
TOPICS = ("ta", "tb", "tc")
TopicIdPartition = tuple[bytes, int]


class ShareClient(Client):
    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.names: list[str] = []
        self.says_names = True
        #: The assignment of the last response.
        self.assigned: set[TopicIdPartition] = set()
        #: A heartbeat that the network may duplicate, much later.
        self.said_before: ShareGroupHeartbeatRequest | None = None

    def start_anew(self) -> None:
        super().start_anew()
        self.says_names = True
        self.assigned.clear()


class ShareGroupSimulation(GroupSimulation):
    CONFIG = GroupsConfig(
        share_session_timeout_ms=SESSION_MS,
        share_heartbeat_interval_ms=1_000,
        share_assignment_interval_ms=500,
        share_initialize_retry_interval_ms=5_000,
        offsets_retention_check_interval_ms=1_000_000_000,
    )
    SURVIVES = ("epoch", "metadata_hash", "target_timestamp_ms")

    def __init__(self, seed: int, clients: int = 5) -> None:
        super().__init__(seed, {"ta": 4, "tb": 2})
        self.clients = [ShareClient(number) for number in range(clients)]
        #: Pending requests to the persister.
        self.asked: list[InitializeShareGroupStateRequest] = []
        self.epochs = (0, 0)
        #: The members at the group's epoch.
        self.members: frozenset[str] = frozenset()

    def moves(self) -> dict[Callable[[Any], None], int]:
        more = {self._subscribe_anew: 4, self._change_a_topic: 2, self._bring_again: 5}
        return {**super().moves(), **more}

    def besides(self, is_calm: bool = False) -> None:
        """Runs pending requests to the persister, all of them in the calm phase."""
        while self.asked and (is_calm or self.rng.random() < 0.5):
            self._persist(is_calm)

    # Clients.

    def begin(self, client: ShareClient) -> None:
        client.names = self._some_names()
        super().begin(client)

    def _subscribe_anew(self, client: ShareClient) -> None:
        client.names, client.says_names = self._some_names(), True

    def _some_names(self) -> list[str]:
        return self.rng.sample(TOPICS, self.rng.randrange(1, 4))

    def _change_a_topic(self, client: ShareClient) -> None:
        """Adds a partition to a topic, or creates a topic that members subscribe to."""
        name = self.rng.choice(TOPICS)
        self.change_topics(self.counts | {name: self.counts.get(name, 0) + 1})

    def heartbeat(self, client: ShareClient, is_lossy: bool = True) -> None:
        request = ShareGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=client.member_id,
            member_epoch=client.epoch,
            subscribed_topic_names=client.names if client.says_names else None,
        )
        if is_lossy and self.rng.random() < 0.05:
            return
        if client.epoch and client.said_before is None:
            client.said_before = request
        response = self._send(request)
        if is_lossy and self.rng.random() < 0.1:
            client.says_names = True  # as after an error; the response repeats the assignment
            return
        self._reported(client, response)

    def _reported(self, client: ShareClient, response: ShareGroupHeartbeatResponse) -> None:
        if response.error_code in START_ANEW:
            client.start_anew()
            return
        assert response.error_code == 0, (response.error_code, response.error_message)
        assert response.member_epoch >= client.epoch, f"the epoch of {client.member_id} decreased"
        client.epoch, client.says_names = response.member_epoch, False
        if response.assignment is not None:
            topics = response.assignment.topic_partitions
            client.assigned = {(topic.topic_id, index) for topic in topics for index in topic.partitions}
            self.handed_out += len(client.assigned)
            for topic_id, index in client.assigned:
                name = topic_id.decode().strip(".")
                assert name in client.names, f"{client.member_id} has {name}, and subscribes to {client.names}"
                assert index < self.counts[name], f"{name} has no partition {index}"

    def _bring_again(self, client: ShareClient) -> None:
        request, client.said_before = client.said_before, None
        member = self.group.members.get(client.member_id) if self.group is not None else None
        if request is None or member is None or request.member_id != client.member_id:
            return
        if request.member_epoch not in (member.epoch, member.previous_epoch):
            error = self._send(request).error_code
            assert error == ErrorCode.FENCED_MEMBER_EPOCH, f"a request of epoch {request.member_epoch} is accepted"

    def leave(self, client: ShareClient) -> None:
        client.is_alive = False
        self._send(ShareGroupHeartbeatRequest(group_id=GROUP, member_id=client.member_id, member_epoch=-1))

    def _send(self, request: ShareGroupHeartbeatRequest) -> ShareGroupHeartbeatResponse:
        followed = self.ask(request)
        assert isinstance(followed, Followed)
        if followed.request is not None:
            self.asked.append(followed.request)
        response: ShareGroupHeartbeatResponse = followed.response
        return response

    # The persister.

    def _persist(self, is_calm: bool) -> None:
        """Completes one pending request, or drops it: then the coordinator repeats it."""
        asked = self.asked.pop(self.rng.randrange(len(self.asked)))
        fate = 1.0 if is_calm else self.rng.random()
        if fate > 0.2:
            partitions = {t.topic_id: frozenset(p.partition for p in t.partitions) for t in asked.topics}
            self.ask(StatesInitialized(GROUP, partitions, has_failed=fate < 0.4))

    # Invariants.

    def check(self) -> None:
        group = self.group
        if group is None:
            return
        epochs = (group.epoch, group.target_epoch)
        assert epochs >= self.epochs and group.target_epoch <= group.epoch, f"epochs {self.epochs} became {epochs}"
        members = frozenset(group.members)
        assert group.epoch > self.epochs[0] or members == self.members, "members changed without a new epoch"
        self.epochs, self.members = epochs, members
        known = (group.states or StatePartitions()).initialized
        for member_id, target in group.targets.items():
            assert member_id in group.members, f"{member_id} has left but has a target"
            for topic_id, indexes in target.items():
                assert topic_id in known and indexes <= known[topic_id].partitions, "uninitialized partitions"
        for member in group.members.values():
            assert member.epoch <= group.target_epoch, f"{member.member_id} is ahead of the target"

    def check_converged(self) -> None:
        alive = [client for client in self.clients if client.is_alive]
        group = self.group
        if group is None:
            assert not alive
            return
        assert set(group.members) == {client.member_id for client in alive}, "members are not exactly the live clients"
        assert group.state is (ShareGroupState.STABLE if alive else ShareGroupState.EMPTY)
        for client in alive:
            member = group.members[client.member_id]
            assert client.epoch == member.epoch == group.target_epoch == group.epoch, "a member lags behind"
            had = {(topic_id, index) for topic_id, indexes in member.assigned.items() for index in indexes}
            assert client.assigned == had, f"{client.member_id} got another assignment"
        wanted = {name for client in alive for name in client.names} & self.counts.keys()
        places = {(name.encode().ljust(16, b"."), index) for name in wanted for index in range(self.counts[name])}
        sharers = {place: sum(place in client.assigned for client in alive) for place in places}
        assert all(sharers.values()), f"unassigned: {[place for place, count in sharers.items() if not count]}"
        if len({frozenset(client.names) for client in alive}) == 1 and places:
            loads = [len(client.assigned) for client in alive]
            assert max(loads) - min(loads) <= 1, f"loads are {loads}"
            assert max(sharers.values()) - min(sharers.values()) <= 1, f"partitions are shared by {sharers.values()}"

    def check_reload(self) -> None:
        super().check_reload()
        before, after = self.group, self.loaded().state.groups.get(GROUP)
        assert _plain(before) == _plain(after), "the persister's partitions differ after a reload"


def _plain(group: object) -> object:
    """Returns the states without request times: the next coordinator repeats requests at once."""
    states: StatePartitions | None = getattr(group, "states", None)
    if states is None:
        return None
    topics = (states.initializing, states.initialized)
    return [{t: (s.name, s.partitions) for t, s in one.items()} for one in topics], dict(states.deleting)
