"""Every cause that may halt a node: one list, with the reason of each.

A halt is a decision, not an accident. What a client or a peer sends ends its request at most, its connection at worst: an
exception whose type is not in `CAUSES` halts nobody, wherever it comes from. It is logged as a bug, and the node goes on.

A node that does not start is another matter: `odradek start` says why and returns, and nothing was served.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

from ...replication.quorum.invariants import BrokenInvariant
from ...storage.files import LogDirectoryFailure

log = logging.getLogger("odradek.halting")


class CommittedRecordsUnusable(Exception):
    """Committed metadata cannot be read or replayed: this node's image would differ from that of the others."""


class ActivationFailed(Exception):
    """A new controller could not begin: it leads the quorum, and nothing would ever be decided."""


class Cause(NamedTuple):
    failure: type[Exception]
    reason: str
    exit_code: int


#: The exit code of every halt, as with Apache Kafka: a supervisor starts the node again.
EXIT_CODE = 1

CAUSES = (
    Cause(
        LogDirectoryFailure,
        "The disk of the metadata log failed, or no log directory is left. Nothing can be stored any more, and what is only "
        "in memory must not be served as if the disk had it.",
        EXIT_CODE,
    ),
    Cause(
        BrokenInvariant,
        "The quorum's state contradicts itself: going on could elect two leaders in one epoch, or change what is committed.",
        EXIT_CODE,
    ),
    Cause(
        CommittedRecordsUnusable,
        "Committed metadata cannot be read or replayed. The node would answer from an image that no other node has.",
        EXIT_CODE,
    ),
    Cause(
        ActivationFailed,
        "The node was elected and its controller cannot begin. As long as it leads, nothing of the cluster can change; when "
        "it ends, another node is elected.",
        EXIT_CODE,
    ),
)


def cause_of(failure: BaseException) -> Cause | None:
    """The cause that this failure is; None for what halts nobody."""
    return next((cause for cause in CAUSES if isinstance(failure, cause.failure)), None)


def decide(failure: Exception) -> Cause | None:
    """Logs a failure with what it means; the cause when the node has to halt for it."""
    cause = cause_of(failure)
    if cause is None:
        log.error("a bug, for which no node halts", exc_info=failure)
    else:
        log.critical("halting: %s", cause.reason, exc_info=failure)
    return cause


def unusable(what: str, failure: Exception) -> Exception:
    """What a failure to read or replay committed metadata is: the disk's, or the quorum's own."""
    if cause_of(failure) is not None:
        return failure
    made = CommittedRecordsUnusable(f"{what} cannot be read: {failure!r}")
    made.__cause__ = failure
    return made


def cannot_begin(failure: Exception) -> Exception:
    """What a failure of a new controller is: the disk's, or its own."""
    if cause_of(failure) is not None:
        return failure
    made = ActivationFailed(f"the new controller cannot begin: {failure!r}")
    made.__cause__ = failure
    return made
