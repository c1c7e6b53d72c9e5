"""Writes records in the form of `--output`, a batch at a time.

JSON has `topic`, `partition`, `offset`, `timestamp` (ms), `key`, `value` and `headers` (a list of `key` and `value`).
Bytes that are no UTF-8 stand as base64 under `key_base64` or `value_base64`. Decoded keys and values are JSON themselves.

`-f` takes a format string as kcat's: %s value, %S its length in bytes (-1 for null), %R its length as four bytes in network
order, %k key, %K its length, %T timestamp in ms, %h headers (name=value, separated by commas), %t topic, %p partition,
%o offset, %% a percent sign. \\n, \\r, \\t, \\\\, \\0 and \\xHH are characters.
"""

from __future__ import annotations

import base64
import csv
import io
import json
import re
import struct
from collections.abc import Callable, Sequence
from json.encoder import encode_basestring
from typing import BinaryIO, Protocol

from ..client.errors import Misused
from .consumed import ConsumedRecord, Content, as_bytes, as_text, for_json

Decode = Callable[[bytes | None, str], "Content"]
"""Takes the bytes and the topic; returns text, bytes, or a value of JSON."""

COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")


class Writer(Protocol):
    def write(self, messages: Sequence[ConsumedRecord], keys: Sequence[Content], values: Sequence[Content]) -> None: ...

    def end(self) -> None: ...


def _field(name: str, content: Content) -> str:
    """`"name":content` of JSON."""
    if type(content) is bytes:
        try:
            return f'"{name}":{encode_basestring(content.decode())}'
        except UnicodeDecodeError:
            return f'"{name}":null,"{name}_base64":"{base64.b64encode(content).decode()}"'
    if content is None:
        return f'"{name}":null'
    return f'"{name}":{json.dumps(content, ensure_ascii=False, default=for_json)}'


def _headers(message: ConsumedRecord) -> str:
    headers = message.headers()
    if not headers:
        return "[]"
    return (
        "["
        + ",".join(f'{{"key":{encode_basestring(name)},{_field("value", content)}}}' for name, content in headers)
        + "]"
    )


class JsonLines:
    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._topics: dict[str, str] = {}

    def write(self, messages: Sequence[ConsumedRecord], keys: Sequence[Content], values: Sequence[Content]) -> None:
        lines = self.lines(messages, keys, values)
        if lines:
            self._out.write(("\n".join(lines) + "\n").encode(errors="surrogatepass"))

    def lines(
        self, messages: Sequence[ConsumedRecord], keys: Sequence[Content], values: Sequence[Content]
    ) -> list[str]:
        topics, quoted = self._topics, encode_basestring
        made = []
        for message, key, value in zip(messages, keys, values, strict=True):
            topic = message.topic()
            begin = topics.get(topic)
            if begin is None:
                begin = topics[topic] = f'{{"topic":{quoted(topic)},"partition":'
            if type(value) is bytes and (key is None or type(key) is bytes) and not message.headers():
                # Most records: without a call for each field, in two thirds of the time.
                try:
                    made.append(
                        f'{begin}{message.partition()},"offset":{message.offset()},"timestamp":{message.timestamp()[1]},'
                        f'"key":{"null" if key is None else quoted(key.decode())},"value":{quoted(value.decode())},'
                        '"headers":[]}'
                    )
                    continue
                except UnicodeDecodeError:
                    pass
            made.append(
                f'{begin}{message.partition()},"offset":{message.offset()},"timestamp":{message.timestamp()[1]},'
                f'{_field("key", key)},{_field("value", value)},"headers":{_headers(message)}}}'
            )
        return made

    def end(self) -> None:
        self._out.flush()


class JsonArray(JsonLines):
    def __init__(self, out: BinaryIO) -> None:
        super().__init__(out)
        self._is_first = True

    def write(self, messages: Sequence[ConsumedRecord], keys: Sequence[Content], values: Sequence[Content]) -> None:
        lines = self.lines(messages, keys, values)
        if lines:
            self._out.write((("[\n" if self._is_first else ",\n") + ",\n".join(lines)).encode())
            self._is_first = False

    def end(self) -> None:
        self._out.write(b"[]\n" if self._is_first else b"\n]\n")
        self._out.flush()


class Formatted:
    """kcat's `-f`, and plain values with a line break."""

    def __init__(self, out: BinaryIO, text: str) -> None:
        self._out = out
        self._format = None if text == "%s\\n" else compile_format(text)

    def write(self, messages: Sequence[ConsumedRecord], keys: Sequence[Content], values: Sequence[Content]) -> None:
        if self._format is None:
            self._out.write(b"".join([as_bytes(value) + b"\n" for value in values]))
            return
        form = self._format
        self._out.write(
            b"".join(
                [
                    form(message, as_bytes(key), as_bytes(value))
                    for message, key, value in zip(messages, keys, values, strict=True)
                ]
            )
        )

    def end(self) -> None:
        self._out.flush()


def cells(message: ConsumedRecord, key: Content, value: Content) -> list[object]:
    """The record under COLUMNS."""
    headers = _headers(message)
    position = [message.topic(), message.partition(), message.offset(), message.timestamp()[1]]
    return [*position, as_text(key), as_text(value), "" if headers == "[]" else headers]


class Csv:
    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._text = io.StringIO()
        self._writer = csv.writer(self._text, lineterminator="\n")
        self._writer.writerow(COLUMNS)

    def write(self, messages: Sequence[ConsumedRecord], keys: Sequence[Content], values: Sequence[Content]) -> None:
        self._writer.writerows(map(cells, messages, keys, values))
        self._out.write(self._text.getvalue().encode())
        self._text.seek(0)
        self._text.truncate()

    def end(self) -> None:
        self.write((), (), ())
        self._out.flush()


class Tables:
    """A table for each batch, for people."""

    def write(self, messages: Sequence[ConsumedRecord], keys: Sequence[Content], values: Sequence[Content]) -> None:
        from ..output import Output, Table

        rows = [cells(*one) for one in zip(messages, keys, values, strict=True)]
        if rows:
            Output("table").show((), Table("", [name.upper() for name in COLUMNS], rows))

    def end(self) -> None:
        pass


def writer_of(form: str, format_string: str | None, out: BinaryIO) -> Writer:
    """The writer for one of table, json, jsonl, csv, plain and parquet; `-f` wins over all."""
    if format_string is not None:
        return Formatted(out, format_string)
    if form == "parquet":
        from .parquet import ParquetWriter

        return ParquetWriter(out)
    made: dict[str, Callable[[], Writer]] = {
        "json": lambda: JsonArray(out),
        "jsonl": lambda: JsonLines(out),
        "csv": lambda: Csv(out),
        "table": Tables,
        "plain": lambda: Formatted(out, "%s\\n"),
    }
    return made[form]()


# ---- format strings

_TOKEN = re.compile(rb"%(.)|%$|\\x([0-9a-fA-F]{2})|\\(.)|([^%\\]+)|(\\$)", re.DOTALL)
_ESCAPES = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"\\": b"\\", b"0": b"\0"}
Piece = Callable[["ConsumedRecord", bytes, bytes], bytes]


def _length(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def _headers_text(message: ConsumedRecord) -> bytes:
    return b",".join(
        name.encode() + b"=" + (b"NULL" if content is None else content) for name, content in message.headers() or ()
    )


_FIELDS: dict[bytes, Piece] = {
    b"s": lambda message, key, value: value,
    b"S": lambda message, key, value: b"%d" % _length(message.value()),
    b"R": lambda message, key, value: struct.pack(">i", _length(message.value())),
    b"k": lambda message, key, value: key,
    b"K": lambda message, key, value: b"%d" % _length(message.key()),
    b"T": lambda message, key, value: b"%d" % message.timestamp()[1],
    b"h": lambda message, key, value: _headers_text(message),
    b"t": lambda message, key, value: message.topic().encode(),
    b"p": lambda message, key, value: b"%d" % message.partition(),
    b"o": lambda message, key, value: b"%d" % message.offset(),
}


def compile_format(text: str) -> Piece:
    """A function of a message and its key and value as bytes. Raises Misused for an unknown field."""
    pieces: list[bytes | Piece] = []
    for field, hexadecimal, escaped, plain, lone in _TOKEN.findall(text.encode()):
        if plain or lone:
            pieces.append(plain or lone)
        elif hexadecimal:
            pieces.append(bytes.fromhex(hexadecimal.decode()))
        elif escaped:
            pieces.append(_ESCAPES.get(escaped, escaped))
        elif field == b"%":
            pieces.append(b"%")
        elif field in _FIELDS:
            pieces.append(_FIELDS[field])
        else:
            raise Misused(
                f"-f has no field %{field.decode(errors='replace')}: %s %S %R %k %K %T %h %t %p %o and %% are known"
            )

    def formatted(message: ConsumedRecord, key: bytes, value: bytes) -> bytes:
        return b"".join([piece if isinstance(piece, bytes) else piece(message, key, value) for piece in pieces])

    return formatted
