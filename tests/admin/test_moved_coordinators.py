"""Groups whose coordinator moves between its look-up and the request: the next attempt looks it up again."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import odradek
import pytest
from odradek.admin.connection import Connection
from odradek.admin.errors import ResponseError
from odradek.admin.group_lag import lags
from odradek.admin.group_offsets import commit
from odradek.admin.groups import delete_group, describe_classic_group, describe_consumer_group
from odradek.admin.session import Admin
from odradek.cli.groups.descriptions import share_groups, streams_groups
from odradek.protocol.errors import ErrorCode

pytestmark = pytest.mark.usefixtures("sockets")
GROUP = "billing"
#: The former coordinator, which answers one request.
FORMER = 99


@pytest.fixture(scope="module")
def admin() -> Iterator[Admin]:
    with odradek.Broker() as broker:
        broker.topic("orders").send(b"1")
        with Connection({"bootstrap.servers": broker.bootstrap_servers}).admin() as made:
            commit(made, GROUP, {("orders", 0): 1})
            yield made


@pytest.mark.parametrize(
    "step",
    [
        lambda admin: describe_classic_group(admin, GROUP),
        lambda admin: describe_consumer_group(admin, GROUP),
        lambda admin: lags(admin, {GROUP: "classic"}),
        lambda admin: share_groups(admin, [GROUP]),
        lambda admin: streams_groups(admin, [GROUP]),
        lambda admin: delete_group(admin, GROUP),
    ],
    ids=["classic", "consumer", "lag", "share", "streams", "deletion"],
)
def test_coordinator_is_looked_up_again(
    admin: Admin, step: Callable[[Admin], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    found, ask = admin.coordinator_now, admin.ask
    asked: list[int | None] = []

    def coordinator_now(self: Admin, key: str, kind: int = 0) -> int:
        return found(key, kind) if asked else FORMER

    def former_ask(self: Admin, request: Any, node_id: int | None = None, version: Any = None) -> Any:
        asked.append(node_id)
        if node_id == FORMER:
            raise ResponseError(f"group {GROUP}", ErrorCode.NOT_COORDINATOR)
        return ask(request, node_id, version)

    monkeypatch.setattr(Admin, "coordinator_now", coordinator_now)
    monkeypatch.setattr(Admin, "ask", former_ask)
    with contextlib.suppress(ResponseError):  # the group is of one kind only
        step(admin)
    assert asked[0] == FORMER and asked[1] not in (FORMER, None)
