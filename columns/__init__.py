"""The log as columns: records as Arrow (`pip install 'odradek[columns]'`).

Records of closed segments come from files of this machine and from remote stores, without a broker in between; all others
come from brokers, with Fetch.

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
| `scan.py` | `odradek.scan`: the stream of Arrow; `scan_options.py`: its options, checked |
| `latest_records.py` | the latest record of each key |
| `dataset.py` | a scan that engines ask for columns and offsets; `dataset_scanner.py`: the calling thread reads it |
| `counting.py` | numbers of records of topics, by the headers of their batches |
| `value_schema.py` | the schema of values, as users name it |
| `value_decoders.py` | the decoder of a schema: JSON, Avro or Protobuf |
| `value_encoder.py` | the encoder of a typed column: rows as the bytes of JSON (`json_rows.py`), Avro or Protobuf |
| `json_schema_fit.py`, `avro_fit.py`, `protobuf_fit.py` | checks whether columns can be written with a schema |
| `misfit.py` | the error of columns and values that a schema cannot hold |
| `most_columns.py` | the limit of the columns of a schema |
| `arrow_kinds.py` | kinds of Arrow types, by what their values mean |
| `decoder.py` | what each decoder returns; `shown_value.py`: a value in the words of a reason |
| `typed_rows.py` | rows with typed values, and the rows that do not decode |
| `json_decoder.py` | JSON as structs, by DuckDB (`json_in_duckdb.py`) and Python (`json_single_values.py`) |
| `decimal_texts.py` | texts of decimals, exactly |
| `json_raw_types.py` | the types that JSON is transformed to first |
| `json_text_decoder.py` | JSON as text |
| `json_texts.py` | values of bytes as texts of JSON |
| `inference.py` | the type that JSON values show; `json_schema_types.py`: that of a JSON Schema |
| `avro_decoder.py` | Avro as structs: `avro_columns.py` has the types, `avro_rows.py` the arrays |
| `protobuf_decoder.py` | Protobuf as structs: `protobuf_files.py` has what ptars gets, `protobuf_columns.py` the columns |
| `protobuf_normal_form.py` | messages in the form that ptars reads; `protobuf_well_known.py`: well-known types as columns |
| `timestamp_units.py` | timestamps in the unit of another type |
| `cluster.py` | a connection to a running cluster: offsets, directories, Fetch; `cluster_errors.py`: its errors |
| `cluster_plan.py` | the plan for a topic of a cluster: files of this machine, a remote store, Fetch |
| `directory_plan.py` | the plan for a topic in a data directory |
| `plan.py` | the plan of a scan: offsets and splits of partitions |
| `divided_splits.py` | splits divided at indexed batches, or at offsets |
| `request.py` | the records that a scan asks for, and the part of them that a log has |
| `key_filters.py` | Bloom filters of keys beside closed segments; `key_conditions.py`: the keys that a query asks for |
| `narrowed_splits.py` | splits without the segments that a query does not need |
| `readers.py` | the reader of a split: `file_reader.py`, `fetch_reader.py`, `fallback_reader.py`, `remote_reader.py` |
| `tier.py` | splits of what only a remote store has; `directory_tier.py`: without a broker |
| `remote_store.py` | the remote stores of a process, opened once each |
| `split_reader.py` | what readers share: progress, and the offsets that cannot be read |
| `split.py` | offsets of one partition, to be read by one process |
| `open_segment.py` | an open file, while a broker may change it; `remote_segment.py`: a segment of a remote store |
| `directory.py` | partitions of a data directory and their segments, read only |
| `transactions.py` | aborted and open transactions of a partition's directory |
| `abort_check.py` | markers of aborted transactions that a reader meets |
| `segment.py` | headers, end and indexed positions of a segment's file |
| `batch_decoder.py` | bytes of batches to RecordBatches: CRC, decompression, columns (`arrow_buffers.py`) |
| `batch_selection.py` | which batches have records of a scan |
| `record_schema.py` | the columns of a scan |
| `kernel.py` | the loops over untrusted bytes, compiled where there is work for it |
| `loops.py` | their compiled form |
| `layout.py` | numbers of their columns and results |
| `errors.py` | errors, and the offsets that a scan lacks |
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .batch_selection import Aborted
from .cluster_errors import ClusterError
from .errors import InvalidScan, RemoteStoreUnavailable, ScanError, SchemaRegistryUnavailable, Unread, UnreadableOffsets
from .fallback_reader import FallbackReader
from .fetch_reader import FetchReader
from .file_reader import FileReader
from .plan import PartitionPlan, Plan
from .readers import Reader, read_split
from .record_schema import SCHEMA
from .scan import Scan, scan
from .split import Split

if TYPE_CHECKING:
    from .dataset import ScanDataset
    from .inference import Inference
    from .remote_reader import RemoteReader
    from .typed_rows import UNDECODABLE, typed
    from .value_decoders import decoder_of
    from .value_schema import INFER, ValueSchema

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
    "FallbackReader",
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

#: Modules of names that few scans need: pyarrow's datasets import pandas, in a third of a second, and typed values its
#: functions and a client of schema registries, in a tenth.
_LAZY = {
    "INFER": "value_schema",
    "Inference": "inference",
    "RemoteReader": "remote_reader",
    "ScanDataset": "dataset",
    "UNDECODABLE": "typed_rows",
    "ValueSchema": "value_schema",
    "decoder_of": "value_decoders",
    "typed": "typed_rows",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(f".{_LAZY[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
