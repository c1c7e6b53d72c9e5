"""Records of a search as a file: JSON, CSV or Parquet, with masks. Nulls, empty texts and bytes that are no text stay apart.

CSV writes a null as an empty cell and an empty text as `""`. Bytes that are no text are in the columns `key_base64` and
`value_base64`; `key_form` and `value_form` say what a cell is: null, text, json or base64.
"""

from __future__ import annotations

import base64
import re
import tempfile
import time
from collections.abc import Iterator, Sequence
from typing import IO, TYPE_CHECKING, BinaryIO, cast

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from ...client.user_errors import Misused, UserError
from ...extras import install_command
from ...records.formats import Form
from ...records.writing import JsonArray, begins_formula, writer_of
from ..backend import Backend
from ..budgets import Budget
from ..cluster.decoding import AUTO
from ..cluster.query import Query
from ..cluster.records import Record
from ..documents import written
from ..field_paths import MISSING, found_at

if TYPE_CHECKING:
    from ...records.consumed import ConsumedRecord
    from ...records.contents import Content
    from ...records.writing import Writer

#: The words of a link, and `download` in its address.
FORMATS = {"JSON": "json", "CSV": "csv", "CSV for spreadsheets": "csv-escaped", "Parquet": "parquet"}
_TYPES = {"json": "application/json", "csv": "text/csv; charset=utf-8", "parquet": "application/vnd.apache.parquet"}
#: Limits of a file. The name of one that reaches a limit has its number of records.
MOST_RECORDS, MOST_BYTES, _MOST_FILE_SECONDS = 100_000, 256 << 20, 60.0
#: A file of more bytes is on the disk until it is sent.
_MOST_IN_MEMORY, _CHUNK = 1 << 20, 256 << 10
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")
_COLUMNS = (
    "topic", "partition", "offset", "timestamp", "key", "value", "headers", "key_base64", "value_base64", "key_form",
    "value_form",
)  # fmt: skip
_QUOTED = re.compile(r'[",\r\n]|^\s|\s$')


class JsonText(str):
    """A document as its JSON text, with the digits of its numbers and all of its fields."""

    __slots__ = ()


def download(backend: Backend, request: Request, query: Query, columns: list[str], budget: Budget) -> Response:
    """All records of the search, in the order of the partitions' logs. With columns a value has these fields alone."""
    name = request.query_params["download"]
    if name not in FORMATS.values():
        raise Misused(f"download must be one of {', '.join(FORMATS.values())}")
    form, _, escapes = name.partition("-")
    file = cast("IO[bytes]", tempfile.SpooledTemporaryFile(_MOST_IN_MEMORY))  # noqa: SIM115 - it is closed when it is sent
    try:
        writer = Csv(file, escapes_formulas=bool(escapes)) if form == "csv" else _writer(form, file)
        batches = backend.records.batches(query, budget)
        count, is_whole = _written(batches, query, columns, writer, file)
        length = file.tell()
        file.seek(0)
    except BaseException:
        file.close()
        raise
    part = "" if is_whole else f"-first-{count}"
    name = f"{_UNSAFE.sub('_', query.topic)}{part}.{form}"
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "Content-Length": str(length)}
    return StreamingResponse(_chunks(file), media_type=_TYPES[form], headers=headers)


def _writer(form: str, file: IO[bytes]) -> Writer:
    if form == "json":
        return Json(cast("BinaryIO", file))
    try:
        return writer_of(form, None, cast("BinaryIO", file))
    except ImportError:
        raise UserError(f"Parquet needs pyarrow where the console runs: {install_command('parquet')}") from None


def _written(
    batches: Iterator[list[Record]], query: Query, columns: list[str], writer: Writer, file: IO[bytes]
) -> tuple[int, bool]:
    """Returns the number of records, and whether these are all."""
    count, deadline, is_whole = 0, time.monotonic() + _MOST_FILE_SECONDS, True
    for batch in batches:
        chosen = batch[: MOST_RECORDS - count]
        _write(writer, chosen, columns, query)
        count += len(chosen)
        if len(chosen) < len(batch) or file.tell() > MOST_BYTES or time.monotonic() > deadline:
            is_whole = False
            break
    writer.end()
    return count, is_whole


def _write(writer: Writer, records: Sequence[Record], columns: list[str], query: Query) -> None:
    keys = [_content(one.key_document, one.raw.key if one.raw else None, query.key_form) for one in records]
    values = [
        JsonText(written(_chosen(one.document, columns)))
        if columns
        else _content(one.document, one.raw.value if one.raw else None, query.value_form)
        for one in records
    ]
    writer.write([_Row(one) for one in records], keys, values)


def _chosen(document: object, columns: list[str]) -> dict[str, object]:
    found = {path: found_at(document, path) for path in columns}
    return {path: value for path, value in found.items() if value is not MISSING}


def _content(document: Content, raw: bytes | None, form: str) -> Content:
    """A key or a value for a file: a document as JSON, a text as the bytes that it was where no mask hides them."""
    if document is None and raw is None:
        return None
    if not isinstance(document, str) or form == Form.json:
        return JsonText(written(document))
    return raw if raw is not None and form in (AUTO, Form.text) else document


class _Row:
    """A masked record as a message of the library, which writers take."""

    def __init__(self, record: Record) -> None:
        self._one = record

    def topic(self) -> str:
        return self._one.topic

    def partition(self) -> int:
        return self._one.partition

    def offset(self) -> int:
        return self._one.offset

    def key(self) -> bytes | None:
        return None if self._one.key is None else self._one.key.encode(errors="replace")

    def value(self) -> bytes | None:
        return None if self._one.value is None else self._one.value.encode(errors="replace")

    def timestamp(self) -> tuple[int, int]:
        return (1, self._one.timestamp_ms)

    def headers(self) -> Sequence[tuple[str, bytes | None]]:
        if self._one.raw is not None:
            return self._one.raw.headers
        return [(name, None if one is None else one.encode(errors="replace")) for name, one in self._one.headers]


class Json(JsonArray):
    """The command line's JSON, with documents as they were written."""

    def lines(
        self, messages: Sequence[ConsumedRecord], keys: Sequence[Content], values: Sequence[Content]
    ) -> list[str]:
        return [
            f'{{"topic":{written(message.topic())},"partition":{message.partition()},"offset":{message.offset()},'
            f'"timestamp":{message.timestamp()[1]},{_json_field("key", key)},{_json_field("value", value)},'
            f'"headers":{_headers(message)}}}'
            for message, key, value in zip(messages, keys, values, strict=True)
        ]


def _json_field(name: str, content: Content) -> str:
    if isinstance(content, JsonText):
        return f'"{name}":{content}'
    if isinstance(content, bytes) and _text_of(content) is None:
        return f'"{name}":null,"{name}_base64":"{base64.b64encode(content).decode()}"'
    return f'"{name}":{written(_text_of(content) if isinstance(content, bytes) else content)}'


def _headers(message: ConsumedRecord) -> str:
    fields = [f'{{"key":{written(name)},{_json_field("value", one)}}}' for name, one in message.headers() or ()]
    return f"[{','.join(fields)}]"


def _text_of(data: bytes) -> str | None:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


class Csv:
    """`escapes_formulas`: cells that a spreadsheet would run begin with `'`."""

    def __init__(self, out: IO[bytes], *, escapes_formulas: bool) -> None:
        self._out = out
        self._escapes = escapes_formulas
        self._head = ",".join(_COLUMNS) + "\n"

    def write(self, messages: Sequence[ConsumedRecord], keys: Sequence[Content], values: Sequence[Content]) -> None:
        rows = [self._row(*one) for one in zip(messages, keys, values, strict=True)]
        self._out.write((self._head + "".join(rows)).encode(errors="replace"))
        self._head = ""

    def _row(self, message: ConsumedRecord, key: Content, value: Content) -> str:
        (key_text, key_base64, key_form), (text, text_base64, form) = _formed(key), _formed(value)
        headers = _headers(message)
        place = (message.topic(), str(message.partition()), str(message.offset()), str(message.timestamp()[1]))
        shown = (key_text, text, None if headers == "[]" else headers, key_base64, text_base64, key_form, form)
        return ",".join(map(self._cell, (*place, *shown))) + "\n"

    def _cell(self, text: str | None) -> str:
        if not text:
            return "" if text is None else '""'
        text = f"'{text}" if self._escapes and begins_formula(text) else text
        return '"' + text.replace('"', '""') + '"' if _QUOTED.search(text) else text

    def end(self) -> None:
        self.write((), (), ())
        self._out.flush()


def _formed(content: Content) -> tuple[str | None, str | None, str]:
    """The text of a cell, or the base64 of the other one, and the form."""
    if content is None:
        return None, None, "null"
    if isinstance(content, bytes):
        text = _text_of(content)
        return (None, base64.b64encode(content).decode(), "base64") if text is None else (text, None, "text")
    return str(content), None, "json" if isinstance(content, JsonText) else "text"


def _chunks(file: IO[bytes]) -> Iterator[bytes]:
    with file:
        while chunk := file.read(_CHUNK):
            yield chunk
