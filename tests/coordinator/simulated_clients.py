"""Random clients of a simulated coordinator: some dynamic, some static, some misbehaving.

A client is a loop of the classic protocol with random choices at each step. It reports its responses to the simulation,
which checks them. Requests and replies have a latency; some are lost, and some are duplicated much later.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Protocol

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from odradek.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from odradek.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from odradek.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from odradek.protocol.schema import Message

PARTITIONS = 6
SESSION_TIMEOUT_MS = 10_000
REBALANCE_TIMEOUT_MS = 15_000
#: The request timeout of a client before it retries.
REQUEST_TIMEOUT_MS = 20_000
NAMES = ("range", "sticky")

START_ANEW = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION)
TURNED_AWAY = (ErrorCode.FENCED_INSTANCE_ID, ErrorCode.GROUP_MAX_SIZE_REACHED, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


class World(Protocol):
    now: int
    rng: random.Random
    is_calm: bool

    def after(self, delay_ms: int, client: SimulatedClient, step: str, *what: object) -> None: ...
    def send(self, client: SimulatedClient, request: Message) -> None: ...
    def owns(self, client: SimulatedClient, partitions: list[int]) -> None: ...
    def committed(self, group_id: str, partition: int, offset: int) -> None: ...
    def next_offset(self) -> int: ...


def to_bytes(partitions: list[int]) -> bytes:
    """Encodes an assignment. An empty one is an empty list of partitions, as assignors encode it, never empty bytes."""
    return b"p" + bytes(partitions)


def from_bytes(assignment: bytes) -> list[int]:
    return list(assignment[1:])


@dataclass(eq=False)
class SimulatedClient:
    name: str
    group_id: str
    version: int
    instance_id: str | None
    world: World
    member_id: str = ""
    generation_id: int = -1
    protocol: str = ""
    #: The number of the pending request. Responses to others are stale.
    waits_for: int = 0
    requests: int = 0
    is_alive: bool = True
    is_member: bool = False
    partitions: list[int] = field(default_factory=list)
    #: The last request, which the network may duplicate.
    last_request: Message | None = None

    def start(self) -> None:
        self.member_id = ""
        self.generation_id = -1
        self.is_alive = True
        self.join()

    def crash(self) -> None:
        """Stops without a request. A static member may return; a dynamic member returns as a new one."""
        self.is_alive = False
        self.is_member = False
        self.waits_for = 0

    # Steps. The simulation calls each of them; `request` numbers distinguish old wake-ups from new ones.

    def step(self, step: str, *what: object) -> None:
        if step == "start":
            if not self.is_alive:
                self.start()
        elif self.is_alive and step == "timeout" and self.waits_for == what[0]:
            self.join()
        elif self.is_alive and step == "quit" and self.waits_for == what[0]:
            self._leave()
        elif self.is_alive and step == "poll" and what[0] == (self.member_id, self.generation_id) and self.is_member:
            self.poll()

    def join(self) -> None:
        self.is_member = False
        rng = self.world.rng
        favourites = list(NAMES) if rng.random() < 0.8 else [NAMES[0]]
        rng.shuffle(favourites)
        protocols = [JoinGroupRequestProtocol(name=name, metadata=rng.randbytes(1)) for name in favourites]
        self._ask(
            JoinGroupRequest(
                group_id=self.group_id,
                session_timeout_ms=SESSION_TIMEOUT_MS,
                rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
                member_id=self.member_id,
                group_instance_id=self.instance_id,
                protocol_type="consumer",
                protocols=protocols,
            )
        )

    def poll(self) -> None:
        """Runs as a member of a generation: sends heartbeats, and sometimes commits, leaves, rejoins or crashes."""
        dice = 1.0 if self.world.is_calm else self.world.rng.random()
        if dice < 0.03:
            self._leave()
        elif dice < 0.06:
            self.crash()
            self.world.after(self.world.rng.choice([1_000, 60_000]), self, "start")
        elif dice < 0.12:
            self.join()
        elif dice < 0.35 and self.partitions:
            self._commit()
        else:
            self._ask(
                HeartbeatRequest(
                    group_id=self.group_id,
                    generation_id=self.generation_id,
                    member_id=self.member_id,
                    group_instance_id=self.instance_id,
                )
            )

    def _leave(self) -> None:
        leaver = MemberIdentity(member_id=self.member_id, group_instance_id=self.instance_id)
        self._ask(LeaveGroupRequest(group_id=self.group_id, members=[leaver]))

    def _commit(self) -> None:
        partition = OffsetCommitRequestPartition(
            partition_index=self.world.rng.choice(self.partitions),
            committed_offset=self.world.next_offset(),
            committed_metadata="",
        )
        self._ask(
            OffsetCommitRequest(
                group_id=self.group_id,
                generation_id_or_member_epoch=self.generation_id,
                member_id=self.member_id,
                group_instance_id=self.instance_id,
                topics=[OffsetCommitRequestTopic(name="t", topic_id=bytes(16), partitions=[partition])],
            )
        )

    def _ask(self, request: Message) -> None:
        self.requests += 1
        self.waits_for = self.requests
        self.last_request = request
        self.world.send(self, request)
        self.world.after(REQUEST_TIMEOUT_MS, self, "timeout", self.waits_for)

    # Responses.

    def answered(self, number: int, request: Message, response: Message) -> None:
        if not self.is_alive or number != self.waits_for:
            return
        self.waits_for = 0
        if isinstance(response, JoinGroupResponse):
            self._joined(response)
        elif isinstance(response, SyncGroupResponse):
            self._synced(response)
        elif isinstance(response, HeartbeatResponse):
            self._go_on(ErrorCode(response.error_code))
        elif isinstance(response, LeaveGroupResponse):
            self.crash()
            self.world.after(self.world.rng.randrange(30_000), self, "start")
        elif isinstance(response, OffsetCommitResponse):
            assert isinstance(request, OffsetCommitRequest)
            error = ErrorCode(response.topics[0].partitions[0].error_code)
            if error is ErrorCode.NONE:
                reported = request.topics[0].partitions[0]
                self.world.committed(self.group_id, reported.partition_index, reported.committed_offset)
            self._go_on(error)

    def _joined(self, response: JoinGroupResponse) -> None:
        error = ErrorCode(response.error_code)
        if error is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
            self.join()
        elif error is not ErrorCode.NONE:
            self._go_on(error)
        else:
            self.member_id = response.member_id
            self.generation_id = response.generation_id
            self.protocol = response.protocol_name or ""
            is_leader = response.leader == response.member_id and not response.skip_assignment
            members = [member.member_id for member in response.members]
            self._sync(self._assign(members) if is_leader else {})

    def _assign(self, members: list[str]) -> dict[str, list[int]]:
        assignments: dict[str, list[int]] = {member_id: [] for member_id in members}
        order = self.world.rng.sample(members, len(members))
        for partition in range(PARTITIONS):
            assignments[order[partition % len(order)]].append(partition)
        return assignments

    def _sync(self, assignments: dict[str, list[int]]) -> None:
        self._ask(
            SyncGroupRequest(
                group_id=self.group_id,
                generation_id=self.generation_id,
                member_id=self.member_id,
                group_instance_id=self.instance_id,
                protocol_type="consumer",
                protocol_name=self.protocol,
                assignments=[
                    SyncGroupRequestAssignment(member_id=member_id, assignment=to_bytes(partitions))
                    for member_id, partitions in assignments.items()
                ],
            )
        )
        if not self.world.is_calm and self.world.rng.random() < 0.05:
            # The client leaves before it gets the response.
            self.world.after(60, self, "quit", self.waits_for)

    def _synced(self, response: SyncGroupResponse) -> None:
        error = ErrorCode(response.error_code)
        if error is not ErrorCode.NONE:
            self._go_on(error)
            return
        assert response.assignment, f"{self.name} synced generation {self.generation_id} and got empty bytes"
        self.partitions = from_bytes(response.assignment)
        self.world.owns(self, self.partitions)
        self.is_member = True
        self._go_on(ErrorCode.NONE)

    def _go_on(self, error: ErrorCode) -> None:
        if error in TURNED_AWAY:
            self.crash()
            if not self.world.is_calm:
                self.world.after(self.world.rng.randrange(60_000), self, "start")
        elif error in START_ANEW:
            self.member_id = ""
            self.join()
        elif error is ErrorCode.NONE and self.is_member:
            self.world.after(3_000, self, "poll", (self.member_id, self.generation_id))
        else:
            self.join()
