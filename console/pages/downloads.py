"""Records of a search as a file: JSON, CSV or Parquet, written by the command line's writers, with masks."""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Iterator, Sequence
from typing import IO, TYPE_CHECKING, BinaryIO, cast

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from ...cli.client.errors import CommandError, Misused
from ...cli.records.writing import writer_of
from ..backend import Backend
from ..cluster.records import Query, Record
from ..views.documents import field_of
from .searching import columns_of

if TYPE_CHECKING:
    from ...cli.records.writing import Writer


FORMATS = ("JSON", "CSV", "Parquet")
_TYPES = {"json": "application/json", "csv": "text/csv; charset=utf-8", "parquet": "application/vnd.apache.parquet"}
#: Limits of a file. The name of one that reaches a limit has its number of records.
MOST_RECORDS, MOST_BYTES, MOST_SECONDS = 100_000, 256 << 20, 60.0
#: A file of more bytes is on the disk until it is sent.
_MOST_IN_MEMORY, _CHUNK = 1 << 20, 256 << 10
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")


class _Row:
    """A masked record as a message of the library, which writers take."""

    def __init__(self, one: Record) -> None:
        self._one = one

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

    def headers(self) -> list[tuple[str, bytes]]:
        return [(name, value.encode(errors="replace")) for name, value in self._one.headers]


def download(backend: Backend, request: Request, query: Query) -> Response:
    """All records of the search, in the order of the partitions' logs. With columns a value has these fields alone."""
    form = request.query_params["download"]
    if form not in _TYPES:
        raise Misused(f"download must be one of {', '.join(_TYPES)}")
    file = cast("IO[bytes]", tempfile.SpooledTemporaryFile(_MOST_IN_MEMORY))  # noqa: SIM115 - it is closed when it is sent
    try:
        count, is_whole = _written(backend, query, columns_of(request), form, file)
        length = file.tell()
        file.seek(0)
    except BaseException:
        file.close()
        raise
    part = "" if is_whole else f"-first-{count}"
    name = f"{_UNSAFE.sub('_', query.topic)}{part}.{form}"
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "Content-Length": str(length)}
    return StreamingResponse(_chunks(file), media_type=_TYPES[form], headers=headers)


def _written(backend: Backend, query: Query, columns: list[str], form: str, file: IO[bytes]) -> tuple[int, bool]:
    """Returns the number of records, and whether these are all."""
    try:
        writer = writer_of(form, None, cast("BinaryIO", file))
    except ImportError:
        raise CommandError("Parquet needs pyarrow where the console runs: pip install 'odradek[parquet]'") from None
    count, deadline, is_whole = 0, time.monotonic() + MOST_SECONDS, True
    for batch in backend.records.batches(query):
        chosen = batch[: MOST_RECORDS - count]
        _write(writer, chosen, columns)
        count += len(chosen)
        if len(chosen) < len(batch) or file.tell() > MOST_BYTES or time.monotonic() > deadline:
            is_whole = False
            break
    writer.end()
    return count, is_whole


def _write(writer: Writer, records: Sequence[Record], columns: list[str]) -> None:
    values = [{path: field_of(one.document, path) for path in columns} if columns else one.document for one in records]
    writer.write([_Row(one) for one in records], [one.key_document for one in records], values)


def _chunks(file: IO[bytes]) -> Iterator[bytes]:
    with file:
        while chunk := file.read(_CHUNK):
            yield chunk
