"""`odradek topic` on three nodes of Odradek and on Apache Kafka."""

from __future__ import annotations

import csv

from compat_tests.cli.commands import Done, Run, odradek_command


def test_created_topic_is_listed_and_described(run: Run, topic: str) -> None:
    made = run("topic", "create", topic, "--partitions", "3", "--config", "retention.ms=60000")
    assert (made.status, made.out) == (0, f"created: {topic}\n"), made.err
    (listed,) = run("topic", "list", topic, "--output", "json").json
    assert (listed["partitions"], listed["under_replicated"], listed["internal"]) == (3, 0, False)
    (described,) = run("topic", "describe", topic, "--output", "jsonl").lines
    assert described["configs"]["retention.ms"] == "60000"
    assert [place["partition"] for place in described["partitions"]] == [0, 1, 2]
    assert all(place["leader"] in place["isr"] and place["end_offset"] == 0 for place in described["partitions"])


def test_table_csv_and_plain_text_hold_the_same_cells(run: Run, topic: str) -> None:
    run("topic", "create", topic, "--partitions", "2")
    table = run("topic", "list", topic).out.splitlines()
    assert table[0].split() == ["NAME", "PARTITIONS", "REPLICAS", "UNDER", "REPLICATED"]
    (row,) = csv.DictReader(run("topic", "list", topic, "--output", "csv").out.splitlines())
    assert row["name"] == topic and row["partitions"] == "2"
    plain = run("topic", "list", topic, "--output", "plain").out
    assert plain.rstrip("\n").split("\t") == table[1].split() == list(row.values())


def test_dry_run_of_every_change_changes_nothing(run: Run, topic: str) -> None:
    assert run("topic", "create", topic, "--dry-run").out == f"would be created: {topic}\n"
    assert run("topic", "describe", topic).status == 3
    run("topic", "create", topic, "--partitions", "1")
    before = run("topic", "describe", topic, "--output", "json").json
    for change in (
        ("alter", topic, "--partitions", "4", "-c", "retention.ms=1", "--replication-factor", "1"),
        ("delete", topic),
        ("trim", topic, "--before", "end"),
    ):
        done = run("topic", *change, "--dry-run")
        assert done.status == 0 and "would be" in done.out, done.err
    assert run("topic", "describe", topic, "--output", "json").json == before


def test_altered_topic_has_more_partitions_and_new_configs(run: Run, topic: str) -> None:
    run("topic", "create", topic, "--partitions", "1", "-c", "cleanup.policy=compact")
    assert run("topic", "alter", topic, "--partitions", "2", "-c", "max.message.bytes=2000").status == 0
    (described,) = run("topic", "describe", topic, "--output", "json").json
    assert len(described["partitions"]) == 2
    assert described["configs"] == {"cleanup.policy": "compact", "max.message.bytes": "2000"}
    assert run("topic", "alter", topic, "--delete-config", "cleanup.policy").status == 0
    (described,) = run("topic", "describe", topic, "--output", "json").json
    assert "cleanup.policy" not in described["configs"]


def test_errors_are_one_line_with_a_status(run: Run, topic: str) -> None:
    assert run("topic", "create", topic).status == 0
    for words, status, said in (
        (("topic", "create", topic), 1, "already exists"),
        (("topic", "describe", f"{topic}-absent"), 3, "does not exist"),
        (("topic", "delete", f"{topic}-absent"), 3, "does not exist"),
        (("topic", "alter", topic, "-c", "no.such.key=1"), 1, "no.such.key"),
        (("topic", "alter", topic), 2, "nothing to change"),
        (("topic", "create", "a/b"), 1, "a/b"),
        (("topic", "create", topic, "--partitions", "0"), 2, "at least 1"),
        (("topic", "create", topic, "--partition", "3"), 2, "--partitions"),
        (("topic", "crate", topic), 2, "did you mean create?"),
    ):
        done = run(*words)
        assert done.status == status, (words, done)
        assert done.out == "" and done.err.startswith("odradek: ") and done.err.count("\n") == 1
        assert said in done.err
    assert run("topic", "create", topic, "--if-not-exists").status == 0
    assert run("topic", "delete", f"{topic}-absent", "--if-exists").status == 0


def test_deleted_topic_is_gone_and_an_error_names_what_was_deleted(run: Run, topic: str) -> None:
    run("topic", "create", topic)
    done = run("topic", "delete", topic, f"{topic}-absent")
    assert done.status == 3 and f"deleted nevertheless: {topic}" in done.err
    assert run("topic", "list", topic, "--output", "json").json == []


def test_replicas_are_added_on_the_brokers_with_the_fewest(three: str, topic: str) -> None:
    def run(*words: str) -> Done:
        return odradek_command(*words, "-b", three)

    run("topic", "create", topic, "--partitions", "3", "--replication-factor", "1")
    done = run("topic", "alter", topic, "--replication-factor", "2")
    assert done.status == 0, done.err
    (described,) = run("topic", "describe", topic, "--output", "json").json
    assert all(len(place["replicas"]) >= 2 for place in described["partitions"])
    assert run("topic", "alter", topic, "--replication-factor", "9").status == 2
