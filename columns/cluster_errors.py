"""Errors of a cluster: brokers that do not answer, or deny a request."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..cli.client.errors import DENIED, CommandError, from_library
from ..protocol.errors import ErrorCode
from .errors import ScanError


class ClusterError(ScanError):
    """The cluster does not answer, or denies a request. `status`: of the command line (docs/command-line.md)."""

    def __init__(self, message: str, status: int = 1) -> None:
        super().__init__(message)
        self.status = status


@contextmanager
def explained() -> Iterator[None]:
    """Raises errors of the client libraries as ClusterError."""
    try:
        yield
    except CommandError as error:
        raise ClusterError(str(error), error.status) from None
    except ScanError:
        raise
    except Exception as error:
        found = from_library(error)
        if found is None:
            raise
        raise ClusterError(str(found), found.status) from None


def not_authorized(topic: str) -> ClusterError:
    name = ErrorCode.TOPIC_AUTHORIZATION_FAILED.name
    return ClusterError(f"topic {topic}: not authorized to read it ({name}): the user needs READ on it", DENIED)
