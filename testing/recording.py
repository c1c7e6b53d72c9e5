"""Records of a real cluster in a file, which a test puts into its own broker.

    odradek record orders --file orders.jsonl --mask customer.name --mask card

    replay(broker, "orders.jsonl")

The file has a line of JSON per record: topic, partition, timestamp, key, value and headers; data as text where it is
UTF-8, else in base64. Masked fields of JSON values are replaced before anything is written. Equal values get equal words
within one recording, so that joins still work, and the words do not tell the values.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import hmac
import itertools
import json
import secrets
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypedDict, Union

from ..protocol.errors import ErrorCode
from ..protocol.records.batch import CONTROL_FLAG, check_crc, iter_headers
from ..protocol.records.errors import BatchError
from ..protocol.records.record import decode_batch

if TYPE_CHECKING:
    from ..admin.places import Place
    from ..admin.session import Admin
    from ..protocol.json_value import JsonValue
    from .embedded import Embedded

#: Records of a batch that a replay sends at once.
BATCH = 500
MOST_RECORDS = 100_000
_IDLE_MS = 3000
#: Limits of a request, and of its repetition while leaders move.
_TIMEOUT_S, _PATIENCE_S = 30.0, 12.0
#: Bytes of one response; a larger batch comes alone.
_FETCH_BYTES = 4 << 20
#: Responses without records, each after `_IDLE_MS`, that end a partition: compaction may leave nothing before the end.
_MOST_EMPTY = 3

#: Data in a line: text, or base64 in a mapping.
Shown = Union[str, dict[str, str], None]


class Masking:
    """Replaces fields of JSON values. `fields`: paths such as "customer.name"; lists on the way count as their items."""

    def __init__(self, fields: Iterable[str], *, keys: bool = False) -> None:
        self._paths = [tuple(field.split(".")) for field in fields if field]
        self._keys = keys
        self._secret = secrets.token_bytes(32)

    def key(self, data: bytes | None) -> bytes | None:
        return self._word(data).encode() if self._keys and data is not None else data

    def value(self, data: bytes | None) -> bytes | None:
        """Returns the value with its fields masked. Raises ValueError for one that is not JSON: nothing slips through."""
        if data is None or not self._paths:
            return data
        try:
            content = json.loads(data)
        except (ValueError, RecursionError):
            raise ValueError("a value is not JSON, so its fields cannot be masked") from None
        for path in self._paths:
            self._mask(content, path)
        return json.dumps(content, separators=(",", ":")).encode()

    def _mask(self, content: JsonValue, path: tuple[str, ...]) -> None:
        if isinstance(content, list):
            for item in content:
                self._mask(item, path)
        elif isinstance(content, dict) and path[0] in content:
            if len(path) > 1:
                self._mask(content[path[0]], path[1:])
            elif content[path[0]] is not None:
                content[path[0]] = self._word(json.dumps(content[path[0]], sort_keys=True).encode())

    def _word(self, data: bytes) -> str:
        return "masked-" + hmac.new(self._secret, data, hashlib.sha256).hexdigest()[:16]


class Line(TypedDict):
    """A record in a file."""

    topic: str
    partition: int
    timestamp_ms: int
    key: Shown
    value: Shown
    headers: list[tuple[str, Shown]]


def record(
    bootstrap_servers: str,
    topics: list[str],
    path: str | Path,
    *,
    masking: Masking | None = None,
    most: int = MOST_RECORDS,
) -> int:
    """Writes the records that the topics have now into a file, the oldest first. Returns how many.

    Reads without a group, so the cluster keeps no trace. Raises ValueError for what cannot be masked or is damaged, and
    RequestFailed of odradek.admin.errors; no file is left then.
    """
    return write(_consumed(bootstrap_servers, topics, most), path, masking)


class Recorded(NamedTuple):
    """A record as a recording takes it, whichever client has read it. `timestamp` is in milliseconds."""

    topic: str
    partition: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]


def write(records: Iterable[Recorded], path: str | Path, masking: Masking | None = None) -> int:
    """Writes records into a file; returns how many. Raises ValueError for what cannot be masked: no file is left then."""
    masking = masking or Masking(())
    target, count = Path(path), 0
    draft = target.with_name(f"{target.name}.part")
    try:
        with draft.open("w", encoding="utf-8") as file:
            for one in records:
                line = {
                    "topic": one.topic,
                    "partition": one.partition,
                    "timestamp_ms": one.timestamp,
                    "key": _shown(masking.key(one.key)),
                    "value": _shown(masking.value(one.value)),
                    "headers": [[name, _shown(data)] for name, data in one.headers],
                }
                file.write(json.dumps(line, ensure_ascii=False) + "\n")
                count += 1
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)
    return count


def _consumed(bootstrap_servers: str, topics: list[str], most: int) -> Iterator[Recorded]:
    from ..admin.log_offsets import offsets_at
    from ..admin.session import Admin
    from ..admin.topics import describe_topics
    from ..client.cluster import Address, Cluster
    from ..protocol.log_places import EARLIEST, LATEST

    pairs = (one.strip().rpartition(":") for one in bootstrap_servers.split(","))
    addresses = [Address(host.strip("[]"), int(port)) for host, _, port in pairs]
    admin = Admin(Cluster(addresses, "odradek-record", _TIMEOUT_S), _PATIENCE_S)
    try:
        found = {one.name: one for one in describe_topics(admin, topics) if not one.error_code}
        if missing := [topic for topic in topics if topic not in found]:
            raise ValueError(f"there is no topic {', '.join(missing)}")
        for topic in topics:
            places = sorted((topic, one.partition_index) for one in found[topic].partitions)
            starts, ends = offsets_at(admin, places, EARLIEST), offsets_at(admin, places, LATEST)
            for place in places:
                for one in itertools.islice(_records(admin, place, starts[place], ends[place]), most):
                    most -= 1
                    yield one
    finally:
        admin.close()


def _records(admin: Admin, place: Place, offset: int, end: int) -> Iterator[Recorded]:
    """The records of a partition from an offset to the end. Raises RequestFailed, and ValueError for damaged batches."""
    from ..admin.errors import ResponseError

    empty = 0
    while offset < end:
        found = admin.repeated(functools.partial(_fetched, admin, place, offset))
        after = offset
        try:
            for position, header in iter_headers(found.batches):
                check_crc(found.batches, position, header)
                after = max(after, header.next_offset)
                if header.attributes & CONTROL_FLAG:
                    continue
                for one in decode_batch(found.batches, position, header):
                    if offset <= one.offset < end:
                        yield Recorded(*place, one.timestamp, one.key, one.value, one.headers)
        except BatchError as error:
            raise ValueError(f"{place[0]}-{place[1]}, records from offset {after} on: {error}") from error
        if after == offset:
            empty += not found.is_throttled
            if empty == _MOST_EMPTY and found.high_watermark < end:
                raise ResponseError(f"{place[0]}-{place[1]}", ErrorCode.REQUEST_TIMED_OUT)
            if empty == _MOST_EMPTY:
                return
        else:
            offset, empty = after, 0


class _Fetched(NamedTuple):
    """The response of a partition's leader. `is_throttled`: a quota may have left the records out."""

    batches: bytes
    high_watermark: int
    is_throttled: bool


def _fetched(admin: Admin, place: Place, offset: int) -> _Fetched:
    """The batches from an offset on, of the partition's leader."""
    from ..admin.errors import check
    from ..admin.topics import described_topics
    from ..protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic

    topic, index = place
    (described,) = described_topics(admin.impatient, [topic])
    (partition,) = (one for one in described.partitions if one.partition_index == index)
    check(f"{topic}-{index}", ErrorCode.NONE if partition.leader_id >= 0 else ErrorCode.LEADER_NOT_AVAILABLE)
    asked = FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=_FETCH_BYTES)
    topic_id = described.id_in_requests
    request = FetchRequest(
        max_wait_ms=_IDLE_MS,
        min_bytes=1,
        max_bytes=_FETCH_BYTES,
        topics=[FetchTopic(topic=topic, topic_id=topic_id, partitions=[asked])],
    )
    response = admin.ask(request, partition.leader_id)
    check(f"{topic}-{index}", response.error_code)
    (found,) = (one for result in response.responses for one in result.partitions)
    check(f"{topic}-{index}", found.error_code)
    return _Fetched(bytes(found.records or b""), found.high_watermark, response.throttle_time_ms > 0)


def replay(embedded: Embedded, path: str | Path) -> int:
    """Puts the records of a file into the topics of a running broker, with their timestamps. Returns how many. Blocks.

    Topics that are not there get as many partitions as the file names. Raises ValueError for a file of another kind.
    """
    lines = list(_read(Path(path)))
    for topic in dict.fromkeys(line["topic"] for line in lines):
        if not embedded.topic(topic).exists:
            embedded.topic(topic).create(1 + max(line["partition"] for line in lines if line["topic"] == topic))
    batches: dict[tuple[str, int], list[Line]] = {}
    for line in lines:
        batches.setdefault((line["topic"], line["partition"]), []).append(line)
    for (topic, partition), records in batches.items():
        for begin in range(0, len(records), BATCH):
            embedded.topic(topic).append(partition, [_decoded(line) for line in records[begin : begin + BATCH]])
    return len(lines)


def _read(path: Path) -> Iterator[Line]:
    with path.open(encoding="utf-8") as file:
        for number, text in enumerate(file, 1):
            try:
                line = json.loads(text)
                yield {
                    "topic": line["topic"],
                    "partition": line["partition"],
                    "timestamp_ms": line["timestamp_ms"],
                    "key": line["key"],
                    "value": line["value"],
                    "headers": line["headers"],
                }
            except (ValueError, KeyError, TypeError, RecursionError):
                raise ValueError(f"{path}:{number} is not a line that record() wrote") from None


def _decoded(line: Line) -> tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]:
    headers = [(name, _data(shown)) for name, shown in line["headers"]]
    return line["timestamp_ms"], _data(line["key"]), _data(line["value"]), headers


def _shown(data: bytes | None) -> Shown:
    if data is None:
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def _data(shown: Shown) -> bytes | None:
    if isinstance(shown, dict):
        return base64.b64decode(shown["base64"])
    return shown.encode() if shown is not None else None
