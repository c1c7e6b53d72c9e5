"""kcat, by its command line."""

from __future__ import annotations

import json
import shutil
import time

import pytest

from compat_tests.ecosystem import reference_client
from compat_tests.ecosystem.running import home, libraries, run, unpacked

COUNT = 2000


@pytest.fixture(scope="module")
def kcat() -> list[str]:
    home("kcat")
    return [shutil.which("kcat") or str(unpacked("kcat", "usr/bin/kcat"))]


def on(kcat: list[str], bootstrap: str, *words: str, stdin: str = "") -> str:
    return run([*kcat, "-b", bootstrap, *words], stdin=stdin, env=libraries("kcat"))


def test_keys_headers_and_codec_arrive(kcat: list[str], bootstrap: str, topic: str) -> None:
    reference_client.create(bootstrap, topic, 3)
    lines = "".join(f"key-{number}:value {number}\n" for number in range(COUNT))
    on(
        kcat,
        bootstrap,
        "-P",
        "-t",
        topic,
        "-K",
        ":",
        "-H",
        "source=kcat",
        "-z",
        "zstd",
        "-X",
        "linger.ms=5",
        stdin=lines,
    )
    found = reference_client.records(bootstrap, topic)
    assert {one.key: one.value for one in found} == {f"key-{number}": f"value {number}" for number in range(COUNT)}
    assert len(found) == COUNT and all(one.headers == (("source", b"kcat"),) for one in found)


def test_format_string_and_json_show_every_record(kcat: list[str], bootstrap: str, topic: str) -> None:
    reference_client.create(bootstrap, topic, 3)
    reference_client.produce(
        bootstrap, topic, (f"v{number}" for number in range(COUNT)), (f"k{number}" for number in range(COUNT))
    )
    wanted = {(one.partition, one.offset, one.key, one.value) for one in reference_client.records(bootstrap, topic)}
    shown = on(kcat, bootstrap, "-C", "-t", topic, "-o", "beginning", "-e", "-q", "-f", "%p %o %k %s\\n")
    rows = (line.split() for line in shown.splitlines())
    assert {(int(partition), int(offset), key, value) for partition, offset, key, value in rows} == wanted
    as_json = on(kcat, bootstrap, "-C", "-t", topic, "-o", "beginning", "-e", "-q", "-J").splitlines()
    found = [json.loads(line) for line in as_json]
    assert {(one["partition"], one["offset"], one["key"], one["payload"]) for one in found} == wanted
    assert len(found) == COUNT


def test_metadata_lists_brokers_and_partitions(kcat: list[str], bootstrap: str, topic: str) -> None:
    reference_client.create(bootstrap, topic, 3)
    reported = json.loads(on(kcat, bootstrap, "-L", "-J", "-t", topic))
    assert [one["name"] for one in reported["brokers"]] == [bootstrap]
    (about,) = reported["topics"]
    assert about["topic"] == topic and len(about["partitions"]) == 3


def test_a_group_resumes(kcat: list[str], bootstrap: str, topic: str, group: str) -> None:
    reference_client.create(bootstrap, topic, 3)
    member = ("-G", group, "-e", "-q", "-X", "auto.offset.reset=earliest", "-f", "%s\\n", topic)
    reference_client.produce(bootstrap, topic, (f"first-{number}" for number in range(100)))
    assert sorted(on(kcat, bootstrap, *member).split()) == sorted(f"first-{number}" for number in range(100))
    reference_client.produce(bootstrap, topic, (f"second-{number}" for number in range(50)))
    assert sorted(on(kcat, bootstrap, *member).split()) == sorted(f"second-{number}" for number in range(50))
    assert sum(reference_client.committed(bootstrap, group).values()) == 150


def test_offsets_are_found_by_time(kcat: list[str], bootstrap: str, topic: str) -> None:
    reference_client.create(bootstrap, topic)
    reference_client.produce(bootstrap, topic, ["before"])
    (first,) = reference_client.records(bootstrap, topic)
    while time.time() * 1000 <= first.timestamp_ms + 1:
        time.sleep(0.001)
    reference_client.produce(bootstrap, topic, ["after"])
    assert on(kcat, bootstrap, "-Q", "-t", f"{topic}:0:{first.timestamp_ms + 1}").split()[-1] == "1"
    assert on(kcat, bootstrap, "-C", "-t", topic, "-o", f"s@{first.timestamp_ms + 1}", "-e", "-q") == "after\n"


def test_open_and_aborted_transactions_are_hidden(kcat: list[str], bootstrap: str, topic: str) -> None:
    from confluent_kafka import Producer

    reference_client.create(bootstrap, topic)
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": topic})
    producer.init_transactions()
    for value, ending in (("aborted", producer.abort_transaction), ("committed", producer.commit_transaction)):
        producer.begin_transaction()
        producer.produce(topic, value)
        producer.flush()
        ending()
    read = ("-C", "-t", topic, "-o", "beginning", "-e", "-q")
    assert on(kcat, bootstrap, *read, "-X", "isolation.level=read_committed").split() == ["committed"]
    assert on(kcat, bootstrap, *read, "-X", "isolation.level=read_uncommitted").split() == ["aborted", "committed"]
