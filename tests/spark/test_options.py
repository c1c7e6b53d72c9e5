"""Options of format("odradek"): those of the connector, and one line for each wrong one."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from odradek.columns import Split
from odradek.columns.divided_splits import divided
from odradek.protocol.log_places import EARLIEST, LATEST
from odradek.spark.options import InvalidOptions, Options, Position, parse
from odradek.spark.planning import limited
from odradek.spark.rows import check_schema
from pyspark.sql.types import ArrayType, LongType, StringType, StructType

REQUIRED = {"kafka.bootstrap.servers": "127.0.0.1:9092", "subscribe": "orders"}
_BATCH_START = "startingOffsets for orders-0 can't be latest for batch queries on Kafka"


def test_options_are_read_by_the_names_of_the_connector_in_any_case() -> None:
    found = parse(
        {
            "KAFKA.BOOTSTRAP.SERVERS": "a:1,b:2",
            "kafka.security.protocol": "SSL",
            "SubscribePattern": "o.*",
            "startingoffsets": '{"orders":{"0":23,"1":-2}}',
            "endingTimestamp": " 1700000000000 ",
            "startingOffsetsByTimestampStrategy": "LATEST",
            "includeHeaders": "True",
            "minPartitions": "7",
            "maxOffsetsPerTrigger": "1000",
            "failOnDataLoss": "false",
            "groupIdPrefix": "mine",
        }
    )
    assert found == Options(
        {"bootstrap.servers": "a:1,b:2", "security.protocol": "SSL"},
        pattern="o.*",
        start=Position("startingOffsets", each={("orders", 0): 23, ("orders", 1): EARLIEST}),
        end=Position("endingTimestamp", 1700000000000, is_time=True),
        no_match_is_latest=True,
        include_headers=True,
        min_partitions=7,
        max_offsets_per_trigger=1000,
        fail_on_data_loss=False,
    )
    assert "SSL" not in repr(found)


def test_options_of_times_have_precedence_over_offsets() -> None:
    times = {"startingOffsetsByTimestamp": '{"orders":{"0":5}}', "startingOffsets": "latest"}
    assert parse(REQUIRED | times).start == Position(
        "startingOffsetsByTimestamp", each={("orders", 0): 5}, is_time=True
    )
    assert parse(REQUIRED | times | {"startingTimestamp": "9"}).start == Position("startingTimestamp", 9, is_time=True)
    assert parse(REQUIRED | {"endingOffsets": "Latest"}).end == Position("endingOffsets", LATEST)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"subscribe": None}, "One of the following options must be specified for Kafka source: subscribe, "),
        ({"assign": '{"orders":[0]}'}, "Only one of the following options can be specified for Kafka source: "),
        ({"subscribe": " , "}, "No topics to subscribe to as specified value for option 'subscribe' is ','"),
        ({"subscribe": None, "subscribePattern": ""}, "Pattern to subscribe is empty"),
        ({"subscribe": None, "subscribePattern": "("}, "'subscribePattern' is not a regular expression"),
        ({"subscribe": None, "assign": "orders"}, "Option 'assign': expected e.g. "),
        ({"subscribe": None, "assign": '{"orders":[]}'}, "No topicpartitions to assign"),
        ({"kafka.bootstrap.servers": None}, "Option 'kafka.bootstrap.servers' must be specified"),
        ({"kafka.auto.offset.reset": "latest"}, "Kafka option 'auto.offset.reset' is not supported."),
        ({"kafka.enable.auto.commit": "true"}, "Kafka option 'enable.auto.commit' is not supported."),
        ({"kafka.isolation.level": "serializable"}, "'kafka.isolation.level' takes read_uncommitted or read_committed"),
        ({"startingOffset": "earliest"}, "has no option 'startingoffset'; did you mean 'startingOffsets'?"),
        ({"minOffsetsPerTrigger": "0"}, "minOffsetsPerTrigger must be positive"),
        (
            {"minOffsetsPerTrigger": "6", "maxOffsetsPerTrigger": "5"},
            "minOffsetsPerTrigger 6 is higher than maxOffsetsPerTrigger 5",
        ),
        ({"maxTriggerDelay": "soon"}, "Option 'maxTriggerDelay': expected a duration such as 30s, 15m or 1h, got soon"),
        ({"maxTriggerDelay": "3 weeks"}, "Option 'maxTriggerDelay': expected a duration"),
        ({"commitGroup": " "}, "Option 'commitGroup' takes the name of a group, or 'none' for no commits"),
        ({"startingTimestamp": "-10 minutes"}, "or a time before now such as -10m, got -10 minutes"),
        ({"minPartitions": "0"}, "minPartitions must be positive"),
        ({"maxOffsetsPerTrigger": "many"}, "maxOffsetsPerTrigger must be positive"),
        ({"startingTimestamp": "yesterday"}, "such as -10m, got yesterday"),
        ({"startingOffsets": "first"}, "Option 'startingOffsets': expected e.g. "),
        ({"startingOffsets": '{"orders":{"0":"5"}}'}, "Option 'startingOffsets': expected e.g. "),
        ({"startingOffsets": '{"orders":{"0":-3}}'}, "orders-0 has the offset -3; -2 is earliest, -1 latest"),
        ({"startingOffsetsByTimestampStrategy": "never"}, "takes error or latest, not 'never'"),
        ({"includeHeaders": "yes"}, "'includeHeaders' takes true or false, not 'yes'"),
        ({"valueFormat": "xml"}, "'valueFormat' takes json or avro or protobuf, not 'xml'"),
    ],
)
def test_wrong_options_get_one_line_that_names_them(changed: dict[str, str | None], message: str) -> None:
    given = {name: value for name, value in (REQUIRED | changed).items() if value is not None}
    with pytest.raises(InvalidOptions, match=re.escape(message)) as raised:
        parse(given)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"startingOffsets": "latest"}, "starting offset can't be latest for batch queries on Kafka"),
        ({"startingOffsets": '{"orders":{"0":-1}}'}, _BATCH_START),
        ({"endingOffsets": "earliest"}, "ending offset can't be earliest for batch queries on Kafka"),
        ({"endingOffsets": '{"orders":{"0":-2}}'}, "ending offset for orders-0 can't be earliest"),
        (
            {"startingOffsets": '{"orders":{"0":9}}', "endingOffsets": '{"orders":{"0":8}}'},
            "orders-0: startingOffsets 9 is after endingOffsets 8",
        ),
        (
            {"startingOffsets": '{"orders":{"0":9}}', "endingOffsets": '{"orders":{"1":9}}'},
            "startingOffsets and endingOffsets name different partitions",
        ),
    ],
)
def test_starts_and_ends_that_no_batch_has_are_errors(given: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidOptions, match=re.escape(message)):
        parse(REQUIRED | given).check_batch()


def test_streams_have_no_end() -> None:
    with pytest.raises(InvalidOptions, match="ending offset not valid in streaming queries"):
        parse(REQUIRED | {"endingOffsets": "latest"}).check_stream(has_admission_control=True)
    with pytest.raises(InvalidOptions, match="ending timestamp not valid in streaming queries"):
        parse(REQUIRED | {"endingTimestamp": "5"}).check_stream(has_admission_control=True)


@pytest.mark.parametrize(
    ("text", "moment_ms"),
    [("-10m", 400_000), (" -1h ", -2_600_000), ("-500ms", 999_500), ("-2d", 1_000_000 - 2 * 86_400_000), ("-7", -7)],
)
def test_times_with_a_unit_count_back_from_now(text: str, moment_ms: int) -> None:
    parsed = parse(REQUIRED | {"startingTimestamp": text, "endingTimestamp": text}, now_ms=1_000_000)
    assert parsed.start == Position("startingTimestamp", moment_ms, is_time=True)
    assert parsed.end == Position("endingTimestamp", moment_ms, is_time=True)


def test_relative_start_after_the_last_record_is_the_end_unless_the_strategy_is_error() -> None:
    relative = REQUIRED | {"startingTimestamp": "-10m"}
    assert parse(relative).no_match_is_latest
    assert not parse(relative | {"startingOffsetsByTimestampStrategy": "error"}).no_match_is_latest
    assert not parse(REQUIRED | {"startingTimestamp": "5"}).no_match_is_latest


@pytest.mark.parametrize(("text", "delay_ms"), [(None, 900_000), ("30s", 30_000), ("1h", 3_600_000), ("250", 250)])
def test_delay_of_a_batch_has_the_units_and_the_default_of_the_connector(text: str | None, delay_ms: int) -> None:
    given = {} if text is None else {"maxTriggerDelay": text}
    assert parse(REQUIRED | given).max_trigger_delay_ms == delay_ms


def test_limit_of_a_batch_is_an_error_before_spark_4_2_without_a_promise() -> None:
    """Spark before 4.2 ends `availableNow` after one batch: with a limit, that would leave records out with success."""
    limited = REQUIRED | {"maxOffsetsPerTrigger": "5"}
    parse(limited).check_stream(has_admission_control=True)
    with pytest.raises(InvalidOptions, match=r"needs Spark 4\.2.*processingTimeOnly"):
        parse(limited).check_stream(has_admission_control=False)
    parse(limited | {"processingTimeOnly": "true"}).check_stream(has_admission_control=False)
    parse(REQUIRED).check_stream(has_admission_control=False)


def test_schemas_have_the_columns_and_types_of_the_connector() -> None:
    options = parse(REQUIRED)
    check_schema(StructType().add("offset", LongType()), options)
    wrong = {
        "there is no column 'keys'": StructType().add("keys", StringType()),
        "'value' is binary, not string": StructType().add("value", StringType()),
        "needs the option includeHeaders": StructType().add("headers", ArrayType(StringType())),
        "a column is named twice": StructType().add("offset", LongType()).add("offset", LongType()),
    }
    for message, schema in wrong.items():
        with pytest.raises(InvalidOptions, match=message):
            check_schema(schema, options)


def test_a_limit_is_shared_by_what_partitions_have() -> None:
    start = {("a", 0): 0, ("a", 1): 0, ("b", 0): 50}
    end = {("a", 0): 900, ("a", 1): 90, ("b", 0): 50}
    assert limited(start, end, 99) == {("a", 0): 90, ("a", 1): 9, ("b", 0): 50}
    assert limited(start, end, 1) == {("a", 0): 1, ("a", 1): 1, ("b", 0): 50}
    assert limited(start, end, 5000) == end


def test_parts_of_a_split_cover_its_offsets_once() -> None:
    whole = Split("t", 0, 10, 110, "/logs/t-0", base_offset=7, position=81, size=999)
    parts = divided(whole, 7)
    assert len(parts) == 7 and parts[0].first_offset == 10 and parts[-1].next_offset == 110
    assert all(one.next_offset == other.first_offset for one, other in pairwise(parts))
    assert [one.position for one in parts] == [81] + [0] * 6
    assert len(divided(whole, 1000)) == 100 and divided(whole, 1) == [whole]
