"""Room on the disk for the metadata log: the controller rejects changes before the disk is full."""

from __future__ import annotations

import errno
import logging
import os
from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode
from ...protocol.schema import Message
from ...replication.controller.result import ControllerResult, RequestError
from ...storage.files.failures import advice
from .controller_request import Asked

if TYPE_CHECKING:
    from ..runtime.log_lines import RepeatedLines

log = logging.getLogger("odradek.quorum")
#: With more free bytes no request is looked at: none has so many records.
PLENTY_BYTES = 256 << 20
#: A record without its strings and lists, and with the batch's header where each has its own.
_RECORD_BYTES = 256
#: Bytes of a character in UTF-8, or of an element of a list.
_ITEM_BYTES = 4


class LogRoom:
    """The room on the disk of the directory `path`.

    A node halts when it cannot write its metadata log, as in Apache Kafka. So requests of clients get an error while
    there is still room for vital records: heartbeats, registrations, elections and changes of ISRs.
    """

    def __init__(self, path: str, lines: RepeatedLines) -> None:
        self._path = path
        self._lines = lines

    def admitted(self, asked: Asked, result: ControllerResult, reserve: int) -> ControllerResult:
        """Returns the decision, or KAFKA_STORAGE_ERROR in its place where the disk has no room for its records.

        `reserve`: the bytes that must stay free after them; 0 for records that are written in any case.
        """
        request = asked.request
        if not result.records or not reserve:
            return result
        free = _free_bytes(self._path)
        if free >= PLENTY_BYTES or free >= reserve + sum(map(_most_bytes, result.records)):
            return result
        error = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self._path)
        api = type(request).__name__.removesuffix("Request")
        words = (
            f"{api} is rejected, because the remaining disk space is reserved for the metadata log: "
            f"{error}{advice(error)}"
        )
        self._lines.log(log, logging.ERROR, "", ("no room", api), words)
        if request.SCHEMA.key is None:  # the controller's own
            return ControllerResult([], result.response)
        from ...replication.controller.error_responses import error_response  # which few brokers ever need

        return ControllerResult(
            [], error_response(request, asked.version, RequestError(ErrorCode.KAFKA_STORAGE_ERROR, words))
        )


def _free_bytes(path: str) -> int:
    space = os.statvfs(path)
    return space.f_bavail * space.f_frsize if space.f_blocks else PLENTY_BYTES


def _most_bytes(record: Message) -> int:
    values = (getattr(record, field.name) for field in record.SCHEMA.fields)
    return _RECORD_BYTES + _ITEM_BYTES * sum(len(value) for value in values if isinstance(value, str | bytes | list))
