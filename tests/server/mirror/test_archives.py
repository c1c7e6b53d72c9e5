"""`odradek archive` of a mirrored topic: a table of its own, with progress of its own beside that of the source's table."""

from __future__ import annotations

from pathlib import Path

import pytest
from odradek.admin import group_offsets
from odradek.archive.parquet import ParquetSource

from tests.server.harness.data_path import wait_until
from tests.server.harness.mirror_pair import Pair, odradek_command, offsets, produce, values

pytestmark = pytest.mark.usefixtures("sockets")

GROUP, ORDERS = "odradek-archive-orders", ("orders", 0)


def archive(bootstrap: str, folder: Path, status: int = 0) -> str:
    done = odradek_command("archive", "orders", "--parquet", str(folder), "--once", "-b", bootstrap)
    assert done.returncode == status, done.stderr
    return done.stderr


def rows(folder: Path) -> list[tuple[int, bytes]]:
    table = ParquetSource(folder / "orders").read(0, 0, 1 << 40)
    return sorted(zip(table.column("offset").to_pylist(), table.column("value").to_pylist(), strict=True))


@pytest.mark.parametrize("prefix", ["", "eu."])
def test_link_leaves_the_progress_of_archives_to_the_archives_of_each_cluster(
    pair: Pair, tmp_path: Path, prefix: str
) -> None:
    at_source, here = pair.source.bootstrap_servers, pair.here.bootstrap_servers
    produce(pair.source, "orders", 10)
    pair.create_link(topics=".*", groups=".*", prefix=prefix)
    pair.wait_for(f"{prefix}orders", lambda one: one.offset == 10)
    if not prefix:
        archive(here, tmp_path / "here")
        assert rows(tmp_path / "here") == values(pair.here, "orders")
    produce(pair.source, "orders", 10)
    archive(at_source, tmp_path / "source")
    assert group_offsets.committed(pair.there, GROUP)[ORDERS].offset == 20
    # The link copies all groups of a round together.
    group_offsets.commit(pair.there, "app", {ORDERS: 20}, {})
    wait_until(lambda: offsets(pair, f"{prefix}app") == {(f"{prefix}orders", 0): 20}, "the group is copied")
    assert offsets(pair, f"{prefix}{GROUP}") == ({} if prefix else {ORDERS: 10})
    pair.wait_for(f"{prefix}orders", lambda one: one.offset == 20)
    if not prefix:
        archive(here, tmp_path / "here")
        assert offsets(pair, GROUP) == {ORDERS: 20}
        assert rows(tmp_path / "here") == rows(tmp_path / "source") == values(pair.here, "orders")


def test_table_of_the_source_is_not_continued_with_the_mirrored_topic(pair: Pair, tmp_path: Path) -> None:
    """The mirror may lack the table's last records after a fail-over, and have others at their offsets."""
    produce(pair.source, "orders", 10)
    archive(pair.source.bootstrap_servers, tmp_path)
    pair.create_link(topics="orders")
    pair.wait_for("orders", lambda one: one.offset == 10)
    done = odradek_command("mirror", "fail-over", "dr", "--yes", "-b", pair.here.bootstrap_servers)
    assert done.returncode == 0, done.stderr
    refused = archive(pair.here.bootstrap_servers, tmp_path, status=1)
    assert "has the records of topic orders of cluster" in refused
    assert "name another table for it: --table orders=NAME" in refused
    assert len(rows(tmp_path)) == 10
