"""Lists every cause that may halt a node, with its reason.

A halt is a deliberate decision. Input from a client or a peer ends at most its request or its connection: an exception
whose type is not in `CAUSES` never halts the node, wherever it comes from. It is logged as a bug, and the node
continues.

A failed start is a separate case: `odradek start` prints the reason and exits, and no client was served.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

from ...replication.quorum.invariants import BrokenInvariant
from ...storage.files.failures import LogDirectoryFailure

log = logging.getLogger("odradek.halting")
#: The exit code of every halt, as with Apache Kafka: a supervisor starts the node again.
EXIT_CODE = 1


class CommittedRecordsUnusable(Exception):
    """Committed metadata cannot be read or replayed: this node's image would differ from the other nodes' images."""


class ActivationFailed(Exception):
    """A new controller could not begin: it leads the quorum, and no request would ever be decided."""


class UnsupportedMetadata(Exception):
    """The cluster has a feature level, or a topic in tiered storage, that this node cannot serve."""


class Cause(NamedTuple):
    failure: type[Exception]
    reason: str
    exit_code: int


CAUSES = (
    Cause(
        UnsupportedMetadata,
        "The cluster uses what this node has not implemented. To follow its metadata could lose records.",
        EXIT_CODE,
    ),
    Cause(
        LogDirectoryFailure,
        "The disk of the metadata log failed, or no log directory is left. Nothing can be stored any more, and "
        "data that is only "
        "in memory must not be served.",
        EXIT_CODE,
    ),
    Cause(
        BrokenInvariant,
        "The quorum's state contradicts itself: to continue could elect two leaders in one epoch, or change "
        "committed records.",
        EXIT_CODE,
    ),
    Cause(
        CommittedRecordsUnusable,
        "Committed metadata cannot be read or replayed. The node would serve an image that no other node has.",
        EXIT_CODE,
    ),
    Cause(
        ActivationFailed,
        "The node was elected, but its controller cannot start. As long as the node leads, the cluster metadata "
        "cannot change. When "
        "the node ends, another node is elected.",
        EXIT_CODE,
    ),
)


def cause_of(failure: BaseException) -> Cause | None:
    """Returns the cause for a failure; None if the failure does not halt the node."""
    return next((cause for cause in CAUSES if isinstance(failure, cause.failure)), None)


def decide(failure: Exception) -> Cause | None:
    """Logs a failure and what it means. Returns the cause if the node has to halt."""
    cause = cause_of(failure)
    if cause is None:
        log.error("a bug that does not halt a node", exc_info=failure)
    else:
        # A failed disk is no bug: the failure names the file, and a traceback would hide it.
        is_expected = isinstance(failure, LogDirectoryFailure)
        log.critical("halting: %s", cause.reason, exc_info=None if is_expected else failure)
        if is_expected:
            log.debug("the failure that halts the node", exc_info=failure)
    return cause


def unusable(what: str, failure: Exception) -> Exception:
    """Classifies a failure to read or replay committed metadata: as the disk's, or as unusable records."""
    if cause_of(failure) is not None:
        return failure
    made = CommittedRecordsUnusable(f"{what} cannot be read: {failure!r}")
    made.__cause__ = failure
    return made


def cannot_begin(failure: Exception) -> Exception:
    """Classifies a failure of a new controller: as the disk's, or as the controller's."""
    if cause_of(failure) is not None:
        return failure
    made = ActivationFailed(f"the new controller cannot begin: {failure!r}")
    made.__cause__ = failure
    return made
