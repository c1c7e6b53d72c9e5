"""Seeded simulation of streams groups: a lossy network, members that crash, stall and return, changing topics.

A client runs a task from the response that assigns it until its revocation is reported, or until it leaves or is
fenced. As the protocol requires, a client stops on its own if its session expires or if it misses the revocation
timeout. Two clients must never run the same task as active, nor two of one process the same task in any role. Randomly
some tasks warm up in the new process before they move, which no assignor does yet.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Self
from unittest.mock import patch

from odradek.coordinator.groups.streams import targets
from odradek.coordinator.groups.streams.assignor import Candidate, sticky
from odradek.coordinator.groups.streams.configured import ConfiguredSubtopology
from odradek.coordinator.groups.streams.description import AVAILABLE
from odradek.coordinator.groups.streams.group import StreamsGroupState
from odradek.coordinator.groups.streams.response import NeedsTopics
from odradek.coordinator.groups.streams.tasks import (
    TaskId,
    Tasks,
    by_subtopology,
    tasks_in,
)
from odradek.coordinator.groups.streams.writing import write_group_metadata
from odradek.coordinator.groups_config import GroupsConfig, StreamsGroupsConfig
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from odradek.protocol.messages.streams_group_heartbeat import (
    HeartbeatSubtopology,
    HeartbeatTopology,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)
from odradek.protocol.messages.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    UpdatedTopologyDescription,
    UpdatedTopologyDescriptionSubtopology,
)
from odradek.protocol.messages.streams_members import TaskIds
from odradek.protocol.messages.streams_topics import StreamsTopic
from odradek.protocol.schema import Message

from tests.coordinator.group_simulation import START_ANEW, Client, GroupSimulation

SESSION_MS, REVOCATION_MS = 10_000, 6_000
CONFIG = GroupsConfig(
    streams=StreamsGroupsConfig(
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=1_000,
        assignment_interval_ms=500,
        initial_rebalance_delay_ms=700,
        num_standby_replicas=1,
    ),
    offsets_retention_check_interval_ms=1_000_000_000,
)
#: Two tasks per partition of `in`: one subtopology repartitions the records, the other one counts them.
TOPOLOGY = HeartbeatTopology(
    epoch=0,
    subtopologies=[
        HeartbeatSubtopology(subtopology_id="0", source_topics=["in"], repartition_sink_topics=["shuffled"]),
        HeartbeatSubtopology(
            subtopology_id="1",
            repartition_source_topics=[StreamsTopic(name="shuffled")],
            state_changelog_topics=[StreamsTopic(name="counts")],
        ),
    ],
)
ACTIVE, STANDBY, WARMUP = range(3)
ROLES = (ACTIVE, STANDBY, WARMUP)
#: A role and a task.
Run = tuple[int, TaskId]


class Thread(Client):
    """A thread of an application. Two consecutive threads share a process."""

    def __init__(self, number: int, instance_id: str | None) -> None:
        super().__init__(number, instance_id)
        self.process_id = f"p{number // 2}"
        self.runs: set[Run] = set()
        self.wanted: set[Run] = set()
        self.must_say_all = False
        #: A heartbeat that the network may duplicate, much later.
        self.said_before: StreamsGroupHeartbeatRequest | None = None

    def start_anew(self) -> None:
        super().start_anew()
        self.runs.clear()
        self.wanted.clear()


class StreamsSimulation(GroupSimulation):
    CONFIG = CONFIG
    SURVIVES = ("metadata", "topology", "static_members", "holders")

    def __init__(self, seed: int, clients: int = 5) -> None:
        super().__init__(seed, {"in": 4})
        self.clients = [Thread(i, f"i{i}" if i == 0 else None) for i in range(clients)]
        self.is_described = False
        self.is_calm = False
        #: The number of warm-up tasks in responses.
        self.warmed_up = 0

    def execute(self, steps: int) -> Self:
        with patch.object(targets, "sticky", self._assign):
            return super().execute(steps)

    def moves(self) -> dict[Callable[[Any], None], int]:
        return {**super().moves(), self._delete_a_topic: 1, self._bring_again: 6, self._assign_anew: 3}

    def run_calm(self) -> None:
        self.is_calm = True
        self._assign_anew()
        super().run_calm()

    def _assign_anew(self, client: Thread | None = None) -> None:
        """Increments the group epoch, as after a caught-up warm-up task: the next heartbeat assigns again."""
        group = self.group
        if group is not None and group.members:
            state, metadata = self.shard.state, group.metadata
            write_group_metadata(state, group.group_id, replace(metadata, epoch=metadata.epoch + 1))
            self.take()

    def _assign(
        self, members: Mapping[str, Candidate], subtopologies: Mapping[str, ConfiguredSubtopology], replicas: int
    ) -> dict[str, Tasks]:
        """Assigns like the broker, but randomly turns tasks into warm-up tasks, except in the calm phase.

        The broker's assignor assigns no warm-up tasks. Here standby tasks may become warm-up tasks. An active task may
        stay at its owner while it warms up in another process.
        """
        made = sticky(members, subtopologies, replicas)
        if not self.is_calm:
            for member_id in sorted(made):
                made[member_id] = self._standbys_that_warm_up(made[member_id])
                for task in sorted(made[member_id].active):
                    self._warm_up(members, made, member_id, task)
        return made

    def _standbys_that_warm_up(self, tasks: Tasks) -> Tasks:
        warm = frozenset(task for task in sorted(tasks.standby) if self.rng.random() < 0.3)
        return replace(tasks, standby=tasks.standby - warm, warmup=warm)

    def _warm_up(self, members: Mapping[str, Candidate], made: dict[str, Tasks], member_id: str, task: TaskId) -> None:
        """Lets `member_id` warm up the task first if the current owner is in another process."""
        now_with = next((one for one in sorted(members) if task in members[one].has.active), None)
        if now_with is None or self.rng.random() < 0.3:
            return
        process_id = members[now_with].process_id
        others = [one for one in members if members[one].process_id == process_id]
        has_copy = any(task in made[one].standby | made[one].warmup for one in others)
        if process_id != members[member_id].process_id and not has_copy:
            after, before = made[member_id], made[now_with]
            made[member_id] = replace(after, active=after.active - {task}, warmup=after.warmup | {task})
            made[now_with] = replace(before, active=before.active | {task})

    def _delete_a_topic(self, client: Thread) -> None:
        self.change_topics({name: count for name, count in self.counts.items() if name != "counts"})

    def check_converged(self) -> None:
        alive = [client for client in self.clients if client.is_alive]
        if self.group is None or not alive:
            return
        assert (self._reported_of_topology() == AVAILABLE) == self.is_described, "the pushed description is missing"
        assert self.group.state is StreamsGroupState.STABLE, f"the group is {self.group.state.value}"
        active = [task for client in alive for role, task in client.runs if role == ACTIVE]
        assert len(active) == len(set(active)) == 8, "some tasks have no owner"
        loads = [sum(role == ACTIVE for role, _ in client.runs) for client in alive]
        assert max(loads) - min(loads) <= 1 or len({client.process_id for client in alive}) < len(alive), loads
        copies = [task for client in alive for role, task in client.runs if role == STANDBY]
        enough = 4 if len({client.process_id for client in alive}) > 1 else 0
        assert len(copies) == enough, f"{len(copies)} copies of 4 tasks with state"

    def heartbeat(self, client: Thread, is_lossy: bool = True) -> None:
        # The client revokes tasks before it reports that.
        if self.rng.random() < 0.8 or not is_lossy:
            client.runs &= client.wanted
        is_joining = client.epoch == 0
        said = {role: [] if is_joining else _said(client.runs, role) for role in ROLES}
        request = StreamsGroupHeartbeatRequest(
            group_id="g",
            member_id=client.member_id,
            member_epoch=client.epoch,
            instance_id=client.instance_id,
            rebalance_timeout_ms=REVOCATION_MS if is_joining or client.must_say_all else -1,
            topology=TOPOLOGY if is_joining else None,
            process_id=client.process_id,
            active_tasks=said[ACTIVE],
            standby_tasks=said[STANDBY],
            warmup_tasks=said[WARMUP],
        )
        if is_lossy and self.rng.random() < 0.05:
            return
        if client.said_before is None and client.epoch:
            client.said_before = request
        response = self.ask(request)
        client.must_say_all = is_lossy and self.rng.random() < 0.1
        if client.must_say_all:
            return
        self._reported(client, response)

    def _bring_again(self, client: Thread) -> None:
        """Delivers a duplicate with an old epoch. The previous epoch is excluded: it is accepted (KIP-848)."""
        member = self.group.members.get(client.member_id) if self.group is not None else None
        request, client.said_before = client.said_before, None
        if member is None or request is None or request.member_id != client.member_id:
            return
        if request.member_epoch < min(client.epoch, member.previous_epoch):
            self.ask(request)

    def _reported(self, client: Thread, response: StreamsGroupHeartbeatResponse) -> None:
        client.heard_at = self.now
        if response.error_code in START_ANEW:
            client.start_anew()
            return
        if response.error_code == ErrorCode.INVALID_REQUEST and client.epoch:
            # Tasks that no longer exist, while the topics change.
            client.start_anew()
            return
        assert response.error_code == 0, (response.error_code, response.error_message)
        assert response.member_epoch >= client.epoch, "an epoch decreased"
        client.epoch = response.member_epoch
        if response.topology_description_required:
            assert not self.is_described, "a stored description is requested"
            self._describe(client)
        if response.active_tasks is not None:
            reported = (response.active_tasks, response.standby_tasks or [], response.warmup_tasks or [])
            client.wanted = {(role, task) for role in ROLES for task in tasks_in(reported[role])}
            # A thread changes the role of a task locally: it never has it twice.
            changed = {task for _, task in client.wanted}
            client.runs = {(role, task) for role, task in client.runs if task not in changed} | client.wanted
            self.handed_out += len(client.wanted)
            self.warmed_up += sum(role == WARMUP for role, _ in client.wanted)

    def _describe(self, client: Thread) -> None:
        """Pushes the requested topology description; the request may be lost."""
        if self.rng.random() < 0.5:
            described = UpdatedTopologyDescription(
                subtopologies=[UpdatedTopologyDescriptionSubtopology(subtopology_id="0", nodes=[])]
            )
            response = self.ask(StreamsGroupTopologyDescriptionUpdateRequest("g", client.member_id, 0, described), 0)
            assert response.error_code == 0, response
            self.is_described = True

    def _reported_of_topology(self) -> int:
        request = StreamsGroupDescribeRequest(group_ids=["g"], include_topology_description=True)
        status: int = self.ask(request).groups[0].topology_description_status
        return status

    def leave(self, client: Thread) -> None:
        epoch = -2 if client.instance_id is not None else -1
        client.is_alive = False
        client.runs.clear()
        self.ask(
            StreamsGroupHeartbeatRequest(
                group_id="g", member_id=client.member_id, member_epoch=epoch, instance_id=client.instance_id
            )
        )

    def ask(self, request: Message, version: int = 1) -> Any:
        """Sends a request, and creates the topics that its response requires."""
        response = super().ask(request, version)
        if not isinstance(response, NeedsTopics):
            return response
        self.change_topics(self.counts | {topic.name: topic.num_partitions for topic in response.topics})
        return response.response

    def give_up(self) -> None:
        """Stops clients whose session or revocation timeout has expired."""
        for client in self.clients:
            timers = self.group.timers.get(client.member_id, {}) if self.group is not None else {}
            revocation = timers.get("streams revocation")
            is_too_slow = revocation is not None and revocation.deadline_ms <= self.now
            if is_too_slow or self.now - client.heard_at >= SESSION_MS - 1:
                client.start_anew()

    def check(self) -> None:
        runners: dict[TaskId, int] = {}
        here: dict[tuple[str, TaskId], int] = {}
        for client in self.clients:
            for role, task in client.runs if client.is_alive else ():
                if role == ACTIVE:
                    other = runners.setdefault(task, client.number)
                    assert other == client.number, f"{other} and {client.number} run {task}"
                other = here.setdefault((client.process_id, task), client.number)
                assert other == client.number, f"{other} and {client.number} of one process have {task}"


def _said(runs: set[Run], role: int) -> list[TaskIds]:
    tasks = by_subtopology(task for kind, task in runs if kind == role)
    return [TaskIds(subtopology_id=name, partitions=partitions) for name, partitions in tasks.items()]
