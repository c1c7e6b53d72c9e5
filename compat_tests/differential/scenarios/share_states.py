"""The persister of share groups: states are initialized, read, written, summarized and deleted (KIP-932)."""

from __future__ import annotations

from typing import Any

from ..scenario import Step, ask, prepare, scenario
from ..setup_steps import NO_SUCH_ID, topic_of_groups

TOPIC = "__share_group_state"


def is_there(response: Any) -> bool:
    return all(one.error_code == 0 and one.partitions for one in response.topics)


def is_loaded(response: Any) -> bool:
    """Returns whether no error is 14, 15 or 16: coordinator loading, not available, not the coordinator."""
    return all(part.error_code not in (14, 15, 16) for one in response.results for part in one.partitions)


def about(api: str, *partitions: dict[str, Any], topic_id: Any = "@t", group: str = "$g", **more: Any) -> Step:
    """Sends a request. `partitions`: its fields for each partition; the default of `partition` is 0."""
    topics = [{"topic_id": topic_id, "partitions": [{"partition": 0, **one} for one in partitions]}]
    return ask(api, group_id=group, topics=topics, until=is_loaded, **more)


def begun(state_epoch: int = 1, start_offset: int = 0, **more: Any) -> Step:
    """Initializes the state of partition 0."""
    topics = [
        {"topic_id": "@t", "partitions": [{"partition": 0, "state_epoch": state_epoch, "start_offset": start_offset}]}
    ]
    return prepare("InitializeShareGroupState", group_id="$g", topics=topics, until=is_loaded, **more)


def setup_steps(*, partitions: int = 1) -> list[Step]:
    """Creates a topic, waits until coordinators have it, and creates the persister's topic."""
    wanted = prepare("Metadata", version=12, topics=[{"name": TOPIC}], allow_auto_topic_creation=True, until=is_there)
    return [*topic_of_groups(partitions=partitions), wanted]


def initialize(state_epoch: int = 1, start_offset: int = 0, **more: Any) -> Step:
    return about("InitializeShareGroupState", {"state_epoch": state_epoch, "start_offset": start_offset}, **more)


def read(leader_epoch: int = 0, **more: Any) -> Step:
    return about("ReadShareGroupState", {"leader_epoch": leader_epoch}, **more)


def write(*batches: tuple[int, int, int, int], start: int = 0, **more: Any) -> Step:
    """Writes state batches: first and last offset, delivery state, delivery count."""
    names = ("first_offset", "last_offset", "delivery_state", "delivery_count")
    of_partition = {key: more.pop(key) for key in ("state_epoch", "leader_epoch", "partition") if key in more}
    said = {
        "state_epoch": 1,
        "leader_epoch": 0,
        "start_offset": start,
        "delivery_complete_count": len(batches),
        "state_batches": [dict(zip(names, batch, strict=True)) for batch in batches],
        **of_partition,
    }
    return about("WriteShareGroupState", said, **more)


def summary(**more: Any) -> Step:
    return about("ReadShareGroupStateSummary", {"leader_epoch": -1}, **more)


def delete(**more: Any) -> Step:
    return about("DeleteShareGroupState", {}, **more)


WRONG = (
    {"topic_id": NO_SUCH_ID},
    {"topic_id": bytes(16)},
    {"group": ""},
)

SCENARIOS = [
    scenario(
        "InitializeShareGroupState",
        "states are begun once and again",
        setup_steps(),
        initialize(2, -1),
        read(),
        summary(),
        initialize(2, 5),
        read(-1),
        initialize(1, 7),
        initialize(-1, 9),
        read(-1),
        summary(),
    ),
    scenario(
        "InitializeShareGroupState",
        "what cannot be begun",
        setup_steps(),
        *(initialize(**one) for one in WRONG),
        about("InitializeShareGroupState", {"partition": 7}, {"partition": -1}),
        ask("InitializeShareGroupState", group_id="$g", topics=[]),
        ask("InitializeShareGroupState", group_id="$g", topics=[{"topic_id": "@t", "partitions": []}]),
    ),
    scenario("ReadShareGroupState", "what was never begun", setup_steps(), read(), *(read(**one) for one in WRONG)),
    scenario(
        "ReadShareGroupState",
        "a leader that is behind is fenced",
        setup_steps(),
        begun(start_offset=3),
        read(5),
        read(4),
        read(6),
        summary(),
    ),
    scenario(
        "WriteShareGroupState",
        "states are combined",
        setup_steps(),
        begun(),
        write((0, 9, 0, 1)),
        read(-1),
        write((0, 3, 2, 1), (6, 6, 4, 1)),
        read(-1),
        write((2, 8, 0, 2), start=1),
        read(-1),
        write((2, 8, 0, 1), (10, 19, 2, 1), start=2),
        read(-1),
        write((20, 29, 2, 1), start=30),
        read(-1),
        summary(),
    ),
    scenario(
        "WriteShareGroupState",
        "who may not write",
        setup_steps(),
        write((0, 9, 2, 1)),
        begun(2),
        read(5),
        write((0, 9, 2, 1), state_epoch=1, leader_epoch=5),
        write((0, 9, 2, 1), state_epoch=2, leader_epoch=4),
        write((0, 9, 2, 1), state_epoch=-1, leader_epoch=-1),
        write((0, 9, 2, 1), state_epoch=3, leader_epoch=6),
        write((0, 9, 2, 1), partition=4),
        write((0, 9, 2, 1), partition=-4),
        *(write((0, 1, 2, 1), **one) for one in WRONG),
        read(-1),
    ),
    scenario(
        "ReadShareGroupStateSummary",
        "what there is and what there is not",
        setup_steps(partitions=2),
        begun(4, 11),
        about("ReadShareGroupStateSummary", {}, {"partition": 1}, {"partition": 2}, {"partition": -1}),
        *(summary(**one) for one in WRONG),
        ask("ReadShareGroupStateSummary", group_id="$g", topics=[]),
    ),
    scenario(
        "DeleteShareGroupState",
        "states are forgotten",
        setup_steps(),
        delete(),
        begun(4, 11),
        delete(),
        delete(),
        read(),
        summary(),
        initialize(1, 2),
        read(-1),
        *(delete(**one) for one in WRONG),
    ),
]
