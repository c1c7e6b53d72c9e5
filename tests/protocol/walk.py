"""A walk over all messages with one check. A test for each message took longer to begin and to report than to run."""

from __future__ import annotations

from collections.abc import Callable, Iterable


def walk(names: Iterable[str], check: Callable[[str], None]) -> None:
    """Checks each message. Raises the failures of all of them, with the names of the messages."""
    failures: list[Exception] = []
    for name in names:
        try:
            check(name)
        except Exception as error:
            error.add_note(f"message: {name}")
            failures.append(error)
    if failures:
        raise ExceptionGroup(f"{len(failures)} messages fail", failures)
