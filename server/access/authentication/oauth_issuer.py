"""Documents of an OAuth issuer: keys and tokens, from a file or by HTTP, with its own TLS settings (KIP-768).

Reads block, so they run on threads. TLS settings are the `ssl.*` options of the login module, as Kafka's JaasOptionsUtils
takes them.
"""

from __future__ import annotations

import ssl
import urllib.parse
import urllib.request
from collections.abc import Mapping

from ....http_exchange import opened
from ....metadata.configs import BrokerValues
from ....storage.files.regular_files import read_regular_file
from ..tls_contexts import client_context, read_stores
from ..tls_settings import read_settings

_PREFIX = "ssl."
_LISTENER = "ISSUER"
#: Limit of a list of keys, or a token; real ones have some 10 KiB.
MOST_BYTES = 1 << 20
#: For a server that is silent, and for one that sends a byte now and then.
TIMEOUT_S = 10.0


def ssl_options(options: Mapping[str, str]) -> dict[str, str]:
    """Returns the options of a login module that are about TLS."""
    return {name: text for name, text in options.items() if name.startswith(_PREFIX)}


def issuer_context(url: str, options: Mapping[str, str]) -> ssl.SSLContext | None:
    """Returns the context of connections to the issuer; None for that of the system. Raises InvalidConfig.

    The host name is checked whatever `ssl.endpoint.identification.algorithm` is, as Java does for HTTPS.
    """
    found = ssl_options(options)
    if not found or not url.lower().startswith("https:"):
        return None
    values = BrokerValues(found)
    settings = read_settings(values, _LISTENER, "SSL")
    context = client_context(settings, read_stores(settings))
    context.check_hostname = True
    return context


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
    """Returns the document. `data` is posted. `timeout_s`: of the whole exchange. `context`: of HTTPS; None for that of the
    system. Raises OSError or ValueError.
    """
    parts = urllib.parse.urlsplit(url)
    if parts.scheme == "file":
        found = read_regular_file(urllib.request.url2pathname(parts.path), MOST_BYTES + 1)
    else:
        request = urllib.request.Request(url, data, dict(headers or {}))
        with opened(request, timeout_s, timeout_s, context=context) as response:
            found = bytes(response.read(MOST_BYTES + 1))
    if len(found) > MOST_BYTES:
        raise ValueError("the document is too long")
    return found


def shown_url(url: str) -> str:
    """Returns the URL without what may be a secret."""
    parts = urllib.parse.urlsplit(url)
    return urllib.parse.urlunsplit((parts.scheme, parts.hostname or "", parts.path, "", ""))
