"""The schema registry of a context, or of the environment, in the commands and the console that decode values."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import odradek
import pytest
from odradek.admin.connection import Connection, connection_of
from odradek.console import backend
from odradek.console.cluster.masks import Masks
from odradek.console.cluster.records import RecordMaker
from odradek.console.settings import Settings

from compat_tests.cli.commands import odradek_command

pytestmark = pytest.mark.usefixtures("sockets")
SCHEMA = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": ["null", "string"]}]}


@pytest.fixture
def broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[odradek.Broker]:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    with odradek.Broker(schema_registry=True) as made:
        avsc = tmp_path / "order.avsc"
        avsc.write_text(json.dumps(SCHEMA))
        url = ("--schema-registry", str(made.schema_registry_url))
        done = odradek_command("schema", "register", "orders-value", str(avsc), *url)
        assert done.status == 0, done.err
        yield made


@pytest.mark.parametrize("place", ["context", "environment"])
def test_commands_and_console_use_the_registry_of(
    broker: odradek.Broker, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, words = str(broker.schema_registry_url), ["-b", broker.bootstrap_servers]
    if place == "context":
        words += ["-X", f"schema.registry.url={url}", "-X", "schema.registry.basic.auth.user.info=me:secret"]
    else:
        monkeypatch.setenv("ODRADEK_SCHEMA_REGISTRY", url)
    done = odradek_command("context", "add", "here", *words)
    assert done.status == 0, done.err
    shown = odradek_command("context", "show", "here")
    assert "secret" not in shown.out and (url in shown.out) == (place == "context")

    assert "orders-value" in odradek_command("schema", "list").out
    written = odradek_command(
        "produce", "orders", "--create", "--value-format", "avro", stdin='{"id": {"string": "a"}}\n'
    )
    assert written.status == 0, written.err
    read = odradek_command("consume", "orders", "--from-beginning", "--value-format", "avro")
    assert (read.status, json.loads(read.out)) == (0, {"id": "a"}), read.err
    found = odradek_command("query", "select value.id from orders", "--value-format", "avro")
    assert found.status == 0 and found.out.split() == ["id", "a"], found
    # For JSON, only an option names a registry.
    free = odradek_command("query", "select value_error from orders", "--value-format", "json")
    assert free.status == 0, free.err
    urls = []

    def make(connection: Connection, masks: Masks, schema_registry: str | None) -> RecordMaker:
        urls.append(schema_registry)
        return RecordMaker(connection, masks, schema_registry)

    monkeypatch.setattr(backend, "RecordMaker", make)
    backend.Backend(connection_of(None, None, "here", [], 30.0), Settings())
    assert urls == [url]


def test_registry_of_an_option_then_of_the_properties_then_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODRADEK_SCHEMA_REGISTRY", "http://environment")
    named = Connection({"schema.registry.url": "http://properties"})
    assert named.registry_url("http://option") == "http://option"
    assert named.registry_url(None) == "http://properties"
    assert Connection({}).registry_url(None) == "http://environment"
    assert named.registry_url(None, Path("order.avsc")) is None
    monkeypatch.delenv("ODRADEK_SCHEMA_REGISTRY")
    done = odradek_command("schema", "list")
    assert done.status == 2 and "--schema-registry URL" in done.err and "ODRADEK_SCHEMA_REGISTRY" in done.err


def test_undecodable_records_are_left_out_with_their_reasons(broker: odradek.Broker) -> None:
    where = ("-b", broker.bootstrap_servers)
    assert odradek_command("produce", "mixed", "--create", *where, stdin="1\n{\n2\nx\n3\n").status == 0
    read = ("consume", "mixed", "--from-beginning", "--value-format", "json", *where)
    stopped = odradek_command(*read)
    assert stopped.status == 1 and "offset 1" in stopped.err and "--skip-undecodable" in stopped.err
    done = odradek_command(*read, "--skip-undecodable")
    assert (done.status, done.out.split()) == (0, ["1", "2", "3"])
    assert "mixed-0: offset 1: the value does not decode" in done.err and "offset 3" in done.err
    counted = odradek_command(*read, "--skip-undecodable", "-n", "2")
    assert (counted.status, counted.out.split()) == (0, ["1", "2"])


def test_many_undecodable_records_are_counted(broker: odradek.Broker) -> None:
    where = ("-b", broker.bootstrap_servers)
    assert odradek_command("produce", "bad", "--create", *where, stdin="{\n" * 100 + "7\n").status == 0
    done = odradek_command("consume", "bad", "--from-beginning", "--value-format", "json", "--skip-undecodable", *where)
    assert (done.status, done.out.split(), done.err.count("left out: ")) == (0, ["7"], 20)
    assert "100 records cannot be decoded" in done.err
