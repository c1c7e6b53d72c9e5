"""Errors of a query in the words of a user: DuckDB has words of its own, with a traceback, for what a scan raises."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import duckdb

from ..client.user_errors import UserError
from ..columns.errors import ScanError


@contextmanager
def explained(failure_of: Callable[[], Exception | None]) -> Iterator[None]:
    """Raises errors as UserError. `failure_of`: the first error of a reading, which replaces DuckDB's."""
    try:
        yield
    except UserError:
        raise
    except MemoryError:
        raise UserError("the query needs more memory than it may have") from None
    except Exception as error:
        failure = failure_of() or error
        if isinstance(failure, ScanError | UserError):
            raise UserError(str(failure), failure.kind) from None
        if isinstance(failure, duckdb.Error | OSError):
            raise UserError(words_of(failure)) from None
        raise UserError(_unexpected(failure)) from failure


def words_of(error: Exception) -> str:
    """The text of an error of DuckDB, without the traceback that it has of a reading in Python."""
    return str(error).partition(" Detail: Python exception")[0]


def _unexpected(error: Exception) -> str:
    first = str(error).strip().partition("\n")[0] or "no reason given"
    return f"the query failed with {type(error).__name__}: {first}; `--value-format binary` reads values as they are"
