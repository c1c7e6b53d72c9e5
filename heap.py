"""glibc's heap, which keeps freed memory for the process until `malloc_trim` gives it back to the system."""

from __future__ import annotations

from collections.abc import Callable


def malloc_trim() -> Callable[[], object] | None:
    """Returns glibc's malloc_trim, which releases the interpreter's lock while it runs; None where it does not exist.

    The kernel has it: ctypes takes a megabyte, in a process that needs it for nothing else.
    """
    try:
        from odradek_kernel import trim_memory  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        return malloc_trim_by_ctypes()
    return trim_memory  # type: ignore[no-any-return, unused-ignore]


def malloc_trim_by_ctypes() -> Callable[[], object] | None:
    import ctypes  # lazy: keeps the broker's start fast

    try:
        function = ctypes.CDLL(None).malloc_trim
    except (OSError, TypeError, AttributeError):
        return None
    function.argtypes, function.restype = [ctypes.c_size_t], ctypes.c_int
    return lambda: function(0)
