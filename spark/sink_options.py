"""Options of the sink of `format("odradek")`: those of Spark's Kafka sink, and the ledger's."""

from __future__ import annotations

import difflib
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from ..protocol.records.compression import Compression
from ..sink import rows
from ..sink.ledger import LEDGER_GROUPS
from .options import FORMAT, InvalidOptions, flag, number

#: Time-out of transactions: the largest that brokers allow by default (transaction.max.timeout.ms).
TRANSACTION_TIMEOUT_MS = 900_000
DELIVERY_TIMEOUT_MS = 120_000
PAYLOAD_BYTES = 512 << 10
PARTITIONERS = {"java": rows.JAVA, "librdkafka": rows.LIBRDKAFKA}
_NAMES = ("topic", "ledger", "ledgerTopic", "partitioner", "skipExpired", "checkpointLocation")
#: Options of Spark's Kafka sink that change nothing here: headers are written where there is such a column.
_WITHOUT_EFFECT = ("includeHeaders", "path", "queryName")
_UNSUPPORTED_KAFKA = {
    "key.serializer": "Keys are strings or binary.",
    "value.serializer": "Values are strings or binary.",
    "transactional.id": "Each task has its own: use the option 'ledger' for the name that they begin with.",
    "enable.idempotence": "It is always on.",
    "acks": "They are always 'all'.",
}
_LEDGER = re.compile(r"[A-Za-z0-9._-]{1,200}")


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """Checked options. `client`: the properties of Kafka's clients, without `kafka.`; they may hold passwords."""

    client: dict[str, str] = field(repr=False)
    topic: str = ""
    ledger: str = ""
    ledger_topic: str = ""
    partitioner: int = rows.JAVA
    skips_expired: bool = False
    compression: Compression = Compression.NONE
    payload_bytes: int = PAYLOAD_BYTES
    transaction_timeout_ms: int = TRANSACTION_TIMEOUT_MS
    delivery_timeout_ms: int = DELIVERY_TIMEOUT_MS

    def check_stream(self) -> None:
        """Raises InvalidOptions for a query whose batches no ledger could name."""
        if not self.ledger:
            raise InvalidOptions(
                "Option 'ledger' must name the query where 'checkpointLocation' is not an option of it: it is what keeps a "
                "batch from being written twice"
            )
        if not self.ledger_topic:
            raise InvalidOptions(
                "Option 'ledgerTopic' must name a topic where rows have a column 'topic': the ledger is kept for it"
            )


def parse_sink(given: Mapping[str, str]) -> SinkOptions:
    """Raises InvalidOptions, with one line that names the option."""
    values = {name.lower(): str(value) for name, value in given.items()}
    client = {name.removeprefix("kafka."): value for name, value in values.items() if name.startswith("kafka.")}
    known = {name.lower(): name for name in (*_NAMES, *_WITHOUT_EFFECT)}
    for name in (one for one in values if not one.startswith("kafka.") and one not in known):
        near = difflib.get_close_matches(name, known, 1)
        hint = f"; did you mean '{known[near[0]]}'?" if near else ""
        raise InvalidOptions(f"the sink of format({FORMAT!r}) has no option '{name}'{hint}")
    for name, remedy in _UNSUPPORTED_KAFKA.items():
        if name in client:
            raise InvalidOptions(f"Kafka option '{name}' is not supported. {remedy}")
    if not client.get("bootstrap.servers"):
        raise InvalidOptions("Option 'kafka.bootstrap.servers' must be specified for configuring Kafka producer")
    partitioner = values.get("partitioner", "java").lower()
    if partitioner not in PARTITIONERS:
        raise InvalidOptions(f"Option 'partitioner' takes {' or '.join(PARTITIONERS)}, not '{partitioner}'")
    codec = client.pop("compression.type", "none").upper()
    if codec not in Compression.__members__:
        names = ", ".join(one.name.lower() for one in Compression)
        raise InvalidOptions(f"Option 'kafka.compression.type' takes {names}, not '{codec.lower()}'")
    ledger = values.get("ledger", "")
    if not ledger and (checkpoint := values.get("checkpointlocation")):
        ledger = f"{LEDGER_GROUPS}{hashlib.sha256(checkpoint.encode()).hexdigest()[:20]}"
    if ledger and not _LEDGER.fullmatch(ledger):
        raise InvalidOptions(f"Option 'ledger' takes 1 to 200 letters, digits, dots, '-' and '_', not '{ledger}'")
    topic = values.get("topic", "").strip()
    return SinkOptions(
        client,
        topic,
        ledger,
        values.get("ledgertopic", "").strip() or topic,
        PARTITIONERS[partitioner],
        flag(values, "skipExpired", False),
        Compression[codec],
        number(client, "batch.size") or PAYLOAD_BYTES,
        number(client, "transaction.timeout.ms") or TRANSACTION_TIMEOUT_MS,
        number(client, "delivery.timeout.ms") or DELIVERY_TIMEOUT_MS,
    )
