"""`odradek group` on three nodes of Odradek and on Apache Kafka."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer
from odradek.cli.client.value_completion import complete_group, complete_topic

from compat_tests.cli.commands import Run
from compat_tests.recipes import eventually
from compat_tests.streams.word_count import WordCount


@pytest.fixture
def behind(run: Run, topic: str, group: str) -> tuple[str, str]:
    """A topic with five records in one partition, and a group without members that has read two of them."""
    run("topic", "create", topic, "--partitions", "1")
    run("produce", topic, "--create", stdin="1\n2\n3\n4\n5\n")
    assert run("consume", topic, "-g", group, "-o", "beginning", "-c", "2").out == "1\n2\n"
    return topic, group


def test_lag_is_the_end_less_what_is_committed(run: Run, behind: tuple[str, str]) -> None:
    topic, group = behind
    (row,) = run("group", "lag", group, "--output", "json").json
    assert row == {"group": group, "topic": topic, "partition": 0, "committed": 2, "end": 5, "lag": 3}
    (total,) = run("group", "lag", group, "--total", "--output", "jsonl").lines
    assert total["lag"] == 3
    assert group in run("group", "lag").out
    over = run("group", "lag", group, "--max", "2")
    assert over.status == 1 and f"{group} has 3" in over.err
    assert run("group", "lag", group, "--max", "3").status == 0


def test_shell_completes_topics_and_groups(
    cluster: str, behind: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, group = behind
    monkeypatch.setenv("ODRADEK_BOOTSTRAP_SERVER", cluster)
    assert complete_topic(topic) == [topic]
    assert complete_group(group) == [group]
    assert complete_topic("__consumer") == []


def test_reset_moves_offsets_and_shows_them_before(run: Run, behind: tuple[str, str]) -> None:
    topic, group = behind

    def committed() -> int:
        (row,) = run("group", "lag", group, "--output", "json").json
        return int(row["committed"])

    for words, after in (
        (("--to", "end"), 5),
        (("--to", "beginning", "--topic", topic), 0),
        (("--to", "-2"), 3),
        (("--shift", "-1"), 2),
        (("--to", "-1h"), 0),
        (("--to", "4", "--topic", f"{topic}:0"), 4),
        (("--to", "99"), 5),
    ):
        before = committed()
        (previewed,) = run("group", "reset", group, *words, "--dry-run", "--output", "json").json
        assert (previewed["before"], previewed["after"], committed()) == (before, after, before), words
        assert run("group", "reset", group, *words).status == 0
        assert committed() == after


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_members_are_described_and_protect_their_group(
    run: Run, cluster: str, topic: str, group: str, protocol: str
) -> None:
    run("topic", "create", topic, "--partitions", "2")
    settings = {"bootstrap.servers": cluster, "group.id": group, "group.protocol": protocol, "client.id": "shop"}
    for consumer in _consuming(settings, topic):
        (described,) = run("group", "describe", group, "--output", "json").json
        assert (described["kind"], described["state"]) == (protocol, "Stable")
        (member,) = described["members"]
        assert member["client"] == "shop" and member["partitions"] == [f"{topic}-0", f"{topic}-1"]
        reset = run("group", "reset", group, "--to", "end", "--topic", topic)
        assert reset.status == 1 and reset.err.count("\n") == 1, reset
        deleted = run("group", "delete", group)
        assert deleted.status == 1 and "members" in deleted.err
        assert consumer.assignment()
    assert run("group", "list", "--state", "empty", "--kind", protocol, "--output", "plain").out.count(group) == 1


def _consuming(settings: dict[str, str], topic: str) -> Iterator[Consumer]:
    consumer = Consumer(settings)
    consumer.subscribe([topic])
    try:
        for _ in range(300):
            consumer.poll(0.1)
            if len(consumer.assignment()) == 2:
                break
        yield consumer
    finally:
        consumer.close()


def test_share_groups_have_members_and_lag(run: Run, cluster: str, topic: str, group: str) -> None:
    from confluent_kafka import ShareConsumer

    run("topic", "create", topic, "--partitions", "2")
    assert run("config", "set", "group", group, "share.auto.offset.reset=earliest").status == 0
    # A partition without an acknowledgement has no start offset at the coordinator, and so no lag.
    run("produce", topic, "--create", "-p", "0", stdin="1\n2\n3\n4\n5\n")
    consumer = ShareConsumer({"bootstrap.servers": cluster, "group.id": group, "client.id": "shop"})
    read: list[bytes | None] = []

    def described() -> Any:
        read.extend(message.value() for message in consumer.poll(0.2) if message.error() is None)
        found = run("group", "describe", group, "--output", "json")
        members = found.json[0]["members"] if found.status == 0 else []
        return found.json[0] if len(read) == 5 and members and len(members[0]["partitions"]) == 2 else None

    try:
        consumer.subscribe([topic])
        about = eventually(described, what="the member has both partitions and all records", deadline_s=90)
        (member,) = about["members"]
        assert (about["kind"], about["assignor"], member["client"]) == ("share", "simple", "shop")
        assert member["partitions"] == [f"{topic}-0", f"{topic}-1"]

        def lag() -> list[int | None]:
            return [one["lag"] for one in run("group", "lag", group, "--output", "json").json]

        def acknowledged() -> bool:
            consumer.poll(0.2)  # acknowledges the records of earlier polls
            return {one for one in lag() if one is not None} == {0}  # a partition that is not begun has none

        eventually(acknowledged, what="all is acknowledged", deadline_s=60)
    finally:
        consumer.close()
    run("produce", topic, "--create", "-p", "0", stdin="6\n7\n8\n")
    eventually(lambda: sum(one or 0 for one in lag()) == 3, what="three records wait", deadline_s=60)


def test_offsets_of_share_groups_are_reset_and_deleted(run: Run, cluster: str, topic: str, group: str) -> None:
    from confluent_kafka import ShareConsumer

    run("topic", "create", topic, "--partitions", "2")
    run("produce", topic, "--create", "-p", "0", stdin="1\n2\n3\n4\n")

    def starts() -> dict[int, int]:
        done = run("group", "lag", group, "--output", "json")
        return {one["partition"]: one["committed"] for one in done.json} if done.status == 0 else {-1: -1}

    def succeeds(*words: str) -> str:
        """Returns the output, once the coordinators of groups and of share states are available."""
        return eventually(lambda: (done := run("group", *words)).status == 0 and done.out, what=f"{words} succeeds")

    reset = ("reset", group, "--share", "--topic", topic, "--to", "1", "--output", "json")
    previewed = json.loads(succeeds(*reset, "--dry-run"))
    assert [(one["partition"], one["before"], one["after"]) for one in previewed] == [(0, None, 1), (1, None, 0)]
    assert run("group", "reset", group, "--to", "end").status == 3
    assert run("group", "describe", group).status == 3
    succeeds(*reset)
    eventually(lambda: starts() == {0: 1, 1: 0}, what="the share group begins there")
    assert run("group", "reset", group, "--shift", "1").status == 0
    eventually(lambda: starts() == {0: 2, 1: 0}, what="the share group begins one record later")

    consumer = ShareConsumer({"bootstrap.servers": cluster, "group.id": group})
    read: list[bytes | None] = []
    try:
        consumer.subscribe([topic])

        def has_read() -> bool:
            read.extend(message.value() for message in consumer.poll(0.2) if message.error() is None)
            return len(read) == 2

        eventually(has_read, what="the member gets the records from there on", deadline_s=90)
        assert read == [b"3", b"4"]
        refused = run("group", "reset", group, "--to", "beginning")
        assert refused.status == 1 and "stop its members first" in refused.err
        assert "stop its members first" in run("group", "delete", group, "--topic", topic).err
    finally:
        consumer.close()
    succeeds("reset", group, "--to", "end")
    assert run("group", "delete", group, "--topic", f"{topic}:0").status == 2
    assert run("group", "delete", group, "--topic", topic, "--dry-run").out == f"would be deleted: {group}: {topic}\n"
    assert run("group", "delete", group, "--topic", topic).status == 0
    eventually(lambda: starts() == {}, what="the group has no offsets")
    assert run("group", "delete", group).status == 0


def test_streams_groups_have_members_with_tasks(
    run: Run, cluster: str, topic: str, group: str, tmp_path: Path, java_tools: None
) -> None:
    for name in (topic, f"{topic}-counts"):
        run("topic", "create", name, "--partitions", "2")
    application = WordCount(cluster, group, (topic, f"{topic}-counts"), tmp_path)
    application.settings |= {"group.protocol": "streams", "client.id": "words"}
    with contextlib.ExitStack() as ended:
        application.start()
        ended.callback(application.kill)

        def described() -> Any:
            found = run("group", "describe", group, "--output", "json")
            about = found.json[0] if found.status == 0 else None
            return about if about and about["members"] and about["members"][0]["tasks"]["active"] else None

        about = eventually(described, what="the member has tasks", deadline_s=90)
        (member,) = about["members"]
        assert about["kind"] == "streams" and member["client"].startswith("words")
        assert {"0_0", "0_1"} <= set(member["tasks"]["active"]) and not member["tasks"]["standby"]
        assert {f"{topic}-0", f"{topic}-1"} <= set(member["partitions"])
        assert member["member"] in run("group", "describe", group).out


def test_deleted_offsets_and_groups_are_gone(run: Run, behind: tuple[str, str]) -> None:
    topic, group = behind
    assert run("group", "delete", group, "--topic", topic, "--dry-run").out == f"would be deleted: {group}: {topic}-0\n"
    assert run("group", "delete", group, "--topic", topic).status == 0
    assert run("group", "lag", group, "--output", "json").json == []
    assert run("group", "delete", group, "--dry-run").status == 0
    assert run("group", "delete", group).status == 0
    for words in (("describe",), ("delete",), ("lag",)):
        assert run("group", *words, group).status == 3


def test_errors_say_what_to_do(run: Run, behind: tuple[str, str]) -> None:
    topic, group = behind
    for words, status, said in (
        (("reset", group), 2, "--to POSITION"),
        (("reset", f"{group}-new", "--to", "end", "--topic", topic), 3, f"did you mean {group}?"),
        (("reset", f"{group}-new", "--create", "--to", "end"), 3, "--topic"),
        (("reset", group, "--to", "end", "--topic", f"{topic}:7"), 3, "no partition 7"),
        (("reset", group, "--to", "end", "--topic", f"{topic}:x"), 2, "TOPIC:0,2"),
        (("reset", group, "--to", "soon"), 2, "is not a position"),
    ):
        done = run("group", *words)
        assert done.status == status and said in done.err and done.err.count("\n") == 1, done
