"""Every type of Avro, Protobuf and JSON Schema in every reader: the same value, or the record's offset and a reason.

A topic of each format has one wide record for each value of tests/columns/harness/schema_types.py.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import odradek
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from odradek.admin.connection import Connection
from odradek.archive import open_catalog
from odradek.archive.column_types import storable
from odradek.columns import decoder_of, scan
from odradek.records.content_decoder import UndecodableContent, decoder
from odradek.records.content_encoder import encoder
from odradek.records.contents import json_of

from compat_tests.cli.commands import odradek_command
from tests.columns.harness.schema_types import CASES, numbered
from tests.columns.harness.typed_topics import Written, assert_cells, read, schema_text, send, write_topics

pytestmark = pytest.mark.usefixtures("sockets", "processes")
FORMS = tuple(CASES)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Written]]:
    with odradek.Broker(data_dir=tmp_path_factory.mktemp("types"), schema_registry=True) as broker:
        yield write_topics(broker)


@pytest.mark.parametrize("form", FORMS)
def test_scan_has_each_value_or_a_reason_with_the_field(written: dict[str, Written], form: str) -> None:
    topic = written[form]
    made = scan(form, client={"bootstrap.servers": topic.client}, values=topic.schema)
    table = made.to_table().sort_by("offset")
    reasons = {row["offset"]: row["reason"] for row in made.undecodable.select(["offset", "reason"]).to_pylist()}
    rows = table.column("value").combine_chunks()
    assert [one.name for one in rows.type][: len(CASES[form])] == [case.name for case in CASES[form]]
    for case in CASES[form]:
        assert rows.type.field(case.name).type == case.column, case.name
    errors = dict(zip(table.column("offset").to_pylist(), table.column("value_error").to_pylist(), strict=True))
    assert {offset: one for offset, one in errors.items() if one is not None} == reasons
    left = {row["offset"]: row["value"] for row in made.undecodable.select(["offset", "value"]).to_pylist()}
    assert left == {offset: topic.values[offset] for offset in reasons}
    assert_cells(numbered(form), rows, reasons)


@pytest.mark.parametrize("form", FORMS)
def test_query_has_each_value_or_a_reason(written: dict[str, Written], form: str, tmp_path: Path) -> None:
    topic, file = written[form], tmp_path / "rows.parquet"
    options = ("--value-format", form, "--schema-registry", topic.registry, "-b", topic.client)
    names = ", ".join(f'value."{case.name}"' for case in CASES[form])
    sql = f'select "offset", value_error, {names} from {form} order by "offset"'
    done = odradek_command("query", sql, *options, "--file", str(file))
    assert done.status == 0, done.err
    table = pq.read_table(file)
    fields = [case.name for case in CASES[form]]
    rows = pa.StructArray.from_arrays([table.column(name).combine_chunks() for name in fields], fields)
    errors = enumerate(table.column("value_error").to_pylist())
    assert_cells(numbered(form), rows, {offset: one for offset, one in errors if one is not None})


@pytest.mark.parametrize("form", FORMS)
def test_archive_has_each_value_or_a_dead_letter_and_replay_the_bytes(
    written: dict[str, Written], form: str, tmp_path: Path
) -> None:
    topic = written[form]
    store, broker = ("--warehouse", str(tmp_path)), ("-b", topic.client)
    options = ("--value-format", form, "--schema-registry", topic.registry, "--keep-value", "--once")
    done = odradek_command("archive", form, *store, *options, *broker)
    assert done.status == 0, done.err
    catalog = open_catalog(tmp_path, {})
    dead_letter_records = catalog.load_table(f"kafka.{form}_dead_letters").scan().to_arrow().to_pylist()
    assert {row["offset"]: row["value"] for row in dead_letter_records} == {
        row["offset"]: topic.values[row["offset"]] for row in dead_letter_records
    }
    table = catalog.load_table(f"kafka.{form}").scan().to_arrow().sort_by("offset")
    places = pa.array([None] * len(topic.values), pa.int64()).to_pylist()
    for row, offset in enumerate(table.column("offset").to_pylist()):
        places[offset] = row
    rows = table.column("value").combine_chunks().take(pa.array(places, pa.int64()))
    assert_cells(numbered(form), rows, {row["offset"]: row["reason"] for row in dead_letter_records}, in_table=True)
    replayed = f"{form}-again"
    admin = AdminClient({"bootstrap.servers": topic.client})
    admin.create_topics([NewTopic(replayed, 1)])[replayed].result(30)
    done = odradek_command("replay", f"kafka.{form}", replayed, *store, *broker)
    assert done.status == 0, done.err
    kept = [topic.values[offset] for offset, place in enumerate(places) if place is not None]
    assert read(topic.client, replayed, len(kept)) == kept


@pytest.mark.parametrize("form", ["avro", "protobuf"])
def test_archive_of_times_as_numbers_cuts_nothing(written: dict[str, Written], form: str, tmp_path: Path) -> None:
    topic = written[form]
    options = ("--value-format", form, "--schema-registry", topic.registry, "--once", "-b", topic.client)
    cut = odradek_command("archive", form, "--warehouse", str(tmp_path / "cut"), *options)
    assert cut.status == 0 and "times of nanoseconds are cut to microseconds in value." in cut.err
    exact = odradek_command("archive", form, "--warehouse", str(tmp_path), "--times", "number", *options)
    assert exact.status == 0 and "are cut" not in exact.err
    table = open_catalog(tmp_path, {}).load_table(f"kafka.{form}").scan().to_arrow()
    rows = dict(zip(table.column("offset").to_pylist(), table.column("value").to_pylist(), strict=True))
    tried = 0
    for offset, case, value in numbered(form):
        if pa.types.is_timestamp(case.column) and case.column.unit == "ns":
            want, reason = value.wanted(in_table=False)
            assert (offset in rows) == (reason is None)
            assert reason is not None or rows[offset][case.name] == want
            assert case.name.replace("_nanos", "") in cut.err
            tried += reason is None
    assert tried >= 5


@pytest.mark.parametrize("form", FORMS)
def test_spark_has_each_value_or_null_and_a_reason(written: dict[str, Written], form: str) -> None:
    """Rows of Spark's schema by the code of its tasks, without a JVM."""
    from odradek.spark.rows import _ProjectedDecoder

    topic = written[form]
    decode = decoder_of(topic.schema, form, lambda: pa.array([], pa.binary()), "us")
    found = _ProjectedDecoder(decode, storable(decode.type)).decode(pa.array(topic.values, pa.binary()))
    assert_cells(numbered(form), found.values, dict(zip(found.bad, found.reasons, strict=True)), in_table=True)


@pytest.mark.parametrize("form", FORMS)
def test_consume_shows_what_produce_makes_the_same_bytes_of(written: dict[str, Written], form: str) -> None:
    topic = written[form]
    connection = Connection({})
    decode, encode = decoder(topic.coding, connection), encoder(topic.coding, connection, f"{form}-value")
    assert decode is not None and encode is not None
    failures = []
    for offset, case, value in numbered(form):
        data = topic.values[offset]
        try:
            shown = decode(data, form)
        except UndecodableContent as error:
            if value.shown or (value.reason is not None and not re.search(rf"{case.name}|\bat field", str(error))):
                failures.append(f"{case.name} {value.raw!r}: {error}")
            continue
        text = json_of(shown)
        if form == "json":
            is_same = json.loads(text) == json.loads(data[5:])
        else:
            is_same = not value.shown or encode(text.encode()) == data
        if not is_same:
            failures.append(f"{case.name} {value.raw!r}: {text[:200]} {encode(text.encode())!r} {data!r}")
    assert not failures, "\n".join(failures)


@pytest.mark.parametrize("form", ["avro", "protobuf"])
def test_consume_piped_into_produce_writes_the_same_records(written: dict[str, Written], form: str) -> None:
    topic, copy = written[form], f"{form}-copy"
    registry = SchemaRegistryClient({"url": topic.registry})
    registry.register_schema(f"{copy}-value", Schema(schema_text(form), form.upper()))
    shown = [topic.values[offset] for offset, _, value in numbered(form) if value.shown]
    send(topic.client, f"{form}-shown", shown)
    options = ("--value-format", form, "--schema-registry", topic.registry, "-b", topic.client)
    done = odradek_command("consume", f"{form}-shown", "--from-beginning", *options)
    assert done.status == 0, done.err
    done = odradek_command("produce", copy, "--create", *options, stdin=done.out)
    assert done.status == 0, done.err
    assert read(topic.client, copy, len(shown)) == shown


@pytest.mark.parametrize("form", ["avro", "protobuf"])
def test_consume_ends_at_a_value_beyond_a_bound_with_its_offset_and_field(
    written: dict[str, Written], form: str
) -> None:
    topic = written[form]
    options = ("--value-format", form, "--schema-registry", topic.registry, "-b", topic.client)
    offset, case, _ = next(one for one in numbered(form) if one[2].reason is not None and not one[2].shown)
    done = odradek_command("consume", form, "-o", str(offset), *options)
    assert done.status != 0 and f"{form}-0: offset {offset}: the value does not decode" in done.err
    assert re.search(rf"{case.name}|\bat field", done.err), done.err
