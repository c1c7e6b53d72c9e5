"""Topics as tables: Apache Iceberg or plain Parquet, and tables back into topics (`pip install 'odradek[tables]'`).

`Archiver(client, topics, open_table, options).run()` is what `odradek archive` runs; `IcebergTable` and `ParquetTable` are
the tables of `open_table`. `Replay` is what `odradek replay` runs.

| module | purpose |
|---|---|
| `archiver.py` | turns of several topics |
| `topic_archive.py` | a topic and its table: plan, read, write, commit, follow |
| `progress_commits.py` | commits of the offsets of tables to groups, for tools that show lag |
| `sampling.py` | the first records of a table, from which the types of JSON without a schema follow |
| `rows.py` | records as rows: raw and typed columns, dead-letter records |
| `values_beyond.py` | JSON values with fields that have no column |
| `column_types.py`, `column_names.py` | types of columns, and their evolution; names that a table cannot have together |
| `conforming.py` | values in the type of a column |
| `store.py` | duties of a store of tables, and its errors; offsets, partitions, files to merge |
| `ownership.py` | checks of the topic that a table belongs to (`admin/table_owner.py`), and names of tables |
| `iceberg.py` | Iceberg tables by PyIceberg: the offsets are in the commit of the rows |
| `replacement.py` | a table made anew: its rows and its dead-letter records count together |
| `null_lists.py` | PyIceberg's projection of columns, with lists that are null |
| `data_files.py`, `maintenance.py` | files of Iceberg tables; small files, old snapshots, files without a snapshot |
| `keyed_table.py` | Iceberg tables with a row for each key; `keyed.py`: their settings, `keyed_options.py`: the options |
| `keyed_records.py`, `change_events.py`, `changes.py` | records as changes, also of Debezium; the last change of a key |
| `keyed_rows.py` | the rows of such a table as of one commit, with the later changes of its log |
| `applied_changes.py` | changes applied to its files: rows of files that they replace, and rows that they make |
| `keyed_files.py`, `key_index.py`, `key_columns.py` | files that changes write again, keys in files, keys of rows |
| `table_partitions.py` | partitions of a table by columns and buckets |
| `spark_tasks.py` | the turns as jobs of PySpark: tasks write files, the driver commits |
| `parquet.py` | plain Parquet: the manifest is the commit |
| `relation.py` | a table and its log as one; `stored_rows.py`, `log_rows.py`: its parts |
| `relation_tasks.py`, `stored_tasks.py` | tasks that read a relation, or a table, side by side |
| `replay.py` | a table back into a topic, with its progress in the transactions |
| `stored_layout.py` | the key and the partitions of a table that exists |
| `table_status.py` | tables as they are, and their maintenance by a command |
| `table_process.py` | the process of a broker that keeps the tables of topics with odradek.table.enable=true |
| `followed_topic.py`, `followed_status.py` | the configs of such a topic; states and lag of such tables |
| `command.py`, `table_command.py`, `replay_command.py` | the commands |
| `table_options.py`, `value_options.py` | their options |

Exactly once rests on one rule: the offsets that a table covers are in the same commit as its rows, and a process begins from
the offsets of the table. Offsets in groups are for people and their tools.
"""

import pyiceberg  # noqa: F401  (comes first: its absence names the extra)

from ..admin.table_owner import Owner
from .archiver import Archiver
from .column_types import Times
from .iceberg import IcebergSource, IcebergTable, open_catalog
from .maintenance import Maintenance
from .parquet import ParquetSource, ParquetTable
from .replay import Replay, Replayed, ReplayRange
from .store import ArchiveError, Covered, PartitionBy, TableChanged
from .topic_archive import Archived, ArchiveOptions

__all__ = [
    "ArchiveError",
    "ArchiveOptions",
    "Archived",
    "Archiver",
    "Covered",
    "IcebergSource",
    "IcebergTable",
    "Maintenance",
    "Times",
    "Owner",
    "ParquetSource",
    "ParquetTable",
    "PartitionBy",
    "Replay",
    "ReplayRange",
    "Replayed",
    "TableChanged",
    "open_catalog",
]
