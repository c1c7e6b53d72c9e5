"""JSON lines, CSV and rows of Parquet as records."""

from __future__ import annotations

import base64
import binascii
import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, BinaryIO

from ...admin.positions import timestamp_ms
from ...client.user_errors import Misused, UserError
from ...records.contents import json_of
from ...records.json_parsing import loaded
from .input_record import MOST_LINE_BYTES, Record, Shape, bounded_lines

if TYPE_CHECKING:
    from ...records.consumed import ProducedHeaders


def read_json_lines(file: BinaryIO, name: str, shape: Shape) -> Iterator[Record]:
    for number, line in enumerate(bounded_lines(file, name, MOST_LINE_BYTES, "--input"), 1):
        if number not in shape.lines or not line.strip():
            continue
        where = f"{name}, line {number}"
        try:
            content = loaded(line.decode("utf-8-sig"))
        except ValueError as error:  # of the text, or of its encoding
            raise UserError(f"{where} is not JSON: {str(error).removeprefix('it is not JSON: ')}") from None
        if not isinstance(content, dict) or not {"value", "value_base64"} & content.keys():
            raise UserError(f'{where} has no "value": use --input lines to send each line as it is')
        record = record_of(content, where)
        record.line = number
        yield record


def read_csv(file: BinaryIO, name: str, shape: Shape) -> Iterator[Record]:
    text = io.TextIOWrapper(file, "utf-8-sig", newline="")
    csv.field_size_limit(MOST_LINE_BYTES)
    lines = bounded_lines(text, name, MOST_LINE_BYTES, "--input")
    try:
        yield from records_of_rows(_numbered(csv.DictReader(lines)), name, "line", shape)
    except UnicodeDecodeError:
        raise UserError(f"{name} is not UTF-8: convert it with iconv") from None
    except csv.Error as error:
        raise UserError(f"{name} is not CSV: {error}") from None
    finally:
        text.detach()


def _numbered(reader: csv.DictReader[str]) -> Iterator[tuple[int, Mapping[str, object]]]:
    """The rows, each with the line in which it begins. Lines without anything are part of the row after them."""
    before = 0 if reader.fieldnames is None else reader.line_num
    for row in reader:
        yield before + 1, row
        before = reader.line_num


def records_of_rows(
    rows: Iterable[tuple[int, Mapping[str, object]]], name: str, noun: str, shape: Shape
) -> Iterator[Record]:
    """A row with the column `value` is a record as `consume` writes it; another one becomes a JSON object."""
    for number, row in rows:
        if number not in shape.lines:
            continue
        where = f"{name}, {noun} {number}"
        for column in (shape.key_column, shape.value_column):
            if column is not None and column not in row:
                raise Misused(f"{name} has no column {column!r}, but {', '.join(map(str, row))}")
        if "value" in row and shape.key_column is None and shape.value_column is None:
            record = record_of(row, where)
            record.line = number
            yield record
            continue
        value = row[shape.value_column] if shape.value_column is not None else dict(row)
        key = row[shape.key_column] if shape.key_column is not None else None
        yield Record(_bytes(value), _bytes(key), line=number)


def record_of(content: Mapping[str, object], where: str) -> Record:
    """The record of an object with `value`, and perhaps `key`, `headers`, `partition` and `timestamp`."""
    try:
        return Record(
            _part(content, "value"),
            _part(content, "key"),
            _headers(content.get("headers")),
            _number(content.get("partition"), -1),
            _timestamp(content.get("timestamp")),
        )
    except (ValueError, TypeError, KeyError, RecursionError, binascii.Error) as error:
        raise UserError(f"{where} is not a record: {error}") from None


def _part(content: Mapping[str, object], name: str) -> bytes | None:
    encoded = content.get(f"{name}_base64")
    if encoded is not None and encoded != "":  # an empty cell of CSV
        if not isinstance(encoded, str | bytes):
            raise TypeError(f"{name}_base64 is not a text")
        return base64.b64decode(encoded, validate=True)
    return _bytes(content.get(name))


def _bytes(content: object) -> bytes | None:
    if content is None or isinstance(content, bytes):
        return content
    return (content if isinstance(content, str) else json_of(content)).encode()


def _headers(content: object) -> ProducedHeaders:
    """A list of objects with `key` and `value`, an object, or either as JSON text."""
    if content is None or content == "":
        return []
    if isinstance(content, str):
        content = loaded(content)
    if isinstance(content, Mapping):
        return [(str(name), _bytes(value)) for name, value in content.items()]
    if not isinstance(content, list | tuple):
        raise TypeError("its headers are not a list or an object")
    return [(str(one["key"]), _part(one, "value")) for one in content]


def _number(content: object, default: int) -> int:
    if content is None or content == "":
        return default
    if not isinstance(content, str | int | float):
        raise TypeError("its partition is not a number")
    return int(content)


def _timestamp(content: object) -> int:
    if content is None or content == "":
        return 0
    if hasattr(content, "timestamp"):  # Parquet's are datetimes
        return int(content.timestamp() * 1000)
    return content if isinstance(content, int) else timestamp_ms(str(content))
