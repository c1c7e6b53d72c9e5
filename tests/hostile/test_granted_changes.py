"""Every route of the console by every role and method: the cluster changes by what a role is granted, and by nothing else.

The routes are those of the routing table. A cluster, its registry and its Connect worker are compared as a whole after each
request. Forms name topics of others in each of their fields, twice and in each place; requests come by each method, with
overrides of it, from other sites and with tokens of other sessions.
"""

from __future__ import annotations

import json
import logging
import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import odradek
import pytest
from odradek.admin import acls, quotas, users
from odradek.admin.configs import describe_topic_configs
from odradek.admin.connection import Connection
from odradek.admin.group_offsets import commit
from odradek.admin.log_offsets import partition_offsets
from odradek.admin.offset_reset import stored_offsets
from odradek.admin.topics import described_topics
from odradek.console.access.users import add_user
from odradek.console.application import ACTIONS, FIGURES, PAGES, RECORD_PAGES, application
from odradek.console.backend import Backend
from odradek.console.cluster.schemas import SchemaCatalog
from odradek.console.settings import Settings
from odradek.protocol.log_places import EARLIEST, LATEST
from starlette.testclient import TestClient

from compat_tests.console.harness.connect_worker import ConnectWorker, connect_worker
from compat_tests.recipes import eventually

pytestmark = [pytest.mark.usefixtures("sockets"), pytest.mark.slow]

PASSWORD = "correct horse battery"
ROLES = {"ann": "admin", "eve": "editor=mine.*", "bob": "viewer"}
OWN, OTHER = "mine.a", "orders"
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND", "post")
#: Requests whose method is another one than it seems.
OVERRIDES = {"x-http-method-override": "POST", "x-method-override": "POST", "x-http-method": "POST"}
PARTS = {"topic": OTHER, "group": "readers", "subject": "orders-value", "connector": "orders-to-s3", "word": "restart"}
#: Each field of each form, with something to do.
FIELDS = {
    "name": "made", "topic": OTHER, "partitions": "3", "configs": "retention.ms=5", "key": "retention.ms", "value": "5",
    "config_value": "5", "before": "1", "partition": "0", "offsets": f'[["{OTHER}", 0, 1]]', "subject": "made-value",
    "kind": "AVRO", "schema": '"string"', "level": "NONE", "principal": "bob", "operation": "read", "permission": "allow",
    "resource": "topic", "pattern": "literal", "user": "mallory", "password": "long enough to be one", "quota": "1",
    "mechanism": "SCRAM-SHA-512", "first": "0", "count": "1", "plan": "[]", "id": "t", "producer_id": "1", "_method": "POST",
}  # fmt: skip


class World:
    """A cluster with its services, consoles with logins, and a visitor for each role."""

    def __init__(self, broker: odradek.Broker, worker: ConnectWorker, folder: Path) -> None:
        self.broker, self.worker = broker, worker
        self.connection = Connection({"bootstrap.servers": broker.bootstrap_servers}, timeout_s=5.0)
        path = folder / "users"
        for name, role in ROLES.items():
            add_user(path, name, role, PASSWORD)
        self.settings = {"users": path, "schema_registry": str(broker.schema_registry_url), "connect": worker.url}

    def visitor(self, name: str, *, read_only: bool = False) -> TestClient:
        backend = Backend(self.connection, Settings(**self.settings, read_only=read_only))  # type: ignore[arg-type]
        made = TestClient(application(backend), base_url="http://127.0.0.1", follow_redirects=False)
        if name:
            fields = {"name": name, "password": PASSWORD, "csrf": token_in(made.get("/login").text)}
            assert made.post("/login", data=fields).status_code == 303
        return made

    def state(self) -> str:
        """Everything that a console can change."""
        with self.connection.admin() as admin:
            topics = [one for one in described_topics(admin, None) if not one.is_internal]
            configs = describe_topic_configs(admin, [one.name for one in topics], ["retention.ms"])
            found: dict[str, Any] = {
                "topics": {one.name: len(one.partitions) for one in topics},
                "offsets": [sorted(partition_offsets(admin, topics, at).items()) for at in (EARLIEST, LATEST)],
                "configs": repr(sorted(configs.items())),
                "commits": sorted(stored_offsets(admin, "readers", shares=False).items()),
                "rules": sorted(map(repr, acls.describe_acls(admin, acls.AclFilter()))),
                "users": repr(users.describe_users(admin)),
                "quotas": repr(quotas.describe_quotas(admin, {})),
            }
        registry = str(self.broker.schema_registry_url)
        for path in ("/subjects", "/config"):
            with urllib.request.urlopen(registry + path) as response:
                found[path] = response.read().decode()
        found["connect"] = [sorted(self.worker.states.items()), list(self.worker.restarts)]
        return json.dumps(found, sort_keys=True)


def token_in(page: str) -> str:
    found = re.search(r'name="csrf" value="([^"]+)"', page)
    return found[1] if found is not None else ""


def token_of(visitor: TestClient) -> str:
    """The token of the forms of a page; a viewer has one form, which ends the session."""
    return token_in(visitor.get("/topics").text)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    config = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    with odradek.Broker(config=config, schema_registry=True) as broker, connect_worker() as worker:
        made = World(broker, worker, tmp_path_factory.mktemp("granted"))
        for topic in (OWN, OTHER):
            broker.topic(topic).send(b'{"n": 1}', b'{"n": 2}', headers=[("__dlq.errors.topic", OTHER.encode())])
        with made.connection.admin() as admin:
            commit(admin, "readers", {(OTHER, 0): 2})
        SchemaCatalog(str(broker.schema_registry_url), None).register("orders-value", '"string"', "AVRO")
        yield made


def address(route: str, **parts: str) -> str:
    for name in re.findall(r"\{(\w+)\}", route):
        value = {**PARTS, "kind": "query", "name": "n", "broker": "0", "partition": "0", "offset": "0", **parts}[name]
        route = route.replace(f"{{{name}}}", quote(value, safe=""))
    return route


def body_of(fields: dict[str, str], *more: tuple[str, str]) -> str:
    return "&".join(f"{name}={quote(value)}" for name, value in (*fields.items(), *more))


FORM = {"content-type": "application/x-www-form-urlencoded"}
ROUTES = sorted({*PAGES, *RECORD_PAGES, *FIGURES, *ACTIONS, "/login", "/logout", "/health", "/static/", "/nowhere"})


@pytest.mark.parametrize("name", ["", "bob"])
@pytest.mark.parametrize("route", ROUTES)
def test_no_method_changes_anything_without_the_right(world: World, route: str, name: str) -> None:
    before = world.state()
    with world.visitor(name) as visitor:
        for method in METHODS:
            body = body_of({**FIELDS, "confirm": OTHER, "csrf": token_of(visitor)})
            for headers in ({}, OVERRIDES):
                for where in (address(route), *([f"{address(route)}?{body}"] if method in ("GET", "PUT") else [])):
                    response = visitor.request(method, where, content=body, headers={**FORM, **headers})
                    assert response.status_code < 500, (method, where, response.text[:200])
    assert world.state() == before


@pytest.mark.parametrize("name", ROLES)
def test_page_of_no_route_is_no_failure_for_any_role(world: World, name: str) -> None:
    with world.visitor(name) as visitor:
        for route in ROUTES:
            for end in ("", "/nowhere", "/nowhere/at/all", "%2Fx", "/"):
                for topic in (OWN, OTHER):
                    response = visitor.get(address(route, topic=topic) + end)
                    assert response.status_code < 500, (route, end, response.text[:200])


@pytest.mark.parametrize("route", sorted(ACTIONS))
def test_form_of_another_site_or_session_changes_nothing(world: World, route: str) -> None:
    before = world.state()
    with world.visitor("ann") as visitor, world.visitor("ann") as second:
        own, other = token_of(visitor), token_of(second)
        tokens = {"own": own, "other": other, "none": "", "cut": own[:-1], "long": own * 1000, "odd": "\u00e9\0"}
        origins: dict[str, dict[str, str]] = {
            "same": {},
            "null": {"origin": "null"},
            "foreign": {"origin": "http://evil.example"},
            "port": {"origin": "http://127.0.0.1:81"},
            "user": {"origin": "http://127.0.0.1@evil.example"},
            "site": {"sec-fetch-site": "cross-site"},
            "subdomain": {"sec-fetch-site": "same-site"},
        }
        for token_name, token in tokens.items():
            for origin, headers in origins.items():
                if (token_name, origin) == ("own", "same"):
                    continue
                for kind in (FORM, {"content-type": "text/plain"}, {"content-type": "application/json"}):
                    body = body_of({**FIELDS, "confirm": OTHER, "csrf": token})
                    response = visitor.post(address(route), content=body, headers={**kind, **headers})
                    assert response.status_code == 403, (token_name, origin, kind, response.text[:200])
    assert world.state() == before


@pytest.mark.parametrize("route", sorted(ACTIONS))
def test_editor_and_console_for_reading_change_no_topic_of_others(
    world: World, route: str, caplog: pytest.LogCaptureFixture
) -> None:
    before = world.state()
    part = "topic" if "{topic}" in route else "name"
    tricks = [
        OTHER,
        f"{OTHER} ",
        f"{OWN}/../{OTHER}",
        f"{OTHER}\0{OWN}",
        "MINE.A",
        "mine",
        "orders,mine.a",
        "*",
        "mine.[a]*x",
    ]
    with caplog.at_level(logging.INFO, logger="odradek.audit"):
        for name, read_only, names in (("eve", False, tricks), ("ann", True, [OWN])):
            with world.visitor(name, read_only=read_only) as visitor:
                token = token_of(visitor)
                for value in names:
                    fields = {**FIELDS, "confirm": value, "csrf": token, "topic": OWN, part: value}
                    more = (
                        [("topic", OWN), (part, value)] if "{topic}" not in route else [("topic", OWN), ("name", OWN)]
                    )
                    for where in {address(route, topic=value), address(route, topic=quote(value, safe=""))}:
                        response = visitor.post(where, content=body_of(fields, *more), headers=FORM)
                        granted = response.status_code == 303 and value.strip().startswith("mine.")
                        assert response.status_code in (403, 404) or granted, (where, value, response.status_code)
    assert world.state() == before


def test_administrator_and_editor_change_what_they_are_granted(world: World) -> None:
    """Shows that the forms of the tests above do something."""
    with world.visitor("eve") as editor:
        for route, value in (("/topics", "mine.b"), ("/topics/{topic}/messages", OWN), ("/topics/{topic}/alter", OWN)):
            before = world.state()
            fields = {**FIELDS, "csrf": token_of(editor), "topic": value, "name": value, "confirm": value}
            assert editor.post(address(route, topic=value), content=body_of(fields), headers=FORM).status_code == 303
            eventually(lambda known=before: world.state() != known, what=f"{route} has changed the cluster")
    changed = set()
    with world.visitor("ann") as visitor:
        for route in sorted(ACTIONS, key=lambda one: "delete" in one):
            before = world.state()
            confirm = "readers" if "{group}" in route else OTHER
            fields = {**FIELDS, "csrf": token_of(visitor), "confirm": confirm}
            response = visitor.post(address(route), content=body_of(fields), headers=FORM)
            assert response.status_code == 303, (route, response.text[:200])
            if world.state() != before:
                changed.add(route)
    assert len(changed) >= len(ACTIONS) // 2, changed
