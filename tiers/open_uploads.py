"""Multipart uploads in S3 that have begun and not ended: their parts cost storage, and no listing of objects shows them.

obstore aborts an upload that fails, but not one whose process was killed, and it lists none. So this file sends two requests
of S3 itself, ListMultipartUploads and AbortMultipartUpload, signed with AWS Signature Version 4. It needs the keys in the
configuration or the environment: the credentials that obstore gets from an instance or a web identity are not to be had.
TLS and proxy are those of obstore's client (`store_opener.py`).
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from http.client import HTTPException
from typing import NamedTuple
from urllib.parse import quote, urlencode, urlsplit
from xml.etree import ElementTree

from .store import RemoteStorageError
from .store_opener import StoreOpener

log = logging.getLogger("odradek.tiers")

#: Deadline of one request and its response.
_WHOLE_S = 60.0
_NO_CONTENT = hashlib.sha256(b"").hexdigest()
#: A response has a thousand uploads at most, with names of up to 1,024 characters.
_MOST_RESPONSE_BYTES = 8 << 20
_NOT_FOUND = 404
#: The bucket's policy, or the server, does not allow the request: it never will without a change of either. S3 answers with
#: 400 what may pass, such as an expired token.
_NOT_ALLOWED = frozenset({401, 403, 405, 501})
#: From `remote.log.storage.manager.`: obstore takes a key with and without its prefix.
_PREFIXES = ("", "aws_")


class Keys(NamedTuple):
    access_key_id: str
    secret_access_key: str
    session_token: str | None


class Place(NamedTuple):
    """The URL of a bucket, without a slash at its end, and its region."""

    url: str
    region: str


class OpenUploads:
    """The uploads of one bucket. Calls are for threads."""

    def __init__(
        self,
        place: Place,
        keys: Keys,
        opener: StoreOpener,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._place = place
        self._keys = keys
        self._opener = opener
        self._now = now
        self._is_allowed = True

    def abort(self, prefix: str, is_meant: Callable[[str], bool] = lambda name: True) -> int:
        """Aborts the uploads to names with a prefix that are meant; returns their number. Raises RemoteStorageError.

        Where the bucket does not allow it, its lifecycle rule has to: this is said once.
        """
        found = [one for one in self.find(prefix) if is_meant(one[0])]
        for name, upload_id in found:
            self.end(name, upload_id)
        return len(found)

    def end(self, name: str, upload_id: str) -> None:
        """Aborts one upload. Raises RemoteStorageError."""
        self._request("DELETE", name, {"uploadId": upload_id})

    def find(self, prefix: str) -> Iterator[tuple[str, str]]:
        """Returns name and id of each upload to a name with a prefix. Raises RemoteStorageError."""
        markers: dict[str, str] = {}
        while self._is_allowed:
            content = self._request("GET", "", {"uploads": "", "prefix": prefix, **markers})
            if content is None:
                return
            try:
                root = ElementTree.fromstring(content)
            except ElementTree.ParseError as error:
                raise RemoteStorageError(
                    f"the list of uploads of {self._place.url} cannot be parsed: {error}"
                ) from error
            for one in root.iterfind("{*}Upload"):
                name, upload_id = one.findtext("{*}Key", ""), one.findtext("{*}UploadId", "")
                if upload_id and name.startswith(prefix):
                    yield name, upload_id
            following = root.findtext("{*}NextKeyMarker", ""), root.findtext("{*}NextUploadIdMarker", "")
            previous = markers
            markers = dict(zip(("key-marker", "upload-id-marker"), following, strict=True))
            if root.findtext("{*}IsTruncated") != "true" or markers == previous:
                return

    def _request(self, method: str, name: str, query: Mapping[str, str]) -> bytes | None:
        """Returns the content of a response; None where it is not found or not allowed. Raises RemoteStorageError."""
        path = f"{self._place.url}/{quote(name, safe='/-_.~')}" if name else self._place.url
        try:
            request = urllib.request.Request(f"{path}?{_encoded(query)}", method=method)
            for header, value in signed_headers(request, self._place.region, self._keys, self._now()).items():
                request.add_header(header, value)
            with self._opener.open(request, _WHOLE_S) as response:
                content: bytes = response.read(_MOST_RESPONSE_BYTES)
                return content
        except urllib.error.HTTPError as error:
            error.close()
            if error.code == _NOT_FOUND:
                return None
            if error.code in _NOT_ALLOWED:
                if self._is_allowed:
                    log.warning("%s does not let uploads be listed and aborted (%s): give its bucket a lifecycle rule "
                                "that aborts those of killed brokers", self._place.url, error)  # fmt: skip
                self._is_allowed = False
                return None
            raise RemoteStorageError(f"uploads of {self._place.url}: {error}") from error
        except (OSError, HTTPException, ValueError) as error:
            raise RemoteStorageError(f"uploads of {self._place.url}: {error}") from error


def open_uploads(url: str, config: Mapping[str, str]) -> OpenUploads | None:
    """Returns the uploads of a store; `config` has obstore's keys, those of its client too. None for other stores, and
    without keys. Raises InvalidStore.
    """
    parts = urlsplit(url)
    keys = _keys(config)
    if parts.scheme not in ("s3", "s3a") or keys is None:
        return None
    region = _value(config, "region", "AWS_REGION", "AWS_DEFAULT_REGION") or "us-east-1"
    endpoint = (
        _value(config, "endpoint", "AWS_ENDPOINT_URL", "AWS_ENDPOINT") or _value(config, "endpoint_url") or ""
    ).rstrip("/")
    is_virtual = (_value(config, "virtual_hosted_style_request") or "").lower() == "true"
    if not endpoint:
        endpoint = (
            f"https://{parts.netloc}.s3.{region}.amazonaws.com" if is_virtual else f"https://s3.{region}.amazonaws.com"
        )
    opener = StoreOpener(endpoint, lambda key: _value(config, key))
    return OpenUploads(Place(endpoint if is_virtual else f"{endpoint}/{parts.netloc}", region), keys, opener)


def _keys(config: Mapping[str, str]) -> Keys | None:
    key_id = _value(config, "access_key_id", "AWS_ACCESS_KEY_ID")
    secret = _value(config, "secret_access_key", "AWS_SECRET_ACCESS_KEY")
    if key_id is None or secret is None:
        return None
    return Keys(key_id, secret, _value(config, "session_token", "AWS_SESSION_TOKEN") or _value(config, "token"))


def _value(config: Mapping[str, str], key: str, *variables: str) -> str | None:
    lowered = {name.lower(): value for name, value in config.items()}
    names = (f"{prefix}{key}" for prefix in _PREFIXES)
    found = next((lowered[name] for name in names if name in lowered), None)
    return found or next((os.environ[one] for one in variables if one in os.environ), None)


def _encoded(query: Mapping[str, str]) -> str:
    return urlencode(sorted(query.items()), quote_via=quote, safe="-_.~")


def signed_headers(request: urllib.request.Request, region: str, keys: Keys, now: datetime) -> dict[str, str]:
    """Returns the headers that a request without content needs (AWS Signature Version 4)."""
    parts, time = urlsplit(request.full_url), now.strftime("%Y%m%dT%H%M%SZ")
    headers = {"host": parts.netloc, "x-amz-content-sha256": _NO_CONTENT, "x-amz-date": time}
    if keys.session_token is not None:
        headers["x-amz-security-token"] = keys.session_token
    names = ";".join(headers)
    lines = [f"{name}:{value}" for name, value in headers.items()]
    canonical = "\n".join((request.get_method(), parts.path, parts.query, *lines, "", names, _NO_CONTENT))
    scope = f"{time[:8]}/{region}/s3/aws4_request"
    text = "\n".join(("AWS4-HMAC-SHA256", time, scope, hashlib.sha256(canonical.encode()).hexdigest()))
    key = f"AWS4{keys.secret_access_key}".encode()
    for word in scope.split("/"):
        key = hmac.digest(key, word.encode(), "sha256")
    signature = hmac.new(key, text.encode(), "sha256").hexdigest()
    authorization = (
        f"AWS4-HMAC-SHA256 Credential={keys.access_key_id}/{scope}, SignedHeaders={names}, Signature={signature}"
    )
    return {**headers, "authorization": authorization}
