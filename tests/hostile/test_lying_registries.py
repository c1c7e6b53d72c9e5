"""Schema registries that return anything: each use of one ends in a value or one line, in bounded memory and time."""

from __future__ import annotations

import io
import json
import struct
import tracemalloc
from collections.abc import Iterator
from typing import Any

import fastavro
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from odradek.admin.connection import Connection
from odradek.cli.main import main
from odradek.client.user_errors import UserError
from odradek.console.cluster.decoding import AUTO, RecordDecoder
from odradek.records.avro_schemas import parsed_avro
from odradek.records.content_decoder import decoder
from odradek.records.content_encoder import encoder
from odradek.records.formats import Coding, Form
from odradek.records.schema_registry import SchemaRegistry

from tests.harness.examples import examples
from tests.hostile.liar import Liar

pytestmark = pytest.mark.usefixtures("sockets")

MOST_BYTES = 100 << 20
VALUE = struct.pack(">bI", 0, 7) + bytes(20)


@pytest.fixture(scope="module")
def liar() -> Iterator[Liar]:
    made = Liar()
    yield made
    made.close()


anything = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8), st.just("record")),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(("type", "name", "x")), inner)
    ),
    max_leaves=8,
)
schemas = st.one_of(
    anything,
    anything.map(json.dumps),
    st.sampled_from(
        ['"int"', '"x"', "[]", '{"type": "array", "items": "null"}', "message A { int32 a = 1; }", '"' * 9]
    ),
)
references = st.one_of(
    anything,
    st.lists(
        st.fixed_dictionaries({"name": st.one_of(anything, st.sampled_from(["/x", "..", ".", "a\0b", "schema.proto"])),
                               "subject": anything, "version": anything}), max_size=2,
    ),
)  # fmt: skip
responses = st.one_of(
    anything,
    st.fixed_dictionaries(
        {"schema": schemas},
        optional={
            "schemaType": st.one_of(anything, st.sampled_from(["AVRO", "JSON"])),
            "id": anything,
            "references": references,
        },
    ),
)
DEEP = [
    b"[" * 100_000,
    b'{"schema": ' * 50_000,
    json.dumps({"schema": "[" * 50_000}).encode(),
    json.dumps({"schema": '{"type": "array", "items": ' * 3000 + '"int"' + "}" * 3000}).encode(),
    json.dumps({"schema": '{"type": "fixed", "name": "f", "size": 2147483647}'}).encode(),
    json.dumps({"schema": 5}).encode(),
    b'{"schema": "' + b"x" * (6 << 20) + b'"}',
    b"\xff\xfe",
    b"",
]


def uses(url: str) -> None:
    """Each use of a registry raises UserError or nothing; the console's returns a value."""
    connection = Connection({})
    for form in (Form.avro, Form.protobuf):
        try:
            decode = decoder(Coding(form, url), connection)
            assert decode is not None
            decode(VALUE, "t")
        except UserError as error:
            assert_one_line(error)
        try:
            encode = encoder(Coding(form, url), connection, "t-value")
            assert encode is not None
            encode(b"{}")
        except UserError as error:
            assert_one_line(error)
    for call in (lambda: SchemaRegistry(url).schema(7), lambda: SchemaRegistry(url).latest("t-value")):
        try:
            call()
        except UserError as error:
            assert_one_line(error)
    console = RecordDecoder(connection, url)
    for form_name in (AUTO, "avro", "protobuf", "json"):
        assert console.decode(VALUE, form_name, "t").form


def assert_one_line(error: UserError) -> None:
    assert "\n" not in str(error) and 0 < len(str(error)) < 2000, str(error)[:300]


@given(responses)
@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_response_of_any_form_is_one_line_of_error(liar: Liar, response: Any) -> None:
    liar.status, liar.body = 200, json.dumps(response).encode()
    uses(liar.url)


@pytest.mark.parametrize("body", DEEP, ids=range(len(DEEP)))
@pytest.mark.parametrize("status", [200, 404, 500])
def test_deep_and_large_responses_are_one_line_of_error(liar: Liar, body: bytes, status: int) -> None:
    liar.status, liar.body = status, body
    tracemalloc.start()
    try:
        uses(liar.url)
        assert tracemalloc.get_traced_memory()[1] < MOST_BYTES
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "command", [["list"], ["get", "s"], ["register", "s", "FILE"], ["check", "s", "FILE"], ["delete", "s", "-y"]]
)
@pytest.mark.parametrize(
    "body", [b"5", b"[5]", b"{}", b'{"schema": 5}', b"[" * 100_000, b'{"is_compatible": []}', b'[[],"a"]', b"x"]
)
def test_commands_end_in_one_line(
    liar: Liar, command: list[str], body: bytes, tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "s.avsc"
    file.write_text('"int"')
    liar.status, liar.body = 200, body
    words = [str(file) if word == "FILE" else word for word in command]
    status = main(["schema", *words, "--schema-registry", liar.url])
    captured = capsys.readouterr().err
    assert "Traceback" not in captured and (status == 0 or captured.count("\n") == 1), captured


def doubled(levels: int) -> dict[str, Any]:
    """Records within records that double at each level, without a byte."""
    made: Any = "null"
    for level in range(levels):
        fields = [{"name": "a", "type": made}, {"name": "b", "type": made if level == 0 else f"r{level - 1}"}]
        made = {"type": "record", "name": f"r{level}", "fields": fields}
    return made  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "items": "null"},
        {"type": "array", "items": {"type": "record", "name": "e", "fields": []}},
        {"type": "array", "items": {"type": "fixed", "name": "f", "size": 0}},
        {"type": "fixed", "name": "f", "size": (1 << 31) - 1},
        {"type": "map", "values": doubled(8)},
        doubled(30),
    ],
)
def test_schema_whose_values_grow_without_bytes_is_refused(schema: Any) -> None:
    with pytest.raises(ValueError, match="the schema is not Avro"):
        parsed_avro(json.dumps(schema))


types = st.recursive(
    st.sampled_from(["null", "boolean", "int", "long", "string", "bytes"]),
    lambda inner: st.one_of(
        inner.map(lambda one: {"type": "array", "items": one}),
        inner.map(lambda one: {"type": "map", "values": one}),
        st.lists(inner, min_size=1, max_size=3).map(
            lambda some: {"type": "record", "name": f"r{hash(str(some)) & 0xFFFFFF}x",
                          "fields": [{"name": f"f{n}", "type": one} for n, one in enumerate(some)]}
        ),
    ),
    max_leaves=6,
)  # fmt: skip


@given(types, st.binary(max_size=200))
@settings(max_examples=examples(150), deadline=None)
def test_values_of_any_accepted_schema_take_memory_in_proportion_to_their_bytes(schema: Any, data: bytes) -> None:
    try:
        parsed = parsed_avro(json.dumps(schema))
    except ValueError:
        return
    tracemalloc.start()
    try:
        fastavro.schemaless_reader(io.BytesIO(data), parsed, None)
    except (ValueError, EOFError, IndexError, TypeError, StopIteration, OverflowError, MemoryError, UnicodeDecodeError):
        pass
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 4 << 20
