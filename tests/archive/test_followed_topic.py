"""Configs of topics with tables: the values that brokers accept are those that the archive has."""

from __future__ import annotations

import pytest
from odradek.admin.connection import Connection
from odradek.archive.command import Form
from odradek.archive.followed_topic import CONFIGS, FollowedTopic, in_words_of_configs
from odradek.archive.ownership import checked_name
from odradek.archive.store import ArchiveError, PartitionBy
from odradek.metadata.configs import ConfigResourceType, InvalidConfig, check_table_place, validate
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


@pytest.mark.parametrize("text", [*PartitionBy, "week", "DAY", ""])
def test_broker_accepts_the_partitions_of_the_archive(text: str) -> None:
    assert accepts("partition.by", text) == (text in set(PartitionBy))


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


def test_stored_values_of_another_release_are_errors_of_their_topic() -> None:
    with pytest.raises(ArchiveError, match=r"topic a: odradek\.table\.partition\.by is one of hour, day, month, none"):
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
