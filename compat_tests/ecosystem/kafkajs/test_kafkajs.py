"""KafkaJS: a program in JavaScript (program.js) that does one check at a time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from compat_tests.ecosystem import reference_client
from compat_tests.ecosystem.running import home, run

PROGRAM = Path(__file__).parent / "program.js"


def kafkajs(bootstrap: str, check: str, topic: str, group: str, *more: str) -> Any:
    modules = {"NODE_PATH": str(home("kafkajs") / "node_modules"), "KAFKAJS_NO_PARTITIONER_WARNING": "1"}
    return json.loads(run(["node", str(PROGRAM), bootstrap, check, topic, group, *more], env=modules))


def test_admin_creates_grows_and_describes_a_topic(bootstrap: str, topic: str, group: str) -> None:
    assert kafkajs(bootstrap, "admin", topic, group) == {"brokers": 1, "retention": "3600000", "ends": 5}
    assert reference_client.partitions_of(bootstrap, topic) == [0, 1, 2, 3, 4]


def test_idempotent_producer_writes_each_record_once(bootstrap: str, topic: str, group: str) -> None:
    reference_client.create(bootstrap, topic, 3)
    kafkajs(bootstrap, "produce", topic, group)
    found = reference_client.records(bootstrap, topic)
    wanted = {(f"key-{number}", f"value-{number}", (("n", b"%d" % number),)) for number in range(1000)}
    assert {(one.key, one.value, one.headers) for one in found} == wanted
    assert len(found) == 1000 and len({one.partition for one in found}) == 3


def test_a_group_resumes_and_is_administered(bootstrap: str, topic: str, group: str) -> None:
    reference_client.create(bootstrap, topic, 3)
    reference_client.produce(bootstrap, topic, (f"first-{number}" for number in range(300)))
    first = kafkajs(bootstrap, "consume", topic, group, "300")
    assert sorted(one[3] for one in first) == sorted(f"first-{number}" for number in range(300))
    reference_client.produce(bootstrap, topic, (f"second-{number}" for number in range(100)))
    second = kafkajs(bootstrap, "consume", topic, group, "100")
    assert sorted(one[3] for one in second) == sorted(f"second-{number}" for number in range(100))
    assert sum(reference_client.committed(bootstrap, group).values()) == 400
    reported = kafkajs(bootstrap, "groups", topic, group)
    assert (
        reported["listed"]
        and reported["state"] == "Empty"
        and {one["offset"] for one in reported["partitions"]} == {"0"}
    )
    assert reference_client.committed(bootstrap, group) == {}


def test_transactions_hide_what_was_aborted_and_commit_offsets(bootstrap: str, topic: str, group: str) -> None:
    reference_client.create(bootstrap, topic)
    offsets = kafkajs(bootstrap, "transactions", topic, group)
    assert [one["offset"] for one in offsets[0]["partitions"]] == ["7"]
    assert reference_client.values(bootstrap, topic) == ["committed"]
    uncommitted = reference_client.records(bootstrap, topic, "read_uncommitted")
    assert [one.value for one in uncommitted] == ["aborted", "committed"]
