"""The schema of an order, in each format."""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2

ORDER_AVRO: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [{"name": "number", "type": "int"}, {"name": "buyer", "type": "string"}],
}
ORDER_JSON: dict[str, Any] = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "Order",
    "type": "object",
    "properties": {"number": {"type": "integer"}, "buyer": {"type": "string"}},
    "required": ["number"],
}
_TEXT = """
name: "order.proto" package: "shop" syntax: "proto3"
message_type {
  name: "Order"
  field { name: "number" number: 1 label: LABEL_OPTIONAL type: TYPE_INT32 }
  field { name: "buyer" number: 2 label: LABEL_OPTIONAL type: TYPE_STRING }
  field { name: "prices" number: 3 label: LABEL_REPEATED type: TYPE_MESSAGE type_name: ".shop.Order.PricesEntry" }
  field { name: "card" number: 4 label: LABEL_OPTIONAL type: TYPE_STRING oneof_index: 0 }
  field { name: "cash" number: 5 label: LABEL_OPTIONAL type: TYPE_BOOL oneof_index: 0 }
  field { name: "state" number: 6 label: LABEL_OPTIONAL type: TYPE_ENUM type_name: ".shop.Order.State" }
  oneof_decl { name: "paid" }
  nested_type {
    name: "PricesEntry" options { map_entry: true }
    field { name: "key" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING }
    field { name: "value" number: 2 label: LABEL_OPTIONAL type: TYPE_INT32 }
  }
  enum_type { name: "State" value { name: "OPEN" number: 0 } value { name: "DONE" number: 1 } }
  reserved_range { start: 9 end: 12 }
}
"""


def order_file() -> Any:
    """Returns a new FileDescriptorProto."""
    from google.protobuf import text_format

    return text_format.Parse(_TEXT, descriptor_pb2.FileDescriptorProto())
