"""ShareFetch and ShareAcknowledge: acquired records and their acknowledgements (KIP-932)."""

from __future__ import annotations

from typing import Any

from ..scenario import Step, ask, prepare, scenario
from ..setup_steps import NO_SUCH_ID, produced
from .share_states import begun, setup_steps

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
GROUP, SET = 32, 0


def batches(*acks: tuple[Any, ...]) -> list[dict[str, Any]]:
    """Returns acknowledgement batches. `acks`: first and last offset, then one type for all records or one for each."""
    return [{"first_offset": a[0], "last_offset": a[1], "acknowledge_types": list(a[2:])} for a in acks]


def fetch(
    epoch: int,
    *acks: tuple[Any, ...],
    member: Any = "a",
    group: Any = "$g",
    records: int = 500,
    partition: int = 0,
    topic_id: Any = "@t",
    wait: int = 0,
    **more: Any,
) -> Step:
    part = {"partition_index": partition, "acknowledgement_batches": batches(*acks)}
    fields = {
        "group_id": group,
        "member_id": member,
        "share_session_epoch": epoch,
        "max_wait_ms": wait,
        "min_bytes": 1,
        "max_bytes": 1 << 20,
        "max_records": records,
        "batch_size": records,
        "topics": [{"topic_id": topic_id, "partitions": [part]}],
    }
    until = more.pop("until", None)
    return ask("ShareFetch", until=until, **{**fields, **more})


def is_well(response: Any) -> bool:
    """Returns whether no partition has an error, or the whole response has one: the state may still be loading."""
    parts = [part for one in response.responses for part in one.partitions]
    return response.error_code != 0 or not any(part.error_code for part in parts)


def first(member: Any = "a", **more: Any) -> Step:
    """Sends the first fetch of a session until it has no partition error: the share partition may have to be loaded."""
    waits = {"wait": 5_000, **more}
    return fetch(0, member=member, until=is_well, **waits)


def say(epoch: int, *acks: tuple[Any, ...], member: Any = "a", group: Any = "$g", **more: Any) -> Step:
    part = {"partition_index": more.pop("partition", 0), "acknowledgement_batches": batches(*acks)}
    topics = [{"topic_id": more.pop("topic_id", "@t"), "partitions": [part]}]
    fields = {"group_id": group, "member_id": member, "share_session_epoch": epoch, "topics": topics}
    return ask("ShareAcknowledge", **{**fields, **more})


def configured(key: str, value: str) -> Step:
    """Sets a config of the group. Use it before the topic's creation: a broker with the topic then has the config."""
    config = {"name": key, "config_operation": SET, "value": value}
    resource = {"resource_type": GROUP, "resource_name": "$g", "configs": [config]}
    return prepare("IncrementalAlterConfigs", resources=[resource], validate_only=False)


def records(count: int = 10) -> list[Step]:
    """Makes a topic with batches of five records; the group begins at the first record."""
    return [*setup_steps(), begun(), *(produced(*(b"%d" % n for n in range(5))) for _ in range(count // 5))]


SCENARIOS = [
    scenario(
        "ShareFetch",
        "records are given to one member at a time",
        records(),
        first(),
        first("b", wait=0),
        fetch(1, (0, 9, ACCEPT)),
        fetch(2),
        fetch(-1),
    ),
    scenario("ShareFetch", "whole batches are given", records(), first(records=3), fetch(1, records=3)),
    scenario(
        "ShareFetch",
        "no more than is asked for is given",
        records(),
        first(records=3, share_acquire_mode=1),
        fetch(1, records=4, share_acquire_mode=1),
        fetch(2, records=9, share_acquire_mode=1),
        versions="2+",
    ),
    scenario(
        "ShareFetch",
        "what is released is given again",
        records(5),
        first(),
        fetch(1, (0, 4, RELEASE), wait=2_000),
        fetch(2, (0, 0, ACCEPT), (1, 1, REJECT), (2, 4, RELEASE), wait=2_000),
    ),
    scenario(
        "ShareFetch",
        "sessions have their epochs",
        records(5),
        fetch(1),
        fetch(-1),
        fetch(0, (0, 0, ACCEPT)),
        first(),
        fetch(3),
        fetch(1),
        fetch(-1),
        fetch(2),
    ),
    scenario(
        "ShareFetch",
        "fetches that are not well formed",
        records(5),
        fetch(0, group=None),
        fetch(0, member=None),
        fetch(0, member=""),
        fetch(0, member="x" * 37),
        fetch(0, topic_id=NO_SUCH_ID),
        fetch(0, partition=7),
        fetch(0, partition=-1),
    ),
    scenario(
        "ShareFetch",
        "a renewal fetches nothing",
        records(5),
        first(),
        fetch(1, (0, 4, RENEW), is_renew_ack=True),
        fetch(1, (0, 4, RENEW), is_renew_ack=True, min_bytes=0, max_bytes=0, records=0),
        fetch(2, (0, 4, RENEW)),
        versions="2+",
    ),
    scenario("ShareFetch", "a group that was never begun", setup_steps(), fetch(0, wait=500), fetch(1, wait=500)),
    scenario(
        "ShareAcknowledge",
        "records are accepted, released, rejected",
        records(),
        first(),
        say(1, (0, 3, ACCEPT)),
        say(2, (4, 9, ACCEPT, RELEASE, REJECT, GAP, ACCEPT, RELEASE)),
        fetch(3, wait=2_000),
        say(-1, (5, 5, ACCEPT)),
    ),
    scenario(
        "ShareAcknowledge",
        "records that are not the member's",
        records(),
        first(records=5),
        first("b", wait=5_000),
        say(1, (5, 9, ACCEPT)),
        say(2, (0, 9, ACCEPT)),
        say(3, (10, 12, ACCEPT)),
        say(4, (0, 4, ACCEPT)),
        say(5, (0, 4, ACCEPT)),
        say(1, (7, 7, REJECT), member="b"),
    ),
    scenario(
        "ShareAcknowledge",
        "acknowledgements that are not well formed",
        records(5),
        first(),
        say(0, (0, 4, ACCEPT)),
        say(7, (0, 4, ACCEPT)),
        say(1, (0, 4, ACCEPT), group=None),
        say(1, (0, 4, ACCEPT), member=""),
        say(1, (0, 4, ACCEPT), member="nobody"),
        say(1, (4, 0, ACCEPT)),
        say(2, (0, 4)),
        say(3, (0, 4, ACCEPT, ACCEPT)),
        say(4, (2, 4, ACCEPT), (0, 1, ACCEPT)),
        say(5, (0, 4, 9)),
        say(6, (0, 4, -1)),
        say(7, (0, 4, RENEW)),
        say(8),
        say(9, (0, 4, ACCEPT), topic_id=NO_SUCH_ID),
        say(10, (0, 4, ACCEPT), partition=7),
    ),
    scenario(
        "ShareAcknowledge",
        "locks are renewed",
        records(5),
        first(),
        say(1, (0, 4, RENEW), is_renew_ack=True),
        say(2, (0, 4, ACCEPT), is_renew_ack=True),
        say(3, (0, 4, RENEW), is_renew_ack=True),
        versions="2+",
    ),
]
