"""Rules for several configuration values, precedence of layers, and parsing of values."""

from __future__ import annotations

import pytest
from odradek.metadata.configs import (
    BrokerValues,
    ConfigResourceType,
    InvalidConfig,
    Password,
    definition,
    lenient_topic_values,
    synonyms,
    to_text,
    topic_defaults,
    usable_dynamic_configs,
    validate,
    validate_broker_change,
    validate_broker_configs,
    validate_client_metrics_configs,
    validate_dynamic_names,
    validate_group_configs,
    validate_topic_configs,
)
from odradek.metadata.configs.documentation import documentation
from odradek.metadata.configs.resources import OWN
from odradek.metadata.configs.values import java_double
from odradek.protocol.errors import ErrorCode

NODE = {"node.id": "1", "broker.id": "1", "process.roles": "broker", "controller.listener.names": "C"}
PLAIN = BrokerValues(NODE)


def broker(**texts: str) -> BrokerValues:
    return BrokerValues({**NODE, **{name.replace("_", "."): text for name, text in texts.items()}})


def test_every_key_has_a_sentence_of_documentation() -> None:
    for resource in (
        ConfigResourceType.BROKER,
        ConfigResourceType.TOPIC,
        ConfigResourceType.GROUP,
        ConfigResourceType.CLIENT_METRICS,
    ):
        for name in definition(resource):
            words = documentation(resource, name)
            assert words is not None
            assert words.endswith("."), name
            assert len(words) > 10, name
    assert all(documentation(ConfigResourceType.BROKER, name) for name in OWN)
    assert documentation(ConfigResourceType.BROKER, "nobody.knows") is None


def test_documentation_of_inert_key_gives_reason() -> None:
    assert "It has no effect here" in (documentation(ConfigResourceType.BROKER, "num.io.threads") or "")
    assert "It has no effect here" not in (documentation(ConfigResourceType.BROKER, "log.retention.ms") or "")


def test_every_default_passes_its_own_validator() -> None:
    for resource in (ConfigResourceType.BROKER, ConfigResourceType.TOPIC, ConfigResourceType.GROUP):
        for key in definition(resource).values():
            text = to_text(key.default_value)
            if text is not None:
                assert key.parse(text) == key.default_value, key.name


@pytest.mark.parametrize(
    ("number", "text"),
    [
        *[(0.5, "0.5"), (1e7, "1.0E7"), (9999999.0, "9999999.0"), (0.001, "0.001"), (1e-4, "1.0E-4"), (0.0, "0.0")],
        *[(1e23, "1.0E23"), (-2.5e-9, "-2.5E-9"), (float("inf"), "Infinity"), (123456789.25, "1.2345678925E8")],
    ],
)
def test_double_is_formatted_as_in_java(number: float, text: str) -> None:
    assert java_double(number) == text


def test_password_is_never_shown() -> None:
    secret = validate(ConfigResourceType.BROKER, "ssl.key.password", "hush")
    assert isinstance(secret, Password)
    assert secret.value == "hush"
    assert "hush" not in f"{secret} {secret!r} {to_text(secret)}"


# ---- layers of a broker


def test_dynamic_broker_value_overrides_cluster_default_and_file() -> None:
    static = {**NODE, "message.max.bytes": "1"}
    assert BrokerValues(static).get("message.max.bytes") == 1
    assert BrokerValues(static, {"message.max.bytes": "2"}).get("message.max.bytes") == 2
    assert BrokerValues(static, {"message.max.bytes": "2"}, {"message.max.bytes": "3"}).get("message.max.bytes") == 3
    assert BrokerValues(NODE).get("message.max.bytes") == 1048588


def test_stronger_layer_hides_synonyms_of_weaker_layers() -> None:
    values = BrokerValues({**NODE, "log.retention.ms": "5", "log.retention.hours": "1"}, {}, {"log.retention.ms": "7"})
    assert topic_defaults(values)["retention.ms"] == 7
    assert "log.retention.hours" not in values.texts


def test_synonym_with_finest_unit_wins() -> None:
    assert topic_defaults(broker(log_retention_hours="2"))["retention.ms"] == 7_200_000
    both = broker(log_retention_hours="2", log_retention_minutes="3")
    assert topic_defaults(both)["retention.ms"] == 180_000
    assert topic_defaults(broker(log_roll_hours="1"))["segment.ms"] == 3_600_000
    assert topic_defaults(broker(log_retention_ms="-5"))["retention.ms"] == -1
    assert topic_defaults(broker(log_flush_scheduler_interval_ms="9"))["flush.ms"] == 9


def test_invalid_dynamic_value_is_ignored() -> None:
    values = BrokerValues({**NODE, "message.max.bytes": "7"}, {"message.max.bytes": "many"}, {})
    assert values.get("message.max.bytes") == 7
    assert "message.max.bytes" not in values.dynamic_default


def test_invalid_static_value_raises() -> None:
    with pytest.raises(InvalidConfig, match=r"message\.max\.bytes"):
        broker(message_max_bytes="many")


def test_listener_key_falls_back_to_key_without_prefix() -> None:
    assert synonyms("listener.name.x.max.connections") == ("listener.name.x.max.connections", "max.connections")
    assert synonyms("listener.name.x.plain.sasl.jaas.config")[1] == "sasl.jaas.config"
    values = BrokerValues({**NODE, "listener.name.x.max.connections": "5"})
    assert values.get("listener.name.x.max.connections") == 5
    assert values.get("listener.name.y.max.connections") == 2**31 - 1
    with pytest.raises(InvalidConfig, match=r"listener\.name\.x\.max\.connections"):
        BrokerValues({**NODE, "listener.name.x.max.connections": "-5"})


def test_topic_inherits_each_key_from_broker() -> None:
    values = topic_defaults(broker(log_cleanup_policy="compact,delete", min_insync_replicas="2"))
    assert values["cleanup.policy"] == ("compact", "delete")
    assert values["min.insync.replicas"] == 2
    assert values["segment.bytes"] == 1 << 30
    assert values.keys() == definition(ConfigResourceType.TOPIC).keys()


# ---- rules


def check_topic(tiered: bool = False, existing: dict[str, str] | None = None, **texts: str) -> None:
    configs = {name.replace("_", "."): text for name, text in texts.items()}
    validate_topic_configs(configs, topic_defaults(PLAIN), existing, tiered)


@pytest.mark.parametrize(
    ("words", "configs"),
    [
        ("Unknown topic config name: no.such.key", {"no_such_key": "1"}),
        (
            r"min.compaction.lag.ms \(9\) > max.compaction.lag.ms \(8\)",
            {"min_compaction_lag_ms": "9", "max_compaction_lag_ms": "8"},
        ),
        ("Tiered Storage functionality is disabled", {"remote_storage_enable": "true"}),
    ],
)
def test_invalid_topic_configs_raise_kafkas_text(words: str, configs: dict[str, str]) -> None:
    with pytest.raises(InvalidConfig, match=words):
        check_topic(**configs)


@pytest.mark.parametrize(
    ("words", "configs"),
    [
        ("only supports topics with cleanup.policy=delete", {"cleanup_policy": "compact"}),
        (
            "not be -1 as retention.bytes value is set as 9",
            {"retention_bytes": "9", "local_retention_bytes": "-1"},
        ),
        ("not be more than retention.ms property value: 5", {"retention_ms": "5", "local_retention_ms": "6"}),
        (
            r"must not exceed local.retention.ms \(effective value: 5\)",
            {"retention_ms": "5", "remote_copy_lag_ms": "6"},
        ),
        ("must be set to the identical value", {"remote_log_copy_disable": "true", "local_retention_ms": "6"}),
    ],
)
def test_invalid_tiered_topic_configs_raise(words: str, configs: dict[str, str]) -> None:
    with pytest.raises(InvalidConfig, match=words):
        check_topic(tiered=True, remote_storage_enable="true", **configs)


def test_disabling_tiered_storage_requires_deleting_remote_data() -> None:
    was = {"remote.storage.enable": "true"}
    with pytest.raises(InvalidConfig, match="without deleting remote data"):
        check_topic(tiered=True, existing=was)
    check_topic(tiered=True, existing=was, remote_log_delete_on_disable="true")


def test_invalid_stored_topic_values_are_replaced_one_by_one() -> None:
    rejected: list[str] = []
    configs = {"retention.ms": "5", "segment.bytes": "tiny", "gone.in.this.release": "1"}
    values = lenient_topic_values(configs, topic_defaults(PLAIN), lambda name, why: rejected.append(name))
    assert values["retention.ms"] == 5
    assert values["segment.bytes"] == 1 << 30
    assert rejected == ["segment.bytes", "gone.in.this.release"]


@pytest.mark.parametrize(
    ("words", "configs"),
    [
        ("log.roll.ms must be greater", {"log_roll_ms": "0"}),
        ("log.roll.jitter.ms", {"log_roll_jitter_ms": "-1"}),
        ("log.retention.ms must be unlimited", {"log_retention_ms": "0"}),
        ("dedupe.buffer.size must be at least 1MB", {"log_cleaner_dedupe_buffer_size": "1048576"}),
        ("replica.socket.timeout.ms should always", {"replica_socket_timeout_ms": "5"}),
        ("less than or equal to replica.lag.time.max.ms", {"replica_lag_time_max_ms": "5"}),
        ("queued.max.request.bytes must be larger", {"queued_max_request_bytes": "5"}),
        ("can be set to zero only if", {"max_connections_per_ip": "0"}),
        ("is not host:count", {"max_connections_per_ip_overrides": "localhost"}),
        ("should always be less than connections.max.idle.ms", {"connections_max_idle_ms": "50"}),
        ("Disabling the 'classic' protocol", {"group_coordinator_rebalance_protocols": "consumer"}),
        ("conflict topic config", {"log_cleaner_min_compaction_lag_ms": "2", "log_cleaner_max_compaction_lag_ms": "1"}),
        ("must be present in log.dirs", {"cordoned_log_dirs": "/elsewhere"}),
        ("must not contain other values", {"cordoned_log_dirs": "*,/tmp/kafka-logs"}),
        ("group.share.max.size", {"group_share_max_size": "9", "group_share_max_share_sessions": "8"}),
        (
            "must be less than group.consumer.session",
            {"group_consumer_min_session_timeout_ms": "1", "group_consumer_session_timeout_ms": "5000"},
        ),
        ("group.consumer.max.heartbeat", {"group_consumer_heartbeat_interval_ms": "15001"}),
        ("exactly one assignor", {"group_share_assignors": "a,b"}),
        (
            "controller.quorum.auto.join.enable is only supported when process.roles contains the 'controller' role.",
            {"controller_quorum_auto_join_enable": "true", "process_roles": "broker"},
        ),
    ],
)
def test_invalid_broker_configs_raise(words: str, configs: dict[str, str]) -> None:
    with pytest.raises(InvalidConfig, match=words):
        validate_broker_configs(broker(**configs))


def test_broker_defaults_break_no_rule() -> None:
    validate_broker_configs(PLAIN)


def test_different_node_id_and_broker_id_raise() -> None:
    with pytest.raises(InvalidConfig, match="must be set to the same value"):
        validate_broker_configs(BrokerValues({**NODE, "broker.id": "2"}))


@pytest.mark.parametrize(
    ("words", "configs"),
    [
        ("Unknown group config name: x", {"x": "1"}),
        ("in the range 45000 to 60000", {"consumer.session.timeout.ms": "44999"}),
        ("less than or equal to 2", {"streams.num.standby.replicas": "3"}),
        ("greater than or equal to 15000", {"streams.task.offset.interval.ms": "14999"}),
        ("must not contain duplicate tag", {"streams.rack.aware.assignment.tags": "a,b, a"}),
        ("not a registered task assignor", {"streams.assignor.name": "fair"}),
        ("must not start with '__'", {"errors.deadletterqueue.topic.name": "__x"}),
        ("either 'earliest', 'latest'", {"share.auto.offset.reset": "by_duration:-PT1S"}),
    ],
)
def test_invalid_group_configs_raise(words: str, configs: dict[str, str]) -> None:
    with pytest.raises(InvalidConfig, match=words):
        validate_group_configs(configs, PLAIN)


def test_group_session_shorter_than_heartbeat_raises() -> None:
    wide = broker(group_share_min_session_timeout_ms="1", group_share_min_heartbeat_interval_ms="1")
    configs = {"share.session.timeout.ms": "10000", "share.heartbeat.interval.ms": "10000"}
    with pytest.raises(InvalidConfig, match=r"share\.session\.timeout\.ms must be greater"):
        validate_group_configs(configs, wide)
    assert validate_group_configs({**configs, "share.heartbeat.interval.ms": "9999"}, wide)


@pytest.mark.parametrize(
    ("name", "configs", "error"),
    [
        ("", {}, ErrorCode.INVALID_REQUEST),
        ("s", {"unknown": "1"}, ErrorCode.INVALID_REQUEST),
        ("s", {"interval.ms": "99"}, ErrorCode.INVALID_REQUEST),
        ("s", {"match": "shoe_size=44"}, ErrorCode.INVALID_CONFIG),
        ("s", {"match": "client_id"}, ErrorCode.INVALID_CONFIG),
        ("s", {"match": "client_id=["}, ErrorCode.INVALID_CONFIG),
    ],
)
def test_invalid_subscription_raises(name: str, configs: dict[str, str], error: ErrorCode) -> None:
    with pytest.raises(InvalidConfig) as rejected:
        validate_client_metrics_configs(name, configs)
    assert rejected.value.error == error


def test_subscription_may_match_several_attributes() -> None:
    values = validate_client_metrics_configs("s", {"match": "client_id=a.*,client_source_port=1", "interval.ms": "100"})
    assert values == {"match": ("client_id=a.*", "client_source_port=1"), "interval.ms": 100}


# ---- changes while a broker runs


@pytest.mark.parametrize(
    ("words", "per_broker", "configs"),
    [
        (r"Cannot update these configs dynamically: \[node.id\]", True, {"node.id": "2"}),
        ("only per-listener using the listener prefix", True, {"ssl.key.password": "x"}),
        ("broker id must be specified", False, {"listeners": "PLAINTEXT://:1"}),
        ("broker id must be specified", False, {"listener.name.x.ssl.key.password": "x"}),
        ("Not a number of type INT", True, {"message.max.bytes": "x"}),
        ("Not a number of type INT", True, {"listener.name.x.max.connections": "x"}),
    ],
)
def test_setting_read_only_key_on_running_broker_raises(words: str, per_broker: bool, configs: dict[str, str]) -> None:
    with pytest.raises(InvalidConfig, match=words):
        validate_dynamic_names(configs, per_broker=per_broker)


def test_setting_dynamic_key_on_running_broker_succeeds() -> None:
    validate_dynamic_names({"listeners": "PLAINTEXT://:1", "a.plug.ins.key": "1"}, per_broker=True)
    validate_dynamic_names({"listener.name.x.max.connections": "1", "message.max.bytes": "1"}, per_broker=False)


def test_usable_stored_dynamic_values_are_applied() -> None:
    rejected: list[str] = []
    stored = {"message.max.bytes": "5", "log.dirs": "/x", "num.io.threads": "x"}
    usable = usable_dynamic_configs(stored, per_broker=True, rejected=lambda name, why: rejected.append(name))
    assert usable == {"message.max.bytes": "5"}
    assert rejected == ["log.dirs", "num.io.threads"]


@pytest.mark.parametrize(
    ("words", "configs"),
    [
        ("at least half the current value 8", {"num.io.threads": "3"}),
        ("not be greater than double the current value 3", {"num.network.threads": "7"}),
        ("cannot be increased to more than double", {"log.cleaner.threads": "3"}),
        ("^requirement failed: log.roll.ms", {"log.roll.ms": "0"}),
    ],
)
def test_invalid_change_on_running_broker_raises(words: str, configs: dict[str, str]) -> None:
    with pytest.raises(InvalidConfig, match=words):
        validate_broker_change(PLAIN, configs, per_broker=True)


def test_change_replaces_only_its_own_layer() -> None:
    now = BrokerValues(NODE, {"message.max.bytes": "5"}, {"num.partitions": "1"})
    after = validate_broker_change(now, {"background.threads": "11"}, per_broker=True)
    assert after.get("message.max.bytes") == 5
    assert after.dynamic_broker == {"background.threads": "11"}
    after = validate_broker_change(now, {"background.threads": "12"}, per_broker=False)
    assert after.get("message.max.bytes") == 1048588
