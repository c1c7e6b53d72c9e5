"""Parts of the controller's decisions about topics: the policy of a user, and the names that collide."""

from __future__ import annotations

from random import Random

import pytest
from odradek.protocol.internal.cluster_metadata import PartitionRecord
from odradek.protocol.messages.create_topics import CreatableReplicaAssignment, CreatableTopic
from odradek.replication.controller.policies import CreateTopicPolicy, Policies, TopicCreation
from odradek.replication.controller.state import ControllerState
from odradek.replication.controller.topic_creation import _check_policy


class NotedPolicy(CreateTopicPolicy):
    """Allows all topics, and notes them."""

    def __init__(self) -> None:
        self.creations: list[TopicCreation] = []

    def validate(self, request: TopicCreation) -> None:
        self.creations.append(request)


def new_state() -> ControllerState:
    return ControllerState(0, "cluster", {}, Random(1))


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("is_assigned", [False, True])
def test_policy_gets_the_counts_or_the_assignments_of_a_new_topic(partitions: int, is_assigned: bool) -> None:
    policy = NotedPolicy()
    state = new_state()
    state.policies = Policies(create_topic=policy)
    assignments = [CreatableReplicaAssignment(index, [1, 2]) for index in range(partitions)] if is_assigned else []
    records = [PartitionRecord(partition_id=index, replicas=[1, 2]) for index in range(partitions)]
    assert _check_policy(state, CreatableTopic("a", -1, -1, assignments), records) is None
    (creation,) = policy.creations
    counts = (None, None) if is_assigned else (partitions, 2)
    assert creation[:4] == ("a", *counts, dict.fromkeys(range(partitions), (1, 2)) if is_assigned else None)


def test_names_of_deleted_topics_are_forgotten() -> None:
    """Otherwise each of them takes memory for as long as the controller lives."""
    state = new_state()
    for name in ("a.b", "a_b", "plain"):
        ControllerState._count_name(state, name)
    assert state.colliding_names == {"a_b": {"a.b", "a_b"}}
    ControllerState._discount_name(state, "a.b")
    assert state.colliding_names == {"a_b": {"a_b"}}
    ControllerState._discount_name(state, "a_b")
    ControllerState._discount_name(state, "plain")
    assert state.colliding_names == {}
