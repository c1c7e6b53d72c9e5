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
from http.client import HTTPMessage, HTTPResponse
from typing import IO
from urllib.parse import urlsplit

from ..http_exchange import opened
from .store import InvalidStore


class _NoRedirections(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> None:
        return None


class StoreOpener:
    """Opens requests to one host. `url`: of the host; `setting` returns that of a key. Raises InvalidStore."""

    def __init__(self, url: str, setting: Callable[[str], str | None]) -> None:
        self._context = ssl.create_default_context()
        try:
            if (pem := setting("root_certificate")) is not None:
                self._context.load_verify_locations(cadata=pem)
        except (ssl.SSLError, ValueError) as error:
            raise InvalidStore(f"client.root_certificate: {error}") from None
        if (setting("allow_invalid_certificates") or "").lower() == "true":
            self._context.check_hostname = False
            self._context.verify_mode = ssl.CERT_NONE
        self._handlers: list[urllib.request.BaseHandler] = [_NoRedirections()]
        if (proxy := setting("proxy_url")) is not None:
            is_excluded = _is_excluded(urlsplit(url).hostname or "", setting("proxy_excludes") or "")
            self._handlers.append(urllib.request.ProxyHandler({} if is_excluded else {"http": proxy, "https": proxy}))

    def open(self, request: urllib.request.Request, whole_s: float) -> HTTPResponse:
        """Returns the response, which comes whole within the time. Raises what `urlopen` raises."""
        return opened(request, whole_s, whole_s, *self._handlers, context=self._context)


def _is_excluded(host: str, excludes: str) -> bool:
    return any(_covers(entry.strip().lower(), host.lower()) for entry in excludes.split(","))


def _covers(entry: str, host: str) -> bool:
    if not entry:
        return False
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(entry, strict=False)
    except ValueError:
        return entry == "*" or host == entry.lstrip(".") or host.endswith(f".{entry.lstrip('.')}")
