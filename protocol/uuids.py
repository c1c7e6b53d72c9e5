"""UUIDs: sixteen raw bytes in memory and on the wire; where people read them, URL-safe base64 without padding."""

from __future__ import annotations

from base64 import b64decode, urlsafe_b64encode

UUID_BYTES = 16
#: No topic, no directory: what Kafka sends where an id is not set.
ZERO_UUID = bytes(UUID_BYTES)
#: The topic of the KRaft log, `__cluster_metadata` (KIP-595).
METADATA_TOPIC_ID = bytes(15) + b"\x01"
#: Directory ids that are words, not directories (KIP-858).
UNASSIGNED_DIRECTORY = ZERO_UUID
LOST_DIRECTORY = bytes(15) + b"\x01"
MIGRATING_DIRECTORY = bytes(15) + b"\x02"
#: Ids under this are kept for such words; Kafka never draws one of them for a topic or a directory.
RESERVED_UUIDS = 100


def uuid_to_text(uuid: bytes) -> str:
    """Twenty-two characters, as `org.apache.kafka.common.Uuid` prints them."""
    return urlsafe_b64encode(uuid).rstrip(b"=").decode("ascii")


def uuid_from_text(text: str) -> bytes:
    """The sixteen bytes that `text` stands for. Raises ValueError for anything that is not a UUID in Kafka's form."""
    if len(text) > 24 or "+" in text or "/" in text:
        raise ValueError(f"a UUID has 22 characters of URL-safe base64, not {text[:32]!r}")
    try:
        uuid = b64decode(text.rstrip("=") + "==", altchars=b"-_", validate=True)
    except ValueError as error:
        raise ValueError(f"not a UUID in URL-safe base64: {text!r} ({error})") from None
    if len(uuid) != UUID_BYTES:
        raise ValueError(f"a UUID has {UUID_BYTES} bytes, {text!r} has {len(uuid)}")
    return uuid


def is_reserved(uuid: bytes) -> bool:
    """Whether this is one of the ids that are never drawn for a topic or a directory; draw again."""
    return int.from_bytes(uuid, "big") < RESERVED_UUIDS
