"""Values with schemas of a registry, in pages, filters and masks."""

from __future__ import annotations

import json
import urllib.parse
from collections.abc import Callable

import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from odradek.testing.registry.server import SchemaRegistry

from compat_tests.cli.commands import odradek_command
from compat_tests.console.process import ConsoleProcess, Visitor

_AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": name, "type": kind} for name, kind in (("number", "int"), ("buyer", "string"))]
    + [{"name": "password", "type": "string"}],
}
_DEADLINE_S = 30


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
