"""Writes records in the form of `--output`, a batch at a time.

JSON has `topic`, `partition`, `offset`, `timestamp` (ms), `key`, `value` and `headers` (a list of `key` and `value`).
Bytes that are no UTF-8 stand as base64 under `key_base64` or `value_base64`. Decoded keys and values are JSON themselves; a
number that JSON has not, such as infinity, is text. CSV has the same columns: null is an empty cell, and an empty text `""`.
`csv-escaped` is CSV for spreadsheets, which run some cells as formulas.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Sequence
from json.encoder import encode_basestring
from typing import BinaryIO, Protocol

from .consumed import ConsumedRecord
from .contents import Content, as_bytes, as_text, json_of
from .format_string import compile_format

Decode = Callable[[bytes | None, str], "Content"]
"""Takes the bytes and the topic; returns text, bytes, or a value of JSON."""

COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
#: Bytes that are no UTF-8 are in the last two.
CSV_COLUMNS = (*COLUMNS, "key_base64", "value_base64")
_QUOTED = re.compile(r'[",\r\n]|^\s|\s$')
#: Spreadsheets run a cell that begins with one of these as a formula, and show one that begins with `'` as a text.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_NEGATIVE_NUMBER = re.compile(r"-[0-9]+(\.[0-9]+)?")


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
    return f'"{name}":{json_of(content)}'


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
    """The record under COLUMNS, for people."""
    headers = _headers(message)
    position = [message.topic(), message.partition(), message.offset(), message.timestamp()[1]]
    return [*position, as_text(key), as_text(value), "" if headers == "[]" else headers]


def begins_formula(text: str) -> bool:
    """Returns whether a spreadsheet runs a cell with this text."""
    return text.startswith(_FORMULA) and not _NEGATIVE_NUMBER.fullmatch(text)


class Csv:
    """Rows under CSV_COLUMNS, in quotes where a cell needs them.

    `escapes_formulas`: cells that a spreadsheet would run begin with `'`.
    """

    def __init__(self, out: BinaryIO, *, escapes_formulas: bool = False) -> None:
        self._out = out
        self._escapes = escapes_formulas
        self._head = ",".join(CSV_COLUMNS) + "\n"

    def write(self, messages: Sequence[ConsumedRecord], keys: Sequence[Content], values: Sequence[Content]) -> None:
        rows = [self._row(*one) for one in zip(messages, keys, values, strict=True)]
        self._out.write((self._head + "".join(rows)).encode(errors="surrogatepass"))
        self._head = ""

    def end(self) -> None:
        self.write((), (), ())
        self._out.flush()

    def _row(self, message: ConsumedRecord, key: Content, value: Content) -> str:
        headers = _headers(message)
        (key_text, key_base64), (value_text, value_base64) = self._cells(key), self._cells(value)
        shown = "" if headers == "[]" else self._cell(headers)
        return (
            f"{self._cell(message.topic())},{message.partition()},{message.offset()},{message.timestamp()[1]},"
            f"{key_text},{value_text},{shown},{key_base64},{value_base64}\n"
        )

    def _cells(self, content: Content) -> tuple[str, str]:
        """Returns a key or a value as a cell of text and one of base64."""
        if content is None:
            return "", ""
        if isinstance(content, bytes):
            try:
                return self._cell(content.decode()), ""
            except UnicodeDecodeError:
                return "", self._cell(base64.b64encode(content).decode())
        return self._cell(as_text(content)), ""

    def _cell(self, text: str) -> str:
        if self._escapes and begins_formula(text):
            text = f"'{text}"
        is_plain = text and _QUOTED.search(text) is None
        return text if is_plain else '"' + text.replace('"', '""') + '"'


def writer_of(form: str, format_string: str | None, out: BinaryIO) -> Writer:
    """The writer for one of json, jsonl, csv, csv-escaped, plain and parquet; `-f` wins over all."""
    if format_string is not None:
        return Formatted(out, format_string)
    if form == "parquet":
        from .parquet import ParquetWriter

        return ParquetWriter(out)
    made: dict[str, Callable[[], Writer]] = {
        "json": lambda: JsonArray(out),
        "jsonl": lambda: JsonLines(out),
        "csv": lambda: Csv(out),
        "csv-escaped": lambda: Csv(out, escapes_formulas=True),
        "plain": lambda: Formatted(out, "%s\\n"),
    }
    return made[form]()
