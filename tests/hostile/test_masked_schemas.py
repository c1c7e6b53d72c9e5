"""Masks hold for values of Avro and Protobuf that are decoded with their schemas, whatever type the masked field has."""

from __future__ import annotations

import datetime
import io
import json
import random
import string
import struct
import urllib.request
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import fastavro
import odradek
import pytest
from odradek.admin.connection import Connection
from odradek.console.cluster.decoding import FORMS
from odradek.console.cluster.filters import filters
from odradek.console.cluster.masks import Masks
from odradek.console.cluster.query import Query
from odradek.console.cluster.records import RecordMaker

from tests.hostile.masked_records import DRESSES, MASKS, SecretRecord, dressed
from tests.hostile.shown_records import Message, everything_of, leaks

pytestmark = pytest.mark.usefixtures("sockets")

SEED = 7
_INNER = {"type": "record", "name": "Inner", "fields": [{"name": "x", "type": "string"}]}
#: Types of a field of Avro, and a value of each that has the secret.
AVRO: dict[str, tuple[Any, Callable[[str], Any]]] = {
    "text": ("string", str),
    "null or text": (["null", "string"], str),
    "bytes": ("bytes", str.encode),
    "fixed": ({"type": "fixed", "name": "F", "size": 32}, str.encode),
    "map": ({"type": "map", "values": "string"}, lambda secret: {"a": secret}),
    "name in a map": ({"type": "map", "values": "int"}, lambda secret: {secret: 1}),
    "list": ({"type": "array", "items": "string"}, lambda secret: ["a", secret]),
    "records": ({"type": "array", "items": _INNER}, lambda secret: [{"x": secret}]),
}


@pytest.fixture(scope="module")
def registry() -> Iterator[str]:
    with odradek.Broker(schema_registry=True) as broker:
        yield broker.schema_registry_url


def framed(registry: str, kind: str, schema: str, data: bytes) -> bytes:
    """A value behind the id of its schema."""
    body = json.dumps({"schema": schema, "schemaType": kind}).encode()
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{registry}/subjects/{kind}-{hash(schema)}/versions", body, headers)
    with urllib.request.urlopen(request) as response:
        return struct.pack(">bI", 0, json.load(response)["id"]) + data


def avro(registry: str, path: tuple[str, ...], kind: Any, value: Any) -> bytes:
    """A record of records with a field at the end of the path, beside fields of other types."""
    at = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    for number, name in enumerate(reversed(path)):
        others = [
            {"name": "id", "type": "long"},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 8, "scale": 2}},
        ]
        kind = {"type": "record", "name": f"R{number}", "fields": [*others, {"name": name, "type": kind}]}
        value = {"id": 7, "at": at, "price": Decimal("1.10"), name: value}
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(kind), value)
    return framed(registry, "AVRO", json.dumps(kind), out.getvalue())


def protobuf(registry: str, path: tuple[str, ...], kind: str, secret: str) -> bytes:
    """A message of messages with a field at the end of the path, of type string or bytes, once or repeated."""
    data, text, inner = secret.encode(), "", kind
    for number, name in enumerate(reversed(path)):
        text = f"message M{number} {{ int32 id = 1; {inner} {name} = 2; {text} }}"
        data, inner = bytes([8, 7, 2 << 3 | 2, len(data)]) + data, f"M{number}"
    return framed(registry, "PROTOBUF", f'syntax = "proto3"; {text}', b"\0" + data)


def leaks_of(registry: str, made: SecretRecord) -> list[str]:
    """Returns traces of the secret in records of all forms, and the forms whose filters find it."""
    maker = RecordMaker(Connection({}), Masks([made.mask]), registry)
    found = []
    for form in FORMS:
        record = maker.record(Message(made), Query("t", key_form=form, value_form=form))
        found += leaks(everything_of(record), made.secret)
        for search in (Query("t", value=made.secret), Query("t", where=f'$..[?@ == "{made.secret}"]')):
            found += [form for passes in filters(search) if passes(record, Message(made))]
    return found


def secret_of(rng: random.Random) -> str:
    return "S3C" + "".join(rng.choices(string.ascii_letters + string.digits, k=29))


@pytest.mark.parametrize("mask", sorted(MASKS))
def test_masked_field_of_avro_is_hidden_in_keys_and_values(registry: str, mask: str) -> None:
    rng = random.Random(SEED)
    for name, (kind, value_of) in AVRO.items():
        secret = secret_of(rng)
        data = avro(registry, MASKS[mask], kind, value_of(secret))
        assert leaks_of(registry, SecretRecord(mask, secret, name, key=b"k", value=data)) == [], name
        assert leaks_of(registry, SecretRecord(mask, secret, name, key=data, value=b"{}")) == [], name


@pytest.mark.usefixtures("processes")  # protoc
@pytest.mark.parametrize("mask", sorted(MASKS))
@pytest.mark.parametrize("kind", ["string", "bytes", "repeated string", "optional bytes"])
def test_masked_field_of_protobuf_is_hidden_in_keys_and_values(registry: str, mask: str, kind: str) -> None:
    secret = secret_of(random.Random(SEED))
    data = protobuf(registry, MASKS[mask], kind, secret)
    assert leaks_of(registry, SecretRecord(mask, secret, kind, key=b"k", value=data)) == []
    assert leaks_of(registry, SecretRecord(mask, secret, kind, key=data, value=b"{}")) == []


@pytest.mark.parametrize("dress", sorted(DRESSES))
def test_document_in_a_text_of_avro_is_masked(registry: str, dress: str) -> None:
    rng = random.Random(SEED)
    for mask in MASKS:
        secret, data = dressed(rng, mask, dress)
        text = data.decode(errors="replace")
        if text.encode() != data:
            continue
        value = avro(registry, ("payload",), "string", text)
        assert leaks_of(registry, SecretRecord(mask, secret, dress, key=b"k", value=value)) == [], mask
