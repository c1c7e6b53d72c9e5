"""The rows of a topic's log from the offsets on that its table covers, as the archiver would add them to the table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from ..columns import SCHEMA, Plan
from ..columns.cluster import Cluster
from ..columns.divided_splits import sized
from ..columns.errors import REMOVED, UnreadableOffsets
from ..columns.scan import Scan
from ..columns.split_reader import ReadOptions
from .rows import RowMaker, TypedRows
from .store import ArchiveError
from .stored_tasks import StoredTask

#: Columns of a scan that decide about a row, whatever columns of the table are wanted.
_ALWAYS = ("partition", "offset", "timestamp", "timestamp_type")


class LogRows:
    """Rows of a plan. Each reading has a maker of rows of its own, since readings may run side by side.

    Plain data where `make_rows` is: any process that reaches the brokers reads them.
    """

    def __init__(self, plan: Plan, make_rows: Callable[[], RowMaker]) -> None:
        self.plan = plan
        self._make_rows = make_rows

    def batches(self, plan: Plan, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows of a part of the plan. Columns that neither `columns` nor the rows need are null.

        Raises ArchiveError for records that were removed since the plan, and ScanError.
        """
        maker = self._make_rows()
        needed = {*_ALWAYS, *columns}
        if isinstance(maker, TypedRows):  # a value that does not fit is no row
            needed.add("value")
        try:
            for batch in Scan(plan, ReadOptions(tuple(name for name in SCHEMA.names if name in needed))):
                whole = _completed(batch)
                maker.prepare(whole)
                yield maker.rows(whole).rows
        except UnreadableOffsets as error:
            if error.unread.reason != REMOVED:
                raise
            raise ArchiveError(f"{error}; a newer commit of the table may have them: make the relation again") from None

    def tasks(self, plan: Plan, columns: Sequence[str], task_bytes: int) -> Sequence[StoredTask]:
        """The rows of a part of the plan as tasks, each of about so many bytes of the log. Raises ClusterError."""
        client = next((one.client for one in plan.splits if one.client is not None), None)
        if client is None:
            return []
        with Cluster(client) as cluster:
            sizes = cluster.sizes(cluster.described([plan.topic]))
        return [
            LogTask(
                LogRows(replace(plan, partitions=(replace(one, splits=(split,)),)), self._make_rows), tuple(columns)
            )
            for one in plan.partitions
            for split in sized(one, sizes.get((one.topic, one.partition), 0), task_bytes)
        ]

    def dead_letter_records(self) -> Iterator[pa.RecordBatch]:
        """The records of the plan that are no rows, with the reasons (DEAD_LETTER_SCHEMA)."""
        maker = self._make_rows()
        for batch in Scan(self.plan, ReadOptions(tuple(SCHEMA.names))):
            maker.prepare(batch)
            found = maker.rows(batch).dead_letter_records
            if found.num_rows:
                yield found


@dataclass(frozen=True)
class LogTask:
    """Some rows of a log, with some columns (stored_tasks.StoredTask)."""

    log: LogRows
    columns: tuple[str, ...]

    def batches(self) -> Iterator[pa.RecordBatch]:
        return self.log.batches(self.log.plan, self.columns)


def _completed(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with null in the columns of a scan that it lacks."""
    columns = [
        batch.column(field.name) if field.name in batch.schema.names else pa.nulls(batch.num_rows, field.type)
        for field in SCHEMA
    ]
    schema = pa.schema([field.with_nullable(True) for field in SCHEMA])
    return pa.RecordBatch.from_arrays(columns, schema=schema)
