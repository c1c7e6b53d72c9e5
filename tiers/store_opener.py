"""The HTTP client of the requests that obstore does not send, with the settings that obstore's client has.

| key | meaning |
|---|---|
| `root_certificate` | PEM of certificates to trust beside those of the system |
| `allow_invalid_certificates` | any certificate is taken |
| `proxy_url` | an HTTP proxy; without it, that of the environment |
| `proxy_excludes` | hosts, suffixes of domains, addresses and networks that are reached without `proxy_url` |

A redirection is an error: the request's signature and session token are for one host.
"""

from __future__ import annotations

import ipaddress
import ssl
import urllib.request
from collections.abc import Callable
from http.client import HTTPMessage
from typing import IO
from urllib.parse import urlsplit

from .store import InvalidStore


class _NoRedirections(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> None:
        return None


def store_opener(url: str, setting: Callable[[str], str | None]) -> urllib.request.OpenerDirector:
    """Returns what opens requests to the host of a URL. `setting` returns that of a key. Raises InvalidStore."""
    context = ssl.create_default_context()
    try:
        if (pem := setting("root_certificate")) is not None:
            context.load_verify_locations(cadata=pem)
    except (ssl.SSLError, ValueError) as error:
        raise InvalidStore(f"client.root_certificate: {error}") from None
    if (setting("allow_invalid_certificates") or "").lower() == "true":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    handlers = [_NoRedirections(), urllib.request.HTTPSHandler(context=context)]
    if (proxy := setting("proxy_url")) is not None:
        is_excluded = _is_excluded(urlsplit(url).hostname or "", setting("proxy_excludes") or "")
        handlers.append(urllib.request.ProxyHandler({} if is_excluded else {"http": proxy, "https": proxy}))
    return urllib.request.build_opener(*handlers)


def _is_excluded(host: str, excludes: str) -> bool:
    return any(_covers(entry.strip().lower(), host.lower()) for entry in excludes.split(","))


def _covers(entry: str, host: str) -> bool:
    if not entry:
        return False
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(entry, strict=False)
    except ValueError:
        return entry == "*" or host == entry.lstrip(".") or host.endswith(f".{entry.lstrip('.')}")
