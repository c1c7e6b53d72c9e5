"""A job: one statement, or one list of topics, for one user; and the frames of its answer.

A frame is a tag and a body. DATA has one message of Arrow's IPC format, the schema first. END ends an answer. FAILED has the
kind of an error and its text. An answer without END or FAILED is one of a process that has died.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import NamedTuple

from ...client.error_kinds import ErrorKind
from ..sources import QuerySources

DATA, END, FAILED = b"D", b"E", b"F"
#: The tag and the length of the body.
FRAME = struct.Struct(">cI")
#: A job as it is sent to the host; it has a statement and its parameters.
MOST_JOB_BYTES = 4 << 20
#: The body of a frame; a row of a larger size is refused.
MOST_FRAME_BYTES = 64 << 20


class JobLimits(NamedTuple):
    """Memory of the process of a job beyond what all have, and time of a job, with that of the client to read it."""

    memory_bytes: int
    time_s: float

    @property
    def memory_words(self) -> str:
        return f"the query needs more than {self.memory_bytes >> 20} MiB of memory, the limit of this server"

    @property
    def time_words(self) -> str:
        return f"the query took more than {self.time_s:g} s, the limit of this server"


@dataclass(frozen=True)
class Rows:
    """The rows of a statement. `parameters`: a batch of one row in Arrow's IPC stream, or b"".

    `only_schema`: no rows, and nothing of a table or a log is read for them.
    """

    sql: str
    parameters: bytes = b""
    only_schema: bool = False


@dataclass(frozen=True)
class Topics:
    """The topics that the user may describe, as tables, by patterns of LIKE; with the columns of each, if wanted."""

    pattern: str | None = None
    with_columns: bool = False


@dataclass(frozen=True, repr=False)
class Job:
    """`properties`: of the user's own client. No repr: they have a password."""

    task: Rows | Topics
    sources: QuerySources
    properties: dict[str, str]
    timeout_s: float
    limits: JobLimits


def failure_body(kind: ErrorKind, text: str) -> bytes:
    return f"{kind.name} {text}".encode(errors="replace")


def failure_of(body: bytes) -> tuple[ErrorKind, str]:
    name, _, text = body.decode(errors="replace").partition(" ")
    return ErrorKind[name], text
