"""The keys of an issuer of tokens (JWKS), from a file or a URL, fetched again by a thread (KIP-768).

A token that names an unknown key has the keys fetched soon, but once in ten seconds at most: anybody can invent keys.
"""

from __future__ import annotations

import json
import logging
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from time import monotonic
from typing import NamedTuple

from ....metadata.configs import InvalidConfig
from .signed_tokens import SigningKey, signing_keys

log = logging.getLogger("odradek.security")

#: Of a JWKS document; real ones have some 10 KiB.
MOST_BYTES = 1 << 20
FETCH_TIMEOUT_S = 10.0
#: Between fetches for keys that tokens name.
LOOK_AGAIN_S = 10.0


class FetchTimes(NamedTuple):
    """sasl.oauthbearer.jwks.endpoint.refresh.ms, .retry.backoff.ms and .retry.backoff.max.ms, in seconds."""

    refresh_s: float
    first_backoff_s: float
    most_backoff_s: float


class Jwks:
    """The keys at a URL. The first fetch is made at once; a thread makes the others, until `stop`."""

    def __init__(self, url: str, times: FetchTimes) -> None:
        """Raises InvalidConfig for a URL that is none of a file or server. One that fails now is tried again."""
        if urllib.parse.urlsplit(url).scheme not in ("file", "http", "https"):
            raise InvalidConfig("sasl.oauthbearer.jwks.endpoint.url is not a URL of file, http or https")
        self._url = url
        self._times = times
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
            found = signing_keys(json.loads(_read(self._url)))
        except (OSError, ValueError, RecursionError) as error:
            log.error("the keys at %s cannot be read: %s", _shown(self._url), type(error).__name__)
            return True
        self._keys = found
        return False


def _read(url: str) -> bytes:
    parts = urllib.parse.urlsplit(url)
    if parts.scheme == "file":
        with Path(urllib.request.url2pathname(parts.path)).open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    else:
        with urllib.request.urlopen(url, timeout=FETCH_TIMEOUT_S) as answer:
            data = bytes(answer.read(MOST_BYTES + 1))
    if len(data) > MOST_BYTES:
        raise ValueError("the document is too long")
    return data


def _shown(url: str) -> str:
    """The URL without what may be a secret."""
    parts = urllib.parse.urlsplit(url)
    return urllib.parse.urlunsplit((parts.scheme, parts.hostname or "", parts.path, "", ""))
