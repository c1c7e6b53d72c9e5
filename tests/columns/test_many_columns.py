"""The cost of a struct grows with the number of its columns, not with its square, in readers that look at each of them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool
from odradek.archive.conforming import conformed
from odradek.columns.json_decoder import JsonDecoder
from odradek.columns.protobuf_decoder import ProtobufDecoder
from odradek.columns.protobuf_well_known import Descriptor
from odradek.spark.rows import projected

FEW, MANY = 250, 2500
#: A linear cost grows tenfold, a quadratic one a hundredfold.
MOST_GROWTH = 40
_ROWS = 10
_TRIES = 3


def names(count: int) -> list[str]:
    return [f"f{number}" for number in range(count)]


def struct(count: int) -> pa.Array:
    return pa.StructArray.from_arrays([pa.array(range(_ROWS))] * count, names=names(count))


def message(count: int) -> Descriptor:
    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="wide.proto", package="wide", syntax="proto3")
    wide = file.message_type.add(name="Wide")
    for number, name in enumerate(names(count), 1):
        wide.field.add(name=name, number=number, type=kinds.TYPE_INT64, label=kinds.LABEL_OPTIONAL)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return pool.FindMessageTypeByName("wide.Wide")


def protobuf(count: int) -> Callable[[], object]:
    wide = message(count)
    decoder = ProtobufDecoder(wide, lambda value: (wide, value))
    return lambda: decoder.decode(pa.array([b""] * _ROWS, pa.binary()))


def of_json(count: int) -> Callable[[], object]:
    decoder = JsonDecoder(pa.struct([(name, pa.int64()) for name in names(count)]))
    text = json.dumps(dict.fromkeys(names(count), 1)).encode()
    return lambda: decoder.decode(pa.array([text] * _ROWS))


def table(count: int) -> Callable[[], object]:
    values, kind = struct(count), pa.struct([(name, pa.int32()) for name in names(count)])
    return lambda: conformed(values, kind, "value")


def spark(count: int) -> Callable[[], object]:
    values, kind = struct(count), pa.struct([(name, pa.int64()) for name in reversed(names(count))])
    return lambda: projected(values, kind)


def seconds(work: Callable[[], object]) -> float:
    """The least CPU time of some runs, after one that imports and prepares what it needs."""
    work()
    found = []
    for _ in range(_TRIES):
        began = time.thread_time()
        work()
        found.append(time.thread_time() - began)
    return min(found)


@pytest.mark.parametrize("reader", [protobuf, of_json, table, spark])
def test_ten_times_the_columns_cost_less_than_forty_times_the_time(
    reader: Callable[[int], Callable[[], object]],
) -> None:
    assert seconds(reader(MANY)) < MOST_GROWTH * seconds(reader(FEW))
