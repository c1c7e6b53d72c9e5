"""Avro, Protobuf and JSON values, decoded and encoded with a local schema or a registry's schema."""

from __future__ import annotations

import io
import json
import struct
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from unittest.mock import patch

import fastavro
import pytest
from odradek.admin.connection import Connection
from odradek.client.user_errors import Misused, UserError
from odradek.records.content_decoder import decoder
from odradek.records.content_encoder import encoder
from odradek.records.formats import Coding, Form
from odradek.records.protobuf_decoding import _compiled, _pool, message_of_value
from odradek.records.schema_registry import SchemaRegistry

AMOUNT = {"type": "record", "name": "Amount", "fields": [{"name": "cents", "type": "long"}]}
ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "string"}, {"name": "amount", "type": "Amount"}],
}
PROTO = """syntax = "proto3"; package shop; import "money.proto"; import "google/protobuf/timestamp.proto";
message Other { string name = 1; }
message Order { string id = 1; Money price = 2; message Line { int32 count = 1; } google.protobuf.Timestamp at = 3; }
"""
MONEY = 'syntax = "proto3"; package shop; message Money { int64 cents = 1; }'


class Registry(BaseHTTPRequestHandler):
    responses: dict[str, Any] = {
        "/schemas/ids/1": {
            "schema": json.dumps(ORDER),
            "references": [{"name": "Amount", "subject": "amount", "version": 2}],
        },
        "/subjects/amount/versions/2": {"schema": json.dumps(AMOUNT)},
        "/schemas/ids/2": {
            "schemaType": "PROTOBUF",
            "schema": PROTO,
            "references": [{"name": "money.proto", "subject": "money", "version": 1}],
        },
        "/schemas/ids/3": {"schemaType": "PROTOBUF", "schema": "message {"},
        "/subjects/money/versions/1": {"schemaType": "PROTOBUF", "schema": MONEY},
    }
    responses["/subjects/avro-value/versions/latest"] = {"id": 1, **responses["/schemas/ids/1"]}
    responses["/subjects/protobuf-value/versions/latest"] = {"id": 2, **responses["/schemas/ids/2"]}

    def do_GET(self) -> None:
        response = self.responses.get(self.path)
        self.send_response(200 if response else 404)
        self.end_headers()
        self.wfile.write(json.dumps(response or {"error_code": 40403}).encode())

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture(scope="module")
def registry(sockets: None) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Registry)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def avro(schema: Any, content: Any, **named: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema, named_schemas=named), content)
    return out.getvalue()


def order() -> bytes:
    named: dict[str, Any] = {}
    fastavro.parse_schema(AMOUNT, named_schemas=named)
    return avro(ORDER, {"id": "a", "amount": {"cents": 5}}, **named)


def decoded(coding: Coding, data: bytes | None) -> Any:
    made = decoder(coding, Connection({}))
    assert made is not None
    return made(data, "orders")


def framed(schema_id: int, data: bytes) -> bytes:
    return b"\0" + struct.pack(">I", schema_id) + data


def test_avro_is_decoded_by_a_registry_with_references(registry: str) -> None:
    assert decoded(Coding(Form.avro, registry), framed(1, order())) == {"id": "a", "amount": {"cents": 5}}
    assert decoded(Coding(Form.avro, registry), None) is None


def test_avro_is_decoded_by_a_file(tmp_path: Path) -> None:
    (tmp_path / "amount.avsc").write_text(json.dumps(AMOUNT))
    assert decoded(Coding(Form.avro, schema=tmp_path / "amount.avsc"), avro(AMOUNT, {"cents": -1})) == {"cents": -1}


def protobuf_order() -> bytes:
    from google.protobuf import message_factory

    pool, _ = _pool(_compiled("order.proto", {"order.proto": PROTO, "money.proto": MONEY}))
    made = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))()
    made.id, made.price.cents = "a", 5
    made.at.seconds = 0
    return bytes(made.SerializeToString())


ORDER_AS_JSON = {"id": "a", "price": {"cents": "5"}, "at": "1970-01-01T00:00:00Z"}


@pytest.mark.usefixtures("processes")
def test_protobuf_is_decoded_by_a_registry_and_its_message_index(registry: str) -> None:
    coding = Coding(Form.protobuf, registry)
    assert decoded(coding, framed(2, b"\x02\x02" + protobuf_order())) == ORDER_AS_JSON
    assert decoded(coding, framed(2, b"\x00" + b"\x0a\x01x")) == {"name": "x"}
    assert decoded(coding, framed(2, b"\x04\x02\x00" + b"\x08\x07")) == {"count": 7}


@pytest.mark.usefixtures("processes")
def test_schemas_are_compiled_once_for_all_records_good_or_bad(registry: str) -> None:
    message_of = message_of_value(SchemaRegistry(registry))
    with patch.object(subprocess, "run", side_effect=subprocess.run) as run:
        for _ in range(3):
            assert message_of(framed(2, b"\x00rest"))[1] == b"rest"
            assert message_of(framed(2, b"\x02\x02rest"))[0].name == "Order"
            with pytest.raises(ValueError, match="its message index names no message"):
                message_of(framed(2, b"\x02\x0e"))
        assert run.call_count == 1
        for _ in range(3):
            with pytest.raises(Misused, match="is not a Protobuf schema"):
                message_of(framed(3, b"\x00"))
            with pytest.raises(ValueError, match="its schema is AVRO"):
                message_of(framed(1, b"\x00"))
        assert run.call_count == 2


@pytest.mark.usefixtures("processes")
def test_protobuf_is_decoded_by_proto_files_and_descriptor_sets(tmp_path: Path) -> None:
    (tmp_path / "order.proto").write_text(PROTO)
    (tmp_path / "money.proto").write_text(MONEY)
    for name in ("Order", "shop.Order"):
        found = decoded(Coding(Form.protobuf, schema=tmp_path / "order.proto", message=name), protobuf_order())
        assert found == ORDER_AS_JSON
    files = _compiled("order.proto", {"order.proto": PROTO, "money.proto": MONEY})
    (tmp_path / "order.desc").write_bytes(files.SerializeToString())
    assert decoded(Coding(Form.protobuf, schema=tmp_path / "order.desc"), b"\x0a\x01x") == {"name": "x"}


def test_plain_forms_are_decoded(registry: str) -> None:
    for form, data, value in (
        (Form.json, b'{"a":1}', {"a": 1}),
        (Form.json, framed(9, b"[1]"), [1]),
        (Form.hex, b"\xff\x00", "ff00"),
        (Form.base64, b"\xff\x00", "/wA="),
        (Form.int32, b"\xff\xff\xff\xfe", -2),
        (Form.int64, b"\0" * 7 + b"\x05", 5),
        (Form.double, struct.pack(">d", 0.5), 0.5),
    ):
        assert decoded(Coding(form), data) == value


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(
    ("form", "data", "words"),
    [
        (Form.avro, b"no frame", "the schema id is missing"),
        (Form.avro, framed(99, b""), "404"),
        (Form.avro, framed(1, b"\xff"), "is not avro"),
        (Form.protobuf, framed(2, b"\x02\x63"), "names no message"),
        (Form.protobuf, framed(2, b"\xff" * 20), "damaged"),
        (Form.protobuf, framed(2, b"\x00\xff\xff\xff"), "is not protobuf"),
        (Form.protobuf, framed(1, b"\x00"), "AVRO"),
    ],
)
def test_bytes_of_another_form_are_explained(registry: str, form: Form, data: bytes, words: str) -> None:
    with pytest.raises(UserError, match=words):
        decoded(Coding(form, registry), data)


@pytest.mark.usefixtures("processes")
def test_schemas_that_are_none_are_explained(tmp_path: Path) -> None:
    (tmp_path / "bad.avsc").write_text("{")
    (tmp_path / "bad.proto").write_text("message {")
    (tmp_path / "bad.desc").write_bytes(b"\xff\xff")
    for form, name in ((Form.avro, "bad.avsc"), (Form.protobuf, "bad.proto"), (Form.protobuf, "bad.desc")):
        with pytest.raises(Misused, match=name):
            decoder(Coding(form, schema=tmp_path / name), Connection({}))
    with pytest.raises(Misused, match="not both"):
        decoder(Coding(Form.avro), Connection({}))
    with pytest.raises(Misused, match="http://"):
        decoder(Coding(Form.avro, "file:///etc/passwd"), Connection({}))


def encoded(coding: Coding, text: str, subject: str = "") -> bytes:
    made = encoder(coding, Connection({}), subject)
    assert made is not None
    return made(text.encode())


def test_avro_is_encoded_by_a_registry_and_by_a_file(registry: str, tmp_path: Path) -> None:
    text = '{"id": "a", "amount": {"cents": 5}}'
    assert encoded(Coding(Form.avro, registry), text, "avro-value") == framed(1, order())
    (tmp_path / "amount.avsc").write_text(json.dumps(AMOUNT))
    in_file = Coding(Form.avro, schema=tmp_path / "amount.avsc")
    assert encoded(in_file, '{"cents": -1}') == avro(AMOUNT, {"cents": -1})
    for wrong in ('{"cents": "many"}', "{}", "no JSON"):
        with pytest.raises(UserError, match="is not avro"):
            encoded(in_file, wrong)
    with pytest.raises(Misused, match="PROTOBUF, not AVRO"):
        encoded(Coding(Form.avro, registry), text, "protobuf-value")
    with pytest.raises(UserError, match="404"):
        encoded(Coding(Form.avro, registry), text, "absent-value")


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(
    ("message", "text", "path"),
    [
        ("shop.Order", '{"id": "a", "price": {"cents": "5"}}', b"\2\2"),
        ("Order.Line", '{"count": 3}', b"\4\2\0"),
        (None, '{"name": "n"}', b"\0"),
    ],
)
def test_protobuf_is_encoded_with_the_place_of_its_message(
    registry: str, message: str | None, text: str, path: bytes
) -> None:
    coding = Coding(Form.protobuf, registry, message=message)
    made = encoded(coding, text, "protobuf-value")
    assert made[:5] == b"\0\0\0\0\2" and made[5:].startswith(path)
    assert decoded(coding, made) == json.loads(text)
    with pytest.raises(UserError, match="is not protobuf"):
        encoded(coding, '{"unknown": 1}', "protobuf-value")


@pytest.mark.parametrize("text", ["NaN", "[1, -Infinity]", "{", '{"a": 1} 2'])
def test_text_that_is_not_json_is_not_encoded(text: str, tmp_path: Path) -> None:
    (tmp_path / "double.avsc").write_text('"double"')
    for coding in (Coding(Form.json), Coding(Form.avro, schema=tmp_path / "double.avsc")):
        made = encoder(coding, Connection({}), "orders-value")
        assert made is not None
        with pytest.raises(UserError, match=rf"is not {coding.form}: "):
            made(text.encode())


@pytest.mark.parametrize(
    ("form", "text", "data"),
    [
        (Form.json, '{"a": 1}', b'{"a": 1}'),
        (Form.hex, "00ff", b"\0\xff"),
        (Form.base64, "AP8=", b"\0\xff"),
        (Form.int32, "-2", struct.pack(">i", -2)),
        (Form.int64, "7", struct.pack(">q", 7)),
        (Form.double, "1.5", struct.pack(">d", 1.5)),
    ],
)
def test_plain_formats_are_encoded(form: Form, text: str, data: bytes) -> None:
    assert encoded(Coding(form), text) == data
    with pytest.raises(UserError, match=f"is not {form}"):
        encoded(Coding(form), "?")
