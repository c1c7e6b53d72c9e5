"""Documents of an OAuth issuer: keys and tokens, from a file or by HTTP. They block, so they run on threads."""

from __future__ import annotations

import ssl
import urllib.parse
import urllib.request
from collections.abc import Mapping

from ....storage.files.regular_files import read_regular_file

#: Limit of a list of keys, or a token; real ones have some 10 KiB.
MOST_BYTES = 1 << 20
#: For a server that is silent.
TIMEOUT_S = 10.0


def is_readable(url: str) -> bool:
    """Returns whether the URL is one of a file or a server."""
    return urllib.parse.urlsplit(url).scheme in ("file", "http", "https")


def read(
    url: str,
    *,
    data: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    timeout_s: float = TIMEOUT_S,
    context: ssl.SSLContext | None = None,
) -> bytes:
    """Returns the document. `data` is posted. `context`: of HTTPS; None for that of the system. Raises OSError or
    ValueError.
    """
    parts = urllib.parse.urlsplit(url)
    if parts.scheme == "file":
        found = read_regular_file(urllib.request.url2pathname(parts.path), MOST_BYTES + 1)
    else:
        request = urllib.request.Request(url, data, dict(headers or {}))
        with urllib.request.urlopen(request, timeout=timeout_s, context=context) as answer:
            found = bytes(answer.read(MOST_BYTES + 1))
    if len(found) > MOST_BYTES:
        raise ValueError("the document is too long")
    return found


def shown_url(url: str) -> str:
    """Returns the URL without what may be a secret."""
    parts = urllib.parse.urlsplit(url)
    return urllib.parse.urlunsplit((parts.scheme, parts.hostname or "", parts.path, "", ""))
