"""The standard output as a file that DuckDB opens.

`/dev/stdout` of a regular file is opened anew, from its start and without its content: `>> results.jsonl` would lose what
the file has, and what the shell writes next would overwrite the rows. So the rows go through a pipe then.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from threading import Thread

_STDOUT = 1
_CHUNK_BYTES = 1 << 16


@contextlib.contextmanager
def standard_output() -> Iterator[str]:
    """A path of the standard output; all that is written there stands in the output at the end. Raises OSError."""
    if not stat.S_ISREG(os.fstat(_STDOUT).st_mode):
        yield "/dev/stdout"
        return
    reading, writing = os.pipe()
    errors: list[OSError] = []
    copying = Thread(target=_copy, args=(reading, errors))
    copying.start()
    try:
        yield f"/dev/fd/{writing}"
    except Exception:
        if not errors:
            raise
    finally:
        os.close(writing)
        copying.join()
    if errors:
        raise errors[0]


def _copy(reading: int, errors: list[OSError]) -> None:
    """Copies until the end of the pipe; after an error the pipe is closed, which ends its writer."""
    try:
        while data := memoryview(os.read(reading, _CHUNK_BYTES)):
            while data:
                data = data[os.write(_STDOUT, data) :]
    except OSError as error:
        errors.append(error)
    finally:
        os.close(reading)
