"""Options of the sink of `format("odradek")`: those of Spark's Kafka sink, and the ledger's."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from ..protocol.records.compression import Compression
from ..sink import rows
from ..sink.ledger import LEDGER_GROUPS
from .options import InvalidOptions, check_names, flag, number

#: Time-out of transactions: the largest that brokers allow by default (transaction.max.timeout.ms).
TRANSACTION_TIMEOUT_MS = 900_000
DELIVERY_TIMEOUT_MS = 120_000
PAYLOAD_BYTES = 512 << 10
PARTITIONERS = {"java": rows.JAVA, "librdkafka": rows.LIBRDKAFKA}
_FORMATS = ("json", "avro", "protobuf")
#: Formats whose bytes cannot be read without the schema.
_WITH_REGISTRY = ("avro", "protobuf")
_NAMES = (
    "topic", "ledger", "ledgerTopic", "partitioner", "skipExpired", "checkpointLocation", "valueFormat", "keyFormat",
    "schemaRegistry", "schemaRegistryUserInfo", "valueSubject", "keySubject", "message", "keyMessage",
)  # fmt: skip
#: Options of Spark's Kafka sink that change nothing here: headers are written where there is such a column.
_WITHOUT_EFFECT = ("includeHeaders", "path", "queryName")
_UNSUPPORTED_KAFKA = {
    "key.serializer": "Keys are strings or binary, or of the option 'keyFormat'.",
    "value.serializer": "Values are strings or binary, or of the option 'valueFormat'.",
    "transactional.id": "Each task has its own: use the option 'ledger' for the name that they begin with.",
    "enable.idempotence": "It is always on.",
    "acks": "They are always 'all'.",
}
_LEDGER = re.compile(r"[A-Za-z0-9._-]{1,200}")


@dataclass(frozen=True, slots=True)
class ColumnFormat:
    """The format of a typed column. `subject`: of the schema in the registry; `message`: of Protobuf."""

    form: str
    subject: str = ""
    message: str | None = None


@dataclass(frozen=True, slots=True)
class Registry:
    """`user_info`: USER:PASSWORD."""

    url: str
    user_info: str | None = field(default=None, repr=False)


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
    #: None: the column is a string or binary, which is written as it is.
    keys: ColumnFormat | None = None
    values: ColumnFormat | None = None
    registry: Registry | None = None

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
    own = [name for name in values if not name.startswith("kafka.")]
    check_names(own, (*_NAMES, *_WITHOUT_EFFECT), "the sink of ")
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
        *_formats(values, topic),
    )


def _formats(values: Mapping[str, str], topic: str) -> tuple[ColumnFormat | None, ColumnFormat | None, Registry | None]:
    """The formats of keys and of values, and the registry."""
    url = values.get("schemaregistry")
    if url is not None and not url.startswith(("http://", "https://")):
        raise InvalidOptions("Option 'schemaRegistry' takes a URL, http://... or https://...")
    keys = _format(values, "key", topic, has_registry=url is not None)
    found = _format(values, "value", topic, has_registry=url is not None)
    if url is None:
        return keys, found, None
    if keys is None and found is None:
        raise InvalidOptions(
            "Option 'schemaRegistry' belongs to 'valueFormat' or 'keyFormat', of which one has to be set"
        )
    return keys, found, Registry(url, values.get("schemaregistryuserinfo"))


def _format(values: Mapping[str, str], column: str, topic: str, *, has_registry: bool) -> ColumnFormat | None:
    name = f"{column}Format"
    form = values.get(name.lower(), "").lower()
    if not form:
        return None
    if form not in _FORMATS:
        raise InvalidOptions(f"Option '{name}' takes {', '.join(_FORMATS)}, not '{form}'")
    if form in _WITH_REGISTRY and not has_registry:
        raise InvalidOptions(f"Option '{name}' is {form}, which needs the option 'schemaRegistry'")
    subject = values.get(f"{column}subject") or (f"{topic}-{column}" if topic else "")
    if has_registry and not subject:
        raise InvalidOptions(
            f"Option '{column}Subject' must name the schema where rows have a column 'topic' and no option 'topic' is set"
        )
    return ColumnFormat(form, subject, values.get("message" if column == "value" else "keymessage"))
