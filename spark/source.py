"""Topics in queries of Spark: the data source `odradek` with its readers, and `read`, for less CPU.

Spark keeps the offsets of a streaming query as JSON in the checkpoint:

    {"offsets": {"orders": {"0": 17}}, "topicIds": {"orders": "..."}, "group": "...", "initial": {"orders": {"0": 5}}}

`topicIds` show a topic that was deleted and created again: its offsets are others. `initial` is in the end of the first
batch only. Spark does not keep where a query began: after a crash in the first batch, `latest` would be another place.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)
from pyspark.sql.types import StructType

from ..protocol.log_places import EARLIEST, LATEST
from .numbered_tasks import frame_of
from .offset_commits import OffsetCommits
from .options import FORMAT, InvalidOptions, Options, Position, key_text, parse
from .planning import (
    DataLoss,
    Offsets,
    UnfinishedBatch,
    batch_splits,
    check_starts,
    checked,
    chosen_topics,
    limited,
    places_of,
    resolved,
    splits,
)
from .rejected_stream import RejectedStream
from .relation_options import names_relation, parse_relation
from .rows import Range, check_schema, conditions_of, fields_of, read_range, records, schema_of
from .sink_options import parse_sink
from .worker_process import lower_cost_of_reuse, runs

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from ..admin.topics import Topic
    from ..columns.cluster import Cluster

try:  # Spark 4.2
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, SupportsTriggerAvailableNow

    HAS_ADMISSION_CONTROL = True
except ImportError:
    HAS_ADMISSION_CONTROL = False

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        """Stands for the class of Spark 4.2."""


Json = dict[str, Any]
#: A value of an option of `read`.
Option = str | int | float | bool | bytes | None
#: The program of Spark's process that pushes filters down and plans.
_PUSHES_FILTERS = "pyspark.sql.worker.data_source_pushdown_filters"


class OdradekSource(DataSource):
    """Topics as rows of `key, value, topic, partition, offset, timestamp, timestampType`, and `headers` if asked for."""

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(dict(options))
        self._given = dict(options)
        lower_cost_of_reuse()

    @functools.cached_property
    def checked(self) -> Options:
        """The options of a reader. Raises InvalidOptions."""
        return parse(self._given)

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        if names_relation(self._given):
            from .relation import opened, schema_of_relation

            return schema_of_relation(opened(parse_relation(self._given)))
        return schema_of(self.checked)

    def reader(self, schema: StructType) -> DataSourceReader:
        # With its setting off, Spark rejects a reader that has the method.
        is_filtering = runs(_PUSHES_FILTERS)
        if names_relation(self._given):
            from .relation import FilteringRelationReader, RelationReader

            return (FilteringRelationReader if is_filtering else RelationReader)(parse_relation(self._given), schema)
        check_schema(schema, self.checked)
        self.checked.check_batch()
        return FilteringReader(self.checked, schema) if is_filtering else BatchReader(self.checked, schema)

    def streamReader(self, schema: StructType) -> StreamReader | RejectedStream:
        try:
            if names_relation(self._given):
                raise InvalidOptions(
                    "a table and its log are read in batches: leave out the place of the table, and the stream reads the log"
                )
            check_schema(schema, self.checked)
            self.checked.check_stream(has_admission_control=HAS_ADMISSION_CONTROL)
        except InvalidOptions as error:
            return RejectedStream(error)
        return StreamReader(self.checked, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from .sink import BatchWriter

        if overwrite:
            raise InvalidOptions("a topic cannot be overwritten: use mode('append')")
        return BatchWriter(parse_sink(self._given), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from .sink import StreamWriter

        if overwrite:
            raise InvalidOptions("a topic can only be appended to: use outputMode('append') or 'update'")
        return StreamWriter(parse_sink(self._given), schema)


class BatchReader(DataSourceReader):
    def __init__(self, options: Options, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._conditions = conditions_of(options)

    def partitions(self) -> list[Range]:
        splits = self._conditions.planned(batch_splits(self._options))
        lower_cost_of_reuse()
        return [Range(one) for one in splits] or [Range(None)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_range(partition, self._options, self._schema, self._conditions)


class FilteringReader(BatchReader):
    """A reader with the conditions of the query, in Spark 4.1 with `spark.sql.python.filterPushdown.enabled`."""

    def pushFilters(self, filters: list[object]) -> list[object]:
        """Returns all of them: Spark applies them to the rows, too."""
        self._conditions = self._conditions.pushed(filters)
        return filters


def read(spark: SparkSession, schema: StructType | str | Sequence[str] | None = None, **options: Option) -> DataFrame:
    """The records of topics: what `spark.read.format("odradek").options(**options).load()` has, in a batch query.

    It takes less CPU: Spark starts two Python processes for each query of a Python data source, a second of CPU, to make the
    source and its plan. Here the calling process plans, and `mapInArrow` over the numbers of the splits reads them.

        orders = read(spark, ["offset", "value"], subscribe="orders", **{"kafka.bootstrap.servers": "127.0.0.1:9092"})

    `schema`: the columns to read, as names, or as `.schema(...)` takes them, which `valueFormat` needs; all by default.
    Spark does not prune them: a column that a query does not use is read all the same.
    `options`: those of the data source, with its errors as InvalidOptions, ClusterError and DataLoss; `key` may be bytes.

    The offsets are looked up now, in this process, which needs a way to the brokers. So every action on the DataFrame
    reads the same records; records that retention removes in between fail it as `failOnDataLoss` decides.
    """
    checked = parse({name: _text(value) for name, value in options.items() if value is not None})
    wanted = _wanted_schema(schema, checked)
    check_schema(wanted, checked)
    checked.check_batch()
    splits = batch_splits(checked)
    return frame_of(spark, splits, partial(records, options=checked, schema=wanted), wanted)


def _text(option: Option) -> str:
    return key_text(option) if isinstance(option, bytes) else str(option)


def _wanted_schema(given: StructType | str | Sequence[str] | None, options: Options) -> StructType:
    if given is None:
        return schema_of(options)
    if isinstance(given, str):
        given = StructType.fromDDL(given)
    if isinstance(given, StructType):
        return given
    return StructType(fields_of(given))


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Offsets and ranges in the driver; ranges in the tasks."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._cluster: Cluster | None = None
        self._initial: Json | None = None
        #: The end that Spark has seen last.
        self._seen: Json | None = None
        #: Spark has asked for the end of a new batch.
        self._has_looked_ahead = False
        #: Ends of a query that takes what is there, by Spark 4.2.
        self._target: Offsets | None = None
        #: The moment at which this reader planned a batch last.
        self._planned_at: float | None = None
        self._commits = OffsetCommits(options)

    # ---- offsets

    def initialOffset(self) -> Json:
        if self._initial is None:
            topics = self._topics()
            start = self._options.start or Position("startingOffsets", LATEST)
            found = resolved(self._connected(), topics, self._options, start, is_start=True)
            self._initial = {**_json(found, topics), **self._commits.named({}), "isInitial": True}
        return self._initial

    def latestOffset(self, start: Json | None = None, limit: object = None) -> Json:
        """The end of the next batch. Spark before 4.2 gives neither the start nor a limit."""
        self._has_looked_ahead = True
        self._commits.finish()
        with self._commits.noting_failure():
            return self._next_end(start, limit)

    def _next_end(self, start: Json | None, limit: object) -> Json:
        begin = start or self._seen or self.initialOffset()
        topics = self._topics()
        ends = self._ends(topics)
        if self._target is not None:
            ends = {place: min(offset, self._target[place]) for place, offset in ends.items() if place in self._target}
        starts = self._starts(begin, topics, ends)
        if self._options.fail_on_data_loss and (gone := sorted(set(_offsets(begin)) - set(ends))):
            raise DataLoss(f"{gone[0][0]}-{gone[0][1]} is gone")
        if self._waits_for_more(starts, ends):
            self._seen = begin
            self._commits.flush()
            return begin
        if (most := self._most_rows(start, limit)) is not None:
            ends = limited(starts, ends, most)
        made = {**_json(ends, topics), **self._commits.named(begin)}
        if begin.get("isInitial"):
            made["initial"] = begin["offsets"]
        if made["offsets"] == begin["offsets"] and made["topicIds"] == begin["topicIds"]:
            self._commits.flush()
            made = begin if start is not None or not begin.get("isInitial") else made
        self._seen = made
        return made

    def reportLatestOffset(self) -> Json:
        topics = self._topics()
        return _json(self._ends(topics), topics)

    def getDefaultReadLimit(self) -> object:
        """Called by Spark 4.2."""
        most = self._options.max_offsets_per_trigger
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:
        """Called by Spark 4.2."""
        self._target = self._ends(self._topics())

    def _most_rows(self, start: Json | None, limit: object) -> int | None:
        if start is None or limit is None:
            return self._options.max_offsets_per_trigger
        return getattr(limit, "max_rows", None)

    def _waits_for_more(self, starts: Offsets, ends: Offsets) -> bool:
        """Returns whether a batch has too few offsets, and the one before is not long ago.

        A query that takes what is available takes all of it. Spark before 4.2 names no trigger: it plans one batch then, or
        looks for its end before any batch, so the first batch of a reader does not wait.
        """
        least = self._options.min_offsets_per_trigger
        if least is None or self._planned_at is None or self._target is not None:
            return False
        if time.monotonic() - self._planned_at >= self._options.max_trigger_delay_ms / 1000:
            return False
        return sum(max(0, offset - starts.get(place, 0)) for place, offset in ends.items()) < least

    def _ends(self, topics: list[Topic]) -> Offsets:
        return self._connected().offsets(topics, LATEST, committed=self._options.is_committed)

    def _starts(self, begin: Json, topics: list[Topic], ends: Offsets) -> Offsets:
        """Offsets of a start, with the first ones of new partitions. Raises DataLoss for a topic that was created again."""
        known, ids = _offsets(begin), _ids(topics)
        for topic, topic_id in begin["topicIds"].items():
            if topic in ids and ids[topic] != topic_id:
                if self._options.fail_on_data_loss:
                    raise DataLoss(
                        f"topic {topic} was created again: the checkpoint is of the topic with the id {topic_id}, the "
                        f"cluster has {ids[topic]}"
                    )
                known = {place: offset for place, offset in known.items() if place[0] != topic}
        new = [place for place in ends if place not in known]
        if new:
            first = self._connected().offsets(topics, EARLIEST)
            known |= {place: first[place] for place in new}
        return known

    # ---- ranges

    def partitions(self, start: Json, end: Json) -> list[InputPartition]:
        self._commits.plan(end)
        with self._commits.noting_failure():
            return self._ranges(start, end)

    def _ranges(self, start: Json, end: Json) -> list[InputPartition]:
        if start == end:
            self._seen = end  # the last end of a checkpoint, when a query starts again
            return []
        self._planned_at = time.monotonic()
        if start.get("isInitial") and "initial" in end:
            start = {**start, "offsets": end["initial"]}
        self._seen = end
        topics, ends = self._topics(), _offsets(end)
        if not self._has_looked_ahead:
            self._check_unfinished(topics, ends)
        present = set(places_of(topics))
        starts = self._starts(start, topics, {place: offset for place, offset in ends.items() if place in present})
        starts = {place: starts.get(place, 0) for place in ends}
        if self._options.fail_on_data_loss:
            check_starts(starts, ends)
        starts, ends = checked(self._connected(), topics, self._options, starts, ends)
        return [Range(one) for one in splits(self._connected(), topics, self._options, starts, ends)]

    def _check_unfinished(self, topics: list[Topic], ends: Offsets) -> None:
        """Raises UnfinishedBatch for a batch after which Spark before 4.2 may end the query, with records left.

        Spark plans the batch of a checkpoint before it asks for new offsets, unless it takes what is available: by 4.2, and
        by its wrapper of other sources. It ignores what a source raises at the end of a query, so the error comes now.
        """
        if HAS_ADMISSION_CONTROL or self._options.processing_time_only:
            return
        if any(offset > ends.get(place, 0) for place, offset in self._ends(topics).items()):
            raise UnfinishedBatch

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_range(partition, self._options, self._schema)

    def commit(self, end: Json) -> None:
        """Does nothing: the offsets are in Spark's checkpoint."""

    def stop(self) -> None:
        self._commits.close()
        if self._cluster is not None:
            self._cluster.close()
            self._cluster = None

    # ---- the cluster

    def _connected(self) -> Cluster:
        if self._cluster is None:
            from ..columns.cluster import Cluster

            self._cluster = Cluster(self._options.client)
        return self._cluster

    def _topics(self) -> list[Topic]:
        return chosen_topics(self._connected(), self._options)


def _json(offsets: Offsets, topics: list[Topic]) -> Json:
    """Offsets in a fixed order, since Spark compares the texts."""
    made: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        made.setdefault(topic, {})[str(partition)] = offset
    return {"offsets": made, "topicIds": {name: one for name, one in sorted(_ids(topics).items()) if name in made}}


def _offsets(offsets: Json) -> Offsets:
    return {(topic, int(one)): at for topic, partitions in offsets["offsets"].items() for one, at in partitions.items()}


def _ids(topics: list[Topic]) -> dict[str, str]:
    return {topic.name: str(topic.topic_id or "") for topic in topics}
