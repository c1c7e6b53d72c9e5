"""`meta.properties`: whose log directory this is (version 1, KIP-631 and KIP-858)."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from ...protocol.uuids import uuid_from_text, uuid_to_text
from .failures import LogDirectoryFailure
from .segment_files import LOG_SUFFIX
from .writes import read_if_exists, write_atomically

META_PROPERTIES = "meta.properties"
_A_LOG = re.compile(r"[a-zA-Z0-9._-]+-\d+")
VERSION = 1


class InvalidMetaProperties(Exception):
    """The file has an invalid value, or contradicts the other directories of the broker."""


@dataclass(slots=True, frozen=True)
class MetaProperties:
    """`directory_id`: 16 bytes, None where an older broker has written the file."""

    cluster_id: str
    node_id: int
    directory_id: bytes | None


def encode_meta_properties(properties: MetaProperties) -> bytes:
    values = {"cluster.id": properties.cluster_id, "version": str(VERSION), "node.id": str(properties.node_id)}
    if properties.directory_id is not None:
        values["directory.id"] = uuid_to_text(properties.directory_id)
    return "".join(("#\n", *(f"{key}={value}\n" for key, value in values.items()))).encode()


def decode_meta_properties(content: bytes) -> MetaProperties:
    """Raises InvalidMetaProperties."""
    lines = (line.strip() for line in content.decode(errors="replace").splitlines())
    pairs = (line.replace("\\", "").partition("=") for line in lines if line and line[0] not in "#!")
    values = {key.strip(): value.strip() for key, _, value in pairs}
    # Version 0 is ZooKeeper's, with `broker.id`; the file may still be there after a migration.
    if values.get("version", "0") not in ("0", str(VERSION)):
        raise InvalidMetaProperties(f"version {values['version']} is not known")
    try:
        node_id = int(values["node.id" if "node.id" in values or "broker.id" not in values else "broker.id"])
        directory_id = uuid_from_text(values["directory.id"]) if "directory.id" in values else None
        return MetaProperties(values["cluster.id"], node_id, directory_id)
    except KeyError as error:
        raise InvalidMetaProperties(f"no {error.args[0]}") from None
    except ValueError as error:
        raise InvalidMetaProperties(str(error)) from None


def read_meta_properties(directory: str) -> MetaProperties | None:
    """None when the directory is not formatted. Raises InvalidMetaProperties, LogDirectoryFailure."""
    path = f"{directory}/{META_PROPERTIES}"
    try:
        content = read_if_exists(path)
    except IsADirectoryError:
        raise InvalidMetaProperties(f"{path}: a directory; {_advice(directory)}") from None
    except OSError as error:
        raise LogDirectoryFailure(directory, f"reading {path}", error) from error
    try:
        return None if content is None else decode_meta_properties(content)
    except InvalidMetaProperties as error:
        raise InvalidMetaProperties(f"{path}: {error}; {_advice(directory)}") from None


def check_unused(directory: str) -> None:
    """Formatting a directory that has data would give it to another cluster. Raises InvalidMetaProperties, OSError."""
    try:
        with os.scandir(directory) as entries:
            used = [entry.name for entry in entries if _A_LOG.fullmatch(entry.name) and entry.is_dir()]
    except FileNotFoundError:
        return
    # Formatting writes this file last: a directory with nothing but the voters of a new cluster is not formatted yet.
    used = [name for name in used if any(one.endswith(LOG_SUFFIX) for one in os.listdir(f"{directory}/{name}"))]
    if used:
        raise InvalidMetaProperties(
            f"{directory}/{META_PROPERTIES}: missing, and the directory has data ({min(used)}); {_advice(directory)}"
        )


def _advice(directory: str) -> str:
    return f"restore the file, or rewrite it with `odradek repair --data-dir {directory}`"


def write_meta_properties(directory: str, properties: MetaProperties) -> None:
    """Raises LogDirectoryFailure."""
    try:
        write_atomically(f"{directory}/{META_PROPERTIES}", encode_meta_properties(properties))
    except OSError as error:
        raise LogDirectoryFailure(directory, f"writing {META_PROPERTIES}", error) from error
