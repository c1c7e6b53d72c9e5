"""Tampered backups: names of chunks that lead out of the backup, FIFOs, and malformed manifests."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
from odradek.cli.backup.chunks import checked
from odradek.cli.backup.manifests import (
    Chunk,
    GroupOffsets,
    Manifest,
    Part,
    Quota,
    Topic,
    read_manifest,
    write_manifest,
)
from odradek.cli.backup.stores import FolderStore
from odradek.client.user_errors import UserError

DIGEST = hashlib.sha256(b"secret").hexdigest()


def chunk(name: str) -> Chunk:
    return Chunk(name, 0, 0, 1, 6, DIGEST)


def manifest(*chunks: Chunk) -> Manifest:
    part = Part(0, 0, 1, list(chunks))
    groups = [GroupOffsets("g", [("t", 0, 1, "")])]
    return Manifest(1, 1, "cluster", [Topic("t", "id", 1, {"a": "b"}, [part])], groups)


def tampered(store: FolderStore, change: Any) -> None:
    """Writes a manifest with a valid checksum, after `change` of its content."""
    data: Any = msgspec.to_builtins(manifest(chunk("data/0000000001/t-0/0.log")))
    changed = change(data)
    data = data if changed is None else changed
    body = json.dumps(data).encode()
    head = json.dumps({"sha256": hashlib.sha256(body).hexdigest()}).encode()
    store.write("manifests/0000000001.json", head + b"\n" + body + b"\n")


@pytest.fixture
def store(tmp_path: Path) -> FolderStore:
    (tmp_path / "outside").write_bytes(b"secret")
    (tmp_path / "backup").mkdir()
    return FolderStore(tmp_path / "backup")


def test_whole_manifest_is_read(store: FolderStore) -> None:
    whole = manifest(chunk("data/0000000001/t-0/00000000000000000000.log"))
    write_manifest(store, whole)
    assert read_manifest(store) == whole


@pytest.mark.parametrize(
    "name", ["../outside", "data/../../outside", "{}/outside", "/etc/passwd", "link", "up/outside"]
)
def test_chunk_outside_the_backup_is_refused(store: FolderStore, tmp_path: Path, name: str) -> None:
    (tmp_path / "backup" / "link").symlink_to(tmp_path / "outside")
    (tmp_path / "backup" / "up").symlink_to(tmp_path)
    name = name.format(tmp_path)
    with pytest.raises(UserError, match="outside the backup"):
        checked(store, chunk(name))
    if ".." in name or name.startswith("/"):
        write_manifest(store, manifest(chunk(name)))
        with pytest.raises(UserError, match=r"malformed: .* is not a valid name of a chunk"):
            read_manifest(store)


@pytest.mark.parametrize("kind", ["fifo", "folder"])
@pytest.mark.timeout(20)
def test_chunk_or_manifest_that_is_no_file_is_refused_at_once(store: FolderStore, tmp_path: Path, kind: str) -> None:
    make = os.mkfifo if kind == "fifo" else os.mkdir
    make(tmp_path / "backup" / "chunk.log")
    with pytest.raises(UserError, match=r"chunk\.log cannot be read"):
        checked(store, chunk("chunk.log"))
    (tmp_path / "backup" / "manifests").mkdir()
    make(tmp_path / "backup" / "manifests" / "0000000001.json")
    with pytest.raises(UserError):
        read_manifest(store)


@pytest.mark.parametrize(
    "change",
    [
        lambda data: [],
        lambda data: "text",
        lambda data: data.clear(),
        lambda data: data.update(topics=None),
        lambda data: data.update(topics=[{}]),
        lambda data: data.update(topics={"a": 1}),
        lambda data: data.update(format="2"),
        lambda data: data.update(number="1"),
        lambda data: data.update(time_ms=None),
        lambda data: data.update(groups=[{"group": "g", "offsets": [[]]}]),
        lambda data: data.update(groups=[{"group": "g", "offsets": [["t", "0", 1, ""]]}]),
        lambda data: data.update(groups=[1]),
        lambda data: data.update(settings={"rules": [{"unknown": 1}]}),
        lambda data: data.update(settings={"quotas": [{"entity": {"user": 1}, "values": {}}]}),
        lambda data: data.update(settings=[]),
        lambda data: data["topics"][0].update(configs=[]),
        lambda data: data["topics"][0].update(configs={"a": 1}),
        lambda data: data["topics"][0].update(replication_factor=True),
        lambda data: data["topics"][0]["parts"][0].update(start="0"),
        lambda data: data["topics"][0]["parts"][0].update(start=5),
        lambda data: data["topics"][0]["parts"][0].update(chunks=[{"file": "x"}]),
        lambda data: data["topics"][0]["parts"][0]["chunks"][0].update(file=7),
        lambda data: data["topics"][0]["parts"][0]["chunks"][0].update(more=7),
    ],
)
def test_malformed_manifest_with_a_valid_checksum_is_an_error_in_one_line(store: FolderStore, change: Any) -> None:
    tampered(store, change)
    with pytest.raises(UserError) as failed:
        read_manifest(store)
    assert "\n" not in str(failed.value)


def test_manifest_of_the_first_format_is_read(store: FolderStore) -> None:
    def as_first(data: Any) -> None:
        del data["settings"], data["share_groups"]
        data.update(format=1, groups=[{"group": "g", "offsets": [["t", 0, 1]]}])

    tampered(store, as_first)
    assert read_manifest(store).groups == [GroupOffsets("g", [("t", 0, 1, "")])]


def test_infinite_quota_is_written_and_read(store: FolderStore) -> None:
    whole = manifest(chunk("data/0000000001/t-0/0.log"))
    whole.settings.quotas = [Quota({"user": None}, {"controller_mutation_rate": float("inf")})]
    write_manifest(store, whole)
    assert read_manifest(store) == whole


def test_format_of_a_later_version_is_an_error(store: FolderStore) -> None:
    tampered(store, lambda data: data.update(format=3))
    with pytest.raises(UserError, match="has format 3, and this version reads up to 2"):
        read_manifest(store)


def test_deeply_nested_manifest_is_an_error(store: FolderStore) -> None:
    body = b"[" * 200_000
    head = json.dumps({"sha256": hashlib.sha256(body).hexdigest()}).encode()
    store.write("manifests/0000000001.json", head + b"\n" + body + b"\n")
    with pytest.raises(UserError, match="malformed"):
        read_manifest(store)
