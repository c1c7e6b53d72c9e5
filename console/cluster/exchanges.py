"""Exchanges of HTTP with services beside the cluster, each within a size and a time as a whole."""

from __future__ import annotations

import contextlib
import http.client
import io
import urllib.error
import urllib.request

from ...http_exchange import opened

#: Limit of a connection, and of one read.
_READ_S = 5.0
_MOST_ERROR_BYTES = 64 << 10


def exchanged(request: urllib.request.Request, seconds: float, most_bytes: int) -> bytes:
    """The body of the response. Raises OSError, an error of `http.client`, and ValueError for a body that is longer or cut.
    HTTPError, for a status that is an error, has the beginning of its body.
    """
    try:
        with opened(request, min(seconds, _READ_S), seconds) as response:
            data = response.read(most_bytes + 1)
            missing = response.length  # a read of a size does not tell of a body that was cut
    except urllib.error.HTTPError as error:
        words = b""
        with contextlib.suppress(OSError, http.client.HTTPException):
            words = error.read(_MOST_ERROR_BYTES)
        raise urllib.error.HTTPError(error.url, error.code, error.msg, error.headers, io.BytesIO(words)) from None
    if len(data) > most_bytes:
        raise ValueError(f"it is longer than {most_bytes >> 20} MB")
    if missing:
        raise ValueError(f"its last {missing} bytes are missing")
    return data
