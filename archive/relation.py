"""`odradek.relation`: the table of a topic up to the offsets of its commit, and the log from there on, as of one point.

Each record is in it once. The offsets are in the commit of the rows, so the table ends where the log takes over, whenever an
archiver commits, merges or expires. Records of the log become rows as the archiver would make them: in the columns of the
table, and without those that do not fit, which are dead-letter records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyiceberg.catalog import Catalog

from ..admin.table_owner import Owner
from ..columns import Plan, ValueSchema
from ..columns.cluster import Cluster
from ..columns.cluster_plan import check_right_to_read, plan_topic
from ..columns.dataset import pruned, used_columns
from ..columns.dataset_scanner import DatasetScanner
from ..columns.errors import ScanError
from ..columns.request import READ_COMMITTED, Request
from ..protocol.uuids import uuid_to_text
from .column_types import Times, grown
from .iceberg import DEFAULT_NAMESPACE, open_catalog
from .keyed_records import KeyedRecords
from .keyed_rows import KeyedChanges, KeyedRows
from .log_rows import LogRows
from .ownership import check_owner, checked_name, dead_letter_name, namespace_parts, table_name
from .relation_tasks import TASK_BYTES, RelationTask, aligned
from .rows import DEAD_LETTER_SCHEMA, VALUE_BYTES, VALUE_JSON, RowMaker, TypedRows, form_of, inferred_type, row_maker
from .sampling import sample
from .store import ArchiveError
from .stored_rows import IcebergRows, ParquetRows, StoredRows
from .stored_tasks import chosen
from .topic_archive import check_same_log

#: The rows of a table, and its dead-letter records.
_Rows: TypeAlias = tuple[StoredRows, StoredRows | None]
#: Commits of the table, each with a loss of the log right after it, that come before one plan.
_MOST_LOOKS = 10


class Relation(ds.Dataset):  # type: ignore[misc]
    """All records of a topic, each once, from its table and its log: `duckdb.sql("select count(*) from orders")`.

    A `pyarrow.dataset.Dataset`, which DuckDB and Polars ask for the columns and the rows that a query needs: files and parts
    of the log that have none are not read. Rows are in no order. Each reading gives the same rows.
    """

    def __init__(
        self,
        stored: StoredRows,
        dead_letters: StoredRows | None,
        log: LogRows | KeyedChanges,
        schema: pa.Schema,
        text_columns: Sequence[str] = (),
    ) -> None:
        """Made by `relation`. `schema`: the columns of the table, with those that records of the log add."""
        self._stored = stored
        self._dead_letters = dead_letters
        self._log = log
        self._schema = schema
        self._text_columns = tuple(text_columns)
        #: The first error of a reading: an engine may raise an error of its own in place of it.
        self.failure: Exception | None = None

    @property
    def schema(self) -> pa.Schema:
        made = self._schema
        for name in self._text_columns:
            made = made.set(made.get_field_index(name), pa.field(name, pa.string()))
        return made

    @property
    def offsets(self) -> dict[int, tuple[int, int]]:
        """Partition -> (the offset where the log takes over from the table, the offset after the last one)."""
        return {one.partition: (one.start, one.end) for one in self._log.plan.partitions}

    def as_text(self, columns: Sequence[str]) -> Relation:
        """The same relation with `key` or `value` as text where they are bytes; others are escapes such as `\\xff`."""
        found = [name for name in columns if pa.types.is_binary(self._schema.field(name).type)]
        return Relation(self._stored, self._dead_letters, self._log, self._schema, found)

    def scanner(
        self, columns: Sequence[str] | None = None, filter: pc.Expression | None = None, **options: object
    ) -> ds.Scanner:
        """Arrow's scanner of columns and of the rows that pass a filter. Raises ArchiveError, ScanError as it reads."""
        names = self.schema.names if columns is None else list(columns)
        needed = used_columns(self.schema.names, names, filter) or ["offset"]
        return DatasetScanner(self._reader(needed, filter), names, filter)

    def _reader(self, names: Sequence[str], filter: pc.Expression | None = None) -> pa.RecordBatchReader:
        """The columns, of rows of which some may not pass the filter."""
        schema = pa.schema([self.schema.field(name) for name in names])
        return pa.RecordBatchReader.from_batches(schema, self._batches(schema, filter))

    def _batches(self, schema: pa.Schema, filter: pc.Expression | None) -> Iterator[pa.RecordBatch]:
        try:
            yield from self._rows(schema, filter)
        except Exception as error:
            self.failure = self.failure or error
            raise

    def _rows(self, schema: pa.Schema, filter: pc.Expression | None) -> Iterator[pa.RecordBatch]:
        plan = pruned(self._log.plan, filter, self.schema)
        stored = [name for name in schema.names if name in self._stored.schema.names]
        for batch in self._stored.batches(partial(chosen, filter, self.schema), stored):
            yield self._aligned(batch, schema)
        if plan.splits:
            for batch in self._log.batches(plan, schema.names):
                yield self._aligned(batch, schema)

    def _aligned(self, batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
        return aligned(batch, schema, self._schema, self._text_columns)

    def tasks(
        self,
        columns: Sequence[str] | None = None,
        filter: pc.Expression | None = None,
        *,
        task_bytes: int | None = None,
    ) -> list[RelationTask]:
        """The same rows as tasks that other processes run, each of about so many bytes, by default TASK_BYTES.

        Raises ClusterError.
        """
        task_bytes = task_bytes or TASK_BYTES
        names = self.schema.names if columns is None else list(columns)
        needed = used_columns(self.schema.names, names, filter) or ["offset"]
        stored = [name for name in needed if name in self._stored.schema.names]
        of_table = self._stored.tasks(partial(chosen, filter, self.schema), stored, task_bytes)
        of_log = self._log.tasks(pruned(self._log.plan, filter, self.schema), needed, task_bytes)
        return [
            RelationTask(rows, tuple(names), tuple(needed), self._schema, self._text_columns, filter)
            for rows in (*of_table, *of_log)
        ]

    def to_table(
        self, columns: Sequence[str] | None = None, filter: pc.Expression | None = None, **options: object
    ) -> pa.Table:
        return self.scanner(columns, filter).to_table()

    def count_rows(self, filter: pc.Expression | None = None, **options: object) -> int:
        return int(self.scanner(["offset"], filter).count_rows())

    def __arrow_c_schema__(self) -> object:
        return self.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._reader(self.schema.names).__arrow_c_stream__(requested_schema)

    def dead_letter_records(self) -> pa.Table:
        """The records that are no rows, with their reasons: those beside the table, and those of the log."""
        batches = list(self._log.dead_letter_records())
        if self._dead_letters is not None:
            assert self._stored.covered is not None
            offsets = self._stored.covered.offsets
            for batch in self._dead_letters.batches(lambda parts: parts, DEAD_LETTER_SCHEMA.names):
                batches.append(_below(aligned(batch, DEAD_LETTER_SCHEMA, DEAD_LETTER_SCHEMA), offsets))
        return pa.Table.from_batches(batches, DEAD_LETTER_SCHEMA)


def _below(batch: pa.RecordBatch, offsets: Mapping[int, int]) -> pa.RecordBatch:
    """The rows that a table with these offsets covers: dead-letter records are committed before the rows."""
    ends = pa.array([offsets.get(one, 0) for one in batch.column("partition").to_pylist()], pa.int64())
    return batch.filter(pc.less(batch.column("offset"), ends))


def relation(
    topic: str,
    *,
    bootstrap_servers: str | Sequence[str] | None = None,
    client: Mapping[str, str] | None = None,
    warehouse: str | Path | None = None,
    catalog: Mapping[str, str] | Catalog | None = None,
    parquet: str | Path | None = None,
    namespace: str = DEFAULT_NAMESPACE,
    table: str | None = None,
    values: ValueSchema | str | None = None,
    times: Times | str = Times.native,
    isolation_level: str = READ_COMMITTED,
) -> Relation:
    """All records of a topic, each once: its table up to the offsets of its newest commit, and the log from there on.

    Of a keyed table: its rows with the later changes of the log, a row for each key, as the archiver would leave them.

    `bootstrap_servers`, `client`: the cluster, as for `odradek.scan`. `warehouse`, `catalog` or `parquet`: where `odradek
    archive` keeps the table; `namespace` and `table` where it has another name than the default one. `values`, `times`,
    `isolation_level`: those of the archive; a table of raw values has none.

    The end of the relation is that of the log at the call. Raises NoSuchTable, ArchiveError for a table of another topic or
    of other values, ScanError for a log that no longer has the records behind the table, ClusterError, also for a user
    without READ on the topic.
    """
    properties = dict(client or {})
    if bootstrap_servers is not None:
        is_text = isinstance(bootstrap_servers, str)
        properties["bootstrap.servers"] = str(bootstrap_servers) if is_text else ",".join(bootstrap_servers)
    if "bootstrap.servers" not in properties:
        raise ArchiveError("a relation needs bootstrap_servers, or client with bootstrap.servers")
    if sum(one is not None for one in (warehouse or catalog or None, parquet)) != 1:
        raise ArchiveError("a relation needs the place of the table: warehouse, catalog or parquet")
    name = checked_name(table_name(topic) if table is None else table)
    if parquet is not None:
        open_rows = partial(_parquet_rows, Path(parquet) / name)
    else:
        opened = catalog if isinstance(catalog, Catalog) else open_catalog(warehouse, catalog or {})
        open_rows = partial(_iceberg_rows, opened, (*namespace_parts(namespace), name))
    named = ValueSchema(values) if isinstance(values, str) else values
    with Cluster(properties) as cluster:
        (stored, dead_letters), plan = _as_of_now(cluster, topic, open_rows, isolation_level)
        keyed = stored.keyed
        rules = None if keyed is None else KeyedRecords(keyed, topic)
        make_rows = partial(row_maker, named, topic, keep_value=False, times=Times(times), rules=rules)
        records = _record_schema(cluster, plan, stored, make_rows(schema=stored.records), rules)
    log = LogRows(plan, partial(make_rows, schema=records))
    if keyed is None or rules is None:
        return Relation(stored, dead_letters, log, records)
    assert isinstance(stored, IcebergRows), "keyed tables are Iceberg tables"
    changes = KeyedChanges(stored, keyed, log, topic)
    schema = grown(stored.schema, rules.stored_schema(records))
    return Relation(KeyedRows(stored, changes), dead_letters, changes, schema)


def _parquet_rows(folder: Path) -> _Rows:
    return ParquetRows(folder), ParquetRows(folder, dead_letters=True)


def _iceberg_rows(catalog: Catalog, place: tuple[str, ...]) -> _Rows:
    dead_place = (*place[:-1], dead_letter_name(place[-1]))
    # Dead-letter records are committed first, so those of a later look are not too few.
    stored = IcebergRows(catalog, place)
    return stored, IcebergRows(catalog, dead_place) if catalog.table_exists(dead_place) else None


def _as_of_now(
    cluster: Cluster, topic: str, open_rows: Callable[[], _Rows], isolation_level: str
) -> tuple[_Rows, Plan]:
    """The rows of the newest commit, and the plan of what the log has behind it.

    Between the two looks an archiver may commit, and the log may lose records that the table has now: then both are taken
    again.
    """
    rows = open_rows()
    for _ in range(_MOST_LOOKS):
        try:
            return rows, _plan(cluster, topic, rows[0], isolation_level)
        except ScanError:
            newer = open_rows()
            covered = newer[0].covered
            if covered is None or not covered.has_more_than(rows[0].covered):
                raise
            rows = newer
    raise ArchiveError(f"the table of topic {topic} and its log change too often: make the relation again")


def _plan(cluster: Cluster, topic: str, stored: StoredRows, isolation_level: str) -> Plan:
    """The plan of what the log has behind the table. Raises ArchiveError for a table of another topic."""
    (described,) = cluster.described([topic])
    topic_id = "" if described.topic_id is None else uuid_to_text(described.topic_id.bytes)
    check_owner(Owner(topic, cluster.cluster_id(), topic_id), stored.owner, stored.name)
    request = Request(isolation_level=isolation_level)
    if stored.covered is not None:
        request.start_offsets = dict(stored.covered.offsets)
    plan = plan_topic(cluster, topic, request)
    check_same_log(plan, stored.covered, topic_id)
    # The files of the table are read without the brokers.
    check_right_to_read(
        cluster, topic, plan.partitions[0].partition, described.topic_id.bytes if described.topic_id else None
    )
    return plan


def _record_schema(
    cluster: Cluster, plan: Plan, stored: StoredRows, maker: RowMaker, rules: KeyedRecords | None
) -> pa.Schema:
    """The columns of the table's records, with those that records of the log add. Raises ArchiveError for values of another
    kind.
    """
    if isinstance(maker, TypedRows) and maker.is_inferred and "value" not in stored.schema.names:
        found = sample(cluster, plan, skip_unreadable=False)
        if found.rows:
            maker.set_type(inferred_type(found))
    _check_form(stored, maker.schema if rules is None else rules.stored_schema(maker.schema))
    schema = grown(stored.records, maker.schema)
    has_struct = "value" in schema.names and pa.types.is_struct(schema.field("value").type)
    has_whole_value = VALUE_BYTES in schema.names or VALUE_JSON in schema.names
    if isinstance(maker, TypedRows) and maker.is_inferred and has_struct and not has_whole_value:
        return schema.append(pa.field(VALUE_JSON, pa.string()))
    return schema


def _check_form(stored: StoredRows, rows: pa.Schema) -> None:
    """Raises ArchiveError where rows have typed values and the table raw ones, or the other way round."""
    if "value" in stored.schema.names and "value" in rows.names:
        kept, asked = (form_of(schema.field("value").type) for schema in (stored.schema, rows))
        if kept != asked:
            advice = "name their format" if kept != "raw" else "name no format"
            raise ArchiveError(f"the values of table {stored.name} are {kept}, not {asked}: {advice}")
