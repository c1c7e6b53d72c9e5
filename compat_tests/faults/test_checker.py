"""The checker passes a history without a flaw, and names each kind of flaw."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from odradek.protocol.records.record import Record, encode_batch

from compat_tests.faults.checker import CHECKS, History, anomalies, sent_again
from compat_tests.faults.history import Committed, Resumed, Seen, Sent, read, value_of, write
from compat_tests.faults.replicas import compare_all, differing

Story = tuple[History, dict[tuple[int, int], str]]


def good_story() -> Story:
    """Returns a flawless history: two producers, two partitions, a reader of both, and a group that resumes. Of two records
    with unknown outcomes the topic has one."""
    history, final = History(), {}
    for offset in range(10):
        for partition in (0, 1):
            producer = f"p{partition}"
            final[partition, offset] = value_of(producer, offset)
            history.sent.append(Sent(producer, offset, partition, offset, ""))
            history.seen.append(Seen("r", partition, offset, value_of(producer, offset)))
    history.sent[-1] = Sent("p1", 9, -1, -1, "_MSG_TIMED_OUT")
    history.sent.append(Sent("p1", 10, -1, -1, "not heard of"))
    history.committed += [Committed(100, 0, 4), Committed(200, 0, 8)]
    history.resumed += [Resumed(50, 0, -1), Resumed(150, 0, 4), Resumed(150, 0, 8), Resumed(250, 0, 8)]
    return history, final


def test_a_history_without_a_flaw_passes() -> None:
    assert anomalies(*good_story()) == []


def test_a_copy_is_the_clients_own_doing_only_under_a_newer_epoch_of_its_producer() -> None:
    history, final = good_story()
    final[0, 10] = final[0, 7]
    writers = dict.fromkeys(final, (1000, 0))
    assert sent_again(final, writers) == set()
    assert sent_again(final, writers | {(0, 10): (1001, 1)}) == set()
    assert sent_again(final, writers | {(0, 7): (1000, 1)}) == set()
    again = sent_again(final, writers | {(0, 10): (1000, 1)})
    assert again == {(0, 10)}
    assert {reported.partition(":")[0] for reported in anomalies(history, final)} == {"duplicated", "reordered"}
    assert anomalies(history, final, again) == []
    history.sent[2 * 7] = Sent("p0", 7, 0, 10, "")  # the later copy is the one that was acknowledged
    assert anomalies(history, final, again) == []


def test_an_acknowledgement_without_an_offset_counts_only_where_all_leaders_are_odradek() -> None:
    history, final = good_story()
    history.sent[0] = history.sent[0]._replace(offset=-1)
    assert anomalies(history, final) == []
    lost_value = history.sent[0]
    del final[0, 0]
    history.seen = [one for one in history.seen if (one.partition, one.offset) != (0, 0)]
    assert [one.partition(":")[0] for one in anomalies(history, final)] == ["lost"], lost_value
    history.trusts_offsets_only = True
    assert anomalies(history, final) == []


def lose(history: History, final: dict[tuple[int, int], str]) -> None:
    del final[1, 8]
    history.seen = [one for one in history.seen if (one.partition, one.offset) != (1, 8)]


def move(history: History, final: dict[tuple[int, int], str]) -> None:
    history.sent[0] = history.sent[0]._replace(offset=3)


def duplicate(history: History, final: dict[tuple[int, int], str]) -> None:
    final[0, 10] = "p0-9"


def invent(history: History, final: dict[tuple[int, int], str]) -> None:
    final[0, 10] = "p0-77"


def reorder(history: History, final: dict[tuple[int, int], str]) -> None:
    final[0, 3], final[0, 4] = final[0, 4], final[0, 3]


def change(history: History, final: dict[tuple[int, int], str]) -> None:
    history.seen[4] = history.seen[4]._replace(value="p0-1000")


def regress(history: History, final: dict[tuple[int, int], str]) -> None:
    history.seen.append(history.seen[-1])


def skip(history: History, final: dict[tuple[int, int], str]) -> None:
    del history.seen[6]


def forget(history: History, final: dict[tuple[int, int], str]) -> None:
    history.resumed.append(Resumed(300, 0, 4))


FLAWS = {
    "lost": lose,
    "moved": move,
    "duplicated": duplicate,
    "invented": invent,
    "reordered": reorder,
    "changed": change,
    "regressed": regress,
    "skipped": skip,
    "forgotten": forget,
}


@pytest.mark.parametrize("name", FLAWS)
def test_a_flaw_is_named(name: str) -> None:
    history, final = good_story()
    FLAWS[name](history, final)
    assert name in {reported.partition(":")[0] for reported in anomalies(history, final)}


def test_there_is_a_flaw_for_each_check() -> None:
    assert [check.__name__ for check in CHECKS] == list(FLAWS)


def test_a_line_that_a_kill_cut_short_is_no_line(tmp_path: Path) -> None:
    file = tmp_path / "history.jsonl"
    with file.open("w") as notes:
        write(notes, Sent("p", 1, 0, 5, ""))
        write(notes, Seen("r", 0, 5, "p-1"))
    file.write_text(file.read_text()[:-3])
    assert list(read([file])) == [Sent("p", 1, 0, 5, "")]


@pytest.mark.parametrize(
    ("spoil", "tells"),
    [
        (lambda place: None, False),
        (lambda place: (place / "00000000000000000000.log").write_bytes(b"fIrst"), True),
        (lambda place: (place / "00000000000000000009.log").unlink(), True),
    ],
    ids=["equal, though cut elsewhere", "another byte", "a segment less"],
)
def test_replicas_are_compared_whole(tmp_path: Path, spoil: Callable[[Path], object], tells: bool) -> None:
    one, other = tmp_path / "1" / "t-0", tmp_path / "2" / "t-0"
    one.mkdir(parents=True)
    other.mkdir(parents=True)
    (one / "00000000000000000000.log").write_bytes(b"firstsecond")
    (other / "00000000000000000000.log").write_bytes(b"first")
    (other / "00000000000000000009.log").write_bytes(b"second")
    spoil(other)
    assert bool(list(differing([tmp_path / "1", tmp_path / "2"], "t", 1))) is tells


@pytest.mark.parametrize(
    ("spoil", "differing_partitions"),
    [
        (lambda log_dir: None, []),
        (lambda log_dir: (log_dir / "__offsets-1" / "0.log").write_bytes(b"other"), ["__offsets-1"]),
        (lambda log_dir: (log_dir / "__offsets-1" / "0.log").unlink(), ["__offsets-1"]),
        (lambda log_dir: (log_dir / "t-0").rename(log_dir / "t-0.1f-delete"), ["t-0"]),
    ],
    ids=["equal", "another byte", "a log less", "a replica less"],
)
def test_replicas_of_all_topics_are_compared(
    tmp_path: Path, spoil: Callable[[Path], object], differing_partitions: list[str]
) -> None:
    log_dirs = [tmp_path / str(node) for node in (1, 2)]
    for log_dir in log_dirs:
        for name in ("t-0", "__offsets-1", "__cluster_metadata-0"):
            (log_dir / name).mkdir(parents=True)
            (log_dir / name / "0.log").write_bytes(b"first")
    (log_dirs[0] / "__cluster_metadata-0" / "0.log").write_bytes(b"of this controller")
    spoil(log_dirs[1])
    compared = compare_all(log_dirs, 2)
    assert (compared.partitions, compared.topics) == (2, 2)
    assert [name for name in ("__offsets-1", "t-0") if any(f" {name} " in one for one in compared.differing)] == (
        differing_partitions
    )


@pytest.mark.parametrize(
    ("first", "start_offsets", "is_equal"),
    [(2, (3, 3), True), (2, (2, 3), True), (3, (2, 3), False), (2, (None, None), False), (2, (None, 3), False)],
    ids=["deleted", "deleted to the end of a batch", "a record less", "nothing is deleted", "deleted in one replica"],
)
def test_replicas_may_lack_deleted_records_only(
    tmp_path: Path, first: int, start_offsets: tuple[int | None, int | None], is_equal: bool
) -> None:
    """`first`: the first offset of the second replica; `start_offsets`: the log start offsets of both."""
    batches = [encode_batch([Record(offset, 0, None, b"value")], leader_epoch=0) for offset in range(5)]
    log_dirs = [tmp_path / "1", tmp_path / "2"]
    for log_dir, begin, start_offset in zip(log_dirs, (0, first), start_offsets, strict=True):
        (log_dir / "t-0").mkdir(parents=True)
        (log_dir / "t-0" / "0.log").write_bytes(b"".join(batches[begin:]))
        if start_offset is not None:
            (log_dir / "log-start-offset-checkpoint").write_text(f"0\n2\nt 1 4\nt 0 {start_offset}\n")
    assert (not compare_all(log_dirs, 2).differing) is is_equal
