"""Configs of topics with tables: the values that brokers accept are those that the archive has."""

from __future__ import annotations

import pytest
from odradek.admin.connection import Connection
from odradek.archive.followed_topic import CONFIGS, FollowedTopic, in_words_of_configs
from odradek.archive.key_columns import KeyColumns
from odradek.archive.keyed import Envelope, Keyed
from odradek.archive.ownership import checked_name
from odradek.archive.store import ArchiveError, PartitionBy
from odradek.archive.table_partitions import PartitionColumn
from odradek.archive.value_options import Form
from odradek.metadata.configs import ConfigResourceType, InvalidConfig, check_table_configs, check_table_place, validate
from odradek.metadata.configs.resources import OWN_TOPIC

TOPIC = ConfigResourceType.TOPIC


def accepts(name: str, text: str) -> bool:
    try:
        validate(TOPIC, f"odradek.table.{name}", text)
    except InvalidConfig:
        return False
    return True


def is_name(text: str) -> bool:
    try:
        checked_name(text)
    except ArchiveError:
        return False
    return True


def test_archive_reads_each_config_of_a_table() -> None:
    assert set(CONFIGS) == set(OWN_TOPIC)


def are_accepted(configs: dict[str, str]) -> bool:
    try:
        for name, text in configs.items():
            validate(TOPIC, name, text)
        check_table_configs(configs)
    except InvalidConfig:
        return False
    return True


def has_layout(configs: dict[str, str]) -> bool:
    try:
        FollowedTopic.of_configs("a", configs)
    except ArchiveError:
        return False
    return True


@pytest.mark.parametrize("text", [*PartitionBy, "week", "DAY", "", "id", "bucket(16,id)"])
def test_broker_accepts_the_partitions_of_the_archive(text: str) -> None:
    assert are_accepted({"odradek.table.partition.by": text}) == (text in set(PartitionBy))


@pytest.mark.parametrize(
    "configs",
    [
        {"key": "id"}, {"key": "id,day", "sort.by": "id"}, {"key": "key", "row.ttl.ms": "1000"}, {"key": ""},
        {"key": "id", "row.ttl.ms": "999"}, {"key": "id", "partition.by": "bucket(16,id),day"}, {"sort.by": "id"},
        {"row.ttl.ms": "5000"}, {"envelope": "debezium"}, {"envelope": "none"}, {"key": "id", "envelope": "canal"},
        {"key": "id", "envelope": "debezium", "format": "json"},
    ],
)  # fmt: skip
def test_broker_accepts_the_keyed_tables_of_the_archive(configs: dict[str, str]) -> None:
    named = {f"odradek.table.{name}": text for name, text in configs.items()}
    is_short = configs.get("row.ttl.ms") == "999"
    assert are_accepted(named) == (has_layout(named) and configs.get("key") != "" and not is_short)


def test_envelope_needs_columns_of_values() -> None:
    configs = {"odradek.table.key": "id", "odradek.table.envelope": "debezium"}
    assert not are_accepted(configs) and are_accepted(configs | {"odradek.table.format": "json"})


@pytest.mark.parametrize("text", [*Form, "xml", ""])
def test_broker_accepts_the_formats_of_the_archive(text: str) -> None:
    assert accepts("format", text) == (text in set(Form))


@pytest.mark.parametrize("text", ["a", "A_1", "a-b", "a.b", "ä", "", "../x", "a" * 242, "a" * 243])
def test_broker_accepts_the_names_of_the_archive(text: str) -> None:
    assert accepts("name", text) == is_name(text)


def test_configs_are_the_options_of_the_table() -> None:
    assert FollowedTopic.of_configs("a.b", {}) == FollowedTopic("a.b", "a_b")
    configs = {
        "odradek.table.name": "t", "odradek.table.format": "json", "odradek.table.partition.by": "none",
        "odradek.table.keep.value": "true", "odradek.table.skip.unreadable": "TRUE",
    }  # fmt: skip
    assert FollowedTopic.of_configs("a.b", configs) == FollowedTopic(
        "a.b", "t", "json", PartitionBy.none, keep_value=True, skip_unreadable=True
    )


def test_configs_are_the_options_of_a_keyed_table() -> None:
    configs = {
        "odradek.table.key": "id", "odradek.table.envelope": "debezium", "odradek.table.sort.by": "id, key",
        "odradek.table.row.ttl.ms": "1500", "odradek.table.partition.by": "bucket(4,id)",
    }  # fmt: skip
    keyed = Keyed(
        KeyColumns.named(["id"]),
        Envelope.debezium,
        ("value.id", "key"),
        1.5,
        (PartitionColumn("value.id", "bucket[4]"),),
    )
    found = FollowedTopic.of_configs("a.b", configs).layout
    assert found == keyed and isinstance(found, Keyed) and found.partition_by == keyed.partition_by


def test_stored_values_of_another_release_are_errors_of_their_topic() -> None:
    with pytest.raises(ArchiveError, match=r"topic a: odradek\.table\.partition\.by takes hour, day, month, none"):
        FollowedTopic.of_configs("a", {"odradek.table.partition.by": "week"})


def test_format_with_a_registry_names_where_to_set_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ODRADEK_SCHEMA_REGISTRY", raising=False)
    followed = FollowedTopic.of_configs("a", {"odradek.table.format": "avro"})
    with pytest.raises(ArchiveError, match=r"schema\.registry\.url in the file of odradek\.table\.client\.config"):
        followed.values(Connection({}))
    values = followed.values(Connection({"schema.registry.url": "http://127.0.0.1:1"}))
    assert values is not None and values.registry == "http://127.0.0.1:1"


def test_errors_name_the_config_in_place_of_the_option() -> None:
    text = "name another table for it: --table a.b=NAME"
    assert in_words_of_configs(text, "a.b") == "name another table for it: set odradek.table.name=NAME of the topic"


ON, OFF = {"odradek.table.enable": "true"}, {"odradek.table.enable": "false"}


@pytest.mark.parametrize(
    ("configs", "existing", "place", "is_refused"),
    [
        (ON, {}, (None, None), True),
        (ON, OFF, (None, None), True),
        (ON, {}, ("dir", None), False),
        (ON, {}, (None, "file"), False),
        (OFF, {}, (None, None), False),
        ({**ON, "retention.ms": "1"}, ON, (None, None), False),
    ],
)
def test_table_needs_a_place_when_it_is_enabled(
    configs: dict[str, str], existing: dict[str, str], place: tuple[str | None, str | None], is_refused: bool
) -> None:
    if is_refused:
        with pytest.raises(InvalidConfig, match=r"set odradek\.table\.warehouse=DIR"):
            check_table_place(configs, existing, *place)
    else:
        check_table_place(configs, existing, *place)
