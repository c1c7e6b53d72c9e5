"""The checker finds each anomaly in a history that has it, by its name, and nothing in one that has none."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from compat_tests.histories.operation import (
    ASSIGN,
    COMMIT,
    DELETE,
    FAIL,
    FAULT,
    INFO,
    JOIN,
    OK,
    POLL,
    READ,
    REBALANCE,
    RISE,
    SEEK,
    SEND,
    SETTINGS,
    SHARE_ACKNOWLEDGE,
    SHARE_POLL,
    SUBSCRIBE,
    TXN,
    WRITE,
    MalformedHistory,
    Operation,
    parse,
    write,
)
from compat_tests.histories.verdict import ANOMALIES, judge

K, L = "orders/0", "orders/1"
DRAINED = Operation(0, SETTINGS, OK, 0, 0, drained=True)


class Script:
    """Operations one after another, unless `at` gives other times."""

    def __init__(self) -> None:
        self.now = 0
        self.operations: list[Operation] = []

    def add(self, process: int, f: str, value: object = None, type: str = OK, **more: Any) -> Script:
        self.now += 10
        times = more.pop("at", (self.now, self.now + 5))
        began, completed = times
        self.operations.append(Operation(process, f, type, began, completed, value, **more))
        return self

    def send(self, process: int, *pairs: tuple[int | None, str], key: str = K, type: str = OK, **more: Any) -> Script:
        f = str(more.pop("f", SEND))
        return self.add(process, f, [["send", key, list(pair)] for pair in pairs], type, **more)

    def poll(self, process: int, *pairs: tuple[int, str], key: str = K, **more: Any) -> Script:
        return self.add(process, POLL, [["poll", {key: [list(pair) for pair in pairs]}]], **more)

    def txn(self, process: int, *micro: object, type: str = OK, **more: Any) -> Script:
        return self.add(process, TXN, list(micro), type, **more)


def three() -> Script:
    """Three records, sent one by one."""
    return Script().send(1, (0, "a")).send(1, (1, "b")).send(1, (2, "c"))


def sent(key: str, offset: int | None, value: str) -> list[object]:
    return ["send", key, [offset, value]]


def polled(key: str, *pairs: tuple[int, str]) -> list[object]:
    return ["poll", {key: [list(pair) for pair in pairs]}]


CLEAN = three().add(2, ASSIGN, {K: 0}).poll(2, (0, "a"), (1, "b")).poll(2, (2, "c"))

#: The name of an anomaly, and histories that have it and no other that is a violation, unless listed beside it.
FOUND: dict[str, list[tuple[Script, set[str]]]] = {
    "lost-write": [
        (three().add(2, ASSIGN, {K: None}).poll(2, (0, "a")).poll(3, (2, "c")), set()),
        # A transaction with an unknown outcome, one half of which is there.
        (
            Script()
            .txn(1, sent(K, None, "a"), sent(L, None, "b"), type=INFO)
            .poll(2, (0, "a"))
            .add(0, SETTINGS, drained=True),
            set(),
        ),
    ],
    "duplicate": [(three().poll(2, (0, "a"), (1, "b"), (2, "c"), (3, "a")), {"int-nonmonotonic-poll"})],
    "inconsistent-offsets": [
        (
            three().poll(2, (0, "a"), (1, "c"), (2, "c")),
            {"lost-write", "duplicate", "int-nonmonotonic-poll", "nonmonotonic-send"},
        )
    ],
    "unseen": [(three().poll(2, (0, "a"), (1, "b")).add(0, SETTINGS, drained=True), set())],
    "unwritten": [(three().poll(2, (0, "a"), (1, "b"), (2, "c"), (3, "d")), set())],
    "G1a": [(Script().txn(1, sent(K, None, "a"), type=FAIL).poll(2, (0, "a")), set())],
    "precommitted-read": [(Script().txn(1, sent(K, 0, "a"), polled(K, (0, "a"))), set())],
    "poll-skip": [
        (three().poll(3, (0, "a"), (1, "b"), (2, "c")).poll(2, (0, "a")).poll(2, (2, "c")), set()),
        (three().poll(3, (0, "a"), (1, "b"), (2, "c")).add(2, ASSIGN, {K: 0}).poll(2, (1, "b"), (2, "c")), set()),
        (three().poll(3, (0, "a"), (1, "b"), (2, "c")).add(2, SEEK, {K: 1}).poll(2, (2, "c")), set()),
    ],
    "nonmonotonic-poll": [
        (three().poll(2, (0, "a"), (1, "b"), (2, "c")).poll(2, (1, "b"), (2, "c")), set()),
        (three().poll(2, (0, "a"), (1, "b"), (2, "c")).add(2, SEEK, {K: 2}).poll(2, (0, "a"), (1, "b")), set()),
    ],
    "nonmonotonic-send": [(Script().send(1, (1, "a")).send(1, (0, "b")).poll(2, (0, "b"), (1, "a")), set())],
    "int-poll-skip": [(three().poll(3, (0, "a"), (1, "b"), (2, "c")).poll(2, (0, "a"), (2, "c")), set())],
    "int-nonmonotonic-poll": [
        (three().poll(3, (0, "a"), (1, "b"), (2, "c")).poll(2, (0, "a"), (1, "b"), (0, "a")), set()),
    ],
    "int-nonmonotonic-send": [(Script().send(1, (1, "a"), (0, "b")).poll(2, (0, "b"), (1, "a")), set())],
    "G1c": [
        (
            Script()
            .txn(1, sent(K, 0, "a"), polled(L, (0, "b")), at=(10, 50))
            .txn(2, sent(L, 0, "b"), polled(K, (0, "a")), at=(11, 49)),
            set(),
        )
    ],
    "G1c-process": [
        (
            Script()
            .txn(1, polled(L, (0, "b")), at=(10, 20))
            .txn(1, sent(K, 0, "a"), at=(21, 50))
            .txn(2, polled(K, (0, "a")), at=(11, 20))
            .txn(2, sent(L, 0, "b"), at=(21, 50)),
            set(),
        )
    ],
    "G1c-realtime": [(Script().poll(2, (0, "a"), at=(10, 20)).send(1, (0, "a"), at=(30, 40)), set())],
    "chain-duplicate": [
        (
            three()
            .txn(5, polled(K, (0, "a")), sent("copies/0", 0, "d<a"))
            .txn(6, polled(K, (0, "a")), sent("copies/0", 2, "e<a"))
            .poll(2, (0, "d<a"), (2, "e<a"), key="copies/0"),
            set(),
        )
    ],
    "chain-lost": [
        (
            three()
            .poll(2, (0, "a"), (1, "b"), (2, "c"))
            .txn(5, polled(K, (0, "a")), sent("copies/0", 0, "d<a"))
            .txn(5, polled(K, (1, "b")), sent("copies/0", None, "e<b"), type=FAIL)
            .txn(5, polled(K, (1, "b"), (2, "c")), sent("copies/0", 2, "f<b"))
            .poll(2, (0, "d<a"), (2, "f<b"), key="copies/0")
            .add(0, SETTINGS, drained=True),
            set(),
        )
    ],
    "fenced-commit": [
        (
            Script()
            .add(1, JOIN, group="g", generation=1)
            .add(2, JOIN, group="g", generation=2)
            .add(1, COMMIT, {K: 1}, group="g", generation=1),
            set(),
        )
    ],
    "nonlinearizable": [
        (Script().add(1, WRITE, 1, register="r").add(1, WRITE, 2, register="r").add(2, READ, 1, register="r"), set()),
        (Script().add(1, WRITE, 1, register="r").add(2, READ, None, register="r"), set()),
        (Script().add(1, RISE, 4, register="r").add(2, RISE, 4, register="r"), set()),
    ],
    "share-accepted-again": [
        (
            three()
            .add(5, SHARE_POLL, [[K, 0, "a", 1]], group="s")
            .add(5, SHARE_ACKNOWLEDGE, [[K, 0, "accept"]], group="s")
            .add(6, SHARE_POLL, [[K, 0, "a", 2]], group="s"),
            set(),
        )
    ],
    "share-count-not-rising": [
        (
            three()
            .add(5, SHARE_POLL, [[K, 0, "a", 2]], group="s")
            .add(5, SHARE_ACKNOWLEDGE, [[K, 0, "release"]], group="s")
            .add(6, SHARE_POLL, [[K, 0, "a", 2]], group="s"),
            set(),
        )
    ],
    "share-over-limit": [(three().add(5, SHARE_POLL, [[K, 0, "a", 6]], group="s"), set())],
    "share-delivered-while-locked": [
        (three().add(5, SHARE_POLL, [[K, 0, "a", 1]], group="s").add(6, SHARE_POLL, [[K, 0, "a", 2]], group="s"), set())
    ],
    "share-lost": [
        (
            three()
            .poll(2, (0, "a"), (1, "b"), (2, "c"))
            .add(5, SHARE_POLL, [[K, 0, "a", 1], [K, 2, "c", 1]], group="s")
            .add(5, SHARE_ACKNOWLEDGE, [[K, 0, "accept"], [K, 2, "accept"]], group="s")
            .add(0, SETTINGS, drained=True),
            set(),
        ),
        (
            three()
            .poll(2, (0, "a"), (1, "b"), (2, "c"))
            .add(5, SHARE_POLL, [[K, 0, "a", 1], [K, 1, "b", 1], [K, 2, "c", 1]], group="s")
            .add(5, SHARE_ACKNOWLEDGE, [[K, 0, "accept"], [K, 1, "release"], [K, 2, "accept"]], group="s")
            .add(0, SETTINGS, drained=True),
            set(),
        ),
    ],
}  # fmt: skip
#: Anomalies that Kafka allows: they are listed, and break no promise.
ALLOWED: dict[str, Script] = {
    "int-send-skip": Script()
    .txn(1, sent(K, 0, "a"), sent(K, 2, "c"), at=(10, 40))
    .send(2, (1, "b"), at=(11, 30))
    .poll(3, (0, "a"), (1, "b"), (2, "c"), at=(50, 60)),
    "G0": Script()
    .txn(1, sent(K, 0, "a"), sent(L, 1, "d"), at=(10, 40))
    .txn(2, sent(K, 1, "b"), sent(L, 0, "c"), at=(10, 40))
    .poll(3, (0, "a"), (1, "b"), at=(50, 60))
    .poll(3, (0, "c"), (1, "d"), key=L, at=(60, 70)),
    "G0-process": Script()
    .txn(1, sent(K, 1, "b"), at=(10, 20))
    .txn(1, sent(L, 0, "c"), at=(21, 40))
    .txn(2, sent(L, 1, "d"), at=(10, 20))
    .txn(2, sent(K, 0, "a"), at=(21, 40)),
    "G0-realtime": Script().send(1, (1, "b")).send(2, (0, "a")),
    "poll-skip": three().poll(3, (0, "a"), (1, "b"), (2, "c")).add(2, SUBSCRIBE, ["orders"]).poll(2, (0, "a")).poll(
        2, (2, "c")
    ),
    "nonmonotonic-poll": three()
    .add(2, SUBSCRIBE, ["orders"])
    .poll(2, (0, "a"), (1, "b"), (2, "c"))
    .poll(2, (1, "b"), (2, "c")),
    "unseen": three(),
}  # fmt: skip
#: Histories that look like an anomaly and have none.
EXCUSED = {
    "no anomaly": CLEAN,
    "a key that came back by a rebalance": three()
    .poll(2, (0, "a"), (1, "b"), (2, "c"))
    .add(2, REBALANCE, [K])
    .poll(2, (1, "b"), (2, "c")),
    "reads of a transaction that failed are read again": three()
    .txn(2, polled(K, (0, "a")), type=FAIL)
    .poll(2, (0, "a"), (1, "b"), (2, "c")),
    "a reader of uncommitted records sees an aborted one": Script()
    .txn(1, sent(K, None, "a"), type=FAIL)
    .poll(2, (0, "a"), isolation="read_uncommitted"),
    "an unknown send is not there": Script().send(1, (None, "a"), type=INFO).send(2, (0, "b")).poll(3, (0, "b")),
    "an unknown write is seen late": Script()
    .add(1, WRITE, 1, type=INFO, register="r")
    .add(2, READ, None, register="r")
    .add(2, READ, 1, register="r"),
    "a coordinator that was replaced reads an old value": Script()
    .add(1, WRITE, 1, register="r")
    .add(1, WRITE, 2, register="r")
    .add(0, FAULT, "cut", at=(25, 60))
    .add(2, READ, 1, register="r", at=(30, 40)),
    "a topic was deleted before its records were read": three()
    .poll(2, (0, "a"))
    .add(1, DELETE, [K])
    .add(0, SETTINGS, drained=True),
    "a new leader counts a delivery again": three()
    .add(5, SHARE_POLL, [[K, 0, "a", 1]], group="s")
    .add(0, FAULT, "kill")
    .add(6, SHARE_POLL, [[K, 0, "a", 1]], group="s"),
    "a lock ended": three()
    .add(0, SETTINGS, {"delivery_limit": 5, "lock_ns": 1000}, group="s")
    .add(5, SHARE_POLL, [[K, 0, "a", 1]], group="s", at=(100, 110))
    .add(6, SHARE_POLL, [[K, 0, "a", 2]], group="s", at=(1000, 1101)),
    "an archived record at its limit": three()
    .poll(2, (0, "a"), (1, "b"), (2, "c"))
    .add(0, SETTINGS, {"delivery_limit": 1, "lock_ns": 1000}, group="s", drained=True)
    .add(5, SHARE_POLL, [[K, at, value, 1] for at, value in enumerate("abc")], group="s"),
    "a commit of the newest generation": Script()
    .add(1, JOIN, group="g", generation=1)
    .add(1, COMMIT, {K: 1}, group="g", generation=1)
    .add(2, JOIN, group="g", generation=2),
}


@pytest.mark.parametrize(
    ("anomaly", "script", "beside"),
    [(name, script, beside) for name, scripts in FOUND.items() for script, beside in scripts],
)
def test_history_with_an_injected_fault_is_found_by_its_name(anomaly: str, script: Script, beside: set[str]) -> None:
    assert judge(script.operations).found == {anomaly} | beside


@pytest.mark.parametrize("anomaly", ALLOWED)
def test_allowed_anomaly_is_listed_and_breaks_no_promise(anomaly: str) -> None:
    verdict = judge(ALLOWED[anomaly].operations)
    assert anomaly in verdict.allowed and not verdict.violations, verdict


@pytest.mark.parametrize("name", EXCUSED)
def test_correct_history_has_no_violation(name: str) -> None:
    verdict = judge(EXCUSED[name].operations)
    assert not verdict.violations, verdict


def test_each_name_has_a_history() -> None:
    assert {*FOUND, *ALLOWED} == set(ANOMALIES)


def test_worst_lag_is_the_time_since_a_newer_record_was_certain() -> None:
    script = Script().send(1, (0, "a"), at=(1, 2)).poll(2, (0, "a"), at=(3, 4)).send(1, (1, "b"), at=(5, 6))
    lag = judge(script.poll(2, at=(106, 107)).operations).lag
    assert lag is not None and (lag.nanoseconds, lag.key, lag.process) == (100, K, 2)
    assert judge(script.poll(2, (1, "b"), at=(108, 109)).operations).lag == lag


def test_program_judges_a_file_and_its_status_says_so(tmp_path: Path) -> None:
    clean, bad = tmp_path / "clean.jsonl", tmp_path / "bad.jsonl"
    write(clean, CLEAN.operations)
    write(bad, FOUND["G1a"][0][0].operations)
    shown = [_check(path) for path in (clean, bad)]
    assert [status for status, _ in shown] == [0, 1]
    assert "anomalies: none" in shown[0][1] and "anomalies: G1a 1" in shown[1][1]


def _check(path: Path) -> tuple[int, str]:
    command = [sys.executable, "-m", "compat_tests.histories", "check", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).resolve().parents[2], timeout=60)
    return done.returncode, done.stdout + done.stderr


def test_lines_return_what_was_written(tmp_path: Path) -> None:
    lines = [operation.to_line() for operation in CLEAN.operations]
    assert [operation.to_line() for operation in parse(lines)] == lines


GOOD_LINE = {"process": 1, "f": "send", "type": "ok", "invoked": 1, "completed": 2, "value": [["send", K, [0, "a"]]]}


@pytest.mark.parametrize(
    "change",
    [
        {"f": "sends"},
        {"type": "okay"},
        {"completed": 0},
        {"value": [["send", K, ["0", "a"]]]},
        {"value": [["send", K, 7]]},
        {"odd": 1},
    ],
    ids=str,
)
def test_malformed_line_is_rejected_with_its_number(change: dict[str, object]) -> None:
    lines = [json.dumps(GOOD_LINE) + "\n", json.dumps({**GOOD_LINE, **change}) + "\n"]
    with pytest.raises(MalformedHistory, match=r"^line 2: "):
        list(parse(lines))


def test_last_line_that_a_kill_cut_short_is_left_out() -> None:
    assert len(list(parse([json.dumps(GOOD_LINE) + "\n", '{"process": 1, "f": ']))) == 1
