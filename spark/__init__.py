"""Spark over the scans of odradek.columns (`pip install 'odradek[spark]'`): the Python data source `format("odradek")`, and
`pyspark_odradek.read`.

| module | purpose |
|---|---|
| `source.py` | the data source with its readers; `read`: topics as a DataFrame, planned by the calling process |
| `rejected_stream.py` | the reader of a stream with wrong options, whose error has one line |
| `planning.py` | partitions and offsets of a query, and ranges that one task reads |
| `latest.py` | `LatestTable`: merges of compacted topics into Iceberg tables, the latest record of each key |
| `conditions.py` | conditions of a query: what no row of the result is in is not read |
| `relation.py` | a topic's table and its log as one |
| `relation_options.py`, `relation_filters.py` | its options, and conditions that Spark pushes down |
| `numbered_tasks.py` | tasks as a DataFrame, planned by the calling process |
| `options.py` | options with the names of Spark's Kafka connector, and their checks |
| `worker_process.py` | the Python processes of Spark, and what their re-use costs |
| `offset_commits.py` | commits of a stream's offsets to a group, for tools that show lag |
| `offset_listener.py` | `OffsetCommitListener`: the same for all queries of a session, the stock connector included |
| `rows.py` | the work of a task: batches of one range as batches of Spark's schema |
| `sink.py` | micro-batches written to topics: `sink_options.py` has the options, `sink_input.py` the rows |
| `sink_values.py` | typed columns as keys and values of records |

`pyspark_odradek`, beside this package, is the name that Spark looks up. Both are imported in every planning process, so
nothing here imports pyarrow or numba before a query needs them.
"""
