"""Rounds of a link: what is committed again, and which changes begin one at once."""

from __future__ import annotations

import time

import pytest
from odradek.admin import config_changes, group_offsets, mirrors, topic_changes
from odradek.admin.groups import delete_group
from odradek.admin.quotas import alter_quotas
from odradek.replication.mirror.link import LinkState
from odradek.server.mirror import link
from odradek.server.mirror.link import PERIOD_S
from odradek.server.mirror.source import Source, SourceView

from tests.server.harness.data_path import wait_until
from tests.server.harness.mirror_pair import Pair, offsets, produce

pytestmark = pytest.mark.usefixtures("sockets")


@pytest.mark.parametrize("ended", ["killed", "paused"])
def test_offsets_of_an_idle_group_are_committed_again(pair: Pair, monkeypatch: pytest.MonkeyPatch, ended: str) -> None:
    """They would expire here: the group has no members."""
    monkeypatch.setattr(link, "KEPT_MS", 200)
    produce(pair.source, "orders", 10)
    for group in ("app", "gone"):
        group_offsets.commit(pair.there, group, {("orders", 0): 4})
    pair.create_link(topics="orders", groups="app|gone")
    for group in ("app", "gone"):
        wait_until(lambda group=group: offsets(pair, group) == {("orders", 0): 4})
    follower = pair.here.server.mirror.made.links["dr"]
    delete_group(pair.there, "gone")
    wait_until(lambda: follower._committed.keys() == {"app"}, "a deleted group is not committed any more")
    if ended == "killed":
        pair.source.kill()
        wait_until(lambda: follower.error)
    else:
        mirrors.set_state(pair.admin, "dr", LinkState.PAUSED, dry_run=False)
        pair.wait_for("orders", lambda one: one.state == "paused")
    for group in ("app", "gone"):
        delete_group(pair.admin, group)  # as if its offsets had expired
    wait_until(lambda: offsets(pair, "app") == {("orders", 0): 4}, "app is committed again")
    assert offsets(pair, "gone") == {}


def test_report_is_committed_again(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "KEPT_MS", 200)
    produce(pair.source, "orders", 1)
    produce(pair.here, "orders", 1)
    pair.create_link(topics="orders")
    wait_until(lambda: mirrors.read_report(pair.admin, "dr").refused)
    delete_group(pair.admin, "__mirror.dr")
    wait_until(lambda: mirrors.read_report(pair.admin, "dr").refused, "the report is there again")


def test_changes_of_other_things_begin_no_round(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = [0]
    view = Source.view

    def counted(source: Source) -> SourceView:
        rounds[0] += 1
        return view(source)

    monkeypatch.setattr(Source, "view", counted)
    produce(pair.source, "orders", 3)
    produce(pair.here, "own", 1)
    pair.create_link(topics="orders")
    pair.wait_for("orders", lambda one: one.state == "following")
    began, before = time.monotonic(), rounds[0]
    for number in range(20):
        alter_quotas(pair.admin, {"user": "alice"}, {"producer_byte_rate": 1000.0 + number})
        change = {"retention.ms": ("SET", str(77_000_000 + number))}
        config_changes.alter_configs(pair.admin, "topic", "own", change, dry_run=False)
    topic_changes.create_topics(pair.admin, {"another": topic_changes.NewTopic(1, 1)})
    assert rounds[0] - before <= (time.monotonic() - began) / PERIOD_S + 2
