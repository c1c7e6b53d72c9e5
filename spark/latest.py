"""The latest record of each key of a topic as an Iceberg table of Spark's catalog: merges of compacted topics.

A merge reads the records after those of the one before, keeps the last of each key, and runs MERGE INTO: a value inserts or
replaces the key's row, a tombstone deletes it. The offsets that are merged are in the snapshot of the same commit. A merge
that is repeated changes nothing: the last record of a key from any earlier offset up to the end is the same. So a driver may
end at any instant, and where another program has expired the snapshot with the offsets, the next merge begins at an earlier
one, or at the log's start.

A table belongs to one topic of one cluster, by a property that is compared before each merge. A table of `odradek archive`
has the same property.

Keys are compared within their partition, as Kafka's compaction does. Records without a key are left out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from ..admin.table_owner import OWNER, Owner, Role, kafka_id
from ..protocol.log_places import EARLIEST, LATEST
from ..protocol.uuids import uuid_to_text
from .options import DROP_MALFORMED, FAIL_FAST, InvalidOptions, Options, Position, parse
from .planning import DataLoss, Offsets, chosen_topics, resolved
from .source import read

if TYPE_CHECKING:
    from ..admin.topics import Topic
    from ..columns.cluster import Cluster

#: The offsets that a table has, in the summaries of its snapshots.
MERGED = "odradek.merged"
#: Iceberg's setting of a session for properties of the snapshots that its commands make.
_SNAPSHOT_PROPERTY = f"spark.sql.iceberg.snapshot-property.{MERGED}"
_COLUMNS = "key binary, value {}, partition int, offset bigint, timestamp timestamp"
_VIEW = "odradek_latest_records"
_MERGE = """
MERGE INTO {table} AS kept USING {view} AS new ON kept.key = new.key AND kept.partition = new.partition
WHEN MATCHED AND new.value IS NULL THEN DELETE
WHEN MATCHED THEN UPDATE SET *
WHEN NOT MATCHED AND new.value IS NOT NULL THEN INSERT *
"""


class LatestTable:
    """A topic's table of the latest records. One process merges into a table at a time; Iceberg rejects a second one."""

    def __init__(
        self, spark: SparkSession, table: str, options: Mapping[str, str], *, value_type: str = "binary"
    ) -> None:
        """`table`: its name in Spark, such as lake.kafka.customers; it is created where it does not exist.

        `options`: those of format("odradek") with `subscribe` of one topic, without starts and ends; `value_type`: with
        `valueFormat`, the type of values, such as struct<name: string>. A value that does not decode would look like a
        tombstone: `mode` is FAILFAST by default, or DROPMALFORMED. Raises InvalidOptions.
        """
        self._given = {"mode": FAIL_FAST, "kafka.isolation.level": "read_committed"} | dict(options)
        self._options = _checked(parse(self._given))
        self._spark = _session_like(spark)
        self._table = table
        self._topic = self._options.topics[0]
        self._columns = _COLUMNS.format(value_type)
        self._spark.sql(f"CREATE TABLE IF NOT EXISTS {table} ({self._columns}) USING iceberg")

    def merge(self) -> int:
        """Merges what is committed in the topic by now. Returns the number of offsets that were read.

        Raises ClusterError, InvalidOptions for the table of another topic, and DataLoss for a topic that was created again,
        or whose log lost records.
        """
        from ..columns.cluster import Cluster

        merged = self._merged()
        with Cluster(self._options.client) as cluster:
            topics = chosen_topics(cluster, self._options)
            topic_id = topics[0].topic_id
            text = "" if topic_id is None else uuid_to_text(topic_id.bytes)
            owner = self._own(merged, Owner(self._topic, cluster.cluster_id(), text, Role.latest))
            starts, ends = self._range(cluster, topics, merged)
        count = sum(ends[one] - starts[one] for one in ends)
        if count:
            offsets = {str(one): ends[one] for one in sorted(ends)}
            text = json.dumps(
                {"topic": self._topic, "topic_id": owner.topic_id, "offsets": offsets}, separators=(",", ":")
            )
            self._merge(self._latest(starts, ends), text)
        return count

    def _own(self, merged: Mapping[str, object], owner: Owner) -> Owner:
        """Compares the table's owner, and stores what the table lacks of it. Raises InvalidOptions for a table of another
        topic, and DataLoss for a topic that was created again.
        """
        rows = self._spark.sql(f"SHOW TBLPROPERTIES {self._table}").collect()
        text = next((row.value for row in rows if row.key == OWNER), None)
        of_offsets = Owner(
            str(merged.get("topic") or self._topic), "", kafka_id(str(merged.get("topic_id") or "")), Role.latest
        )
        try:
            stored = of_offsets if text is None else Owner.from_text(text)
        except ValueError as error:
            raise InvalidOptions(f"{self._table}: {error}") from None
        for one in (stored, of_offsets):
            if (reason := owner.mismatch(one, self._table)) is not None:
                raise InvalidOptions(reason)
            if (reason := owner.recreation(one, self._table)) is not None:
                raise DataLoss(reason)
        owner = owner.known_with(stored)
        if owner.text() != text:  # ids, and a topic's name, which has no quote
            self._spark.sql(f"ALTER TABLE {self._table} SET TBLPROPERTIES ('{OWNER}' = '{owner.text()}')")
        return owner

    def _range(
        self, cluster: Cluster, topics: list[Topic], merged: Mapping[str, Any]
    ) -> tuple[dict[int, int], dict[int, int]]:
        first = self._offsets(cluster, topics, Position("startingOffsets", EARLIEST), is_start=True)
        ends = self._offsets(cluster, topics, Position("endingOffsets", LATEST), is_start=False)
        known = {int(one): offset for one, offset in merged.get("offsets", {}).items()}
        starts = {one: known.get(one, first[one]) for one in ends}
        for one, offset in starts.items():
            if offset > ends[one]:
                raise DataLoss(f"{self._topic}-{one} ends at {ends[one]}, and {self._table} has it up to {offset}")
            if offset < first[one] and self._options.fail_on_data_loss:
                raise DataLoss(f"{self._topic}-{one}: offset {offset} is gone: the log starts at {first[one]}")
            starts[one] = min(max(offset, first[one]), ends[one])
        return starts, ends

    def _offsets(self, cluster: Cluster, topics: list[Topic], position: Position, *, is_start: bool) -> dict[int, int]:
        found: Offsets = resolved(cluster, topics, self._options, position, is_start=is_start)
        return {partition: offset for (_, partition), offset in found.items()}

    def _merged(self) -> dict[str, Any]:
        """The offsets of the newest snapshot, among the current one and its ancestors, that has some."""
        self._spark.sql(f"REFRESH TABLE {self._table}")  # Iceberg's catalogs in Spark keep a table for half a minute
        found = self._spark.sql(
            f"SELECT made.summary['{MERGED}'] AS text FROM {self._table}.history AS past "
            f"JOIN {self._table}.snapshots AS made ON past.snapshot_id = made.snapshot_id "
            f"WHERE past.is_current_ancestor AND made.summary['{MERGED}'] IS NOT NULL "
            "ORDER BY past.made_current_at DESC LIMIT 1"
        ).collect()
        return json.loads(found[0].text) if found else {}

    def _latest(self, starts: Mapping[int, int], ends: Mapping[int, int]) -> DataFrame:
        """The last record of each key between the offsets, tombstones included."""
        given = self._given | {
            "startingOffsets": json.dumps({self._topic: {str(one): starts[one] for one in ends}}),
            "endingOffsets": json.dumps({self._topic: {str(one): ends[one] for one in ends}}),
        }
        records = read(self._spark, self._columns, **given)
        last = f.max_by(f.struct("value", "offset", "timestamp"), "offset").alias("last")
        found = records.where("key IS NOT NULL").groupBy("key", "partition").agg(last)
        return found.select("key", "last.value", "partition", "last.offset", "last.timestamp")

    def _merge(self, latest: DataFrame, text: str) -> None:
        latest.createOrReplaceTempView(_VIEW)
        self._spark.conf.set(_SNAPSHOT_PROPERTY, text)
        try:
            self._spark.sql(_MERGE.format(table=self._table, view=_VIEW))
        finally:
            self._spark.conf.unset(_SNAPSHOT_PROPERTY)
            self._spark.catalog.dropTempView(_VIEW)


def _session_like(spark: SparkSession) -> SparkSession:
    """A session with views of its own, and with settings of its own that begin as those of `spark`, such as its catalogs."""
    made = spark.newSession()
    for key, value in spark.conf.getAll.items():
        if key.startswith("spark.sql.") and made.conf.get(key, None) != value:
            made.conf.set(key, value)
    return made


def _checked(options: Options) -> Options:
    if len(options.topics) != 1:
        raise InvalidOptions("a table of latest records is of one topic: give the option 'subscribe' with its name")
    if options.start is not None or options.end is not None:
        raise InvalidOptions(
            "a table of latest records has its own start and end: leave out the options of offsets and times"
        )
    if options.mode not in (FAIL_FAST, DROP_MALFORMED):
        raise InvalidOptions("Option 'mode' takes FAILFAST or DROPMALFORMED: a null would look like a tombstone")
    return options
