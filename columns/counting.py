"""Numbers of records of topics, by the headers of their batches: for `odradek topic list --count`.

Offsets say less: compaction, DeleteRecords and markers of transactions leave offsets without a record. Closed segments are
read from the data directories of this machine, where it has them, and the rest is fetched.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..client.user_errors import UserError
from .errors import ScanError
from .scan import scan


def count_records(client: Mapping[str, str], topic: str) -> int:
    """The records of a topic, with those of open and aborted transactions. Raises UserError."""
    try:
        return scan(topic, client=client).count()
    except ScanError as error:
        raise UserError(str(error), error.kind) from None
