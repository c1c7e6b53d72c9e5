"""`odradek token` and `odradek schema` with a real broker and registry."""

from __future__ import annotations

import json
from pathlib import Path

import odradek
import pytest

from compat_tests.cli.commands import odradek_command

pytestmark = pytest.mark.usefixtures("sockets")


def schema(*fields: str) -> str:
    types = [{"name": name, "type": "string"} for name in fields]
    return json.dumps({"type": "record", "name": "Order", "fields": types})


def test_token_is_created_listed_renewed_and_expired() -> None:
    with odradek.Broker(security="scram", config={"delegation.token.secret.key": "a-secret-of-the-test"}) as broker:
        options = ("--command-config", str(broker.client_properties_file()), "-b", broker.bootstrap_servers)
        made = odradek_command("token", "create", "--renewer", "User:carol", "--output", "json", *options)
        assert made.status == 0, made.err
        (token,) = made.json
        listed = odradek_command("token", "list", "--output", "json", *options)
        assert [one["token_id"] for one in listed.json] == [token["token_id"]]
        assert listed.json[0]["renewers"] == "User:carol"
        assert token["hmac"] not in listed.out
        assert odradek_command("token", "renew", token["token_id"], "--hours", "1", *options).status == 0
        assert odradek_command("token", "expire", token["hmac"], *options).status == 0
        assert odradek_command("token", "list", "--output", "json", *options).json == []
        assert odradek_command("token", "renew", "no-such-token", *options).status == 3
        assert odradek_command("token", "create", "--owner", "bob", *options).status == 2


def test_schema_is_registered_checked_and_deleted(tmp_path: Path) -> None:
    first, second = tmp_path / "first.avsc", tmp_path / "second.avsc"
    first.write_text(schema("id"))
    second.write_text(schema("id", "town"))  # without a default no reader of it reads what was written before
    with odradek.Broker(schema_registry=True) as broker:
        options = ("--schema-registry", str(broker.schema_registry_url))
        done = odradek_command("schema", "register", "orders-value", str(first), *options)
        assert done.status == 0, done.err
        listed = odradek_command("schema", "list", "--output", "json", *options)
        assert listed.json == [{"subject": "orders-value", "versions": [1]}]
        assert json.loads(odradek_command("schema", "get", "orders-value", *options).out) == json.loads(schema("id"))
        assert odradek_command("schema", "check", "orders-value", str(first), *options).status == 0
        refused = odradek_command("schema", "check", "orders-value", str(second), *options)
        assert refused.status == 1
        assert "not compatible" in refused.err
        assert odradek_command("schema", "get", "orders-value", "--version", "7", *options).status == 3
        assert odradek_command("schema", "delete", "orders-value", "--yes", *options).status == 0
        assert odradek_command("schema", "list", "--output", "json", *options).json == []
