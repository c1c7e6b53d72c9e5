"""The log as columns: records of closed segments as Arrow, without a broker in between (`pip install 'odradek[columns]'`).

`scan` is for people (scan.py). What builds on it (Spark, tables) uses these, which stay:

- `scan(...).plan`: `Plan.splits`, and `Plan.starts` and `Plan.ends` by partition. The `ends` of a plan are the
  `start_offsets` of the next.
- `Split`: offsets of one partition that one process reads; plain data to pickle. `split.size` is in bytes, estimated.
- `read_split(split, columns)`: an iterable of `pyarrow.RecordBatch` with these columns of `SCHEMA`, in this order; some
  megabytes each. `.next_offset`: all records of the split below it were yielded; `.unread`: offsets that could not be
  read, with `on_unreadable="skip"`; `.count()`: the records by the headers of their batches alone.
- `decoder_of(ValueSchema("json", schema), topic, sample)`, `typed(batch, decoder)`: a RecordBatch with values as structs,
  and one with the columns of `UNDECODABLE` for the rows that do not decode.
- `Inference.of(values)`, `widen(other)`, `type`: the type that JSON values show, however they are divided into batches.
- Errors: `UnreadableOffsets`, whose `unread` has topic, partition, offsets, file, position and reason; `ScanError` and
  `InvalidScan` for a scan that cannot be made; `SchemaRegistryUnavailable`, after which it is not known what decodes. Errors
  can be pickled.

| module | purpose |
|---|---|
| `scan.py` | `odradek.scan`: options, the stream of Arrow, the latest record of each key |
| `values.py` | typed values: JSON, Avro and Protobuf, with the rows that do not decode |
| `json_values.py` | JSON as structs or as text |
| `json_texts.py` | values of bytes as texts of JSON |
| `inference.py` | the type that JSON values show |
| `cluster.py` | a running broker's topic: its offsets, its directories on this machine, and Fetch |
| `key_filters.py` | Bloom filters of keys beside closed segments |
| `dataset.py` | a scan that engines ask for columns and offsets |
| `query_command.py` | `odradek query` |
| `tier.py` | what only a remote store has: its splits, and their reader |
| `plan.py` | offsets and splits of a topic in a data directory |
| `reading.py` | one split from its files, while a broker may change them; what readers share |
| `directory.py` | segments, ends and transactions of a partition's directory, read only |
| `batches.py` | bytes of batches to RecordBatches: selection, CRC, decompression, columns |
| `kernel.py` | the loops over untrusted bytes, compiled where there is work for it |
| `loops.py` | their compiled form |
| `layout.py` | numbers of their columns and results |
| `errors.py` | errors, and the offsets that a scan lacks |
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .batches import SCHEMA, Aborted
from .cluster import ClusterError, FetchReader, LocalReader, Reader, read_split
from .errors import InvalidScan, RemoteStoreUnavailable, ScanError, SchemaRegistryUnavailable, Unread, UnreadableOffsets
from .plan import PartitionPlan, Plan
from .reading import FileReader, Split
from .scan import Scan, scan

if TYPE_CHECKING:
    from .dataset import ScanDataset
    from .inference import Inference
    from .tier import RemoteReader
    from .values import INFER, UNDECODABLE, ValueSchema, decoder_of, typed

__all__ = [
    "INFER",
    "SCHEMA",
    "UNDECODABLE",
    "Aborted",
    "ClusterError",
    "FetchReader",
    "FileReader",
    "Inference",
    "InvalidScan",
    "LocalReader",
    "PartitionPlan",
    "Plan",
    "Reader",
    "RemoteReader",
    "RemoteStoreUnavailable",
    "Scan",
    "ScanDataset",
    "ScanError",
    "SchemaRegistryUnavailable",
    "Split",
    "Unread",
    "UnreadableOffsets",
    "ValueSchema",
    "decoder_of",
    "read_split",
    "scan",
    "typed",
]


def __getattr__(name: str) -> Any:
    """Imports what few scans need: pyarrow's datasets import pandas, in a third of a second, and typed values its functions
    and a client of schema registries, in a tenth of one.
    """
    if name == "ScanDataset":
        from .dataset import ScanDataset

        return ScanDataset
    if name == "RemoteReader":
        from .tier import RemoteReader

        return RemoteReader
    if name == "Inference":
        from .inference import Inference

        return Inference
    if name in ("INFER", "UNDECODABLE", "ValueSchema", "decoder_of", "typed"):
        from . import values

        return getattr(values, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
