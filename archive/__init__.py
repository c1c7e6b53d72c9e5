"""Topics as tables: Apache Iceberg or plain Parquet, and tables back into topics (`pip install 'odradek[tables]'`).

`Archiver(client, topics, open_table, options).run()` is what `odradek archive` runs; `IcebergTable` and `ParquetTable` are
the tables of `open_table`. `Replay` is what `odradek replay` runs.

| module | purpose |
|---|---|
| `archiver.py` | turns of topics: plan, read, write, commit, follow |
| `rows.py` | records as rows: raw and typed columns, dead-letter records; types of columns, and their evolution |
| `store.py` | duties of a store of tables, and its errors; offsets, partitions, files to merge |
| `iceberg.py` | Iceberg tables by PyIceberg: the offsets are in the commit of the rows; small files, old snapshots |
| `spark_tasks.py` | the turns as jobs of PySpark: tasks write files, the driver commits |
| `parquet.py` | plain Parquet: the manifest is the commit |
| `replay.py` | a table back into a topic, with its progress in the transactions |
| `command.py` | the commands |

Exactly once rests on one rule: the offsets that a table covers are in the same commit as its rows, and a process begins from
the offsets of the table. Nothing else remembers offsets.
"""

import pyiceberg  # noqa: F401  (comes first: its absence names the extra)

from .archiver import Archived, ArchiveOptions, Archiver
from .iceberg import IcebergSource, IcebergTable, Maintenance, open_catalog
from .parquet import ParquetSource, ParquetTable
from .replay import Replay, Replayed, ReplayRange
from .store import ArchiveError, Covered, PartitionBy, TableChanged

__all__ = [
    "ArchiveError",
    "ArchiveOptions",
    "Archived",
    "Archiver",
    "Covered",
    "IcebergSource",
    "IcebergTable",
    "Maintenance",
    "ParquetSource",
    "ParquetTable",
    "PartitionBy",
    "Replay",
    "ReplayRange",
    "Replayed",
    "TableChanged",
    "open_catalog",
]
