"""`odradek.scan`: the records of a topic as Arrow."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..client.properties import StoreSettings, store_settings
from .cluster import Cluster, connected
from .cluster_plan import plan_topic
from .directory import has_tier_metadata
from .directory_plan import FindRemote, plan_directory
from .errors import InvalidScan, ScanError, Unread
from .key_filters import narrowed
from .latest_records import LATEST_COLUMNS, latest_offsets, records_at
from .plan import Plan
from .readers import Reader, open_split
from .record_schema import SCHEMA, VALUE_ERROR
from .request import READ_COMMITTED, READ_UNCOMMITTED, SPLIT_BYTES, Request
from .scan_options import Offsets, Time, check_choice, checked_columns, milliseconds_of, offsets_of
from .split import Split
from .split_reader import ReadOptions

if TYPE_CHECKING:
    from .decoder import Decoder
    from .inference import Inference
    from .layout import Numbers
    from .value_schema import ValueSchema

_LEVELS = (READ_UNCOMMITTED, READ_COMMITTED)
_ON_UNREADABLE = ("raise", "skip")
#: Values that do not decode are in memory: with more of them the schema is not that of the topic.
MOST_UNDECODABLE_BYTES = 256 << 20


class Scan:
    """Records of a topic, from the offsets that its log had when the scan was made.

    Anything that reads Arrow takes it: `pyarrow.table(scan)`, `polars.DataFrame(scan)`, `duckdb.sql("from scan")`. Each
    reading begins anew. `unread`: the offsets that the last reading could not read, with `on_unreadable="skip"`.
    """

    def __init__(
        self, plan: Plan, options: ReadOptions, *, latest_per_key: bool = False, decoder: Decoder | None = None
    ) -> None:
        self.plan = plan
        self.unread: list[Unread] = []
        self._undecodable: list[pa.RecordBatch] = []
        self._options = options
        self.latest_per_key = latest_per_key
        self._decoder = decoder
        #: The inference of the type of values, where JSON has no schema.
        self.inference: Inference | None = None
        self._text_columns: tuple[str, ...] = ()
        #: Called after each reading, also of a copy with other columns.
        self.on_end: Callable[[Scan], None] | None = None
        self._dates: tuple[int, int] | None = None
        #: Timestamps of the last reading: one in ms that is not within `with_dates`, and the number of them; None without.
        self.undated: tuple[int, int] | None = None
        #: Keys that the rows which are used have: segments without one of them are passed over.
        self._keys: tuple[bytes, ...] = ()
        #: Called with what a reading raises: an engine may raise an error of its own in place of it.
        self.on_error: Callable[[Exception], None] | None = None

    @property
    def schema(self) -> pa.Schema:
        fields = (VALUE_ERROR if name == VALUE_ERROR.name else SCHEMA.field(name) for name in self._options.columns)
        made = pa.schema(list(fields))
        if self._decoder is not None and "value" in self._options.columns:
            made = made.set(made.get_field_index("value"), pa.field("value", self._decoder.type))
        for name in self._text_columns:
            if name in self._options.columns:
                made = made.set(made.get_field_index(name), pa.field(name, pa.string()))
        return made

    @property
    def undecodable(self) -> pa.Table:
        """The records of the last reading whose values do not decode, with the reason of each. They have no value."""
        from .typed_rows import UNDECODABLE

        return pa.Table.from_batches(self._undecodable, UNDECODABLE)

    @property
    def offsets(self) -> dict[int, tuple[int, int]]:
        """Partition -> (first offset, offset after the last one) of the scan."""
        return {one.partition: (one.start, one.end) for one in self.plan.partitions}

    @property
    def splits(self) -> tuple[Split, ...]:
        """Parts that may be read side by side, by `read_split`."""
        return self.plan.splits

    def select(self, columns: Sequence[str]) -> Scan:
        """The same scan with other columns."""
        made = copy.copy(self)
        made._options = replace(self._options, columns=checked_columns(columns, is_typed=self._decoder is not None))
        made.unread, made._undecodable, made.undated = [], [], None
        return made

    def with_plan(self, plan: Plan) -> Scan:
        """The same scan of other splits."""
        made = self.select(self._options.columns)
        made.plan = plan
        return made

    def with_keys(self, keys: Sequence[bytes]) -> Scan:
        """The same scan without closed segments that have no record with one of the keys: their filters say so. Records
        with other keys may be there.
        """
        made = self.select(self._options.columns)
        made._keys = tuple(keys)
        return made

    def as_text(self, columns: Sequence[str]) -> Scan:
        """The same scan with `key` or `value` as text; bytes that are not UTF-8 are escapes such as `\\xff`."""
        made = self.select(self._options.columns)
        made._text_columns = tuple(columns)
        return made

    def with_dates(self, first: int, last: int) -> Scan:
        """The same scan with null for timestamps before `first` or after `last`, in ms: not every engine has all years that
        Kafka's timestamps have. `undated` counts them.
        """
        made = self.select(self._options.columns)
        made._dates = (first, last)
        return made

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        self.unread, self._undecodable, self.undated = [], [], None
        schema = self.schema
        names = [name for name in self._text_columns if name in self._options.columns]
        try:
            for batch in self._typed_records():
                for name in names:
                    number = schema.get_field_index(name)
                    batch = batch.set_column(number, schema.field(number), text_of(batch.column(number)))
                if self._dates is not None and "timestamp" in self._options.columns:
                    batch, undated = _dated(batch, *self._dates)
                    self._note_undated(undated)
                yield batch
        except Exception as error:
            if self.on_error is not None:
                self.on_error(error)
            raise
        finally:
            if self.on_end is not None:
                self.on_end(self)

    def _note_undated(self, undated: pa.Array) -> None:
        if len(undated):
            example, before = self.undated or (undated[0].as_py(), 0)
            self.undated = example, before + len(undated)

    def _typed_records(self) -> Iterator[pa.RecordBatch]:
        columns = tuple(self._options.columns)
        if self._decoder is None or not {"value", VALUE_ERROR.name} & set(columns):
            yield from self._records(self._options)
            return
        from .typed_rows import UNDECODABLE, typed_rows

        read = tuple(name for name in columns if name != VALUE_ERROR.name)
        more = tuple(name for name in UNDECODABLE.names if name in SCHEMA.names and name not in read)
        options = ReadOptions((*read, *more), self._options.skip, self._options.check_crcs)
        size = 0
        for batch in self._records(options):
            made, left_out = typed_rows(batch, self._decoder)
            if left_out.num_rows:
                if self._dates is not None:
                    left_out, undated = _dated(left_out, *self._dates)
                    if "timestamp" not in columns:  # else the rows themselves count them
                        self._note_undated(undated)
                self._undecodable.append(left_out)
                size += left_out.nbytes
                if size > MOST_UNDECODABLE_BYTES:
                    reason = left_out.column("reason")[0]
                    raise ScanError(f"the schema does not fit: {size >> 20} MB of values do not decode ({reason})")
            yield made.select(list(columns))

    def _records(self, options: ReadOptions) -> Iterator[pa.RecordBatch]:
        if not self.latest_per_key:
            yield from self._read(self.plan.splits, options)
            return
        for one in self.plan.partitions:
            yield from self._latest(one.splits, options)

    def reader(self) -> pa.RecordBatchReader:
        """Arrow's stream of RecordBatches; each is some megabytes."""
        return pa.RecordBatchReader.from_batches(self.schema, iter(self))

    def to_table(self) -> pa.Table:
        return pa.Table.from_batches(self, self.schema)

    def __arrow_c_schema__(self) -> object:
        return self.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.reader().__arrow_c_stream__(requested_schema)

    def count(self) -> int:
        """The number of records, by the headers of batches: those with as many records as offsets are not read.
        `latest_per_key` reads keys.
        """
        self.unread = []
        if self.latest_per_key:
            return sum(len(self._winners(one.splits)) for one in self.plan.partitions)
        found = 0
        for reader in self._readers(self.plan.splits, self._options):
            found += reader.count()
        return found

    def _read(self, splits: Sequence[Split], options: ReadOptions) -> Iterator[pa.RecordBatch]:
        for reader in self._readers(splits, options):
            yield from reader

    def _readers(self, splits: Sequence[Split], options: ReadOptions) -> Iterator[Reader]:
        """Yields the reader of each split, to be read at once; those of brokers share a connection."""
        cluster: Cluster | None = None
        try:
            for split in narrowed(splits, self._keys) if self._keys else splits:
                if split.path is None and split.remote is None and split.client is not None and cluster is None:
                    cluster = connected(split.client)
                reader = open_split(split, options, cluster)
                try:
                    yield reader
                finally:
                    self.unread += reader.unread
        finally:
            if cluster is not None:
                cluster.close()

    def _latest(self, splits: Sequence[Split], options: ReadOptions) -> Iterator[pa.RecordBatch]:
        winners = self._winners(splits)
        columns = tuple(options.columns)
        with_offset = columns if "offset" in columns else (*columns, "offset")
        options = ReadOptions(with_offset, options.skip, options.check_crcs)
        bounds = [np.searchsorted(winners, (one.first_offset, one.next_offset)) for one in splits]
        needed = [split for split, (first, end) in zip(splits, bounds, strict=True) if first < end]
        known, self.unread = self.unread, []
        try:
            for batch in records_at(winners, self._read(needed, options)):
                yield batch.select(list(columns))
        finally:
            # The keys of all splits were read before, and most of what cannot be read is named already.
            self.unread = known + [one for one in self.unread if not any(_has(other, one) for other in known)]

    def _winners(self, splits: Sequence[Split]) -> Numbers:
        options = ReadOptions(LATEST_COLUMNS, self._options.skip, self._options.check_crcs)
        return latest_offsets(self._read(splits, options))


def _has(unread_offsets: Unread, other: Unread) -> bool:
    return (
        unread_offsets.partition == other.partition
        and unread_offsets.first_offset <= other.first_offset
        and other.next_offset <= unread_offsets.next_offset
    )


def text_of(values: pa.Array) -> pa.Array:
    """Bytes as text; those that are not UTF-8 are escapes such as `\\xff`."""
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:
        texts = [None if one is None else one.decode(errors="backslashreplace") for one in values.to_pylist()]
        return pa.array(texts, pa.string())


def _dated(batch: pa.RecordBatch, first: int, last: int) -> tuple[pa.RecordBatch, pa.Array]:
    """The batch with null for timestamps before `first` or after `last`, in ms; and those timestamps."""
    number = batch.schema.get_field_index("timestamp")
    stamps = batch.column(number).cast(pa.int64())
    outside = pc.fill_null(pc.or_(pc.less(stamps, first), pc.greater(stamps, last)), False)
    if not pc.any(outside).as_py():
        return batch, stamps.slice(0, 0)
    dated = pc.if_else(outside, pa.scalar(None, pa.int64()), stamps).cast(batch.column(number).type)
    return batch.set_column(number, batch.schema.field(number), dated), stamps.filter(outside)


def scan(
    source: str | os.PathLike[str],
    *,
    bootstrap_servers: str | Sequence[str] | None = None,
    client: Mapping[str, str] | None = None,
    columns: Sequence[str] | None = None,
    partitions: Sequence[int] | None = None,
    start_offsets: Offsets | None = None,
    end_offsets: Offsets | None = None,
    start_timestamp: Time | None = None,
    end_timestamp: Time | None = None,
    isolation_level: str = READ_UNCOMMITTED,
    latest_per_key: bool = False,
    values: ValueSchema | str | None = None,
    on_unreadable: str = "raise",
    check_crcs: bool = True,
    split_bytes: int = SPLIT_BYTES,
) -> Scan:
    """The records of a topic as Arrow: `odradek.scan("odradek-data/orders").to_table()`.

    `source`: DATA_DIRECTORY/TOPIC, or the directory of one partition, of Odradek or Apache Kafka, also a copy. With
    `bootstrap_servers` a topic of a running cluster: closed segments come from its data directories where this machine has
    them, the newest records through Fetch. `client`: Kafka's client properties, for secured clusters. With the broker's keys
    that name its remote store (`remote.log.storage.manager.class.name`, `rsm.config.*`) a tiered topic is read from there.
    `columns`: of topic, partition, offset, timestamp, timestamp_type, key, value, headers; only these are built.
    `start_offsets`, `end_offsets`: a number for all partitions or one for each; the end is not included.
    `start_timestamp`, `end_timestamp`: records whose own timestamp is in this range, without the end: milliseconds, or
    datetimes with a zone. Without an end, a timestamp of 2^63-1 is in the range, too.
    `latest_per_key`: the last record of each key in its partition, as compaction leaves it; no tombstones, and no records
    without a key. The keys are in memory.
    `values`: "json", or a `ValueSchema` of JSON, Avro or Protobuf: `value` is a struct then. A value that does not decode is
    null, with the reason in the column `value_error`, and its record is in `Scan.undecodable`.
    `on_unreadable`: "raise" raises UnreadableOffsets, which names file and offset; "skip" lists them in `Scan.unread`.

    Raises InvalidScan, ScanError for offsets that the log no longer has, and ClusterError.
    """
    check_choice("isolation_level", isolation_level, _LEVELS)
    check_choice("on_unreadable", on_unreadable, _ON_UNREADABLE)
    wanted = checked_columns(SCHEMA.names if columns is None else columns, is_typed=values is not None)
    read = tuple(name for name in wanted if name != VALUE_ERROR.name)
    options = ReadOptions(read, on_unreadable == "skip", check_crcs)
    if split_bytes <= 0:
        raise InvalidScan("split_bytes must be more than 0")
    request = Request(
        None if partitions is None else tuple(partitions),
        start_timestamp=milliseconds_of(start_timestamp),
        end_timestamp=milliseconds_of(end_timestamp),
        isolation_level=isolation_level,
        split_bytes=split_bytes,
    )
    request.all_start, request.start_offsets = offsets_of(start_offsets)
    request.all_end, request.end_offsets = offsets_of(end_offsets)
    properties = dict(client or {})
    if bootstrap_servers is not None:
        is_text = isinstance(bootstrap_servers, str)
        properties["bootstrap.servers"] = bootstrap_servers if is_text else ",".join(bootstrap_servers)  # type: ignore[assignment]
    settings = store_settings(properties)
    if not properties or ("bootstrap.servers" not in properties and settings is not None):
        plan = plan_directory(os.fspath(source), request, _find_remote(os.fspath(source), settings))
    elif "bootstrap.servers" not in properties:
        raise InvalidScan("client needs bootstrap.servers")
    else:
        with Cluster(properties) as cluster:
            plan = plan_topic(cluster, os.fspath(source), request)
    made = Scan(plan, options, latest_per_key=latest_per_key)
    if values is None:
        return made
    typed = with_values(made, values)
    return typed if columns is None else typed.select(wanted)


def _find_remote(source: str, settings: StoreSettings | None) -> FindRemote:
    """Finds remote parts by the metadata in a data directory; most have none."""
    if not has_tier_metadata(os.path.dirname(os.path.abspath(source))):
        return lambda *_: None
    from .directory_tier import DirectoryTier

    return DirectoryTier(settings).find


def with_values(scanned: Scan, values: ValueSchema | str) -> Scan:
    """The scan with typed values. Raises InvalidScan."""
    from .inference import Inference
    from .value_decoders import decoder_of, inferred_decoder
    from .value_schema import ValueSchema

    named = ValueSchema(values) if isinstance(values, str) else values
    typed = scanned.with_plan(scanned.plan)
    if named.is_free_json:
        typed.inference = Inference.of(_sample(scanned))
        typed._decoder = inferred_decoder(typed.inference)
    else:
        typed._decoder = decoder_of(named, scanned.plan.topic, lambda: pa.array([], pa.binary()))
    if tuple(scanned._options.columns) == tuple(SCHEMA.names):
        return typed.select([*SCHEMA.names, VALUE_ERROR.name])
    return typed


def _sample(scanned: Scan) -> pa.Array:
    """The first values of each partition, SAMPLE_ROWS in all."""
    from .inference import SAMPLE_ROWS

    found: list[pa.Array] = [pa.array([], pa.binary())]
    for one in scanned.plan.partitions:
        left = SAMPLE_ROWS // len(scanned.plan.partitions) + 1
        for batch in Scan(replace(scanned.plan, partitions=(one,)), ReadOptions(("value",), skip=True)):
            found.append(batch.column("value").drop_null().slice(0, left))
            left -= len(found[-1])
            if left <= 0:
                break
    return pa.concat_arrays(found)
