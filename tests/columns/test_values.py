"""Typed values: what decodes is right, and what does not is in a table of its own with the reason."""

from __future__ import annotations

import json
import random
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import odradek
import pyarrow as pa
import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from odradek.columns import InvalidScan, SchemaRegistryUnavailable, ValueSchema, scan
from odradek.columns.json_decoder import JsonDecoder
from odradek.columns.protobuf_decoder import ProtobufDecoder
from odradek.columns.value_decoders import decoder_of
from odradek.protocol.records.record import Record

from compat_tests.cli.commands import odradek_command
from tests.columns.harness.logs import NOW_MS, GeneratedLog
from tests.harness.examples import examples

SCHEMA = pa.schema(
    [
        ("id", pa.int64()), ("name", pa.string()), ("amount", pa.float64()), ("ok", pa.bool_()),
        ("at", pa.timestamp("ms", tz="UTC")), ("tags", pa.list_(pa.int32())), ("item", pa.struct([("sku", pa.string())])),
        ("price", pa.decimal128(10, 2)),
    ]
)  # fmt: skip
ORDER_PROTO = """syntax = "proto3";
message Other { int32 x = 1; }
message Order { int64 id = 1; string name = 2; repeated string tags = 3; Item item = 4; }
message Item { string sku = 1; }
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"id": 1, "name": "a", "amount": 1.5, "ok": true}', {"id": 1, "name": "a", "amount": 1.5, "ok": True}),
        ("{}", {}),
        (' {"id":\n 1} ', {"id": 1}),
        ('{"id": "12", "name": 5, "amount": "1.5"}', {"id": 12, "name": "5", "amount": 1.5}),
        ('{"id": null, "unknown": [1]}', {}),
        ('{"tags": [1, null, 3], "item": {"sku": null}}', {"tags": [1, None, 3], "item": {"sku": None}}),
        ('{"price": 12.34, "at": "2024-01-02T03:04:05Z"}', {"price": "12.34", "at": "2024-01-02 03:04:05+00:00"}),
    ],
)
def test_json_that_fits_is_a_struct(text: str, expected: dict[str, Any]) -> None:
    found = JsonDecoder(pa.struct(list(SCHEMA))).decode(pa.array([text.encode(), b'{"id": 7}', None], pa.binary()))
    assert found.bad == []
    first, second, third = found.values.to_pylist()
    assert {
        key: str(one) if key in ("price", "at") else one for key, one in first.items() if one is not None
    } == expected
    assert second["id"] == 7 and third is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"not", "it is not JSON"),
        (b"", "it is not JSON"),
        (b'{"id": 1} {"id": 2}', "it is not JSON: Extra data"),
        (b'{"id": 1},{"id": 2}', "it is not JSON: Extra data"),
        (b'{"amount": NaN}', "NaN is not a number"),
        (b"\xff{}", "not UTF-8"),
        (b"[1]", "the value is a list, not an object"),
        (b'"a"', "the value is the text 'a', not an object"),
        (b'{"id": 1.5}', "id is 1.5, not int64"),
        (b'{"id": "x"}', "id is the text 'x', not int64"),
        (b'{"id": 99999999999999999999}', "id is 99999999999999999999, not int64"),
        (b'{"amount": {"a": 1}}', "amount is an object, not double"),
        (b'{"tags": [1, "b"]}', "tags[1] is the text 'b', not int32"),
        (b'{"tags": 5}', "tags is 5, not a list"),
        (b'{"item": 5}', "item is 5, not an object"),
        (b'{"at": "yesterday"}', "at is the text 'yesterday', not timestamp"),
    ],
)
def test_json_that_does_not_fit_has_a_reason_and_spoils_no_other_row(text: bytes, reason: str) -> None:
    decoder = JsonDecoder(pa.struct(list(SCHEMA)))
    found = decoder.decode(pa.array([b'{"id": 1}', text, b'{"id": 2}', b""], pa.binary()))
    assert found.bad == [1, 3] and reason in found.reasons[0]
    rows = found.values.to_pylist()
    assert [rows[0]["id"], rows[2]["id"]] == [1, 2] and rows[1] is None


@pytest.mark.parametrize("seed", range(examples(5)))
def test_random_json_equals_pythons_reading(seed: int) -> None:
    rng = random.Random(seed)
    kind = pa.struct([("a", pa.int64()), ("b", pa.list_(pa.float64())), ("c", pa.struct([("d", pa.string())]))])

    def value(level: int) -> Any:
        choices: list[Any] = [None, 1, -5, 2.25, "x", "7", True, [], {}]
        if level:
            choices += [[value(level - 1)], {key: value(level - 1) for key in rng.sample("abcd", 2)}] * 3
        return rng.choice(choices)

    made = [json.dumps(value(3)).encode() for _ in range(300)]
    found = JsonDecoder(kind).decode(pa.array(made, pa.binary()))
    for number, (text, row) in enumerate(zip(made, found.values.to_pylist(), strict=True)):
        parsed = json.loads(text)
        if number in found.bad or row is None:
            assert row is None and (number in found.bad or parsed is None)
            continue
        for key, type_of in (("a", int), ("b", list), ("c", dict)):
            if parsed.get(key) is None:
                assert row[key] is None
            else:
                assert isinstance(row[key], type_of)
        if isinstance(parsed.get("a"), int):
            assert row["a"] == parsed["a"]
        if isinstance(parsed.get("b"), list):
            assert row["b"] == [None if one is None else float(one) for one in parsed["b"]]
    fits = [b'{"a": 1}' in text or text == b"{}" for text in made]
    assert sum(fits) or found.bad


def test_scan_has_typed_values_and_the_others_with_their_reasons(tmp_path: Path) -> None:
    made = GeneratedLog(tmp_path, 1)
    values = [b'{"id": 1, "who": "a"}', b"broken", None, b'{"id": 2, "who": "b"}', b'{"id": "many"}']
    made.append([Record(number, NOW_MS, b"k%d" % number, value) for number, value in enumerate(values)])
    found = scan(
        made.topic_path, values=ValueSchema("json", pa.schema([("id", pa.int64())])), columns=["offset", "value"]
    )
    table = found.to_table()
    assert table.to_pylist() == [
        {"offset": 0, "value": {"id": 1}}, {"offset": 1, "value": None}, {"offset": 2, "value": None},
        {"offset": 3, "value": {"id": 2}}, {"offset": 4, "value": None},
    ]  # fmt: skip
    left = found.undecodable.to_pylist()
    assert [(one["offset"], one["key"], one["value"]) for one in left] == [(1, b"k1", b"broken"), (4, b"k4", values[4])]
    assert [one["reason"].partition(":")[0] for one in left] == ["it is not JSON", "id is the text 'many', not int64"]
    errors = found.select(["value_error"]).to_table().column(0).to_pylist()
    assert [one is not None for one in errors] == [False, True, False, False, True]
    assert {errors[1], errors[4]} == {one["reason"] for one in left}
    inferred = scan(made.topic_path, values="json")
    assert inferred.schema.field("value").type == pa.struct([("id", pa.string()), ("who", pa.string())])
    assert inferred.to_table().num_rows == inferred.count() == inferred.select(["offset"]).to_table().num_rows == 5
    with pytest.raises(InvalidScan, match="value_format is 'xml'"):
        scan(made.topic_path, values="xml")
    with pytest.raises(InvalidScan, match="avro values need a schema file or a schema registry"):
        scan(made.topic_path, values="avro")


@pytest.mark.usefixtures("processes")
def test_avro_and_protobuf_of_a_file(tmp_path: Path) -> None:
    import fastavro

    avsc = tmp_path / "order.avsc"
    schema = {
        "type": "record", "name": "Order", "fields": [
            {"name": "id", "type": "long"}, {"name": "name", "type": ["null", "string"]},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {"name": "tags", "type": {"type": "array", "items": "int"}},
        ],
    }  # fmt: skip
    avsc.write_text(json.dumps(schema))
    import io

    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), {"id": 3, "name": None, "at": NOW_MS, "tags": [1]})
    whole = out.getvalue()
    decoder = decoder_of(ValueSchema("avro", avsc), "t", lambda: pa.array([], pa.binary()))
    found = decoder.decode(pa.array([whole, whole[:-1], whole + b"x", b"", None], pa.binary()))
    assert found.bad == [1, 2, 3] and "1 bytes are left" in found.reasons[1]
    assert found.values[0].as_py()["id"] == 3 and found.values[0].as_py()["tags"] == [1]

    proto = tmp_path / "order.proto"
    proto.write_text(ORDER_PROTO)
    decoder = decoder_of(ValueSchema("protobuf", proto, message="Order"), "t", lambda: pa.array([], pa.binary()))
    good = bytes.fromhex("0805120161")
    found = decoder.decode(pa.array([good, b"\xff", good, None, b"\x0a\x05ab"], pa.binary()))
    assert isinstance(decoder, ProtobufDecoder) and found.bad == [1, 4] and all(found.reasons)
    found.values.validate(full=True)
    assert [one and (one["id"], one["name"]) for one in found.values.to_pylist()] == [
        (5, "a"),
        None,
        (5, "a"),
        None,
        None,
    ]


@pytest.fixture
def registered(sockets: None, tmp_path: Path) -> Iterator[tuple[odradek.Broker, Path, SchemaRegistryClient]]:
    with odradek.Broker(data_dir=tmp_path, schema_registry=True) as broker:
        yield broker, tmp_path, SchemaRegistryClient({"url": broker.schema_registry_url})


def send(broker: odradek.Broker, topic: str, values: list[bytes | None]) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for value in values:
        producer.produce(topic, value, partition=0)
    assert producer.flush(30) == 0


def avro_schema(*more: dict[str, Any]) -> str:
    fields = [{"name": "id", "type": "long"}, *more]
    return json.dumps({"type": "record", "name": "Order", "fields": fields})


def test_avro_of_a_registry_is_decoded_by_the_schema_of_each_value(registered: Any) -> None:
    broker, path, registry = registered
    old = AvroSerializer(registry, avro_schema())
    where = SerializationContext("orders", MessageField.VALUE)
    values = [old({"id": 1}, where)]
    new = AvroSerializer(registry, avro_schema({"name": "note", "type": "string", "default": "none"}))
    values += [new({"id": 2, "note": "n"}, where), b"unframed", b"\0\0\0\x7f\xff" + b"\x02", None]
    send(broker, "orders", values)
    found = scan(path / "orders", values=ValueSchema("avro", registry=broker.schema_registry_url), columns=["value"])
    assert found.to_table().column("value").to_pylist() == [
        {"id": 1, "note": "none"}, {"id": 2, "note": "n"}, None, None, None,
    ]  # fmt: skip
    reasons = found.undecodable.column("reason").to_pylist()
    assert "the schema id is missing" in reasons[0] and "404" in reasons[1]


class FailingRegistry:
    """A registry with the schemas 1 and 2, the first one the newest. It answers requests for the second with `status`, or
    closes the connection for None.
    """

    def __init__(self, kind: str, text: str) -> None:
        self.status: int | None = 200
        schema = {"schemaType": kind, "schema": text}
        responses = {"/subjects/orders-value/versions/latest": {**schema, "id": 1}}
        responses |= {f"/schemas/ids/{number}": schema for number in (1, 2)}
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                status = registry.status if self.path.endswith("/2") else 200 if self.path in responses else 404
                if status is None:
                    return
                body = json.dumps(responses.get(self.path, {})).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *words: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})

    def __enter__(self) -> FailingRegistry:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.mark.usefixtures("sockets", "processes")
@pytest.mark.parametrize("form", ["avro", "protobuf"])
def test_failure_of_the_registry_is_raised_and_a_missing_schema_spoils_its_row(form: str) -> None:
    """The value may decode when the registry is back: its row must not be taken for an undecodable one."""
    text, body = (avro_schema(), b"\x02") if form == "avro" else (ORDER_PROTO, b"\0\x08\x05")
    values = pa.array([b"\0" + number.to_bytes(4, "big") + body for number in (1, 2, 99)], pa.binary())
    with FailingRegistry(form.upper(), text) as registry:
        decoder = decoder_of(ValueSchema(form, registry=registry.url), "orders", lambda: values)
        for status, words in ((None, "no response from"), (401, "401"), (429, "429"), (503, "503")):
            registry.status = status
            with pytest.raises(SchemaRegistryUnavailable, match=words):
                decoder.decode(values)
        registry.status = 200
        found = decoder.decode(values)
        assert found.bad == [len(values) - 1], found.reasons
        assert "HTTP status 404" in found.reasons[0]


def test_query_says_that_the_registry_fails(sockets: None) -> None:
    with odradek.Broker() as broker, FailingRegistry("AVRO", avro_schema()) as registry:
        send(broker, "orders", [b"\0" + number.to_bytes(4, "big") + b"\x02" for number in (1, 2)])
        registry.status = 503
        options = ("--value-format", "avro", "--schema-registry", registry.url, "-b", broker.bootstrap_servers)
        done = odradek_command("query", "select * from orders", *options)
        assert done.status == 4 and done.out == ""
        assert done.err == "odradek: the schema registry returned HTTP status 503 for /schemas/ids/2\n"


@pytest.mark.usefixtures("sockets")
def test_registry_that_is_down_is_named_before_the_first_row() -> None:
    with socket.socket() as bound:  # refuses connections
        bound.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{bound.getsockname()[1]}"
    named = ValueSchema("avro", registry=url)
    with pytest.raises(SchemaRegistryUnavailable, match=f"no response from the schema registry at {url}"):
        decoder_of(named, "orders", lambda: pa.array([], pa.binary()))


def test_json_schema_of_a_registry_has_the_columns(registered: Any) -> None:
    broker, path, registry = registered
    schema = {
        "type": "object", "title": "Order",
        "properties": {"id": {"type": "integer"}, "tags": {"type": "array", "items": {"type": "number"}}, "x": {}},
    }  # fmt: skip
    serialize = JSONSerializer(json.dumps(schema), registry, lambda one, _: one)
    where = SerializationContext("orders", MessageField.VALUE)
    send(broker, "orders", [serialize({"id": 1, "tags": [1.5], "x": {"y": 2}}, where), b"{"])
    found = scan(path / "orders", values=ValueSchema("json", registry=broker.schema_registry_url), columns=["value"])
    assert found.to_table().column("value").to_pylist() == [{"id": 1, "tags": [1.5], "x": '{"y":2}'}, None]
    assert found.undecodable.num_rows == 1


@pytest.mark.usefixtures("processes")
def test_protobuf_of_a_registry_matches_fields_by_name(registered: Any) -> None:
    broker, path, registry = registered
    ids = [
        registry.register_schema("orders-value", Schema(text, "PROTOBUF"))
        for text in (ORDER_PROTO.replace(" repeated string tags = 3;", ""), ORDER_PROTO)
    ]
    frames = [b"\0" + one.to_bytes(4) + b"\x02\x02" for one in ids]  # one index, 1: the second message
    send(
        broker,
        "orders",
        [frames[0] + bytes.fromhex("0801"), frames[1] + bytes.fromhex("08021a0174"), frames[1] + b"\xff"],
    )
    named = ValueSchema("protobuf", registry=broker.schema_registry_url, message="Order")
    found = scan(path / "orders", values=named, columns=["value"])
    rows = found.to_table().column("value").to_pylist()
    assert [(one["id"], one["tags"]) for one in rows if one is not None] == [(1, None), (2, ["t"])]
    assert "decode" in found.undecodable.column("reason")[0].as_py()
