"""Bytes of any fields, as protobuf itself reads them, or a reason: the columns of a record are those of its message.

Bodies are drawn field by field: known numbers with known and other wire types, entries of maps with fields that no entry
has, groups, repeated members of a `oneof`, numbers that no enum names, texts that are no UTF-8, missing required fields.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass
from hypothesis import given, settings
from hypothesis import strategies as st
from odradek.admin.connection import Connection
from odradek.client.user_errors import UserError
from odradek.columns.errors import InvalidScan
from odradek.columns.protobuf_decoder import ProtobufDecoder
from odradek.columns.protobuf_normal_form import written_again
from odradek.records.content_decoder import UndecodableContent, decoder
from odradek.records.content_encoder import encoder
from odradek.records.formats import Coding, Form
from odradek.records.protobuf_decoding import message_of_file

from tests.harness.examples import examples

pytestmark = pytest.mark.usefixtures("processes")
_FIELDS = """
 {o}int32 i = 1; {o}sint64 z = 2; {o}uint32 u = 3; {o}bool b = 4; {o}string s = 5; {o}bytes y = 6; {o}E e = 7; {o}S m = 8;
 repeated E el = 9; map<string, S> ms = 10; map<int32, E> me = 11;
 oneof o {{ int32 oi = 12; S om = 13; string os = 14; E oe = 15; }}
 repeated S rs = 17; map<bool, string> mb = 18; {o}fixed64 f = 19; {o}double d = 20; repeated string sl = 21;
 repeated bool bl = 23; map<int64, double> md = 24; repeated sint32 zz = 25;
"""
_INNER = (
    "message S {{ {o}int32 x = 1; {o}string s = 2; repeated int32 l = 3; {o}T n = 4; }} message T {{ {o}int32 x = 1; }}"
)
_ENUM = "enum E { A = 0; B = 2; N = -1; }"
_GROUPS = """
 optional group G = 30 { optional int32 a = 1; optional E ge = 2; repeated S gs = 3; }
 repeated group H = 31 { optional int32 a = 1; optional group J = 2 { optional int32 x = 1; } }
"""


def _texts(head: str, optional: str, more: str = "") -> str:
    inner, fields = _INNER.format(o=optional), _FIELDS.format(o=optional)
    return f"{head}\n{_ENUM}\n{inner}\nmessage M {{ {fields} {more} }}\n"


SCHEMAS = {
    "proto3": _texts('syntax = "proto3";', ""),
    "proto3-presence": _texts('syntax = "proto3";', "optional "),
    "proto2": _texts('syntax = "proto2";', "optional "),
    "proto2-groups": _texts('syntax = "proto2";', "optional ", _GROUPS),
    "proto2-required": _texts('syntax = "proto2";', "required "),
}  # fmt: skip
_NUMBERS = (*range(1, 26), 30, 31)
_OF_BYTES = {5, 6, 8, 10, 11, 13, 14, 17, 18, 21, 24}
_WIRES = dict.fromkeys(_NUMBERS, 0) | dict.fromkeys(_OF_BYTES, 2) | {19: 1, 20: 1, 30: 3, 31: 3}
_INNER_WIRES = {1: 0, 2: 2, 3: 0, 4: 2, 8: 2, 100: 0}
_VARINTS = (0, 1, 2, -1, 7, 127, 128, 300, 1 << 31, (1 << 31) - 1, -(1 << 31), (1 << 32) + 1, 1 << 63, (1 << 64) - 1)
_FIXED = (b"\0" * 8, b"\xff" * 8, b"\0\0\0\0\0\0\xf8\x7f", b"\0\0\0\0\0\0\0\x80")
_PARTS = (b"", b"a", b"\xff", "é".encode(), b"\0", b"ab" * 30)


def _varint(number: int) -> bytes:
    number &= (1 << 64) - 1
    made = bytearray()
    while number >= 0x80:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*made, number))


def _part(rng: random.Random, depth: int) -> bytes:
    draw = rng.random()
    if draw < 0.3:
        return rng.choice(_PARTS)
    if draw < 0.5:
        return b"".join(_varint(rng.choice(_VARINTS)) for _ in range(rng.randint(0, 4)))
    if draw < 0.97 and depth < 5:
        return body(rng, rng.choice((0, 1, 1, 2, 3)), depth + 1)
    return rng.randbytes(rng.randint(0, 9))


def body(rng: random.Random, count: int, depth: int = 0) -> bytes:
    """So many fields of M; below the first level of its inner messages and entries of maps."""
    made, wires = b"", _INNER_WIRES if depth else _WIRES
    for _ in range(count):
        number = rng.choice(list(wires))
        wire = rng.choice((0, 0, 1, 2, 2, 3, 5)) if rng.random() < 0.3 else wires[number]
        made += _varint(number << 3 | wire)
        if wire == 0:
            made += _varint(rng.choice(_VARINTS))
        elif wire in (1, 5):
            made += rng.choice([b"\0" * 8, b"\xff" * 8, b"\0\0\0\0\0\0\xf8\x7f", b"\0\0\0\0\0\0\0\x80"])[
                -8 if wire == 1 else -4 :
            ]
        elif wire == 2:
            part = _part(rng, depth)
            made += _varint(len(part)) + part
        else:
            made += body(rng, rng.randint(0, 2), depth + 1) + _varint(number << 3 | 4)
    return made[:-1] if rng.random() < 0.02 else made


def read(message: Any, kind: Any) -> dict[str, Any]:
    """The fields of a message as its columns have them: None for those that are not there. Raises UnicodeDecodeError."""
    return {field.name: _field(message, field) for field in kind.fields}


def _field(message: Any, field: Any) -> Any:
    kind, value = field.message_type, getattr(message, field.name)
    if kind is not None and kind.GetOptions().map_entry:
        inner = kind.fields_by_name["value"].message_type
        entry = kind.fields_by_name["value"]
        return {key: read(value[key], inner) if inner else _shown(value[key], entry) for key in value}
    if not isinstance(value, (Message, str, bytes, int, float)):
        return [read(one, kind) if kind else _shown(one, field) for one in value]
    if field.has_presence and not message.HasField(field.name):
        return None
    return read(value, kind) if kind else _shown(value, field)


def _shown(value: Any, field: Any = None) -> Any:
    if field is not None and field.type == field.TYPE_STRING and isinstance(value, bytes):
        value.decode()  # protobuf has bytes in place of texts that are no UTF-8
    return repr(value) if isinstance(value, float) else value


def columns(value: Any) -> Any:
    """The value of a column, as `read` returns it."""
    if isinstance(value, dict):
        return {name: columns(one) for name, one in value.items()}
    if isinstance(value, list) and value and isinstance(value[0], tuple):
        return {key: columns(one) for key, one in value}
    return [columns(one) for one in value] if isinstance(value, list) else _shown(value)


class Messages:
    """The message M of a schema, and of one with numbers in place of enums: a closed enum has no other numbers."""

    def __init__(self, folder: Path, text: str) -> None:
        self.file = folder / "m.proto"
        self.file.write_text(text)
        self.message = message_of_file(self.file, "M")
        numbers = folder / "numbers.proto"
        numbers.write_text(text.replace(_ENUM, "").replace(" E ", " int32 ").replace(" E>", " int32>"))
        self.reference = message_of_file(numbers, "M")
        self._kind = GetMessageClass(self.reference)

    def expected(self, data: bytes) -> dict[str, Any] | None:
        """None for bytes that are no message."""
        try:
            return read(self._kind.FromString(data), self.reference)
        except (DecodeError, UnicodeDecodeError, SystemError):
            return None


@pytest.fixture(scope="module")
def schemas(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Messages]:
    return {name: Messages(tmp_path_factory.mktemp(name), text) for name, text in SCHEMAS.items()}


@pytest.mark.parametrize("name", SCHEMAS)
@given(seed=st.integers(0, 1 << 40))
@settings(max_examples=examples(15), deadline=None)
def test_columns_of_any_bytes_are_those_of_the_message(schemas: dict[str, Messages], name: str, seed: int) -> None:
    rng, schema = random.Random(seed), schemas[name]
    bodies = [body(rng, rng.choice((0, 1, 1, 2, 2, 3, 6))) for _ in range(60)]
    decode = ProtobufDecoder(schema.message, lambda data: (schema.message, data))
    found = decode.decode(pa.array(bodies, pa.binary()))
    found.values.validate(full=True)
    reasons = dict(zip(found.bad, found.reasons, strict=True))
    for number, (data, made) in enumerate(zip(bodies, found.values.to_pylist(), strict=True)):
        wanted = schema.expected(data)
        assert (wanted is None) == (number in reasons), (data.hex(), wanted, reasons.get(number))
        assert wanted is None or without_defaults(columns(made)) == without_defaults(wanted), data.hex()


def without_defaults(value: Any) -> Any:
    """proto2 has no map and no list that is not there."""
    if isinstance(value, dict):
        return {name: without_defaults(one) for name, one in value.items()} or []
    return [without_defaults(one) for one in value] if isinstance(value, list) else value


def test_no_bytes_make_the_decoder_print(schemas: dict[str, Messages], capfd: pytest.CaptureFixture[str]) -> None:
    """A panic of Rust is printed by Rust, whatever becomes of its exception."""
    odd = ("520622041a02c3a90807", "5a021200", "52050a031201ff", "c201021200", "f30108fffffffffffffffffff401")
    for schema in schemas.values():
        decode = ProtobufDecoder(schema.message, lambda data, kind=schema.message: (kind, data))
        decode.decode(pa.array([bytes.fromhex(one) for one in odd], pa.binary()))
    assert capfd.readouterr().err == ""


def test_message_that_lacks_required_fields_in_a_map_does_not_end_the_process(schemas: dict[str, Messages]) -> None:
    """upb ends the process where it collects the names of the fields: not for each message, so the test reads many."""
    kind, rng = GetMessageClass(schemas["proto2-required"].message), random.Random(1)
    entries = [
        _varint(10 << 3 | 2) + _varint(len(one)) + one for one in (b"", b"\n\1a", b"\n\1a\x12\0", b"\x12\2\x08\1")
    ]
    for _ in range(5_000):
        written_again(kind, b"".join(rng.choices(entries, k=rng.randint(0, 6))))
    required = Coding(Form.protobuf, schema=schemas["proto2-required"].file, message="M")
    encode = encoder(required, Connection({}), "t-value")
    assert encode is not None
    for text in (b"{}", b'{"ms": {"a": {}}}', b'{"ms": {"a": {"x": 1}, "b": {}}}'):
        with pytest.raises(UserError, match="a required field of M is missing"):
            encode(text)


def test_texts_of_proto2_that_are_no_utf_8_are_undecodable(schemas: dict[str, Messages]) -> None:
    decode = decoder(Coding(Form.protobuf, schema=schemas["proto2"].file, message="M"), Connection({}))
    assert decode is not None
    for data in ("2a01ff", "52050a031201ff", "52030a01ff", "9201031201ff", "92010508011201ff", "aa0101ff"):
        with pytest.raises(UndecodableContent):
            decode(bytes.fromhex(data), "t")


def test_schema_with_an_edition_is_an_invalid_scan(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "m.proto").write_text('edition = "2023"; message M { int32 x = 1; }')
    message = message_of_file(tmp_path / "m.proto", "M")
    with pytest.raises(InvalidScan, match="has an edition of Protobuf"):
        ProtobufDecoder(message, lambda data: (message, data))
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("syntax", ["proto2", "proto3"])
def test_fields_whose_names_are_alike_are_columns_of_their_names(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], syntax: str
) -> None:
    inner = "message I { repeated int32 x = 1; repeated int32 X = 2; }"
    rest = "map<string, I> m = 4; oneof o { int32 foobar = 5; int32 foo_bar = 6; }"
    optional = "optional " if syntax == "proto2" else ""
    fields = f"{optional}int32 id = 1; {optional}string ID = 2; {optional}I in = 3; {rest}"
    (tmp_path / "m.proto").write_text(f'syntax = "{syntax}"; {inner} message M {{ {fields} }}')
    message = message_of_file(tmp_path / "m.proto", "M")
    whole = {"id": 1, "ID": "b", "in": {"x": [1], "X": [2, 3]}, "m": {"k": {"x": [4], "X": []}}, "foo_bar": 7}
    value = GetMessageClass(message)(**whole).SerializeToString()
    found = ProtobufDecoder(message, lambda data: (message, data)).decode(pa.array([value], pa.binary()))
    assert not found.bad and columns(found.values[0].as_py()) == whole | {"foobar": None}
    assert capfd.readouterr().err == ""
