"""One of three brokers dies between any two steps of a transaction, and the other two complete it as a whole or not at all.

The broker is the transaction's coordinator, the leader of its partitions, or its group's coordinator: each its own node.

    python -m compat_tests.exactly_once.cluster_steps [--role leader] [--side followed] [--kind torn] [--end commit]
        [--client java]

A node dies at its first, second, ... append (dying.py), of those to topics that it leads or of those that it follows. The
result is checked without it. Then it starts and leads again, and the result must be the same.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, NamedTuple

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from odradek.protocol.messages.elect_leaders import ElectLeadersRequest
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

from compat_tests.recipes import eventually
from compat_tests.wire import WireClient

from .cluster import NODES, ThreeBrokers
from .commit_steps import DYING, ENDS, PARTITIONS, TOPIC, Harness, Round, arguments, execute_all
from .dying import KINDS
from .transactors import TRANSACTORS, Transactor

_TRANSACTIONS, _OFFSETS = "__transaction_state", "__consumer_offsets"
_DEADLINE_S = 120.0
_PREFERRED = 0
_PROPERTIES = {
    "group.initial.rebalance.delay.ms": "0",
    # The test itself elects the leaders.
    "auto.leader.rebalance.enable": "false",
}


class Role(NamedTuple):
    """A node, and the topic that it leads."""

    node: int
    topic: str


COORDINATOR, LEADER, GROUPS = "coordinator", "leader", "groups"
ROLES = {COORDINATOR: Role(1, _TRANSACTIONS), LEADER: Role(2, TOPIC), GROUPS: Role(3, _OFFSETS)}
LED, FOLLOWED = SIDES = ("led", "followed")


class ClusterHarness(Harness):
    """The same three brokers for all rounds, as a context; each can get a plan to die."""

    def __init__(self, folder: Path, transactor: Transactor) -> None:
        self.brokers = ThreeBrokers(folder, _PROPERTIES)
        super().__init__(self.brokers.bootstrap, transactor)
        self._plans = {node: folder / f"plan-{node}" for node in NODES}
        for node, process in self.brokers.nodes.items():
            process.python = (sys.executable, DYING, str(self._plans[node]))

    def __enter__(self) -> ClusterHarness:
        self.brokers.__enter__()
        try:
            for role in ROLES.values():
                self._make_topic(role)
            self._await_in_place()
            self.warm()
        except BaseException:
            self.brokers.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.brokers.__exit__(kind, error, trace)

    def execute(self, one: Round) -> bool:
        node = ROLES[one.role].node
        process, plan = self.brokers.nodes[node], self._plans[node]
        one.plan.write(plan)
        try:
            before = self.check(one, self.transact(one))
        finally:
            plan.unlink()
        if process.is_running:
            return False
        self.brokers.kill(node)
        self.brokers.start()
        self._await_in_place()
        after = self.standing(one)
        assert after == before, f"{one.name}: {before} without it, {after} with it"
        return True

    # ---- leaders

    def _make_topic(self, role: Role) -> None:
        others = [node for node in NODES if node != role.node]
        count = PARTITIONS if role.topic == TOPIC else 1
        configs = [] if role.topic == TOPIC else [CreatableTopicConfig("cleanup.policy", "compact")]
        places = [CreatableReplicaAssignment(index, [role.node, *others]) for index in range(count)]
        topic = CreatableTopic(role.topic, -1, -1, assignments=places, configs=configs)
        request = CreateTopicsRequest(topics=[topic], timeout_ms=30_000)
        done = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
        eventually(
            lambda: any(response.topics[0].error_code in done for response in self._ask(request, 7)),
            what=f"{role.topic} is made",
            deadline_s=_DEADLINE_S,
        )

    def _await_in_place(self) -> None:
        eventually(self._are_in_place, what="each role is where it belongs", deadline_s=_DEADLINE_S)

    def _are_in_place(self) -> bool:
        """Returns whether every node's metadata has the planned leaders; elects them if all replicas are in sync."""
        wanted = {role.topic: role.node for role in ROLES.values()}
        request = MetadataRequest([MetadataRequestTopic(name=topic) for topic in wanted], False)
        known = [topic for response in self._ask(request, 9) for topic in response.topics]
        parts = [(topic.name, part) for topic in known for part in topic.partitions]
        whole = (PARTITIONS + len(ROLES) - 1) * len(NODES)
        if len(parts) < whole or any(len(part.isr_nodes) < len(NODES) for _, part in parts):
            return False
        if all(part.leader_id == wanted[topic] for topic, part in parts):
            return True
        next(self._ask(ElectLeadersRequest(_PREFERRED, None, 30_000), 2), None)
        return False

    def _ask(self, request: Any, version: int) -> Iterator[Any]:
        """Yields the responses of the brokers that answer."""
        for process in self.brokers.nodes.values():
            with contextlib.suppress(OSError), WireClient(process.bootstrap) as client:
                yield client.call(request, version)


def topics_of(role: str, side: str) -> tuple[str, ...]:
    """Returns the topics whose appends count."""
    return tuple(other.topic for name, other in ROLES.items() if (name == role) == (side == LED))


def execute_roles(
    harness: ClusterHarness, roles: Iterable[str], sides: Iterable[str], kinds: Iterable[str], ends: Iterable[str]
) -> dict[tuple[str, str, str], int]:
    """Returns the number of deaths of each role on each side, for each end of a transaction."""
    kinds, deaths = tuple(kinds), {}
    for role in roles:
        for side in sides:
            for end in ends:
                count = execute_all(harness, kinds, end, role=role, topics=topics_of(role, side))
                deaths[role, side, end] = count
                print(f"{end}, {role} at what is {side}: {count} deaths", flush=True)
    return deaths


def main() -> None:
    parser: argparse.ArgumentParser = arguments(__doc__)
    parser.add_argument("--role", dest="roles", action="append", choices=ROLES, help="who dies (default: each in turn)")
    parser.add_argument("--side", dest="sides", action="append", choices=SIDES, help="appends that count")
    options = parser.parse_args()
    with (
        TemporaryDirectory(prefix="cluster-steps-") as name,
        TRANSACTORS[options.client]() as transactor,
        ClusterHarness(Path(name), transactor) as harness,
    ):
        execute_roles(
            harness, options.roles or ROLES, options.sides or SIDES, options.kinds or KINDS, options.ends or ENDS
        )


if __name__ == "__main__":
    main()
