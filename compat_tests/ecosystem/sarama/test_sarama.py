"""Sarama: a program in Go (main.go) that does one check at a time."""

from __future__ import annotations

from compat_tests.ecosystem import reference_client
from compat_tests.ecosystem.running import home, run


def sarama(bootstrap: str, check: str, topic: str, group: str, *more: str) -> list[str]:
    return run([str(home("sarama") / "program"), bootstrap, check, topic, group, *more]).splitlines()


def test_admin_creates_grows_and_describes_a_topic(bootstrap: str, topic: str, group: str) -> None:
    assert sarama(bootstrap, "admin", topic, group) == ["3600000 1 true"]
    reference_client.await_topic(bootstrap, topic, 5)


def test_idempotent_producer_writes_each_record_once(bootstrap: str, topic: str, group: str) -> None:
    reference_client.create(bootstrap, topic, 3)
    sarama(bootstrap, "produce", topic, group)
    found = reference_client.records(bootstrap, topic)
    wanted = {(f"key-{number}", f"value-{number}", (("n", b"%d" % number),)) for number in range(1000)}
    assert {(one.key, one.value, one.headers) for one in found} == wanted
    assert len(found) == 1000 and len({one.partition for one in found}) == 3


def test_a_group_resumes(bootstrap: str, topic: str, group: str) -> None:
    reference_client.create(bootstrap, topic, 3)
    for name, count in (("first", 300), ("second", 100)):
        wanted = [f"{name}-{number}" for number in range(count)]
        reference_client.produce(bootstrap, topic, wanted)
        assert sorted(sarama(bootstrap, "consume", topic, group, str(count))) == sorted(wanted)
    assert sum(reference_client.committed(bootstrap, group).values()) == 400


def test_transactions_hide_what_was_aborted_and_commit_offsets(bootstrap: str, topic: str, group: str) -> None:
    reference_client.create(bootstrap, topic)
    sarama(bootstrap, "transactions", topic, group)
    assert [one.value for one in reference_client.await_records(bootstrap, topic, 1)] == ["committed"]
    uncommitted = reference_client.records(bootstrap, topic, "read_uncommitted")
    assert [one.value for one in uncommitted] == ["aborted", "committed"]
    reference_client.await_committed(bootstrap, group, 7)
