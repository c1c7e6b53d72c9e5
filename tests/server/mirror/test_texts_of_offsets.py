"""Texts beside committed offsets follow: programs keep their state there, as the sink of Spark its ledger."""

from __future__ import annotations

import subprocess

import odradek
import pytest
from odradek.admin import group_offsets

from compat_tests.sink.harness import Query, rows
from tests.server.harness.data_path import wait_until
from tests.server.harness.mirror_pair import Pair, admin_of, odradek_command, produce

pytestmark = pytest.mark.usefixtures("sockets")

ORDERS = ("orders", 0)


def switch(pair: Pair) -> subprocess.CompletedProcess[str]:
    done = odradek_command("mirror", "switch", "dr", "--yes", "-b", pair.here.bootstrap_servers)
    assert done.returncode == 0, done.stderr
    return done


def texts(pair: Pair) -> dict[str, group_offsets.Committed | None]:
    return {group: group_offsets.committed(pair.admin, group).get(ORDERS) for group in ("app", "wordy")}


@pytest.mark.parametrize("is_switched", [False, True], ids=["followed", "switched"])
def test_texts_are_copied_where_this_cluster_takes_them(is_switched: bool) -> None:
    with odradek.Broker() as source, odradek.Broker(config={"offset.metadata.max.bytes": 1000}) as here:
        pair = Pair(source, here, admin_of(source), admin_of(here))
        produce(source, "orders", 10)
        pair.create_link(topics="orders", groups="app|wordy")
        pair.wait_for("orders", lambda one: one.offset == 10)
        for number, text in enumerate(("first", "second")):
            for group, long in (("app", text), ("wordy", text * 201)):
                group_offsets.commit(pair.there, group, {ORDERS: 4 + number}, {ORDERS: long})
            if not is_switched:
                wanted = {"app": (4 + number, text), "wordy": (4 + number, "")}
                wait_until(
                    lambda wanted=wanted: texts(pair) == wanted, "the text follows also where the offset is the same"
                )
        if is_switched:
            assert "the texts of group wordy's offsets are not copied" in switch(pair).stderr
            assert texts(pair) == {"app": (5, "second"), "wordy": (5, "")}
        pair.admin.close()
        pair.there.close()


def test_batch_of_the_sink_is_there_once_when_it_is_run_again_after_a_switch(pair: Pair) -> None:
    there = Query(pair.there, pair.source.bootstrap_servers)
    number = 1000  # beyond the end of each partition
    there.decisions().commit(there.batch("run-a", number))
    pair.create_link(topics=there.name, groups=".*")
    pair.wait_for(there.name, lambda one: one.offset > 0)
    switch(pair)
    here = Query(pair.admin, pair.here.bootstrap_servers, there.name, has_topic=True)
    here.decisions().finish()
    here.decisions().commit(here.batch("run-b", number))
    here.decisions().commit(here.batch("run-b", number + 1))
    assert here.committed() == rows(number, number + 1)
