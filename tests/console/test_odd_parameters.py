"""Every parameter of every route with odd values: never a status of 500, and every refusal is a sentence.

The parameters are those that the code reads, by its syntax trees: those of a new page are tested when they are written.
"""

from __future__ import annotations

import ast
import html
import importlib
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any
from urllib.parse import quote

import odradek
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from odradek.admin.connection import Connection
from odradek.admin.features import Change, update_features
from odradek.admin.group_offsets import commit
from odradek.admin.share_offsets import alter_share_offsets
from odradek.console import actions, budgets, rendering, table_order
from odradek.console.application import ACTIONS, FIGURES, PAGES, RECORD_PAGES, application
from odradek.console.backend import Backend
from odradek.console.cluster.schemas import SchemaCatalog
from odradek.console.settings import Settings
from starlette.testclient import TestClient

from compat_tests.console.harness.connect_worker import ConnectWorker, connect_worker
from compat_tests.recipes import eventually
from tests.harness.examples import examples

pytestmark = [pytest.mark.usefixtures("sockets"), pytest.mark.slow]

_PAGES = "odradek.console.pages"
#: Parts of addresses, where they are not the odd one.
_PARTS = {
    "topic": "orders", "group": "readers", "subject": "orders-value", "connector": "orders-to-s3", "kind": "query",
    "name": "none", "broker": "0", "partition": "0", "offset": "1", "word": "restart",
}  # fmt: skip
#: The other fields of a form, so that the odd one is reached. Nothing is confirmed.
_FIELDS = {
    "name": "made", "topic": "orders", "partitions": "", "replicas": "", "configs": "", "config_value": "", "before": "1",
    "key": "k", "value": "v", "headers": "a=b", "partition": "0", "offsets": '[["orders", 0, 1]]', "kind": "classic",
    "subject": "s", "schema": "{}", "level": "NONE", "plan": "[]", "id": "t", "producer_id": "1", "first": "0", "count": "1",
    "principal": "alice", "operation": "read", "permission": "allow", "resource": "topic", "pattern": "literal",
    "host": "*", "user": "alice", "password": "long enough", "mechanism": "SCRAM-SHA-512", "quota": "1",
}  # fmt: skip
#: Values of an address or a form. A lone surrogate comes as the bytes that would be one, and in JSON.
_ODD = (
    "", " ", "--5", "-5", "-0", "+1", "1e9", "0x10", "1_000", "٣", "½", "1.5", str(1 << 31), str((1 << 63) - 1),
    str(1 << 63), "9" * 5000, "x" * 9_000, "nan", "-inf", "\0", "a\0b", "\ud800", "\ud83d\ude00", "..", "/", "%", "%2e",
    "[", "(", "*", "{}", "null", "true", '[["\\ud800", 0, 1]]', '[["orders", 0, Infinity]]', '[["orders", 1e400, 1]]',
    '[["orders", 0, [1e400]]]', '[["orders", 99999999999, 1]]', '[["orders", 0, [-1]]]', "@-1",
    "@99999999999999999", "-999999999999w", "stored", "0001-01-01T00:00", "9999-12-31T23:59:59.999999-14:00", "0.1-0.2",
    "0.", ".", "-", "0.-1", "new", "yes",
)  # fmt: skip
#: Numbers of parameters that are numbers, and no numbers.
_NO_NUMBERS = ("--5", "1e9", "٣", "½", "1_000", "0x10", "1.5", str(1 << 63), "9" * 5000, "\0", "nan", "x", "-5")
#: Longer than a text of Kafka's protocol.
_LONG = "x" * 40_000
_LONGER_OR_DEEP = st.sampled_from((_LONG, "[" * 5000))
_VALUES = st.sampled_from(_ODD) | st.text(st.characters(), max_size=20)
_READS = (
    "get", "getlist", "text_of", "required", "confirmed", "Field", "number_of", "number_in", "whole", "_chosen", "name_in",
)  # fmt: skip
#: Statuses of a refusal: of the viewer's, of a broker's, and of a service's.
_REFUSALS = (400, 404, 409, 413, 414, 502, 503)


class World:
    """The console of a small cluster, a visitor without logins, and the token of its forms."""

    def __init__(self, visitor: TestClient) -> None:
        self.visitor = visitor
        found = re.search(r'name="csrf" value="([^"]+)"', visitor.get("/topics").text)
        assert found is not None
        self.token = found[1]


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with (
        odradek.Broker(schema_registry=True) as broker,
        connect_worker() as worker,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(budgets, "USER_CPU_S", float("inf"))
        connection = Connection({"bootstrap.servers": broker.bootstrap_servers}, timeout_s=5.0)
        connection.patience_s = 0.0
        broker.topic("orders").send(*[b'{"n": 1}'] * 3, key=b"k")
        broker.topic("dead").send(b"x", headers=[("__dlq.errors.topic", b"orders")])
        with Connection({"bootstrap.servers": broker.bootstrap_servers}).admin() as admin:
            update_features(admin, {"share.version": (2, Change.UPGRADE)})
            commit(admin, "readers", {("orders", 0): 1})
            alter_share_offsets(admin, "sharers", {("orders", 0): 1})
        SchemaCatalog(str(broker.schema_registry_url), None).register("orders-value", '"string"', "AVRO")
        with served(connection, broker, worker) as visitor:
            eventually(lambda: "orders" in visitor.get("/topics").text, what="the cluster is read")
            yield World(visitor)


def served(connection: Connection, broker: odradek.Broker, worker: ConnectWorker) -> TestClient:
    made = Settings(schema_registry=str(broker.schema_registry_url), connect=worker.url)
    app = application(Backend(connection, made))
    return TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=False, follow_redirects=False)


def called(node: ast.AST) -> str:
    function = node.func if isinstance(node, ast.Call) else None
    return (
        function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""
    )


@cache
def tree_of(module: ModuleType) -> ast.Module:
    assert module.__file__ is not None
    return ast.parse(Path(module.__file__).read_text())


@cache
def modules_of(name: str) -> frozenset[str]:
    """A module of pages and those of pages that it imports."""
    found, left = set[str](), [name]
    while left:
        one = left.pop()
        if one in found:
            continue
        found.add(one)
        for node in ast.walk(tree_of(importlib.import_module(one))):
            if isinstance(node, ast.ImportFrom) and node.level == 1 and node.module:
                left.append(f"{_PAGES}.{node.module}")
    return frozenset(found)


def texts_in(node: ast.AST) -> Iterator[str]:
    return (one.value for one in ast.walk(node) if isinstance(one, ast.Constant) and isinstance(one.value, str))


@cache
def parameters_of(name: str) -> frozenset[str]:
    """The names that calls of `_READS` have, and the lists of names that loops go through."""
    found: set[str] = set()
    modules = [*map(importlib.import_module, sorted(modules_of(name))), table_order, actions, rendering]
    for module in modules:
        for node in ast.walk(tree_of(module)):
            if called(node) in _READS:
                found.update(
                    one.value
                    for one in node.args[:2]  # type: ignore[attr-defined]
                    if isinstance(one, ast.Constant) and isinstance(one.value, str)
                )
            if isinstance(node, ast.comprehension):
                found.update(texts_in(node.iter))
            if isinstance(node, ast.Compare) and "query_params" in ast.dump(node):
                found.update(texts_in(node.left))
    return frozenset(one for one in found if re.fullmatch(r"[a-z][a-z_-]{0,30}", one))


def parts_of(route: str) -> list[str]:
    return re.findall(r"\{(\w+)\}", route)


def address(route: str, **odd: str) -> str:
    """As pages write addresses: a slash and dots are quoted twice."""
    for name in parts_of(route):
        value = odd.get(name, _PARTS[name])
        value = value.replace("%", "%25").replace("/", "%2F")
        value = value.replace(".", "%2E") if value in (".", "..") else value
        route = route.replace(f"{{{name}}}", quoted(value))
    return route


def quoted(value: str) -> str:
    return quote(value.encode(errors="surrogatepass"), safe="")


def query(*pairs: tuple[str, str]) -> str:
    return "&".join(f"{name}={quoted(value)}" for name, value in pairs)


def sentence_of(page: str) -> str:
    """The sentence of a refusal: the page's, or that which a form leaves for the page after it."""
    found = re.search(r'class="words bad"(?![^>]*hidden)[^>]*>(.*?)</p>', page, re.DOTALL)
    return html.unescape(re.sub(r"<[^>]*>", "", found[1])).strip() if found is not None else page.strip()


def check(status: int, page: str, place: object) -> str:
    """A page, or a refusal with a sentence in words of ours."""
    assert status in (200, 303, *_REFUSALS), (status, place, page[:300])
    if status in (200, 303):
        return ""
    words = sentence_of(page)
    assert len(words.split()) >= 3 and "Traceback" not in words and "Error(" not in words, (place, words)
    return words


VIEWS: dict[str, Callable[..., Any]] = {**PAGES, **RECORD_PAGES, **FIGURES}


def send(
    world: World, route: str, parts: dict[str, str], odd: Mapping[str, str] = MappingProxyType({})
) -> tuple[int, str]:
    """Sends a form. Returns the status of a page with its outcome, and that page."""
    body = query(*{**_FIELDS, "csrf": world.token, **odd}.items())
    kind = {"content-type": "application/x-www-form-urlencoded"}
    response = world.visitor.post(address(route, **parts), content=body, headers=kind)
    if response.status_code != 303:
        return response.status_code, response.text
    page = world.visitor.get("/topics").text  # any page shows the outcome once
    return (400 if 'class="words bad" role="status">' in page else 200), page


@pytest.mark.parametrize("route", sorted(VIEWS))
@settings(max_examples=examples(60))
@given(data=st.data())
def test_page_takes_odd_parameters(world: World, route: str, data: st.DataObject) -> None:
    names = sorted(parameters_of(VIEWS[route].__module__) | {"filter-list"})
    assert {"sort", "desc"} <= set(names)
    pairs = data.draw(st.lists(st.tuples(st.sampled_from(names), _VALUES), min_size=1, max_size=3))
    if data.draw(st.booleans()):
        pairs = [*pairs, *pairs]  # the same parameters again
    response = world.visitor.get(f"{address(route)}?{query(*pairs)}")
    check(response.status_code, response.text, (route, pairs))


@pytest.mark.parametrize(
    ("route", "name"), [(route, name) for route in sorted({*VIEWS, *ACTIONS}) for name in parts_of(route)]
)
@settings(max_examples=examples(30))
@given(value=_VALUES | _LONGER_OR_DEEP)
def test_address_takes_odd_parts(world: World, route: str, name: str, value: str) -> None:
    # There is no route without one, and the test's client reads parts of dots and slashes twice.
    assume(value and "/" not in value and value not in (".", ".."))
    if route in VIEWS:
        response = world.visitor.get(address(route, **{name: value}))
        check(response.status_code, response.text, (route, name, value[:40]))
    if route in ACTIONS:
        check(*send(world, route, {name: value}), (route, name, value[:40]))


@pytest.mark.parametrize(("route", "name"), [
    ("/topics/{topic}/messages", "limit"), ("/topics/{topic}/messages", "partition"), ("/share/{topic}", "partition"),
    ("/topics", "page"), ("/groups", "page"), ("/topics/{topic}/partitions", "page"), ("/schemas/{subject}", "version"),
    ("/schemas/{subject}", "before"), ("/history", "days"),
])  # fmt: skip
def test_odd_number_in_an_address_is_refused_with_the_limits(world: World, route: str, name: str) -> None:
    for value in _NO_NUMBERS:
        response = world.visitor.get(f"{address(route)}?{query((name, value))}")
        assert response.status_code == 400, (value, response.status_code)
        assert f"{name} must be a whole number from 0 to" in sentence_of(response.text), value[:40]


@pytest.mark.parametrize("route", sorted(ACTIONS))
@settings(max_examples=examples(60))
@given(data=st.data())
def test_form_takes_odd_fields(world: World, route: str, data: st.DataObject) -> None:
    names = sorted(parameters_of(ACTIONS[route][1].__module__) - {"csrf"})
    odd = data.draw(st.dictionaries(st.sampled_from(names), _VALUES | _LONGER_OR_DEEP, min_size=1, max_size=2))
    check(*send(world, route, {}, odd), (route, odd))


@pytest.mark.parametrize(("route", "name"), [
    ("/topics", "partitions"), ("/topics", "replicas"), ("/topics/{topic}/alter", "partitions"),
    ("/topics/{topic}/alter", "replicas"), ("/topics/{topic}/trim", "partition"), ("/topics/{topic}/trim", "before"),
    ("/topics/{topic}/messages", "partition"), ("/transactions/abort-hanging", "partition"),
    ("/transactions/abort-hanging", "producer_id"), ("/share/{topic}/redrive", "partition"),
    ("/share/{topic}/redrive", "first"), ("/share/{topic}/redrive", "count"), ("/access/quotas", "quota"),
])  # fmt: skip
def test_odd_number_in_a_form_is_refused_with_the_limits(world: World, route: str, name: str) -> None:
    for value in _NO_NUMBERS:
        if (name, value) == ("quota", "1.5"):
            continue
        status, page = send(world, route, {}, {name: value})
        assert status == 400, (value, status)
        assert f"{name.replace('_', ' ')} must be a " in sentence_of(page), (value[:40], sentence_of(page))


@pytest.mark.parametrize(("route", "name"), [("/transactions/hanging", "topic"), ("/groups/{group}/reset", "topic")])
def test_name_longer_than_a_text_of_the_protocol_is_refused(world: World, route: str, name: str) -> None:
    response = world.visitor.get(f"{address(route)}?to=end&{query((name, _LONG))}")
    assert response.status_code == 400 and f"{name} is longer than 32000 bytes" in sentence_of(response.text)
