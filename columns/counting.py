"""Numbers of records of topics, by the headers of their batches: for `odradek topic list --count`.

Offsets say less: compaction, DeleteRecords and markers of transactions leave offsets without a record. Closed segments are
read from the data directories of this machine, where it has them, and the rest is fetched.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..cli.client.errors import CommandError
from ..cli.messages import FAILED
from .errors import ScanError
from .scan import scan


def count_records(client: Mapping[str, str], topic: str) -> int:
    """The records of a topic, with those of open and aborted transactions. Raises CommandError."""
    try:
        return scan(topic, client=client).count()
    except ScanError as error:
        raise CommandError(str(error), getattr(error, "status", FAILED)) from None
