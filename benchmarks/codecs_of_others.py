"""The same ten messages with every other codec: each is a pair of functions, bytes -> message and message -> bytes.

Each is measured at its fastest: its reusable parts (compiled functions, buffers) are ready.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

from kafka.protocol.api_header import RequestHeader as KafkaPythonHeader
from kafka.protocol.schemas.fields.codecs.encode_buffer import EncodeBuffer
from kio.serial import entity_reader, entity_writer
from odradek.protocol.codec import interpreted_decode, interpreted_encode, lowered_decoder, lowered_joined_encoder

from .by_hand import decode_data, decode_groups, encode
from .codecs_in_construct import DECLARED
from .codecs_samples import Sample


class Way(NamedTuple):
    """`decode` reads the sample's bytes, `encode` writes the sample's message, in the way's own classes."""

    decode: Callable[[], Any]
    encode: Callable[[], bytes]


def lowered(sample: Sample, data: bytes) -> Way:
    message = sample.message
    decoder = lowered_decoder(type(message), sample.version)
    encoder = lowered_joined_encoder(type(message), sample.version)
    return Way(lambda: decoder(data, 0), lambda: encoder(message))


def interpreted(sample: Sample, data: bytes) -> Way:
    message, version = sample.message, sample.version
    cls = type(message)
    return Way(lambda: interpreted_decode(cls, version, data), lambda: interpreted_encode(message, version))


def by_hand(sample: Sample, data: bytes) -> Way:
    name, message = snake_case(sample.name), sample.message
    decoder = getattr(decode_data, name, None) or getattr(decode_groups, name)
    encoder = getattr(encode, name)
    return Way(lambda: decoder(data, 0), lambda: encoder(message))


def construct_stock(sample: Sample, data: bytes) -> Way:
    return _construct(DECLARED[sample.name], data)


def construct_compiled(sample: Sample, data: bytes) -> Way:
    return _construct(DECLARED[sample.name].compile(), data)


def _construct(codec: Any, data: bytes) -> Way:
    made = codec.parse(data)
    return Way(lambda: codec.parse(data), lambda: codec.build(made))


def kafka_python(sample: Sample, data: bytes) -> Way:
    if sample.name == "RequestHeader":
        header = KafkaPythonHeader.decode(io.BytesIO(data), flexible=True)
        return Way(
            lambda: KafkaPythonHeader.decode(io.BytesIO(data), flexible=True), lambda: header.encode(flexible=True)
        )
    cls = _kafka_python_class(sample.name)
    decoder = cls._struct.compiled_decode_from(sample.version, compact=True, tagged=True, data_class=cls)
    encoder = cls._struct.compiled_encode_into(sample.version, compact=True, tagged=True)
    out, view = EncodeBuffer(), memoryview(data)
    made, _ = decoder(view, 0)

    def encoded() -> bytes:
        out.reset()
        encoder(made, out)
        return bytes(out.result())

    return Way(lambda: decoder(view, 0), encoded)


def _kafka_python_class(name: str) -> Any:
    for module in ("producer", "consumer", "metadata"):
        found = getattr(import_module(f"kafka.protocol.{module}"), name, None)
        if found is not None:
            return found
    raise LookupError(name)


def kio(sample: Sample, data: bytes) -> Way:
    api, _, kind = snake_case(sample.name).rpartition("_")
    where = f"kio.schema.{api}.v{sample.version}.{kind}"
    if sample.name == "RequestHeader":
        where = f"kio.schema.request_header.v{sample.version}.header"
    cls = getattr(import_module(where), sample.name)
    reader, writer = entity_reader(cls), entity_writer(cls)
    made, _ = reader(data, 0)

    def encoded() -> bytes:
        out = io.BytesIO()
        writer(out, made)
        return out.getvalue()

    return Way(lambda: reader(data, 0), encoded)


def snake_case(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


#: Name in the table -> way. All others are compared with the first.
WAYS: dict[str, Callable[[Sample, bytes], Way]] = {
    "lowered": lowered,
    "by hand": by_hand,
    "kafka-python": kafka_python,
    "kio (Rust)": kio,
    "construct compile()": construct_compiled,
    "construct": construct_stock,
    "interpreted": interpreted,
}
