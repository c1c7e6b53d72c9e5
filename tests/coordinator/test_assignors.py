"""Assignors on random changing groups, without Kafka: what must hold, and the results that Kafka's classes gave."""

from __future__ import annotations

import hashlib
import json
from collections import Counter

import pytest
from odradek.coordinator.groups.consumer.assignors import ASSIGNORS
from odradek.coordinator.groups.streams.assignor import Candidate, sticky
from odradek.coordinator.groups.streams.configured import ConfiguredSubtopology
from odradek.coordinator.groups.streams.tasks import TaskId, Tasks

from tests.coordinator.harness.random_groups import as_json, rounds

GROUPS = 60
#: The results of these groups. test_assignors_against_kafka.py compares the same groups with Kafka's classes, those of
#: `uniform` with equal subscriptions by their counts. After a change, run that test: it shows the first group that differs.
DIGESTS = {
    ("uniform", False): "4511ed625e88ef51",
    ("uniform", True): "a1deded0a47e1385",
    ("range", False): "26afa0a47d4099f7",
    ("range", True): "8120b676398f6de8",
}


@pytest.mark.parametrize("assignor", ASSIGNORS)
@pytest.mark.parametrize("alike", [False, True], ids=["different subscriptions", "the same subscriptions"])
def test_assignments_are_those_that_kafka_confirmed(alike: bool, assignor: str) -> None:
    digest = hashlib.sha256()
    for seed in range(GROUPS):
        for _, _, made in rounds(assignor, seed, alike=alike):
            shown = {member_id: as_json(topics) for member_id, topics in made.items()}
            digest.update(json.dumps(shown, sort_keys=True).encode())
    assert digest.hexdigest()[:16] == DIGESTS[assignor, alike]


@pytest.mark.parametrize("assignor", ASSIGNORS)
@pytest.mark.parametrize("alike", [False, True], ids=["different subscriptions", "the same subscriptions"])
def test_each_partition_has_one_owner_that_subscribes(alike: bool, assignor: str) -> None:
    for seed in range(GROUPS):
        for members, counts, made in rounds(assignor, seed, alike=alike):
            subscribed = {topic_id for one in members.values() for topic_id in one.topic_ids}
            owners = Counter((t, i) for topics in made.values() for t, indexes in topics.items() for i in indexes)
            assert owners == Counter({(t, i): 1 for t in subscribed for i in range(counts[t])})
            assert all(set(topics) <= members[member_id].topic_ids for member_id, topics in made.items())


def test_uniform_evens_out_what_subscriptions_permit() -> None:
    """No partition has an owner with two partitions more than another member that could have it."""
    for seed in range(GROUPS):
        for members, _, made in rounds("uniform", seed, alike=False):
            load = {member_id: sum(map(len, topics.values())) for member_id, topics in made.items()}
            for member_id, topics in made.items():
                for topic_id in (topic_id for topic_id, indexes in topics.items() if indexes):
                    others = [load[other] for other, one in members.items() if topic_id in one.topic_ids]
                    assert load[member_id] - min(others) <= 1, (
                        f"seed {seed}: {member_id} has {load[member_id]} of {load}"
                    )


# ---- the assignor of streams groups


def assigned(count: int, replicas: int = 0, **had: tuple[str, ...]) -> dict[str, tuple[str, str]]:
    """Returns the active and the standby tasks of members, named by their partitions; `a=("p", "012", "3")`: a
    member of process p that had the tasks 0 to 2, and a standby copy of 3.
    """

    def ids(digits: str) -> frozenset[TaskId]:
        return frozenset(TaskId("0", int(digit)) for digit in digits)

    members = {
        name: Candidate(process, Tasks(ids(active), ids("".join(standby))), {})
        for name, (process, active, *standby) in had.items()
    }
    found = sticky(members, {"0": ConfiguredSubtopology(count, True, ("in",))}, replicas)

    def shown(tasks: frozenset[TaskId]) -> str:
        return "".join(str(task.partition) for task in sorted(tasks))

    return {name: (shown(of.active), shown(of.standby)) for name, of in found.items()}


@pytest.mark.parametrize(
    ("count", "had", "expected"),
    [
        (7, {"a": "012", "b": "3456", "c": ""}, {"a": "012", "b": "34", "c": "56"}),
        (7, {"a": "", "b": "0123456", "c": ""}, {"a": "35", "b": "012", "c": "46"}),
        (4, {"a": "0123", "b": ""}, {"a": "01", "b": "23"}),
        (1, {"a": "", "b": "0"}, {"a": "", "b": "0"}),
        (3, {"a": "", "b": "", "c": ""}, {"a": "0", "b": "1", "c": "2"}),
    ],
)
def test_members_keep_their_tasks_up_to_an_even_share(
    count: int, had: dict[str, str], expected: dict[str, str]
) -> None:
    found = assigned(count, **{name: (name, tasks) for name, tasks in had.items()})
    assert {name: active for name, (active, _) in found.items()} == expected


@pytest.mark.parametrize(
    ("processes", "replicas", "copies"),
    [(("p", "p"), 1, 0), (("p", "q"), 1, 1), (("p", "q"), 2, 1), (("p", "q", "r"), 2, 2)],
)
def test_standby_task_is_in_another_process_than_its_copies(
    processes: tuple[str, ...], replicas: int, copies: int
) -> None:
    found = assigned(4, replicas, **{name: (process, "") for name, process in zip("abc", processes, strict=False)})
    of_process: dict[str, list[str]] = {}
    for (active, standby), process in zip(found.values(), processes, strict=True):
        of_process.setdefault(process, []).extend(active + standby)
    assert all(len(tasks) == len(set(tasks)) for tasks in of_process.values())
    assert sum(len(standby) for _, standby in found.values()) == 4 * copies
    loads = [len(active) + len(standby) for active, standby in found.values()]
    assert max(loads) - min(loads) <= 1
    assert sticky({}, {"0": ConfiguredSubtopology(4, True, ("in",))}, 1) == {}


@pytest.mark.parametrize(
    ("had", "expected"),
    [
        # A copy is taken where it is first, unless a later one has less load in its process and of its own.
        ({"a": ("p", "", "0"), "a2": ("p", "12"), "b": ("q", "", "0")}, {"a": "0", "a2": "1", "b": "2"}),
        ({"a": ("p", "", "0"), "b": ("q", "", "0"), "c": ("r", "12")}, {"a": "0", "b": "2", "c": "1"}),
        ({"a": ("p", "1", "0"), "b": ("q", "", "0"), "c": ("r", "")}, {"a": "1", "b": "0", "c": "2"}),
        ({"a": ("p", "1", "0"), "a2": ("p", ""), "b": ("q", "2", "0")}, {"a": "1", "a2": "0", "b": "2"}),
    ],
)
def test_task_becomes_active_where_a_copy_of_its_state_is_and_room(
    had: dict[str, tuple[str, ...]], expected: dict[str, str]
) -> None:
    assert {name: active for name, (active, _) in assigned(3, **had).items()} == expected
