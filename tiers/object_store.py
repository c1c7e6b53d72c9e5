"""A remote store in S3, Google Cloud Storage, Azure or a folder, by the package obstore (the extra `tiers`).

| key | meaning |
|---|---|
| `url` | `s3://bucket/prefix`, `gs://bucket/prefix`, `az://container/prefix` (with `store.account_name`), `file:///folder` |
| `chunk.size.bytes` | of the parts of a multipart upload, and of the largest object that is uploaded at once; 8388608 |
| `store.<key>` | a key of obstore's store, such as `store.region`, `store.endpoint`, `store.access_key_id` |
| `client.<key>` | a key of obstore's HTTP client, such as `client.timeout`, `client.allow_http` |

Objects have the names of the folder store. One that is uploaded at once is created only if it is absent. A large one is
uploaded in parts, of which each is sent again where it fails, and appears when all are there: an attempt that is repeated
continues with the first object that is missing. S3 checks a SHA-256 of each request, or `store.checksum_algorithm`.

A crash in the middle of a multipart upload leaves parts that no listing shows. In S3 the next attempt, the deletion of
the segment, or a look at all uploads aborts the upload (`open_uploads.py`); other buckets need a lifecycle rule. An attempt
that is repeated begins such an object anew: the parts of the upload are aborted, not continued.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

import obstore
from obstore import exceptions
from obstore.store import ObjectStore as StoreOfUrl
from obstore.store import from_url

from ..protocol.checksum import crc32c
from .checksums import Checksums, checksum_of, chunks_of, part_size
from .object_names import directory_name, object_name, parse_object_name
from .open_uploads import open_uploads
from .segment_metadata import COPY_SEGMENT_FINISHED, RemoteLogSegmentMetadata, TopicIdPartition
from .store import (
    DamagedRemoteObject,
    InvalidStore,
    OpenUpload,
    PartType,
    RemoteResourceNotFound,
    RemoteStorageError,
    SegmentParts,
    StoredObject,
)

log = logging.getLogger("odradek.tiers")

_CHUNK_BYTES = 8 << 20
#: S3 has no smaller part of a multipart upload.
_LEAST_CHUNK_BYTES = 5 << 20
#: Parts of one upload under way at once: with those of 8 MiB, 32 MiB of memory for each copy.
_MOST_PARTS_AT_ONCE = 4
#: A call that fails is tried again by the broker's own tasks, which others do not wait for.
_RETRY = {"max_retries": 3, "retry_timeout": timedelta(seconds=60)}
_CLIENT = {"connect_timeout": "5s", "timeout": "60s"}
#: The same call fails until the configuration, the credentials or the bucket change.
_NOT_RETRIABLE = (
    exceptions.PermissionDeniedError,
    exceptions.UnauthenticatedError,
    exceptions.NotSupportedError,
    exceptions.InvalidPathError,
)


class ObjectStore:
    """A `RemoteStore`; the keys are in the head of the file."""

    def __init__(self, config: Mapping[str, str]) -> None:
        url = config.get("url", "")
        try:
            self._chunk_bytes = int(config.get("chunk.size.bytes", _CHUNK_BYTES))
        except ValueError as error:
            raise InvalidStore(f"chunk.size.bytes: {error}") from None
        if not url or self._chunk_bytes < _LEAST_CHUNK_BYTES:
            raise InvalidStore(f"a store of objects needs a url, and chunks of {_LEAST_CHUNK_BYTES} bytes at least")
        self._url = url
        #: The folder of a store in one; obstore's store is None until that is there.
        self._folder = _folder_of(url)
        is_there = self._folder is None or self._folder.is_dir()
        self._connected = _connect(url, _below(config, "store."), _below(config, "client.")) if is_there else None
        self._uploads = open_uploads(url, _below(config, "store.") | _below(config, "client."))
        #: Whether the last search for uploads failed.
        self._fails_to_abort = False
        self._prefix = urlsplit(url).path.strip("/")

    def create(self) -> None:
        """Makes the folder of a store in one. A bucket must be there."""
        if self._folder is not None:
            with self._failures("making", ""):
                self._folder.mkdir(parents=True, exist_ok=True)

    @property
    def _store(self) -> StoreOfUrl:
        """obstore's store. Raises RemoteStorageError without its folder, which obstore would make with the first object."""
        if self._folder is not None and not self._folder.is_dir():
            raise RemoteStorageError(f"the folder {self._folder} is not there")
        if self._connected is None:
            self._connected = _connect(self._url, {}, {})
        return self._connected

    def copy_log_segment_data(self, segment: RemoteLogSegmentMetadata, parts: SegmentParts) -> bytes | None:
        written: dict[PartType, tuple[int, int]] = {}
        for part, source in parts.sources():
            name = object_name(segment, part)
            with self._failures("writing", name):
                written[part] = self._write(name, source, part_size(segment, part, source))
        return Checksums(written).encode()

    def _write(self, name: str, source: Path | bytes, size: int) -> tuple[int, int]:
        """Returns size and CRC-32C of what was uploaded."""
        if size <= self._chunk_bytes:
            content = b"".join(chunks_of(source, size))
            try:
                obstore.put(self._store, name, content, mode="create", use_multipart=False)
            except exceptions.AlreadyExistsError:
                if self._size(name) != size:
                    obstore.put(self._store, name, content, use_multipart=False)
            return size, crc32c(content)
        if self._size(name) == size:  # an earlier attempt ended behind it
            return size, checksum_of(source, size)
        crc = 0

        def pieces() -> Iterator[bytes]:
            nonlocal crc
            for piece in chunks_of(source, size):
                crc = crc32c(piece, crc)
                yield piece

        self._abort_uploads(name)  # of an attempt whose process was killed
        obstore.put(
            self._store, name, pieces(),
            use_multipart=True, chunk_size=self._chunk_bytes, max_concurrency=_MOST_PARTS_AT_ONCE,
        )  # fmt: skip
        found = self._size(name)
        if found != size:
            raise RemoteStorageError(f"{name} has {found} bytes after an upload of {size}")
        return size, crc

    def _abort_uploads(self, name: str, is_meant: Callable[[str], bool] = lambda name: True) -> None:
        """Aborts multipart uploads to names that begin with this one and are meant. A copy or a deletion does not need it:
        what is left, the broker's look for open uploads finds (`open_uploads`).
        """
        if self._uploads is None:
            return
        try:
            count = self._uploads.abort(f"{self._prefix}/{name}".lstrip("/"), is_meant)
        except RemoteStorageError as failure:
            if not self._fails_to_abort:
                log.warning("uploads that have not ended are left: %s", failure)
            self._fails_to_abort = True
            return
        self._fails_to_abort = False
        if count:
            log.info("%s/%s: uploads that have not ended were aborted: %d", self._url, name, count)

    def _size(self, name: str) -> int | None:
        try:
            return obstore.head(self._store, name)["size"]
        except (exceptions.NotFoundError, FileNotFoundError):
            return None

    def fetch_log_segment(self, segment: RemoteLogSegmentMetadata, position: int, size: int) -> bytes:
        name = object_name(segment, PartType.LOG)
        with self._failures("reading", name):
            return bytes(obstore.get_range(self._store, name, start=position, length=size))

    def fetch_index(self, segment: RemoteLogSegmentMetadata, part: PartType, most_bytes: int) -> bytes:
        name = object_name(segment, part)
        with self._failures("reading", name):
            found = obstore.get(self._store, name)
            if found.meta["size"] > most_bytes:
                raise DamagedRemoteObject(name, most_bytes, f"{found.meta['size']} bytes")
            return bytes(found.bytes())

    def delete_log_segment_data(self, segment: RemoteLogSegmentMetadata) -> None:
        self._delete_each(_names(segment))
        self._abort_uploads_of([segment])

    def delete_log_segments(self, segments: Sequence[RemoteLogSegmentMetadata]) -> None:
        """Deletes all parts of several segments: S3 takes a thousand names in one request."""
        names = [name for segment in segments for name in _names(segment)]
        try:
            with self._failures("deleting", f"{names[0]} and others"):
                obstore.delete(self._store, names)
        except RemoteResourceNotFound:  # folders and GCS; the other names may not be deleted
            self._delete_each(names)
        self._abort_uploads_of(segments)

    def open_uploads(self, partition: TopicIdPartition | None = None) -> list[OpenUpload]:
        prefix = f"{self._prefix}/".lstrip("/")
        folder = "" if partition is None else f"{directory_name(partition)}/"
        found = []
        for name, upload_id in self._uploads.find(f"{prefix}{folder}") if self._uploads is not None else ():
            one = parse_object_name(name.removeprefix(prefix), 0)
            if one is not None:
                found.append(OpenUpload(name, upload_id, one.partition, one.segment_id))
        return found

    def abort_uploads(self, uploads: Sequence[OpenUpload]) -> None:
        for one in uploads:
            if self._uploads is not None:
                self._uploads.end(one.name, one.upload_id)

    def _abort_uploads_of(self, segments: Sequence[RemoteLogSegmentMetadata]) -> None:
        """Aborts the uploads of those segments whose copy has not ended: by one listing of each partition."""
        stems: dict[TopicIdPartition, list[str]] = {}
        for segment in segments:
            if segment.state is not COPY_SEGMENT_FINISHED:
                stem = object_name(segment, PartType.LOG).removesuffix(PartType.LOG.value)
                stems.setdefault(segment.partition, []).append(stem)
        for partition, found in stems.items():
            name = found[0] if len(found) == 1 else f"{directory_name(partition)}/"
            wanted = frozenset(found)
            self._abort_uploads(name, lambda one, wanted=wanted: self._stem(one) in wanted)  # type: ignore[misc]

    def _stem(self, name: str) -> str:
        """Returns the name of an object in the bucket without the prefix of the store and the suffix of its part."""
        folder, _, file = name.removeprefix(f"{self._prefix}/".lstrip("/")).rpartition("/")
        return f"{folder}/{file.partition('.')[0]}"

    def _delete_each(self, names: Iterable[str]) -> None:
        for name in names:
            with self._failures("deleting", name):
                try:
                    obstore.delete(self._store, name)
                except (exceptions.NotFoundError, FileNotFoundError):
                    continue

    def objects(self) -> Iterator[StoredObject]:
        with self._failures("listing", ""):
            for batch in obstore.list(self._store):
                for entry in batch:
                    found = parse_object_name(entry["path"], entry["size"])
                    if found is not None:
                        yield found

    def close(self) -> None:
        pass

    @contextmanager
    def _failures(self, doing: str, name: str) -> Iterator[None]:
        """Raises RemoteStorageError for the exceptions of obstore."""
        try:
            yield
        except (exceptions.NotFoundError, FileNotFoundError):
            raise RemoteResourceNotFound(f"{self._url}/{name}") from None
        except _NOT_RETRIABLE as error:
            raise RemoteStorageError(f"{doing} {self._url}/{name}: {_reason(error)}", retriable=False) from error
        except (exceptions.BaseError, OSError, ValueError) as error:
            raise RemoteStorageError(f"{doing} {self._url}/{name}: {_reason(error)}") from error


def _names(segment: RemoteLogSegmentMetadata) -> list[str]:
    """Returns the names of the parts that an upload of a segment writes."""
    is_written = [one for one in PartType if one is not PartType.TRANSACTION_INDEX or not segment.txn_index_empty]
    return [object_name(segment, part) for part in is_written]


def _reason(error: Exception) -> str:
    """Returns an error's text without the structures of the library that follow it."""
    return str(error).partition("\n")[0].partition("Debug source:")[0].strip()


def _below(config: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {key[len(prefix) :]: value for key, value in config.items() if key.startswith(prefix)}


def _folder_of(url: str) -> Path | None:
    """Returns the folder of a `file:` URL. Raises InvalidStore."""
    if not url.startswith("file:"):
        return None
    parts = urlsplit(url)
    if parts.netloc or not parts.path.startswith("/"):
        raise InvalidStore(f"{url}: the URL of a folder is file:///folder")
    return Path(url2pathname(parts.path))


def _connect(url: str, config: dict[str, str], client: dict[str, str]) -> StoreOfUrl:
    """Returns obstore's store. Raises InvalidStore."""
    if url.startswith(("s3://", "s3a://")):
        config = {"checksum_algorithm": "SHA256"} | config
    options: dict[str, Any] = {}
    if not url.startswith("file:"):
        options = {"config": config, "client_options": _CLIENT | client, "retry_config": _RETRY}
    try:
        return from_url(url, **options)
    except (exceptions.BaseError, ValueError, OSError) as error:
        raise InvalidStore(f"{url}: {error}") from error
