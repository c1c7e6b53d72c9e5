"""Manifests of a backup, its tables of contents.

- `Manifest`: one backup, `manifests/N.json`, written last, so a backup without one does not exist. `Topic`,
  `GroupOffsets`, `Settings` and others are its parts.
- `write_manifest`, `read_manifest`: the first line has the SHA-256 of the second, which is a JSON object. Each
  manifest names every chunk of its backup, also those that earlier backups wrote: it needs no other manifest.
"""

from __future__ import annotations

import hashlib
import json
import re

import msgspec

from ...client.error_kinds import ErrorKind
from ...client.user_errors import UserError
from .stores import Store

#: 2 adds settings, share groups and the metadata of offsets; 1 is read, too.
FORMAT = 2
_READ = (1, FORMAT)
_FOLDER = "manifests"
#: The name of a chunk: relative, below the backup.
_CHUNK = re.compile(r"[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*")


class _JsonObject(msgspec.Struct, forbid_unknown_fields=True):
    """A JSON object of the manifest. A value of another type, or a field too many, makes the manifest malformed."""


class Chunk(_JsonObject):
    """A file of record batches as in a Kafka segment. `first` and `last` are offsets of records in it."""

    file: str
    first: int
    last: int
    records: int
    bytes: int
    sha256: str


class Part(_JsonObject):
    """A partition: its log start, the offset after the last record of the backup, and its chunks in order."""

    partition: int
    start: int
    end: int
    chunks: list[Chunk] = []

    @property
    def records(self) -> int:
        return sum(chunk.records for chunk in self.chunks)

    @property
    def base(self) -> int:
        """The offset below which a restore has nothing to keep: the log start, or the first chunk's first."""
        return min(self.start, self.chunks[0].first) if self.chunks else self.end

    @property
    def gaps(self) -> int:
        """Offsets without a record between the base and the end, as compaction and transactions leave them."""
        return self.end - self.base - self.records


class Topic(_JsonObject):
    """`configs`: those that the topic itself has."""

    name: str
    id: str
    replication_factor: int
    configs: dict[str, str]
    parts: list[Part] = []


class GroupOffsets(_JsonObject):
    """Offsets of a group: topic, partition, offset, and the text that a client committed with it. Those of a share group are
    its start offsets.
    """

    group: str
    offsets: list[tuple[str, int, int, str]]


class Rule(_JsonObject):
    """An access rule, in the words of `odradek acl list`."""

    principal: str
    host: str
    operation: str
    permission: str
    resource: str
    name: str
    pattern: str


class Quota(_JsonObject):
    """`entity`: names by kind (user, client-id, ip); None is the default of a kind."""

    entity: dict[str, str | None]
    values: dict[str, float]


class User(_JsonObject):
    """A user with SCRAM credentials, without the credentials."""

    name: str
    mechanism: str
    iterations: int


class Configs(_JsonObject):
    """Dynamic configs of a broker, a group or client metrics. The name "" stands for all brokers."""

    kind: str
    name: str
    values: dict[str, str]


class Settings(_JsonObject):
    """Settings of the cluster as a whole."""

    rules: list[Rule] = []
    quotas: list[Quota] = []
    users: list[User] = []
    configs: list[Configs] = []

    def counts(self) -> dict[str, int]:
        return {
            "rules": len(self.rules),
            "quotas": len(self.quotas),
            "users": len(self.users),
            "configs": len(self.configs),
        }


class Manifest(_JsonObject):
    """One backup. `time_ms`: when it began."""

    number: int
    time_ms: int
    cluster_id: str
    topics: list[Topic] = []
    groups: list[GroupOffsets] = []
    share_groups: list[GroupOffsets] = []
    settings: Settings = msgspec.field(default_factory=Settings)
    format: int = FORMAT

    @property
    def data_folder(self) -> str:
        return f"data/{self.number:010}"

    def topic(self, name: str) -> Topic | None:
        return next((topic for topic in self.topics if topic.name == name), None)


def write_manifest(store: Store, manifest: Manifest) -> None:
    body = json.dumps(msgspec.to_builtins(manifest), separators=(",", ":"))  # not msgspec.json: a quota may be infinite
    head = json.dumps({"sha256": hashlib.sha256(body.encode()).hexdigest()})
    store.write(_name(manifest.number), f"{head}\n{body}\n".encode())


def numbers(store: Store) -> list[int]:
    """The numbers of the backups that are there."""
    names = (name.rpartition("/")[2] for name in store.names(_FOLDER))
    return sorted(int(name.removesuffix(".json")) for name in names if name.removesuffix(".json").isdecimal())


def read_manifest(store: Store, number: int | None = None) -> Manifest:
    """The newest backup, or one by its number. Raises UserError."""
    known = numbers(store)
    if not known:
        raise UserError("there is no backup here", ErrorKind.NOT_FOUND)
    if number is not None and number not in known:
        raise UserError(
            f"there is no backup {number}; `odradek backup PLACE --list` lists the backups", ErrorKind.NOT_FOUND
        )
    name = _name(known[-1] if number is None else number)
    try:
        head, _, body = store.read(name).partition(b"\n")
    except OSError as error:
        raise UserError(f"{name} cannot be read: {error.strerror}") from None
    body = body.strip()
    try:
        expected = json.loads(head)["sha256"]
    except (ValueError, KeyError, TypeError, RecursionError):
        expected = ""
    if hashlib.sha256(body).hexdigest() != expected:
        raise UserError(f"{name} is damaged: its checksum is wrong; restore an earlier backup with --number")
    try:
        return _checked(_decode(body))
    except (ValueError, msgspec.ValidationError, RecursionError) as error:
        reason = str(error)[:200]
        raise UserError(f"{name} is malformed: {reason}; restore an earlier backup with --number") from None


class _Format(msgspec.Struct):
    format: int


def _decode(body: bytes) -> Manifest:
    """Raises ValueError and msgspec.ValidationError for what is no manifest, UserError for an unknown format."""
    data = json.loads(body)
    written = msgspec.convert(data, _Format).format
    if written not in _READ:
        raise UserError(f"the backup has format {written}, and this version reads up to {FORMAT}")
    if written == FORMAT:
        return msgspec.convert(data, Manifest)
    old = msgspec.convert(data, _ManifestOf1)
    groups = [GroupOffsets(one.group, [(*offset, "") for offset in one.offsets]) for one in old.groups]
    return Manifest(old.number, old.time_ms, old.cluster_id, old.topics, groups)


class _GroupOffsetsOf1(_JsonObject):
    group: str
    offsets: list[tuple[str, int, int]]


class _ManifestOf1(_JsonObject):
    """Format 1 has neither settings nor share groups, and no metadata of offsets."""

    number: int
    time_ms: int
    cluster_id: str
    topics: list[Topic]
    groups: list[_GroupOffsetsOf1]
    format: int


def _checked(manifest: Manifest) -> Manifest:
    """Checks offsets, and the names of chunks. Raises ValueError."""
    for topic in manifest.topics:
        for part in topic.parts:
            if not 0 <= part.start <= part.end:
                raise ValueError(f"{topic.name}-{part.partition} has offsets {part.start} to {part.end}")
            for chunk in part.chunks:
                if not _CHUNK.fullmatch(chunk.file) or ".." in chunk.file.split("/"):
                    raise ValueError(f"{chunk.file[:200]!r} is not a valid name of a chunk")
    return manifest


def _name(number: int) -> str:
    return f"{_FOLDER}/{number:010}.json"
