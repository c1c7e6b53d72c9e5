"""UUIDs: sixteen raw bytes in memory and on the wire; in text, URL-safe base64 without padding."""

from __future__ import annotations

from base64 import b64decode, urlsafe_b64encode

UUID_BYTES = 16
#: No topic, no directory: the value of an unset id.
ZERO_UUID = bytes(UUID_BYTES)
#: The topic of the KRaft log, `__cluster_metadata` (KIP-595).
METADATA_TOPIC_ID = bytes(15) + b"\x01"
#: `Uuid.RESERVED` of Apache Kafka: no topic has one of these.
RESERVED_UUIDS = frozenset({ZERO_UUID, METADATA_TOPIC_ID})


def uuid_to_text(uuid: bytes) -> str:
    """Returns twenty-two characters, in the format of `org.apache.kafka.common.Uuid`."""
    return urlsafe_b64encode(uuid).rstrip(b"=").decode("ascii")


def uuid_from_text(text: str) -> bytes:
    """Parses a UUID in Kafka's format into sixteen bytes. Raises ValueError for other texts."""
    if len(text) > 24 or "+" in text or "/" in text:
        raise ValueError(f"a UUID has 22 characters of URL-safe base64, not {text[:32]!r}")
    try:
        uuid = b64decode(text.rstrip("=") + "==", altchars=b"-_", validate=True)
    except ValueError as error:
        raise ValueError(f"not a UUID in URL-safe base64: {text!r} ({error})") from None
    if len(uuid) != UUID_BYTES:
        raise ValueError(f"a UUID has {UUID_BYTES} bytes, {text!r} has {len(uuid)}")
    return uuid
