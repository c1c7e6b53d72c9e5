"""Numbers of the columns of headers and batches, and of results, in the loops over record batches."""

from __future__ import annotations

from typing import Any

#: Arrays of numpy, whose types depend on its version.
Numbers = Any
#: Columns of a row of `walk_headers`.
POSITION, SIZE, BASE_OFFSET, LAST_DELTA, BASE_TIMESTAMP, MAX_TIMESTAMP = range(6)
PRODUCER_ID, ATTRIBUTES, COUNT, CRC, LEADER_EPOCH = range(6, 11)
HEADER_COLUMNS = 11
#: Results of `walk_headers`.
END_OF_BUFFER, ROWS_FULL, NO_BATCH, OUT_OF_ORDER = range(4)
#: Faults of a batch in `decode_records`.
WHOLE, BROKEN, NO_SPACE = range(3)
#: Columns of the batches that `decode_records` takes.
START, STOP, FIRST_OFFSET, END_DELTA, FIRST_TIMESTAMP, APPEND_TIME, IS_APPEND_TIME, RECORDS = range(8)
BATCH_COLUMNS = 8
#: Bits of the columns that `decode_records` fills.
KEYS, VALUES, HEADERS = 1, 2, 4
#: Numbers that `decode_records` returns.
ROWS, KEY_BYTES, VALUE_BYTES, HEADER_ROWS, HEADER_KEY_BYTES, HEADER_VALUE_BYTES, NULL_KEYS, NULL_VALUES = range(8)
TOTALS = 8
