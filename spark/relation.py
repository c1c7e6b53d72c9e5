"""A topic's table and its log as one, in queries of Spark: `format("odradek")` with the place of a table, and
`read_relation`.

Each query looks up the newest commit of the table and the end of the log once, in the driver, and checks READ on the topic.
Its tasks read files of the table and ranges of the log as of that point, so each record is there once, whatever an archiver
commits or merges meanwhile, and whatever task runs twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from .numbered_tasks import frame_of
from .options import InvalidOptions
from .relation_filters import condition_of
from .relation_options import RelationOptions
from .rows import arrow_schema, projected
from .worker_process import lower_cost_of_reuse

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyspark.sql import DataFrame, SparkSession

    from ..archive.relation import Relation
    from ..archive.relation_tasks import RelationTask


@dataclass
class RelationPart(InputPartition):
    """Rows that one task reads; None: no rows at all."""

    task: RelationTask | None


class RelationReader(DataSourceReader):
    """A reader of the relation as it is when Spark plans a query."""

    def __init__(self, options: RelationOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._filters: list[object] = []

    def partitions(self) -> Sequence[RelationPart]:
        relation = opened(self._options)
        names = _checked_names(self._schema, relation)
        condition = condition_of(self._filters, relation.schema)
        tasks = relation.tasks(names, condition, task_bytes=self._options.task_bytes)
        lower_cost_of_reuse()
        return [RelationPart(one) for one in tasks] or [RelationPart(None)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, RelationPart)
        if partition.task is not None:
            yield from _rows(self._schema, partition.task)


class FilteringRelationReader(RelationReader):
    """A reader with the filters of the query, in Spark 4.1 with `spark.sql.python.filterPushdown.enabled`."""

    def pushFilters(self, filters: list[object]) -> list[object]:
        """Returns all of them: Spark applies them to the rows, too."""
        self._filters += filters
        return filters


def read_relation(
    spark: SparkSession,
    relation: Relation,
    schema: StructType | str | Sequence[str] | None = None,
    *,
    filter: pc.Expression | None = None,
    task_bytes: int | None = None,
) -> DataFrame:
    """The rows of an `odradek.relation`, in tasks: a table up to its newest commit, and the log from there on.

        orders = odradek.relation("orders", bootstrap_servers="127.0.0.1:9092", warehouse="tables")
        read_relation(spark, orders, ["offset", "value"]).createOrReplaceTempView("orders")

    Every action on the DataFrame reads the same rows: those that were there when the relation was made, in this process.
    `schema`: the columns to read, as names, or with types that are narrower, such as a struct with some of its fields; all
    by default. `filter`: a condition of pyarrow.dataset; files and parts of the log that have no row which passes it are
    not read. `task_bytes`: bytes of files or of the log for each task, 128 MiB by default.

    The processes of Spark need a way to the files of the table and to the brokers. Raises InvalidOptions, ClusterError.
    """
    wanted = _wanted_schema(schema, relation)
    names = _checked_names(wanted, relation)
    tasks = relation.tasks(names, filter, task_bytes=task_bytes)
    return frame_of(spark, tasks, partial(_rows, wanted), wanted)


def opened(options: RelationOptions) -> Relation:
    """The relation that options name, as of now. Raises ArchiveError, ClusterError, ScanError."""
    from ..archive.iceberg import DEFAULT_NAMESPACE
    from ..archive.relation import relation
    from ..columns import ValueSchema
    from ..columns.request import READ_COMMITTED

    values = None
    if options.value_format:
        values = ValueSchema(
            options.value_format, options.value_schema, options.schema_registry, options.message,
            user_info=options.schema_registry_user_info,
        )  # fmt: skip
    return relation(
        options.topic,
        client=options.client,
        warehouse=options.warehouse,
        catalog=options.catalog or None,
        parquet=options.parquet,
        namespace=options.namespace or DEFAULT_NAMESPACE,
        table=options.table,
        values=values,
        times=options.times,
        isolation_level=options.isolation_level or READ_COMMITTED,
    )


def schema_of_relation(relation: Relation) -> StructType:
    """The columns of a relation with Spark's types. Raises InvalidOptions for types that Spark lacks."""
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import from_arrow_schema

    try:
        return from_arrow_schema(relation.schema, prefer_timestamp_ntz=True)
    except PySparkException as error:
        reason = str(error).partition("\n")[0]
        raise InvalidOptions(f"the table has a column of a type that Spark lacks: {reason}") from None


def _wanted_schema(given: StructType | str | Sequence[str] | None, relation: Relation) -> StructType:
    if isinstance(given, StructType):
        return given
    if isinstance(given, str):
        return StructType.fromDDL(given)
    whole = schema_of_relation(relation)
    if given is None:
        return whole
    for name in given:
        _check_column(name, relation)
    return StructType([whole[name] for name in given])


def _checked_names(schema: StructType, relation: Relation) -> list[str]:
    """The columns of a schema. Raises InvalidOptions for those that the relation lacks, or that have other types."""
    import pyarrow as pa

    if len(set(schema.names)) != len(schema.names):
        raise InvalidOptions("schema: a column is named twice")
    for field in arrow_schema(schema):
        _check_column(field.name, relation)
        kind = relation.schema.field(field.name).type
        try:
            projected(pa.array([], kind), field.type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
            raise InvalidOptions(f"schema: the column {field.name!r} is {kind}, not {field.type}") from None
    return list(schema.names)


def _check_column(name: str, relation: Relation) -> None:
    if name not in relation.schema.names:
        raise InvalidOptions(f"schema: there is no column {name!r}, but {', '.join(relation.schema.names)}")


def _rows(schema: StructType, task: RelationTask) -> Iterator[pa.RecordBatch]:
    """The rows of a task in the columns of Spark's schema."""
    import pyarrow as pa

    lower_cost_of_reuse()
    wanted = arrow_schema(schema)
    for batch in task.batches():
        if batch.num_rows:
            columns = [projected(batch.column(field.name), field.type) for field in wanted]
            yield pa.RecordBatch.from_arrays(columns, schema=wanted)
