"""The embedded schema registry, through the serialisers of confluent-kafka and over HTTP."""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import odradek
import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient, SchemaRegistryError
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from odradek.testing.registry.server import SchemaRegistry

from tests.testing.sample_schemas import ORDER_AVRO, ORDER_JSON, order_file

pytestmark = pytest.mark.usefixtures("sockets")

VALUE = SerializationContext("orders", MessageField.VALUE)
Ask = Callable[..., tuple[int, Any]]


@pytest.fixture(scope="module")
def running() -> Iterator[odradek.Broker]:
    with odradek.Broker(schema_registry=True) as started:
        yield started


@pytest.fixture
def broker(running: odradek.Broker) -> odradek.Broker:
    running.reset()
    return running


@pytest.fixture
def client(broker: odradek.Broker) -> SchemaRegistryClient:
    return SchemaRegistryClient({"url": broker.schema_registry_url})


@pytest.fixture
def ask(broker: odradek.Broker) -> Ask:
    """Returns a function that sends a request and returns the status and the response."""

    def ask(method: str, path: str, body: Any = None) -> tuple[int, Any]:
        data = json.dumps(body).encode() if body is not None else None
        headers = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
        request = urllib.request.Request(broker.schema_registry_url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30) as response:
                return response.status, json.loads(response.read())
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())

    return ask


def _through_the_broker(broker: odradek.Broker, value: bytes) -> bytes:
    """Produces and consumes a record. Returns its value."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    producer.produce("orders", value)
    assert producer.flush(30) == 0
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap_servers, "group.id": "billing", "auto.offset.reset": "earliest"}
    )
    try:
        consumer.subscribe(["orders"])
        (message,) = consumer.consume(1, timeout=30)
        found: bytes = message.value()
        return found
    finally:
        consumer.close()


def test_avro_values_pass(broker: odradek.Broker, client: SchemaRegistryClient) -> None:
    value = AvroSerializer(client, json.dumps(ORDER_AVRO))({"number": 7, "buyer": "Ada"}, VALUE)
    assert AvroDeserializer(client)(_through_the_broker(broker, value), VALUE) == {"number": 7, "buyer": "Ada"}
    assert client.get_latest_version("orders-value").version == 1


def test_json_values_pass(broker: odradek.Broker, client: SchemaRegistryClient) -> None:
    value = JSONSerializer(json.dumps(ORDER_JSON), client)({"number": 7, "buyer": "Ada"}, VALUE)
    read = JSONDeserializer(None, schema_registry_client=client)
    assert read(_through_the_broker(broker, value), VALUE) == {"number": 7, "buyer": "Ada"}
    assert client.get_latest_version("orders-value").schema.schema_type == "JSON"


def test_protobuf_values_pass(broker: odradek.Broker, client: SchemaRegistryClient) -> None:
    pool = descriptor_pool.DescriptorPool()
    pool.Add(order_file())
    Order = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))
    write = ProtobufSerializer(Order, client, {"use.deprecated.format": False})
    value = write(Order(number=7, buyer="Ada", prices={"net": 5}), VALUE)
    read = ProtobufDeserializer(Order, {"use.deprecated.format": False}, client)
    found = read(_through_the_broker(broker, value), VALUE)
    assert (found.number, found.buyer, dict(found.prices)) == (7, "Ada", {"net": 5})


def test_protobuf_descriptor_has_the_id_of_its_text(client: SchemaRegistryClient) -> None:
    shown = base64.b64encode(order_file().SerializeToString()).decode()
    schema_id = client.register_schema("orders-value", Schema(shown, "PROTOBUF"))
    text = client.get_latest_version("orders-value").schema.schema_str
    assert "message Order" in text and "map<string, int32> prices = 3;" in text
    assert client.register_schema("other-value", Schema(text, "PROTOBUF")) == schema_id
    serialized = client.get_version("other-value", 1, fmt="serialized").schema.schema_str
    assert descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(serialized)).package == "shop"


@pytest.mark.usefixtures("processes")
def test_references_of_each_kind(client: SchemaRegistryClient) -> None:
    buyer = {"type": "record", "name": "shop.Buyer", "fields": [{"name": "name", "type": "string"}]}
    client.register_schema("avro-buyer", Schema(json.dumps(buyer), "AVRO"))
    order = {"type": "record", "name": "shop.Sale", "fields": [{"name": "buyer", "type": "shop.Buyer"}]}
    reference = [SchemaReference("shop.Buyer", "avro-buyer", 1)]
    client.register_schema("avro-order", Schema(json.dumps(order), "AVRO", reference))
    assert client.get_latest_version("avro-order").schema.references == reference

    client.register_schema("json-buyer", Schema('{"type": "object"}', "JSON"))
    sale = {"type": "object", "properties": {"buyer": {"$ref": "buyer.json"}}}
    reference = [SchemaReference("buyer.json", "json-buyer", 1)]
    client.register_schema("json-order", Schema(json.dumps(sale), "JSON", reference))

    text = 'syntax = "proto3"; package shop; message Buyer { string name = 1; }'
    client.register_schema("proto-buyer", Schema(text, "PROTOBUF"))
    text = 'syntax = "proto3"; package shop; import "buyer.proto"; message Sale { Buyer buyer = 1; }'
    reference = [SchemaReference("buyer.proto", "proto-buyer", 1)]
    client.register_schema("proto-order", Schema(text, "PROTOBUF", reference))
    with pytest.raises(SchemaRegistryError, match=r"buyer\.proto") as caught:
        client.register_schema("proto-order-2", Schema(text, "PROTOBUF"))
    assert caught.value.error_code == 42201


def test_versions_and_ids(client: SchemaRegistryClient, ask: Ask) -> None:
    first = client.register_schema("a", Schema('"string"', "AVRO"))
    assert client.register_schema("a", Schema('{"type": "string"}', "AVRO")) == first  # the same schema again
    assert client.register_schema("b", Schema('"string"', "AVRO")) == first
    assert ask("PUT", "/config/a", {"compatibility": "none"}) == (200, {"compatibility": "NONE"})
    second = client.register_schema("a", Schema('"int"', "AVRO"))
    assert second == first + 1 and client.get_versions("a") == [1, 2]
    assert client.get_subjects() == ["a", "b"]
    assert client.lookup_schema("a", Schema('"int"', "AVRO")).version == 2
    assert ask("GET", f"/schemas/ids/{first}/versions") == (
        200,
        [{"subject": "a", "version": 1}, {"subject": "b", "version": 1}],
    )
    assert ask("GET", f"/schemas/ids/{second}") == (200, {"schema": '"int"'})
    assert ask("GET", "/subjects/a/versions/latest")[1]["id"] == second
    guid = ask("GET", "/subjects/a/versions/2")[1]["guid"]
    assert client.get_schema_by_guid(guid).schema_str == '"int"'


def test_deleting_is_soft_then_permanent(client: SchemaRegistryClient, ask: Ask) -> None:
    schema_id = client.register_schema("a", Schema('"string"', "AVRO"))
    assert ask("DELETE", "/subjects/a?permanent=true")[1]["error_code"] == 40405
    assert ask("DELETE", "/subjects/a/versions/1?permanent=true")[1]["error_code"] == 40407
    assert ask("DELETE", "/subjects/a") == (200, [1])
    assert ask("DELETE", "/subjects/a")[1]["error_code"] == 40404
    assert ask("GET", "/subjects") == (200, []) and ask("GET", "/subjects?deleted=true") == (200, ["a"])
    assert ask("GET", f"/schemas/ids/{schema_id}") == (200, {"schema": '"string"'})  # records still use it
    assert ask("POST", "/subjects/a/versions", {"schema": '"string"'})[1]["id"] == schema_id
    assert ask("GET", "/subjects/a/versions") == (200, [2])
    assert ask("DELETE", "/subjects/a/versions/2") == (200, 2)
    assert ask("DELETE", "/subjects/a/versions/2")[1]["error_code"] == 40406
    assert ask("DELETE", "/subjects/a/versions/2?permanent=true") == (200, 2)
    assert ask("DELETE", "/subjects/a?permanent=true") == (200, [1])
    assert ask("GET", "/subjects?deleted=true") == (200, [])


def test_referenced_versions_stay(client: SchemaRegistryClient, ask: Ask) -> None:
    client.register_schema("buyer", Schema('{"type": "fixed", "name": "B", "size": 1}', "AVRO"))
    order = Schema('{"type": "array", "items": "B"}', "AVRO", [SchemaReference("B", "buyer", 1)])
    schema_id = client.register_schema("order", order)
    assert ask("GET", "/subjects/buyer/versions/1/referencedby") == (200, [schema_id])
    assert ask("DELETE", "/subjects/buyer")[1]["error_code"] == 42206


def test_errors_have_the_codes_of_confluent(client: SchemaRegistryClient, ask: Ask) -> None:
    schema_id = client.register_schema("a", Schema('"string"', "AVRO"))
    assert schema_id == 1
    for method, path, body, status, code in (
        ("GET", "/subjects/none/versions", None, 404, 40401),
        ("GET", "/subjects/a/versions/9", None, 404, 40402),
        ("GET", "/schemas/ids/9", None, 404, 40403),
        ("POST", "/subjects/a", {"schema": '"int"'}, 404, 40403),
        ("GET", "/config/a", None, 404, 40408),
        ("GET", "/mode/a", None, 404, 40409),
        ("POST", "/subjects/a/versions", {"schema": "{"}, 422, 42201),
        ("POST", "/subjects/a/versions", {"schema": '"x"', "schemaType": "XML"}, 422, 42201),
        ("POST", "/subjects/a/versions", {"schema": "mess", "schemaType": "PROTOBUF"}, 422, 42201),
        ("POST", "/subjects/a/versions", {"schema": '{"type": 1}', "schemaType": "JSON"}, 422, 42201),
        ("GET", "/subjects/a/versions/x", None, 422, 42202),
        ("PUT", "/config", {"compatibility": "some"}, 422, 42203),
        ("PUT", "/mode", {"mode": "some"}, 422, 42204),
        ("POST", "/subjects/a/versions", {"schema": '"int"', "id": 7}, 422, 42205),
        ("POST", "/subjects/a/versions", {"schema": '"int"'}, 409, 409),
        ("GET", "/nothing", None, 404, 404),
        ("PUT", "/subjects", {}, 405, 405),
    ):
        response = ask(method, path, body)
        assert (response[0], response[1]["error_code"]) == (status, code), (method, path, response)


def test_modes(client: SchemaRegistryClient, ask: Ask) -> None:
    assert ask("PUT", "/mode/a", {"mode": "READONLY"}) == (200, {"mode": "READONLY"})
    assert ask("POST", "/subjects/a/versions", {"schema": '"int"'})[1]["error_code"] == 42205
    assert ask("PUT", "/mode/a", {"mode": "IMPORT"})[0] == 200
    assert ask("POST", "/subjects/a/versions", {"schema": '"int"', "id": 70, "version": 3})[1]["id"] == 70
    assert ask("DELETE", "/mode/a") == (200, {"mode": "IMPORT"})
    assert ask("GET", "/subjects/a/versions") == (200, [3])
    assert client.register_schema("b", Schema('"string"', "AVRO")) == 71


def test_a_reset_forgets_everything(broker: odradek.Broker, client: SchemaRegistryClient, ask: Ask) -> None:
    ask("PUT", "/config", {"compatibility": "NONE"})
    client.register_schema("a", Schema('"string"', "AVRO"))
    broker.reset()
    assert ask("GET", "/subjects") == (200, [])
    assert ask("GET", "/config") == (200, {"compatibilityLevel": "BACKWARD"})


def test_snapshot_holds_the_schemas(broker: odradek.Broker, ask: Ask, tmp_path: Path) -> None:
    inner = '{"type": "record", "name": "Money", "namespace": "shop", "fields": [{"name": "cents", "type": "long"}]}'
    outer = '{"type": "record", "name": "Bill", "namespace": "shop", "fields": [{"name": "sum", "type": "shop.Money"}]}'
    references = [{"name": "shop.Money", "subject": "money", "version": 1}]
    assert ask("POST", "/subjects/money/versions", {"schema": inner})[0] == 200
    bill = {"schema": outer, "references": references}
    assert ask("POST", "/subjects/bills-value/versions", bill)[1]["id"] == 2
    person = {"schemaType": "JSON", "schema": '{"type": "object"}'}
    assert ask("POST", "/subjects/people/versions", person)[1]["id"] == 3
    proto = {"schemaType": "PROTOBUF", "schema": 'syntax = "proto3"; message Order { int32 number = 1; }'}
    assert ask("POST", "/subjects/orders/versions", proto)[1]["id"] == 4
    assert ask("PUT", "/config/people", {"compatibility": "NONE"})[0] == 200
    assert ask("DELETE", "/subjects/people")[0] == 200
    assert ask("PUT", "/mode/orders", {"mode": "READONLY"})[0] == 200
    paths = ("/subjects?deleted=true", "/subjects", "/schemas/ids/2", "/schemas/ids/4", "/config", "/mode/orders")
    before = [ask("GET", path) for path in paths]
    broker.save(tmp_path / "saved")
    for _ in range(2):
        broker.reset()
        assert ask("GET", "/subjects?deleted=true")[1] == []
        assert ask("POST", "/subjects/other/versions", {"schema": '"string"'})[1]["id"] == 1
        broker.restore(tmp_path / "saved")
        assert [ask("GET", path) for path in paths] == before
    assert ask("POST", "/subjects/bills-value/versions", bill)[1]["id"] == 2, "the schema that is there"
    assert ask("POST", "/subjects/other/versions", {"schema": '"string"'})[1]["id"] == 5
    with odradek.Broker(schema_registry=True) as other:
        other.restore(tmp_path / "saved")
        assert SchemaRegistryClient({"url": other.schema_registry_url}).get_subjects() == [
            "bills-value",
            "money",
            "orders",
        ]


def test_schemas_of_an_unknown_file_change_nothing(broker: odradek.Broker, ask: Ask, tmp_path: Path) -> None:
    assert ask("POST", "/subjects/orders/versions", {"schema": '"string"'})[0] == 200
    with SchemaRegistry() as other:
        other.save(tmp_path / "empty")
        for text in (
            "{",
            "[]",
            "{}",
            '{"schemas": [{"id": 1}]}',
            (tmp_path / "empty").read_text().replace("1}", '"x"}'),
        ):
            (tmp_path / "file").write_text(text)
            with pytest.raises(ValueError, match="is not a file of schemas"):
                other.restore(tmp_path / "file")
    assert ask("GET", "/subjects")[1] == ["orders"]


def test_registry_ends_with_its_broker_and_begins_with_it() -> None:
    broker = odradek.Broker(schema_registry=True)
    for _ in range(2):
        with broker:
            url = broker.schema_registry_url
            assert SchemaRegistryClient({"url": url}).get_subjects() == []
        with pytest.raises(urllib.error.URLError):
            urllib.request.urlopen(url, timeout=60)
    with odradek.Broker() as plain, pytest.raises(RuntimeError, match="schema_registry=True"):
        str(plain.schema_registry_url)


async def test_registry_of_a_broker_in_the_loop() -> None:
    async with odradek.Broker(schema_registry=True) as broker:
        assert SchemaRegistryClient({"url": broker.schema_registry_url}).get_subjects() == []


@pytest.mark.parametrize(
    ("method", "headers", "status"),
    [
        ("POST", {"Host": "evil.com", "Content-Type": "application/json"}, 403),
        ("GET", {"Host": "evil.com"}, 403),
        ("GET", {"Host": "[::1].evil.com"}, 403),
        ("DELETE", {"Host": "127.0.0.1.evil.com"}, 403),
        ("POST", {"Content-Type": "text/plain"}, 415),
        ("PUT", {"Content-Type": "application/x-www-form-urlencoded"}, 415),
        ("POST", {"Content-Type": "multipart/form-data"}, 415),
        ("POST", {"Content-Type": ""}, 415),
        ("POST", {"Content-Type": "application/json; charset=utf-8"}, 200),
        ("GET", {"Host": "localhost:1"}, 200),
    ],
)
def test_pages_of_other_sites_do_not_reach_the_registry(method: str, headers: dict[str, str], status: int) -> None:
    with SchemaRegistry() as registry:
        host, _, port = registry.url.removeprefix("http://").partition(":")
        connection = HTTPConnection(host, int(port), timeout=30)
        body = json.dumps({"schema": '"int"'}) if method in ("POST", "PUT") else None
        path = "/subjects/a/versions" if method == "POST" else "/subjects"
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        assert response.status == status, response.read()
        response.read()
        connection.close()
        subjects = registry.store.subjects()
    assert bool(subjects) is (status == 200 and method == "POST")
