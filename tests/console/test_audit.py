"""The audit log has a line for each change with the cluster that it was for, also where it ends in an unexpected error."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import odradek
import pytest
from odradek.admin.connection import Connection
from odradek.console import application as console
from odradek.console.access import audit
from odradek.console.access.users import add_user
from odradek.console.actions import Done, Fields
from odradek.console.backend import Backend
from odradek.console.settings import Settings
from starlette.testclient import TestClient

pytestmark = pytest.mark.usefixtures("sockets")


@pytest.fixture(scope="module")
def connections() -> Iterator[dict[str, Connection]]:
    with odradek.Broker() as east, odradek.Broker() as west:
        yield {
            name: Connection({"bootstrap.servers": broker.bootstrap_servers})
            for name, broker in (("east", east), ("west", west))
        }


@pytest.fixture
def audit_file(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "audit.jsonl"
    handlers = audit.log.handlers
    audit.begin(path)
    yield path
    audit.log.handlers = handlers


def visitor_of(app: Any) -> TestClient:
    return TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=False)


def create_topic(visitor: TestClient, base: str, name: str) -> int:
    found = re.search(r'name="csrf" value="([^"]+)"', visitor.get(f"{base}/topics").text)
    assert found is not None
    fields = {"csrf": found[1], "name": name}
    return int(visitor.post(f"{base}/topics", data=fields, follow_redirects=False).status_code)


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_lines_name_the_cluster_that_a_change_is_for(connections: dict[str, Connection], audit_file: Path) -> None:
    clusters = {name: Backend(one, Settings(), name) for name, one in connections.items()}
    visitor = visitor_of(console.application(Backend(connections["east"], Settings()), clusters))
    for name in ("west", "east"):
        assert create_topic(visitor, f"/clusters/{name}", "orders") == 303
    assert [(one["cluster"], one["outcome"][:5]) for one in lines_of(audit_file)] == [
        ("west", "done:"), ("east", "done:"),
    ]  # fmt: skip


def test_lines_of_one_cluster_have_its_address_until_its_id_is_known(
    connections: dict[str, Connection], audit_file: Path
) -> None:
    backend = Backend(connections["east"], Settings())
    visitor = visitor_of(console.application(backend))
    create_topic(visitor, "", "letters")
    backend.poller.snapshot = backend.poller._polled(backend.poller._link.open())
    create_topic(visitor, "", "no topic!")
    assert [one["cluster"] for one in lines_of(audit_file)] == [
        connections["east"].bootstrap, backend.snapshot.cluster_id,
    ]  # fmt: skip
    backend.poller._link.close()


def test_change_that_ends_in_an_unexpected_error_has_a_line(
    connections: dict[str, Connection], audit_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(backend: Backend, form: Fields) -> Done:
        raise ZeroDivisionError("a password")

    monkeypatch.setitem(console.ACTIONS, "/topics", ("topic.create", broken))
    visitor = visitor_of(console.application(Backend(connections["east"], Settings())))
    assert create_topic(visitor, "", "orders") == 500
    (line,) = lines_of(audit_file)
    assert line["outcome"] == "failed: ZeroDivisionError; it may have been done"
    assert line["action"] == "topic.create" and line["details"] == {"name": "orders"}


def test_file_of_users_that_cannot_be_read_is_a_sentence_and_a_line(
    connections: dict[str, Connection], audit_file: Path, tmp_path: Path
) -> None:
    users = tmp_path / "users"
    add_user(users, "alice", "admin", "long enough")
    visitor = visitor_of(console.application(Backend(connections["east"], Settings(users=users))))
    form = visitor.get("/login").text
    token = re.search(r'name="csrf" value="([^"]+)"', form)
    assert token is not None
    users.write_text("alice:admin:pbkdf2$1$abc$ab\n")
    response = visitor.post("/login", data={"csrf": token[1], "name": "alice", "password": "long enough"})
    assert response.status_code == 503 and "line 1: not NAME:ROLE:HASH" in response.text
    (line,) = lines_of(audit_file)
    assert line["action"] == "login" and "line 1: not NAME:ROLE:HASH" in line["outcome"] and "cluster" not in line
