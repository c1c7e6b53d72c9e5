"""Tables made anew from the log: once in the life of an archiver, and whatever fails meanwhile."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from odradek.archive import ArchiveError, ArchiveOptions, Archiver, topic_archive
from odradek.archive.store import Table, TableChanged
from odradek.columns import ScanError, ValueSchema

from tests.archive.harness.broker import Harness
from tests.archive.harness.tables import KINDS, open_table, source_of

_DEADLINE_S = 60
_NUMBERS = ValueSchema("json", pa.schema([("v", pa.int64())]))
_TEXTS = ValueSchema("json", pa.schema([("v", pa.string())]))


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Counted:
    """A table that counts how often it is made anew, and fails in the named steps."""

    def __init__(self, table: Table, restarts: list[int], failures: dict[str, list[Exception]]) -> None:
        self._table, self._restarts, self._failures = table, restarts, failures

    def __getattr__(self, name: str) -> Any:
        if self._failures.get(name):
            raise self._failures[name].pop(0)
        if name == "restart":
            self._restarts.append(1)
        return getattr(self._table, name)


def until(check: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _DEADLINE_S
    while not check():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def old_table(harness: Harness, kind: str, folder: Path, topic: str) -> None:
    """A table of numbers; the value of offset 1 does not fit it."""
    harness.create(topic)
    harness.write(topic, [b'{"v": 1}', b'{"v": "text"}', b'{"v": 3}'])
    Archiver(
        harness.client, [topic], lambda owner: open_table(kind, folder, owner), ArchiveOptions(values=_NUMBERS)
    ).run(once=True)
    assert offsets(kind, folder, topic) == [0, 2]


def offsets(kind: str, folder: Path, topic: str) -> list[int]:
    return sorted(source_of(kind, folder, topic).read(0, 0, 99).column("offset").to_pylist())


def values(kind: str, folder: Path, topic: str) -> list[Any]:
    return list(source_of(kind, folder, topic).read(0, 0, 99).sort_by("offset").column("value").to_pylist())


@pytest.mark.parametrize("step", ["restart", "write", "commit"])
@pytest.mark.parametrize("error", [ArchiveError("disk full"), ScanError("no leader"), OSError("disk full")], ids=repr)
def test_failed_turn_is_repeated_and_makes_the_table_anew(
    harness: Harness, kind: str, tmp_path: Path, step: str, error: Exception
) -> None:
    topic = f"failed_{kind}_{step}_{type(error).__name__}"
    old_table(harness, kind, tmp_path, topic)
    failures: dict[str, list[Exception]] = {step: [error]}
    made = Archiver(
        harness.client, [topic], lambda owner: Counted(open_table(kind, tmp_path, owner), [], failures),  # type: ignore[arg-type, return-value]
        ArchiveOptions(values=_TEXTS, rebuild=True, freshness_s=0.1),
    )  # fmt: skip
    thread = threading.Thread(target=made.run)
    thread.start()
    try:
        until(lambda: bool(made.archived) and made.archived[0].is_caught_up)
    finally:
        made.stop()
        thread.join(_DEADLINE_S)
    assert not failures[step]
    assert values(kind, tmp_path, topic) == [{"v": "1"}, {"v": "text"}, {"v": "3"}]


def test_table_that_is_opened_again_is_not_made_anew_again(harness: Harness, kind: str, tmp_path: Path) -> None:
    topic = f"once_{kind}"
    old_table(harness, kind, tmp_path, topic)
    failures: dict[str, list[Exception]] = {}
    restarts: list[int] = []
    opened: list[int] = []

    def opens(owner: Any) -> Any:
        opened.append(1)
        return Counted(open_table(kind, tmp_path, owner), restarts, failures)

    made = Archiver(
        harness.client, [topic], opens, ArchiveOptions(values=_TEXTS, rebuild=True, freshness_s=0.1)
    )  # fmt: skip
    thread = threading.Thread(target=made.run)
    thread.start()
    try:
        until(lambda: bool(made.archived) and made.archived[0].rows == 3)
        failures["write"] = [TableChanged("another process archives it")]
        harness.write(topic, [b'{"v": 4}'])
        until(lambda: made.archived[0].rows >= 4)
    finally:
        made.stop()
        thread.join(_DEADLINE_S)
    assert (len(opened), len(restarts), made.archived[0].rows) == (2, 1, 4)
    assert offsets(kind, tmp_path, topic) == [0, 1, 2, 3]


def test_failed_check_of_the_log_leaves_the_table_as_it_was(
    harness: Harness, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = f"checked_{kind}"
    old_table(harness, kind, tmp_path, topic)
    original, failures = topic_archive.check_same_log, [ArchiveError("the log has lost records")]

    def check(*given: Any) -> None:
        if failures:
            raise failures.pop()
        original(*given)

    monkeypatch.setattr(topic_archive, "check_same_log", check)
    table = open_table(kind, tmp_path, topic)
    archive = topic_archive.TopicArchive(topic, table, ArchiveOptions(values=_NUMBERS, rebuild=True))
    cluster = topic_archive.Cluster(harness.client)
    try:
        with pytest.raises(ArchiveError, match="lost records"):
            archive.advance(cluster)
        harness.write(topic, [b'{"v": 4}'])
        archive.advance(cluster)
    finally:
        archive.close()
        cluster.close()
    assert values(kind, tmp_path, topic) == [{"v": 1}, {"v": 3}, {"v": 4}]
