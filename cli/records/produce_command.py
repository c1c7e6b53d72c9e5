"""`odradek produce`: writes records."""

from __future__ import annotations

import itertools
import sys
import time
import uuid
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import repeat
from operator import length_hint
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from ..client.connection import Connection, request_producer_id
from ..client.errors import CommandError, Misused, status_of_code
from ..client.options import DryRun, client_command, complete_topic, new_app
from ..output import Output, Progress, Table
from .formats import Coding, Encode, Form, encoder
from .inputs import InputForm, Record, Shape, is_lines, records_of, size_of, value_batches
from .record_options import (
    KeyFormatOption,
    KeySchemaOption,
    MessageOption,
    SchemaRegistryOption,
    ValueFormatOption,
    ValueSchemaOption,
)
from .selection import timestamp_ms

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

# Sends records with confluent-kafka, in transactions or without.


#: Callbacks run, and a bar moves, once for so many records.
_POLL_EVERY = 500
_FULL_WAIT_S = 0.02
_SETTINGS = {
    # As Java's clients place keys.
    "partitioner": "murmur2_random",
    "linger.ms": 5,
    "enable.idempotence": True,
    "delivery.report.only.error": True,
    # More fall out of the processor's caches: records then cost a tenth more.
    "queue.buffering.max.messages": 50_000,
}


@dataclass(slots=True)
class Sent:
    records: int = 0
    bytes: int = 0
    transactions: int = 0
    seconds: float = 0.0


class Sender:
    """Raises CommandError with the first error of a delivery."""

    def __init__(
        self,
        connection: Connection,
        topic: str,
        settings: dict[str, str | bool],
        *,
        transactional_id: str | None = None,
        transaction_size: int | None = None,
    ) -> None:
        from confluent_kafka import Producer

        own = _SETTINGS | settings | connection.librdkafka()
        if transactional_id is not None:
            own["transactional.id"] = transactional_id
        own["on_delivery"] = self._delivered
        self._topic = topic
        self._timeout_s = connection.timeout_s
        self._producer = Producer(own)
        self._is_transactional = transactional_id is not None
        self._transaction_size = transaction_size
        self._failed: KafkaError | None = None
        self.sent = Sent()
        if self._is_transactional:
            self._producer.init_transactions(self._timeout_s)
        else:
            request_producer_id(self._producer, own, topic)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None and self._failed is None:
            self._failed = error

    def send(self, records: Iterable[Record], rate: float | None, total: int | None) -> Sent:
        """Sends all, `rate` of them a second at most. A transaction is aborted when anything fails, Ctrl-C included."""
        began = time.monotonic()
        if self._is_transactional:
            self._producer.begin_transaction()
        try:
            with Progress("records", total) as progress:
                for record in records:
                    self._produce(record)
                    self.sent.records += 1
                    self.sent.bytes += len(record.value or b"") + len(record.key or b"")
                    if rate is not None:
                        self._wait_until(began + self.sent.records / rate)
                    if self.sent.records % _POLL_EVERY == 0:
                        self._producer.poll(0)
                        self._raise_failed()
                        progress.advance(_POLL_EVERY)
                    if self._transaction_size and self.sent.records % self._transaction_size == 0:
                        self._commit()
                        self._producer.begin_transaction()
            self._end()
        except BaseException:
            if self._is_transactional:
                self._abort()
            else:
                self._producer.purge()
            raise
        self.sent.seconds = time.monotonic() - began
        return self.sent

    def send_values(
        self, batches: Iterable[Sequence[bytes]], key: bytes | None, partition: int | None, size: int | None
    ) -> Sent:
        """Sends values that have nothing of their own besides, a batch at a time. `size`: of all, with line breaks, for
        the bar.
        """
        began = time.monotonic()
        key_bytes = len(key or b"")
        try:
            with Progress("reading", size, is_bytes=True) as progress:
                for values in batches:
                    self._produce_values(values, key, partition)
                    taken = sum(map(len, values))
                    self.sent.records += len(values)
                    self.sent.bytes += taken + key_bytes * len(values)
                    progress.advance(taken + len(values))
            self._end()
        except BaseException:
            self._producer.purge()
            raise
        self.sent.seconds = time.monotonic() - began
        return self.sent

    def _produce_values(self, values: Sequence[bytes], key: bytes | None, partition: int | None) -> None:
        """Queues all of them in order. Raises CommandError for one that the client refuses.

        The calls are made by `map`, without a step of the interpreter for each. `produce_batch` of confluent-kafka 2.16
        costs a quarter more: it takes a dict for each.
        """
        from confluent_kafka import KafkaException

        fixed = (key,) if partition is None else (key, partition)
        while True:
            left = iter(values)
            try:
                deque(map(self._producer.produce, repeat(self._topic), left, *map(repeat, fixed)), maxlen=0)
                break
            except BufferError:  # the queue is full: the brokers are slower than the input
                # The iterator has given out the value that found no room.
                values = values[len(values) - length_hint(left) - 1 :]
                self._producer.poll(_FULL_WAIT_S)
                self._raise_failed()
            except KafkaException as refused:
                error = refused.args[0]
                raise CommandError(f"topic {self._topic}: {error.str()}", status_of_code(error.code())) from None
        self._producer.poll(0)
        self._raise_failed()

    def _produce(self, record: Record) -> None:
        while True:
            try:
                self._producer.produce(
                    self._topic, record.value, record.key, record.partition,
                    timestamp=record.timestamp_ms, headers=record.headers or None,
                )  # fmt: skip
                return
            except BufferError:  # the queue is full: the brokers are slower than the input
                self._producer.poll(0.1)
                self._raise_failed()

    def _wait_until(self, due: float) -> None:
        while (left := due - time.monotonic()) > 0:
            self._producer.poll(left)

    def _raise_failed(self) -> None:
        if self._failed is not None:
            code = self._failed.code()
            raise CommandError(f"topic {self._topic}: {self._failed.str()}", status_of_code(code))

    def _end(self) -> None:
        if self._is_transactional:
            self._commit()
            return
        left = self._producer.flush(self._timeout_s)
        self._raise_failed()
        if left:
            raise CommandError(
                f"{left} records were not acknowledged within {self._timeout_s:g} s; they may or may not be written", 4
            )

    def _commit(self) -> None:
        self._producer.flush(self._timeout_s)
        self._raise_failed()
        self._producer.commit_transaction(self._timeout_s)
        self.sent.transactions += 1

    def _abort(self) -> None:
        import contextlib

        with contextlib.suppress(Exception):
            self._producer.abort_transaction(self._timeout_s)


# ---- options

Compression = StrEnum("Compression", ["none", "gzip", "snappy", "lz4", "zstd"])

TopicArgument = Annotated[str, typer.Argument(metavar="TOPIC", autocompletion=complete_topic)]

FilesArgument = Annotated[
    list[Path] | None, typer.Argument(metavar="[FILE...]", help="files to read (default: standard input)")
]

InputFormOption = Annotated[
    InputForm | None,
    typer.Option("--input", "-i", help="default: by the file's name, else lines; `file`: each file is one record"),
]

KeyOption = Annotated[str | None, typer.Option("--key", "-k", help="key of every record")]

KeyDelimiterOption = Annotated[
    str | None, typer.Option("--key-delimiter", "-K", metavar="TEXT", help="text between key and value of a line")
]

DelimiterOption = Annotated[str, typer.Option("--delimiter", "-D", metavar="TEXT", help="text between records")]

NullValueOption = Annotated[
    str | None,
    typer.Option("--null", "-Z", metavar="TEXT", help="a line with this text has no value (a tombstone)"),
]

HeaderOption = Annotated[
    list[str] | None,
    typer.Option("--header", "-H", metavar="NAME=VALUE", help="header of every record; may be repeated"),
]

PartitionOption = Annotated[
    int | None,
    typer.Option("--partition", "-p", help="partition of the records (default: by the key, as in Java clients)"),
]

TimestampOption = Annotated[
    str | None,
    typer.Option("--timestamp", metavar="TIME", help="timestamp of every record: ms or ISO 8601 (default: now)"),
]

KeyColumnOption = Annotated[
    str | None, typer.Option("--key-column", help="column of CSV or Parquet input that has the key")
]

ValueColumnOption = Annotated[
    str | None, typer.Option("--value-column", help="column that has the value (default: the row as JSON)")
]

CountOption = Annotated[int | None, typer.Option("--count", "-c", metavar="N", help="stop after N records")]

RepeatOption = Annotated[bool, typer.Option("--repeat", help="repeat the input until --count records are sent")]

RateOption = Annotated[float | None, typer.Option("--rate", metavar="N", help="most records per second")]

TransactionalOption = Annotated[bool, typer.Option("--transactional", help="send all records in one transaction")]

TransactionalIdOption = Annotated[
    str | None, typer.Option("--transactional-id", help="transactional id (default: a random id)")
]

TransactionSizeOption = Annotated[
    int | None, typer.Option("--transaction-size", metavar="N", help="commit after every N records")
]

CompressionOption = Annotated[Compression | None, typer.Option("--compression", "-z")]

AcksOption = Annotated[str | None, typer.Option("--acks", help="acks: all, 1 or 0 (default: all)")]


app = new_app("Write records to a topic.")


@app.command()
@client_command
def produce(
    topic: TopicArgument,
    connection: Connection,
    output: Output,
    files: FilesArgument = None,
    input_form: InputFormOption = None,
    key: KeyOption = None,
    key_delimiter: KeyDelimiterOption = None,
    delimiter: DelimiterOption = "\\n",
    null_value: NullValueOption = None,
    header: HeaderOption = None,
    partition: PartitionOption = None,
    timestamp: TimestampOption = None,
    key_column: KeyColumnOption = None,
    value_column: ValueColumnOption = None,
    count: CountOption = None,
    repeat: RepeatOption = False,
    rate: RateOption = None,
    transactional: TransactionalOption = False,
    transactional_id: TransactionalIdOption = None,
    transaction_size: TransactionSizeOption = None,
    compression: CompressionOption = None,
    acks: AcksOption = None,
    key_format: KeyFormatOption = Form.text,
    value_format: ValueFormatOption = Form.text,
    schema_registry: SchemaRegistryOption = None,
    key_schema: KeySchemaOption = None,
    value_schema: ValueSchemaOption = None,
    message: MessageOption = None,
    dry_run: DryRun = False,
) -> None:
    """Write records, from standard input or files."""
    shape = Shape(
        unescaped(delimiter),
        unescaped(key_delimiter) if key_delimiter is not None else None,
        null_value.encode() if null_value is not None else None,
        key_column,
        value_column,
    )
    _check(count, rate, transaction_size, shape, repeat=repeat)
    fixed = _Fixed(
        key.encode() if key is not None else None,
        [_header(text) for text in header or []],
        partition,
        timestamp_ms(timestamp) if timestamp is not None else None,
    )
    records = _repeated(files or [], input_form, shape) if repeat else _once(files or [], input_form, shape)
    encoders = (
        encoder(Coding(key_format, schema_registry, key_schema, message), connection, f"{topic}-key"),
        encoder(Coding(value_format, schema_registry, value_schema, message), connection, f"{topic}-value"),
    )
    limited = itertools.islice((_encoded(fixed.applied(record), *encoders) for record in records), count)
    if dry_run:
        _show(output, topic, _counted(limited), dry_run=True)
        return
    settings = _settings(compression, acks)
    if transactional or transactional_id is not None or transaction_size is not None:
        chosen = transactional_id or f"odradek-cli-{uuid.uuid4()}"
        sender = Sender(connection, topic, settings, transactional_id=chosen, transaction_size=transaction_size)
    else:
        sender = Sender(connection, topic, settings)
        sources: list[Path | None] = [*(files or [])] or [None]
        is_plain = shape == Shape() and encoders == (None, None) and all(is_lines(one, input_form) for one in sources)
        if is_plain and not (fixed.is_of_each or repeat or rate or count):
            batches = value_batches(sources, sys.stdin.buffer)
            _show(output, topic, sender.send_values(batches, fixed.key, partition, size_of(sources)), dry_run=False)
            return
    _show(output, topic, sender.send(limited, rate, count), dry_run=False)


def unescaped(text: str) -> bytes:
    """A delimiter of the command line, in which \\n, \\t, \\0 and \\xHH are characters. Raises Misused."""
    try:
        made = text.encode().decode("unicode_escape").encode("latin-1") if "\\" in text else text.encode()
    except (UnicodeDecodeError, UnicodeEncodeError):
        raise Misused(f"{text!r} is not a delimiter: give text, \\n, \\t, \\0 or \\xHH") from None
    if not made:
        raise Misused("a delimiter needs at least one character")
    return made


def _check(count: int | None, rate: float | None, size: int | None, shape: Shape, *, repeat: bool) -> None:
    for option, number in (("--count", count), ("--rate", rate), ("--transaction-size", size)):
        if number is not None and number <= 0:
            raise Misused(f"{option} must be more than 0")
    if repeat and count is None:
        raise Misused("--repeat needs --count, the total number of records")


def _settings(compression: Compression | None, acks: str | None) -> dict[str, str | bool]:
    made: dict[str, str | bool] = {}
    if compression is not None:
        made["compression.type"] = compression.value
    if acks is not None:
        if acks not in ("all", "-1", "0", "1"):
            raise Misused("--acks must be all, 1 or 0")
        made |= {"acks": acks} | ({} if acks in ("all", "-1") else {"enable.idempotence": False})
    return made


def _header(text: str) -> tuple[str, bytes]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise Misused("--header needs NAME=VALUE")
    return name, value.encode()


def _encoded(record: Record, encode_key: Encode | None, encode_value: Encode | None) -> Record:
    if encode_key is not None and record.key is not None:
        record.key = encode_key(record.key)
    if encode_value is not None and record.value is not None:
        record.value = encode_value(record.value)
    return record


class _Fixed:
    """The values that options give to every record; a key, partition or time of the record itself stays."""

    def __init__(
        self, key: bytes | None, headers: list[tuple[str, bytes]], partition: int | None, timestamp: int | None
    ) -> None:
        self.key, self._headers, self._partition, self._timestamp = key, headers, partition, timestamp

    @property
    def is_of_each(self) -> bool:
        """Whether a record has more than a value, a key and a partition."""
        return bool(self._headers) or self._timestamp is not None

    def applied(self, record: Record) -> Record:
        if record.key is None:
            record.key = self.key
        if self._headers:
            record.headers = [*record.headers, *self._headers]
        if self._partition is not None:
            record.partition = self._partition
        if self._timestamp is not None and not record.timestamp_ms:
            record.timestamp_ms = self._timestamp
        return record


def _once(files: list[Path], form: InputForm | None, shape: Shape) -> Iterator[Record]:
    stdin: BinaryIO = sys.stdin.buffer
    sources: list[Path | None] = [*files] or [None]
    for source in sources:
        yield from records_of(source, stdin, form, shape)


def _repeated(files: list[Path], form: InputForm | None, shape: Shape) -> Iterator[Record]:
    """Standard input is kept in memory: it cannot be read twice."""
    kept = list(_once(files, form, shape)) if not files else None
    while True:
        some = False
        for record in kept if kept is not None else _once(files, form, shape):
            some = True
            yield Record(record.value, record.key, list(record.headers), record.partition, record.timestamp_ms)
        if not some:
            return


def _counted(records: Iterator[Record]) -> Sent:
    sent = Sent()
    for record in records:
        sent.records += 1
        sent.bytes += len(record.value or b"") + len(record.key or b"")
    return sent


def _show(output: Output, topic: str, sent: Sent, *, dry_run: bool) -> None:
    found = {
        "topic": topic,
        "records": sent.records,
        "bytes": sent.bytes,
        "transactions": sent.transactions,
        "seconds": round(sent.seconds, 3),
        "dry_run": dry_run,
    }
    if output.form == "table":
        noun = "record" if sent.records == 1 else "records"
        typer.echo(f"{'would be produced' if dry_run else 'produced'}: {sent.records} {noun} to {topic}")
    else:
        output.show([found], Table("", [name.upper() for name in found], [list(found.values())]))
