"""Values with schemas of a registry, in pages, filters and masks."""

from __future__ import annotations

import json
import socket
import urllib.parse
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from odradek.testing.registry.server import SchemaRegistry

from compat_tests.cli.commands import odradek_command
from compat_tests.console.process import ConsoleProcess, Visitor
from compat_tests.stopwatch import Stopwatch

_AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": name, "type": kind} for name, kind in (("number", "int"), ("buyer", "string"))]
    + [{"name": "password", "type": "string"}],
}
_DEADLINE_S = 60
#: A page with values of a registry that does not answer: it waits for one schema.
_PAGE_S = 6.0


def avro(client: SchemaRegistryClient, number: int, context: SerializationContext) -> bytes:
    written: bytes = AvroSerializer(client, json.dumps(_AVRO))(
        {"number": number, "buyer": "Ada", "password": "hunter2"}, context
    )
    return written


def protobuf(client: SchemaRegistryClient, number: int, context: SerializationContext) -> bytes:
    file = descriptor_pb2.FileDescriptorProto(name="order.proto", package="shop", syntax="proto3")
    order = file.message_type.add(name="Order")
    text = descriptor_pb2.FieldDescriptorProto.TYPE_STRING
    order.field.add(name="number", number=1, type=descriptor_pb2.FieldDescriptorProto.TYPE_INT32, label=1)
    order.field.add(name="buyer", number=2, type=text, label=1)
    order.field.add(name="password", number=3, type=text, label=1)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    kind = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))
    write = ProtobufSerializer(kind, client, {"use.deprecated.format": False})
    written: bytes = write(kind(number=number, buyer="Ada", password="hunter2"), context)
    return written


def json_schema(client: SchemaRegistryClient, number: int, context: SerializationContext) -> bytes:
    fields = {"number": {"type": "integer"}, "buyer": {"type": "string"}, "password": {"type": "string"}}
    schema = json.dumps({"title": "Order", "type": "object", "properties": fields})
    written: bytes = JSONSerializer(schema, client)({"number": number, "buyer": "Ada", "password": "hunter2"}, context)
    return written


def written(topic: str, values: list[bytes], bootstrap: str) -> None:
    assert odradek_command("topic", "create", topic, "--partitions", "1", "-b", bootstrap).status == 0
    producer = Producer({"bootstrap.servers": bootstrap})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(_DEADLINE_S) == 0


def test_schema_id_decides_how_each_value_is_decoded(
    console: ConsoleProcess, console_three: str, console_registry: SchemaRegistry
) -> None:
    """In one topic, without a format given; a value of no schema is hidden whole, since the console has masks."""
    client = SchemaRegistryClient({"url": console_registry.url})
    values = [
        write(client, number, SerializationContext(f"mixed-{number}", MessageField.VALUE))
        for number, write in enumerate((avro, protobuf, json_schema), 1)
    ]
    written("mixed", [*values, b"\x00\x00\x0f\x42\x40rest", b"\x00\x00"], console_three)
    visitor = Visitor(console.address)
    # The first page waits for the compiler of Protobuf, and shows what it has after a time.
    page = visitor.await_text("/topics/mixed/messages?where=%40.number%20%3E%200", "3 shown of 5 read")
    assert "hunter2" not in page
    assert all(f'"number": {number}' in page and '"buyer": "Ada"' in page for number in (1, 2, 3))
    forms = [visitor.get(f"/topics/mixed/messages/0/{offset}", HX_Request="true") for offset in range(5)]
    for kind, form in zip(("avro", "protobuf", "json"), forms, strict=False):
        assert f"{kind}, schema " in form
    assert all("hidden by masks" in form and "••••" in form and "0000" not in form for form in forms[3:])


def test_silent_registry_delays_a_page_once(console_three: str, tmp_path: Path) -> None:
    """Values have an id, and nothing answers at the registry's address."""
    written("unknown", [b"\x00\x00\x00\x00\x07rest"] * 40, console_three)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        console = ConsoleProcess(
            console_three, tmp_path, "--schema-registry", f"http://127.0.0.1:{silent.getsockname()[1]}"
        )
        try:
            visitor = Visitor(console.address)
            watch = Stopwatch()
            page = visitor.get("/topics/unknown/messages")
            assert "40 shown of 40 read" in page and "0000 0000 0772 6573 74" in page
            assert watch.seconds < _PAGE_S
            assert "no response from the schema registry" in visitor.get(
                "/topics/unknown/messages/0/0", HX_Request="true"
            )
        finally:
            console.stop()


@pytest.mark.parametrize("write", [avro, protobuf])
def test_values_with_schemas_are_decoded_filtered_and_masked(
    write: Callable[[SchemaRegistryClient, int, SerializationContext], bytes],
    console: ConsoleProcess,
    console_three: str,
    console_registry: SchemaRegistry,
) -> None:
    topic, form = f"coded-{write.__name__}", write.__name__
    assert odradek_command("topic", "create", topic, "--partitions", "1", "-b", console_three).status == 0
    client, context = (
        SchemaRegistryClient({"url": console_registry.url}),
        SerializationContext(topic, MessageField.VALUE),
    )
    producer = Producer({"bootstrap.servers": console_three})
    for number in (7, 8):
        producer.produce(topic, write(client, number, context))
    assert producer.flush(_DEADLINE_S) == 0
    visitor = Visitor(console.address)
    page = visitor.get(f"/topics/{topic}/messages?from=beginning&value_form={form}")
    assert '"number": 7' in page and '"buyer": "Ada"' in page and "2 shown of 2 read" in page
    assert "hunter2" not in page and "••••" in page
    where = urllib.parse.quote("@.number > 7")
    page = visitor.get(f"/topics/{topic}/messages?from=beginning&value_form={form}&where={where}")
    assert "1 shown of 2 read" in page and '"number": 8' in page and '"number": 7' not in page
    record = visitor.get(f"/topics/{topic}/messages/0/1?value_form={form}")
    assert '"number": 8' in record and "hunter2" not in record


def test_record_is_written_with_the_newest_schema_of_its_topic(
    console: ConsoleProcess, console_three: str, console_registry: SchemaRegistry
) -> None:
    assert odradek_command("topic", "create", "encoded", "-b", console_three).status == 0
    client = SchemaRegistryClient({"url": console_registry.url})
    avro(client, 1, SerializationContext("encoded", MessageField.VALUE))
    visitor = Visitor(console.address)
    value = '{"number": 7, "buyer": "Grace", "password": "hunter2"}'
    assert "at offset 0" in visitor.post("/topics/encoded/messages", value=value, value_form="avro")
    page = visitor.get("/topics/encoded/messages/0/0")
    assert "avro, schema" in page and "Grace" in page and "hunter2" not in page
    refused = visitor.post(
        "/topics/encoded/messages", "/topics/encoded/messages", value='{"number": "x"}', value_form="avro"
    )
    assert "number" in refused and "Written to" not in refused
    assert '<option value="avro">' in visitor.get("/topics/encoded/messages")
