"""Errors of a cluster: brokers that do not answer, or deny a request."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..client.error_kinds import ErrorKind
from ..client.explained_errors import from_library
from ..client.user_errors import UserError
from ..protocol.errors import ErrorCode
from .errors import ScanError


class ClusterError(ScanError):
    """The cluster does not answer, or denies a request. `kind`: by what a user does about it."""

    def __init__(self, message: str, kind: ErrorKind = ErrorKind.FAILED) -> None:
        super().__init__(message)
        self.kind = kind


@contextmanager
def explained() -> Iterator[None]:
    """Raises errors of the client libraries as ClusterError."""
    try:
        yield
    except UserError as error:
        raise ClusterError(str(error), error.kind) from None
    except ScanError:
        raise
    except Exception as error:
        found = from_library(error)
        if found is None:
            raise
        raise ClusterError(str(found), found.kind) from None


def not_authorized(topic: str) -> ClusterError:
    name = ErrorCode.TOPIC_AUTHORIZATION_FAILED.name
    return ClusterError(
        f"topic {topic}: not authorized to read it ({name}): the user needs READ on it", ErrorKind.DENIED
    )
