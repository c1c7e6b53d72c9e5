"""The keys of an issuer of tokens (JWKS), from a file or a URL, fetched again by a thread (KIP-768).

A token with an unknown key id makes the broker fetch the keys soon, at most once in ten seconds: a client can invent ids.
"""

from __future__ import annotations

import json
import logging
import ssl
import threading
from collections.abc import Sequence
from time import monotonic
from typing import NamedTuple

from ....metadata.configs import InvalidConfig
from .oauth_issuer import is_readable, read, shown_url
from .signed_tokens import SigningKey, signing_keys

log = logging.getLogger("odradek.security")
#: Between fetches for keys that tokens name.
LOOK_AGAIN_S = 10.0


class FetchTimes(NamedTuple):
    """sasl.oauthbearer.jwks.endpoint.refresh.ms, .retry.backoff.ms and .retry.backoff.max.ms, in seconds."""

    refresh_s: float
    first_backoff_s: float
    most_backoff_s: float


class Jwks:
    """The keys at a URL. The first fetch is made at once; a thread makes the others, until `stop`."""

    def __init__(self, url: str, times: FetchTimes, context: ssl.SSLContext | None = None) -> None:
        """Raises InvalidConfig for a URL that is none of a file or server. One that fails now is tried again."""
        if not is_readable(url):
            raise InvalidConfig("sasl.oauthbearer.jwks.endpoint.url is not a URL of file, http or https")
        self._url = url
        self._times = times
        self._context = context
        self._keys: Sequence[SigningKey] = ()
        self._wanted = threading.Event()
        self._stopped = threading.Event()
        failed = self._fetch()
        self._thread = threading.Thread(target=self._run, args=(failed,), name="odradek-jwks", daemon=True)
        self._thread.start()

    def current(self) -> Sequence[SigningKey]:
        return self._keys

    def look_for(self, key_id: str) -> None:
        self._wanted.set()

    def stop(self) -> None:
        self._stopped.set()
        self._wanted.set()

    def _run(self, failed: bool) -> None:
        times = self._times
        backoff_s = times.first_backoff_s
        while not self._stopped.is_set():
            if failed:
                self._stopped.wait(backoff_s)
                backoff_s = min(times.most_backoff_s, 2 * backoff_s)
            else:
                backoff_s = times.first_backoff_s
                if self._wanted.wait(times.refresh_s):
                    self._stopped.wait(max(0.0, self._fetched_s + LOOK_AGAIN_S - monotonic()))
                self._wanted.clear()
            if not self._stopped.is_set():
                failed = self._fetch()

    def _fetch(self) -> bool:
        """Returns True if it failed; the keys then stay as they were."""
        self._fetched_s = monotonic()
        try:
            found = signing_keys(json.loads(read(self._url, context=self._context)))
        except (OSError, ValueError, RecursionError) as error:
            log.error("the keys at %s cannot be read: %s", shown_url(self._url), type(error).__name__)
            return True
        self._keys = found
        return False
