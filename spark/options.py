"""Options of `format("odradek")`: those of Spark's Kafka connector, with its names, defaults and errors.

Names are case-insensitive, as everywhere in Spark. An unknown name is an error, since a mistyped one would read other data
than its author means.
"""

from __future__ import annotations

import difflib
import json
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..protocol.log_places import EARLIEST, LATEST

FORMAT = "odradek"
#: Bytes of a task: its start costs a tenth of a second, and a core reads as much in some seconds.
SPLIT_BYTES = 512 << 20
PERMISSIVE, DROP_MALFORMED, FAIL_FAST = MODES = "PERMISSIVE", "DROPMALFORMED", "FAILFAST"

_CHOICES = ("subscribe", "subscribePattern", "assign")
_NAMES = (
    *_CHOICES, "startingOffsets", "endingOffsets", "startingTimestamp", "endingTimestamp", "startingOffsetsByTimestamp",
    "endingOffsetsByTimestamp", "startingOffsetsByTimestampStrategy", "includeHeaders", "minPartitions",
    "maxRecordsPerPartition", "maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "processingTimeOnly",
    "failOnDataLoss", "splitBytes", "valueFormat", "mode", "schemaRegistry", "schemaRegistryUserInfo", "message", "key",
    "commitGroup",
)  # fmt: skip
#: Settings of the connector's consumers, which this source does not have.
_WITHOUT_EFFECT = (
    "groupIdPrefix",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
)
_UNSUPPORTED_KAFKA = {
    "auto.offset.reset": "Use the option 'startingOffsets'.",
    "key.deserializer": "Keys are bytes: decode them with functions of DataFrames.",
    "value.deserializer": "Values are bytes: decode them with functions of DataFrames.",
    "enable.auto.commit": "Spark keeps the offsets in its checkpoint.",
    "interceptor.classes": "An interceptor could change records.",
}
_ISOLATION_LEVELS = ("read_uncommitted", "read_committed")
_LARGEST = (1 << 63) - 1
#: Milliseconds of the units of time that Spark's options have.
_UNIT_MS = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_MAX_TRIGGER_DELAY = "15m"
#: A time before now.
_RELATIVE = re.compile(rf"\s*-(\d{{1,9}})({'|'.join(_UNIT_MS)})\s*")
_VALUE_FORMATS = ("json", "avro", "protobuf")
#: Formats whose values have the id of a schema in a registry before them.
_WITH_REGISTRY = ("avro", "protobuf")

Place = tuple[str, int]


class InvalidOptions(ValueError):
    """Options that a query cannot have."""


@dataclass(frozen=True, slots=True)
class Position:
    """A start or an end: offsets, or times in milliseconds, of all partitions (`common`) or of each one.

    An offset is EARLIEST or LATEST, too.
    """

    option: str
    common: int | None = None
    each: Mapping[Place, int] = field(default_factory=dict)
    is_time: bool = False


@dataclass(frozen=True, slots=True)
class Options:
    """Checked options. `client`: the properties of Kafka's clients, without `kafka.`; they may hold passwords."""

    client: dict[str, str] = field(repr=False)
    topics: tuple[str, ...] = ()
    pattern: str = ""
    assigned: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    start: Position | None = None
    end: Position | None = None
    no_match_is_latest: bool = False
    include_headers: bool = False
    fail_on_data_loss: bool = True
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    max_offsets_per_trigger: int | None = None
    #: A batch waits for so many offsets, but no longer than the delay after the one before.
    min_offsets_per_trigger: int | None = None
    max_trigger_delay_ms: int = 15 * 60_000
    #: The group of a stream's commits: None for one that the checkpoint names, NO_GROUP for no commits.
    commit_group: str | None = None
    #: A promise of the user: no query with these options has the trigger availableNow.
    processing_time_only: bool = False
    split_bytes: int = SPLIT_BYTES
    value_format: str = ""
    schema_registry: str | None = None
    schema_registry_user_info: str | None = field(default=None, repr=False)
    #: The message of Protobuf values.
    message: str | None = None
    mode: str = PERMISSIVE
    #: Only records with this key are rows; None: all records.
    key: bytes | None = None

    @property
    def is_committed(self) -> bool:
        return self.client.get("isolation.level") == "read_committed"

    def check_batch(self) -> None:
        """Raises InvalidOptions for a start or an end that only streams can have."""
        if self.start is not None and not self.start.is_time:
            if self.start.common == LATEST:
                raise InvalidOptions("starting offset can't be latest for batch queries on Kafka")
            for place in (place for place, offset in self.start.each.items() if offset == LATEST):
                raise InvalidOptions(f"startingOffsets for {named(place)} can't be latest for batch queries on Kafka")
        if self.end is not None and not self.end.is_time:
            if self.end.common == EARLIEST:
                raise InvalidOptions("ending offset can't be earliest for batch queries on Kafka")
            for place in (place for place, offset in self.end.each.items() if offset == EARLIEST):
                raise InvalidOptions(f"ending offset for {named(place)} can't be earliest for batch queries on Kafka")
        if self.start is not None and self.end is not None:
            self._check_order(self.start, self.end)

    def _check_order(self, start: Position, end: Position) -> None:
        if start.is_time != end.is_time or not start.each or not end.each:
            return
        if start.each.keys() != end.each.keys():
            raise InvalidOptions(f"{start.option} and {end.option} name different partitions")
        for place, first in start.each.items():
            if first > end.each[place] >= 0:
                raise InvalidOptions(f"{named(place)}: {start.option} {first} is after {end.option} {end.each[place]}")

    def check_stream(self, *, has_admission_control: bool) -> None:
        """Raises InvalidOptions for an end, and for a limit that Spark before 4.2 takes for the end of availableNow.

        `has_admission_control`: Spark has the source know the trigger, as 4.2 does.
        """
        if self.max_offsets_per_trigger is not None and not has_admission_control and not self.processing_time_only:
            raise InvalidOptions(
                "Option 'maxOffsetsPerTrigger' needs Spark 4.2: before, a query with the trigger availableNow would end "
                "with success after the first batch. With a trigger of processing time, set 'processingTimeOnly' to true"
            )
        if self.end is not None:
            what = "timestamp" if self.end.is_time else "offset"
            raise InvalidOptions(f"ending {what} not valid in streaming queries")


def named(place: Place) -> str:
    return f"{place[0]}-{place[1]}"


def parse(given: Mapping[str, str], now_ms: int | None = None) -> Options:
    """Raises InvalidOptions, with one line that names the option. `now_ms`: the time that relative times count from."""
    values = {name.lower(): str(value) for name, value in given.items()}
    client = {name.removeprefix("kafka."): value for name, value in values.items() if name.startswith("kafka.")}
    check_names([name for name in values if not name.startswith("kafka.")], (*_NAMES, *_WITHOUT_EFFECT))
    check_client(client)
    starts = ("startingTimestamp", "startingOffsetsByTimestamp", "startingOffsets")
    ends = ("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets")
    now_ms = int(time.time() * 1000) if now_ms is None else now_ms
    # No record is newer than ten minutes ago where a topic is idle.
    is_relative = _is_relative(values.get("startingtimestamp", ""))
    strategy = values.get("startingoffsetsbytimestampstrategy", "latest" if is_relative else "error").lower()
    check_choice("startingOffsetsByTimestampStrategy", strategy, ("error", "latest"))
    most, least = number(values, "maxOffsetsPerTrigger"), number(values, "minOffsetsPerTrigger")
    if most is not None and least is not None and least > most:
        raise InvalidOptions(f"minOffsetsPerTrigger {least} is higher than maxOffsetsPerTrigger {most}")
    value_format = values.get("valueformat", "").lower()
    check_choice("valueFormat", value_format, ("", *_VALUE_FORMATS))
    registry = values.get("schemaregistry")
    if (value_format in _WITH_REGISTRY) != (registry is not None):
        raise InvalidOptions(
            f"Option 'schemaRegistry' belongs to valueFormat {' and '.join(_WITH_REGISTRY)}, which need it"
        )
    mode = values.get("mode", PERMISSIVE).upper()
    check_choice("mode", mode, MODES)
    return Options(
        client,
        **_chosen(values),
        start=_position(values, *starts, now_ms),
        end=_position(values, *ends, now_ms),
        no_match_is_latest=strategy == "latest",
        include_headers=flag(values, "includeHeaders", False),
        fail_on_data_loss=flag(values, "failOnDataLoss", True),
        min_partitions=number(values, "minPartitions"),
        max_records_per_partition=number(values, "maxRecordsPerPartition"),
        max_offsets_per_trigger=most,
        min_offsets_per_trigger=least,
        max_trigger_delay_ms=_duration_ms(values, "maxTriggerDelay", _MAX_TRIGGER_DELAY),
        commit_group=_group(values, "commitGroup"),
        processing_time_only=flag(values, "processingTimeOnly", False),
        split_bytes=number(values, "splitBytes") or SPLIT_BYTES,
        value_format=value_format,
        schema_registry=registry,
        schema_registry_user_info=values.get("schemaregistryuserinfo"),
        message=values.get("message"),
        mode=mode,
        key=_key_bytes(values["key"]) if "key" in values else None,
    )


def key_text(key: bytes | str) -> str:
    """A key as the option `key`, which is text: bytes that are no UTF-8 are half surrogate pairs."""
    return key if isinstance(key, str) else key.decode("utf-8", "surrogateescape")


def _key_bytes(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise InvalidOptions("Option 'key' is not text") from None


def check_names(names: Iterable[str], allowed: Iterable[str], what: str = "") -> None:
    """Raises InvalidOptions for a name that is not allowed."""
    known = {name.lower(): name for name in allowed}
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"; did you mean '{known[near[0]]}'?" if near else ""
            raise InvalidOptions(f"{what}format({FORMAT!r}) has no option '{name}'{hint}")


def check_client(client: Mapping[str, str]) -> None:
    """Raises InvalidOptions for properties that readers do not take, or that are missing."""
    for name, remedy in _UNSUPPORTED_KAFKA.items():
        if name in client:
            raise InvalidOptions(f"Kafka option '{name}' is not supported. {remedy}")
    if not client.get("bootstrap.servers"):
        raise InvalidOptions("Option 'kafka.bootstrap.servers' must be specified for configuring Kafka consumer")
    check_choice("kafka.isolation.level", client.get("isolation.level", _ISOLATION_LEVELS[0]), _ISOLATION_LEVELS)


def check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    """Raises InvalidOptions for a value that is no choice."""
    if value not in choices:
        raise InvalidOptions(f"Option '{name}' takes {' or '.join(filter(None, choices))}, not '{value}'")


def _chosen(values: Mapping[str, str]) -> dict[str, Any]:
    given = [name for name in _CHOICES if name.lower() in values]
    names = ", ".join(_CHOICES)
    if not given:
        raise InvalidOptions(f"One of the following options must be specified for Kafka source: {names}")
    if len(given) > 1:
        raise InvalidOptions(f"Only one of the following options can be specified for Kafka source: {names}")
    (choice,) = given
    text = values[choice.lower()].strip()
    if choice == "assign":
        found = _json(choice, text)
        if not found or not all(isinstance(one, list) and one and all(map(_is_index, one)) for one in found.values()):
            raise InvalidOptions(f"No topicpartitions to assign as specified value for option 'assign' is '{text}'")
        return {"assigned": {topic: tuple(sorted(set(one))) for topic, one in found.items()}}
    if choice == "subscribePattern":
        if not text:
            raise InvalidOptions("Pattern to subscribe is empty as specified value for option 'subscribePattern' is ''")
        try:
            re.compile(text)
        except re.error as error:
            raise InvalidOptions(f"Option 'subscribePattern' is not a regular expression: {error}") from None
        return {"pattern": text}
    topics = tuple(dict.fromkeys(one.strip() for one in text.split(",") if one.strip()))
    if not topics:
        raise InvalidOptions(f"No topics to subscribe to as specified value for option 'subscribe' is '{text}'")
    return {"topics": topics}


def _is_relative(text: str) -> bool:
    return _RELATIVE.fullmatch(text) is not None


def _position(values: Mapping[str, str], common_time: str, times: str, offsets: str, now_ms: int) -> Position | None:
    """The start or end by the option that has precedence in the connector: one time, times, offsets."""
    if (text := values.get(common_time.lower())) is not None:
        if (relative := _RELATIVE.fullmatch(text)) is not None:
            return Position(common_time, now_ms - int(relative[1]) * _UNIT_MS[relative[2]], is_time=True)
        if not re.fullmatch(r"\s*-?\d{1,18}\s*", text):
            raise InvalidOptions(
                f"Option '{common_time}': expected a single long value, or a time before now such as -10m, got {text}"
            )
        return Position(common_time, int(text), is_time=True)
    if (text := values.get(times.lower())) is not None:
        return Position(times, each=_places(times, text), is_time=True)
    if (text := values.get(offsets.lower())) is None:
        return None
    words = {"earliest": EARLIEST, "latest": LATEST}
    if text.strip().lower() in words:
        return Position(offsets, words[text.strip().lower()])
    each = _places(offsets, text)
    for place, offset in each.items():
        if offset < EARLIEST:
            raise InvalidOptions(
                f"Option '{offsets}': {named(place)} has the offset {offset}; -2 is earliest, -1 latest"
            )
    return Position(offsets, each=each)


def _places(option: str, text: str) -> dict[Place, int]:
    """Parses `{"topic":{"0":23,"1":-2}}`."""
    found: dict[Place, int] = {}
    for topic, partitions in _json(option, text).items():
        if not isinstance(partitions, dict):
            raise InvalidOptions(_expected(option, text))
        for partition, number in partitions.items():
            if not re.fullmatch(r"\d{1,9}", partition) or not _is_integer(number) or abs(number) > _LARGEST:
                raise InvalidOptions(_expected(option, text))
            found[topic, int(partition)] = number
    if not found:
        raise InvalidOptions(_expected(option, text))
    return found


def _json(option: str, text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise InvalidOptions(_expected(option, text))
    return found


def _expected(option: str, text: str) -> str:
    example = '{"topicA":[0,1],"topicB":[0]}' if option == "assign" else '{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}'
    return f"Option '{option}': expected e.g. {example}, got {text}"


def _is_integer(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool)


def _is_index(number: Any) -> bool:
    return _is_integer(number) and 0 <= number < 1 << 31


def flag(values: Mapping[str, str], name: str, default: bool) -> bool:
    text = values.get(name.lower(), str(default)).strip().lower()
    check_choice(name, text, ("true", "false"))
    return text == "true"


def number(values: Mapping[str, str], name: str) -> int | None:
    text = values.get(name.lower())
    if text is None:
        return None
    if not re.fullmatch(r"\s*\d{1,18}\s*", text) or int(text) <= 0:
        raise InvalidOptions(f"{name} must be positive")
    return int(text)


def _duration_ms(values: Mapping[str, str], name: str, default: str) -> int:
    """A duration in milliseconds: a number of them, or one with a unit, as Spark's."""
    text = values.get(name.lower(), default).strip().lower()
    parsed = re.fullmatch(r"(\d{1,15})([a-z]*)", text)
    if parsed is None or (parsed[2] or "ms") not in _UNIT_MS:
        raise InvalidOptions(f"Option '{name}': expected a duration such as 30s, 15m or 1h, got {text}")
    return int(parsed[1]) * _UNIT_MS[parsed[2] or "ms"]


def _group(values: Mapping[str, str], name: str) -> str | None:
    text = values.get(name.lower())
    if text is not None and not text.strip():
        raise InvalidOptions(f"Option '{name}' takes the name of a group, or 'none' for no commits")
    return None if text is None else text.strip()
