"""The reset of a group in the console: the partitions that its viewer names, of groups of all kinds."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator

import odradek
import pytest
from odradek.admin.connection import Connection
from odradek.admin.features import Change, update_features
from odradek.admin.group_offsets import commit
from odradek.admin.share_offsets import alter_share_offsets, share_start_offsets
from odradek.admin.topic_batches import create_topics
from odradek.admin.topic_changes import NewTopic
from odradek.console.application import application
from odradek.console.backend import Backend
from odradek.console.settings import Settings
from starlette.testclient import TestClient

pytestmark = pytest.mark.usefixtures("sockets")

_EVERY = {("orders", index): 1 for index in range(3)}


@pytest.fixture(scope="module")
def connection() -> Iterator[Connection]:
    with odradek.Broker() as broker:
        made = Connection({"bootstrap.servers": broker.bootstrap_servers})
        with made.admin() as admin:
            create_topics(admin, ["orders"], NewTopic(3), if_not_exists=False, dry_run=False)
            for index in range(3):
                broker.topic("orders").send(*[b"x"] * 4, partition=index)
            update_features(admin, {"share.version": (2, Change.UPGRADE)})
            alter_share_offsets(admin, "sharers", _EVERY)
            commit(admin, "readers", _EVERY)
        yield made


@pytest.fixture
def visitor(connection: Connection) -> TestClient:
    return TestClient(application(Backend(connection, Settings())), base_url="http://127.0.0.1")


def offsets_in(page: str) -> list[tuple[str, int, int]]:
    found = re.search(r'name="offsets"[^>]* value="([^"]*)"', page)
    assert found is not None, page
    return [tuple(one) for one in json.loads(html.unescape(found[1]))]


@pytest.mark.parametrize("group", ["sharers", "readers"])
def test_reset_names_the_chosen_partitions_alone(visitor: TestClient, group: str) -> None:
    page = visitor.get(f"/groups/{group}/reset", params={"to": "end", "topic": "orders:0,2"}).text
    assert offsets_in(page) == [("orders", 0, 4), ("orders", 2, 4)] and "Set 2 offsets" in page
    assert visitor.get(f"/groups/{group}/reset", params={"to": "end", "topic": "orders:7"}).status_code == 404
    assert visitor.get(f"/groups/{group}/reset", params={"to": "end", "topic": "orders:x"}).status_code == 400
    everything = visitor.get(f"/groups/{group}/reset", params={"to": "-1", "topic": ""}).text
    assert offsets_in(everything) == [("orders", index, 3) for index in range(3)]


@pytest.mark.parametrize("group", ["sharers", "readers"])
def test_offset_outside_the_log_is_named(visitor: TestClient, group: str) -> None:
    page = visitor.get(f"/groups/{group}/reset", params={"to": "9", "topic": "orders:1"}).text
    assert offsets_in(page) == [("orders", 1, 4)] and "orders-1 ends at 4: its offset is 4, not 9" in page


def test_partitions_that_were_not_chosen_keep_their_start(visitor: TestClient, connection: Connection) -> None:
    page = visitor.get("/groups/sharers/reset", params={"to": "end", "topic": "orders:0,2"}).text
    token = re.search(r'name="csrf" value="([^"]+)"', page)
    assert token is not None
    fields = {"csrf": token[1], "kind": "share", "offsets": json.dumps(offsets_in(page))}
    assert visitor.post("/groups/sharers/reset", data=fields, follow_redirects=False).status_code == 303
    with connection.admin() as admin:
        assert share_start_offsets(admin, "sharers") == {("orders", 0): 4, ("orders", 1): 1, ("orders", 2): 4}
