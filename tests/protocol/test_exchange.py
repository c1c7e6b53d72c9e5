"""Exchange of random messages with Apache's generated classes in both directions, for every version of every message.

Bytes and values must be equal. `ODRADEK_EXCHANGES` sets the number of messages per version and direction.
"""

from __future__ import annotations

import base64
import math
import os
import random
from typing import Any

from odradek.protocol.apis import APIS
from odradek.protocol.codec import decode, encode, interpreted_decode, interpreted_encode
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.heartbeat import HeartbeatRequest
from odradek.protocol.schema import ArrayOf, Field, Message, Scalar, WireType
from odradek.protocol.uuids import uuid_to_text

from tests.protocol.codec_oracle import CodecOracle
from tests.protocol.random_messages import random_message
from tests.protocol.tables import OWN, messages, snake_case, specifications, versions
from tests.protocol.walk import walk

EXCHANGES = int(os.environ.get("ODRADEK_EXCHANGES", "6"))
NAMES = sorted(messages().keys() - OWN)


def test_apache_decodes_our_messages_and_encodes_same_bytes(codec_oracle: CodecOracle) -> None:
    def check(name: str) -> None:
        made, java_class = messages()[name], specifications()[name]["javaClass"]
        for version in versions(made):
            rng = random.Random(f"{name} {version}")
            for _ in range(EXCHANGES):
                ours = random_message(rng, made, version)
                data = encode(ours, version)
                echoed, values = codec_oracle.echo(java_class, version, data)
                assert echoed == data, f"v{version} {ours}"
                assert snake(values) == as_json(ours, version), f"v{version}"

    walk(NAMES, check)


def test_we_decode_apaches_messages_and_encode_same_bytes(codec_oracle: CodecOracle) -> None:
    def check(name: str) -> None:
        made, java_class = messages()[name], specifications()[name]["javaClass"]
        for version in versions(made):
            for seed in range(EXCHANGES):
                data, values = codec_oracle.random(java_class, version, seed)
                read, end = decode(made, version, data)
                assert end == len(data)
                assert as_json(read, version) == snake(values), f"v{version}"
                assert encode(read, version) == data, f"v{version} {read}"
                assert interpreted_decode(made, version, data) == (read, end)
                assert interpreted_encode(read, version) == data

    walk(NAMES, check)


def test_list_of_apis_equals_apaches(codec_oracle: CodecOracle) -> None:
    served = {shown["key"]: shown for shown in codec_oracle.apis() if shown["low"] <= shown["high"]}
    assert served.keys() == APIS.keys()
    for key, shown in served.items():
        api = APIS[key]
        low, high, stable = api.versions.low, api.versions.high, api.latest_stable_version
        assert (api.name, low, high, stable) == (shown["name"], shown["low"], shown["high"], shown["stable"])
        assert api.listeners == set(shown["listeners"])
        headers = [[api.request_header_version(v), api.response_header_version(v)] for v in range(low, high + 1)]
        assert headers == shown["headers"], api


def test_list_of_errors_equals_apaches(codec_oracle: CodecOracle) -> None:
    ours = [(int(error), error.name, error.retriable) for error in ErrorCode]
    assert ours == sorted(codec_oracle.errors())


def snake(value: Any) -> Any:
    """Converts the names in Apache's JSON to Odradek's."""
    if isinstance(value, dict):
        return {snake_case(key): snake(each) for key, each in value.items()}
    return [snake(each) for each in value] if isinstance(value, list) else value


def as_json(message: Message, version: int) -> dict[str, Any]:
    """Returns a message in the format of Apache's JSON converters: tagged fields only if not the default."""
    shown: dict[str, Any] = {}
    for field in message.SCHEMA.fields:
        value = getattr(message, field.name)
        if version not in field.versions or (is_tagged(field, version) and value == field.fresh_default()):
            continue
        shown[field.name] = value_as_json(value, field.type, version)
    return shown


def is_tagged(field: Field, version: int) -> bool:
    return field.tag is not None and version in field.tagged


def value_as_json(value: Any, kind: WireType, version: int) -> Any:
    if value is None:
        return None
    if isinstance(kind, ArrayOf):
        return [value_as_json(each, kind.element, version) for each in value]
    if not isinstance(kind, Scalar):
        return as_json(value, version)
    if isinstance(value, float) and math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if kind.name == "uuid":
        return uuid_to_text(value)
    if kind.name == "records":
        return ""  # Apache's JSON only lists them
    return base64.b64encode(value).decode() if kind.name == "bytes" else value


def test_invalid_utf8_decodes_as_in_apache(codec_oracle: CodecOracle) -> None:
    """Checks the U+FFFD count of a broken byte and of broken sequences, for all bytes that a client may send."""
    rng = random.Random(8)
    broken = [
        b"\xff",
        b"a\xffb",
        b"\xc3(",
        b"\xe2\x82",
        b"\xf0\x9f\x98",
        b"\x80\x80",
        b"\xf0\x9fx",
        b"\xc0\xaf",
        b"\xfe\xfe",
    ]
    broken += [bytes(rng.choice((0x41, 0x80, 0xBF, 0xC3, 0xE2, 0xF0, 0xFF)) for _ in range(6)) for _ in range(200)]
    for data in broken:
        frame = b"\x02g" + bytes(4) + bytes((len(data) + 1,)) + data + b"\0\0"
        read, _ = decode(HeartbeatRequest, 4, frame)
        echoed, values = codec_oracle.echo("org.apache.kafka.common.message.HeartbeatRequestData", 4, frame)
        assert read.member_id == values["memberId"], data
        assert encode(read, 4) == echoed
