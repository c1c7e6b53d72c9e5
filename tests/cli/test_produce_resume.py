"""A `produce` that stops tells how many lines are written and where to resume. Resumed, each line is in the topic once.

Lines without an acknowledgement are named: they may be in it once or twice.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import odradek
import pytest
from hypothesis import given
from hypothesis import strategies as st
from odradek.cli.records.line_ranges import Lines, parse_lines
from odradek.cli.records.taken_lines import Line, TakenLines
from odradek.client.user_errors import Misused

from compat_tests.cli.commands import Done, odradek_command
from tests.harness.examples import examples

COUNT = 2000
DEADLINE_S = 60.0
_RESUME = re.compile(r"(\d+) written.*\(--from-line ([\d,-]+)\)")
_NAMED = re.compile(r"may or may not be written \(lines? ([\d,-]+)\)")


@pytest.fixture(scope="module")
def broker(sockets: None) -> Iterator[odradek.Broker]:
    with odradek.Broker() as running:
        yield running


def run(broker: odradek.Broker, topic: str, *words: str, stdin: bytes = b"") -> Done:
    return odradek_command("produce", topic, *words, "-b", broker.bootstrap_servers, stdin=stdin)


def resume_of(done: Done) -> tuple[int, str]:
    """The number of written records in the message, and the option's value."""
    found = _RESUME.search(done.err)
    explained = [line for line in done.err.splitlines() if "waits for the acknowledgement" not in line]
    assert found is not None and len(explained) == 1, done
    return int(found[1]), found[2]


def values(broker: odradek.Broker, topic: str) -> Counter[bytes | None]:
    return Counter(record.value for record in broker.topic(topic).records(committed=True))


# ---- the numbers


@given(
    taken=st.integers(1, 60),
    missing=st.sets(st.integers(1, 60)),
    refused=st.sets(st.integers(1, 60)),
)
def test_resumed_lines_are_those_without_an_acknowledgement(taken: int, missing: set[int], refused: set[int]) -> None:
    lines = TakenLines(["standard input"])
    for number in range(1, taken + 1):
        lines.take(Line(0, number))
    missing = {line for line in missing if line <= taken}
    refused = {line for line in refused if line <= taken} - missing
    for line in missing:
        lines.fail(Line(0, line), is_refused=False)
    for line in refused:
        lines.fail(Line(0, line), is_refused=True)
    words = lines.words(is_whole=False)
    found = _RESUME.search(words)
    assert found is not None and int(found[1]) == taken - len(missing | refused)
    sent = {line for line in range(1, taken + 20) if line in parse_lines(found[2])}
    wanted = missing | refused | set(range(taken + 1, taken + 20))
    assert sent == wanted or ("repeats" in words and wanted < sent and min(sent) == min(wanted))


@given(st.integers(1, 50), st.integers(1, 50))
def test_uncommitted_lines_are_sent_again(committed: int, after: int) -> None:
    lines = TakenLines(["a"])
    lines.take(Line(0, committed), committed)
    lines.commit()
    lines.take(Line(0, committed + after), after)
    lines.drop_uncommitted()
    assert lines.words(is_whole=False) == (
        f"{committed} written; resume at line {committed + 1} (--from-line {committed + 1})"
    )


@pytest.mark.parametrize("text", ["", "0", "x", "5-3", "3-5", "1,1", "2-4,3", "-1", "1.5", "5,", "9" * 30])
def test_lines_that_cannot_be_meant_are_refused(text: str) -> None:
    with pytest.raises(Misused, match="--from-line"):
        parse_lines(text)


def test_ranges_of_lines_are_read_as_they_are_written() -> None:
    lines = parse_lines("17,20-25,51")
    assert lines == Lines(51, ((17, 17), (20, 25))) and str(lines) == "17,20-25,51"


# ---- bad lines


def lines_text(number: int) -> str:
    return f"{number}:value {number}\n"


def json_text(number: int) -> str:
    return json.dumps({"key": str(number), "value": f"value {number}"}) + "\n" * (1 + number % 3)


def csv_text(number: int) -> str:
    return f'{number},"value {number}"\n' if number % 3 else f'"{number}","value {number}",\n'


#: The options, the head, the text of a record, and a record that cannot be read.
FORMS: dict[str, tuple[tuple[str, ...], str, Callable[[int], str], str]] = {
    "lines": (("-K", ":"), "", lines_text, "no delimiter\n"),
    "jsonl": (("-i", "jsonl"), "", json_text, "{]\n"),
    "csv": (("-i", "csv"), "key,value,partition\n", csv_text, "1,x,y\n"),
    "transactions": (("-K", ":", "--transaction-size", "7"), "", lines_text, "no delimiter\n"),
    "one transaction": (("-i", "jsonl", "--transactional"), "", json_text, "{]\n"),
}


@pytest.mark.parametrize("form", FORMS)
def test_run_after_a_bad_line_begins_at_it(broker: odradek.Broker, form: str, tmp_path: Path) -> None:
    options, head, text, bad = FORMS[form]
    chosen = random.Random(form)
    for example in range(examples(6)):
        topic, file = f"bad-{form.replace(' ', '-')}-{example}", tmp_path / "input"
        broker.topic(topic).create(partitions=3)
        count, at = 300, chosen.randrange(1, 300)
        whole = [text(number) for number in range(count)]
        file.write_text(head + "".join([*whole[:at], bad, *whole[at:]]))
        done = run(broker, topic, str(file), *options)
        assert done.status == 1, done
        written, line = resume_of(done)
        assert written == sum(values(broker, topic).values())
        rest = [one for one in file.read_text().splitlines()[int(line) - 1 :] if one]
        assert rest[0] == bad.strip() or "transaction" in form
        file.write_text(head + "".join(whole))
        done = run(broker, topic, str(file), *options, "--from-line", line)
        assert done.status == 0, done
        assert values(broker, topic) == Counter(f"value {number}".encode() for number in range(count))


def test_second_file_is_resumed_with_the_files_after_it(broker: odradek.Broker, tmp_path: Path) -> None:
    broker.topic("files").create()
    files = [tmp_path / f"{name}.jsonl" for name in "abc"]
    for number, file in enumerate(files):
        file.write_text("".join(f'{{"value": "{number}{line}"}}\n' for line in range(5)) + ("?" if number == 1 else ""))
    done = run(broker, "files", *map(str, files))
    assert resume_of(done) == (10, "6") and f"line 6 of {files[1]}" in done.err
    files[1].write_text(files[1].read_text().replace("?", ""))
    assert run(broker, "files", *map(str, files[1:]), "--from-line", "6").status == 0
    assert set(values(broker, "files").values()) == {1} and len(values(broker, "files")) == 15


def test_record_that_the_broker_refuses_is_named(broker: odradek.Broker) -> None:
    broker.topic("small").create(partitions=1, config={"max.message.bytes": "2000"})
    text = b"".join(b"%d\n" % number for number in range(50)) + os.urandom(3000).hex().encode() + b"\nlast\n"
    for options in ((), ("-H", "a=b")):
        done = run(broker, "small", *options, "-X", "linger.ms=0", "-X", "batch.num.messages=1", stdin=text)
        assert done.status == 1 and "refused (line 51)" in done.err, done
        _, line = resume_of(done)
        assert 51 in parse_lines(line) and 1 not in parse_lines(line)


def test_error_before_the_first_record_has_no_place_to_resume(broker: odradek.Broker) -> None:
    broker.topic("none").create()
    done = run(broker, "none", "-i", "jsonl", stdin=b"?\n")
    assert done.status == 1 and "resume" not in done.err


# ---- inputs whose disk or pipe fails

#: Linux fails each read of it at its begin, as a disk with a bad block does.
_FAILING = Path("/proc/self/mem")
_FORMS = ("lines", "jsonl", "csv", "parquet", "file")


def topic_without_records(broker: odradek.Broker) -> None:
    if not broker.topic("unread").exists:
        broker.topic("unread").create()


def in_one_line(done: Done, status: int, *words: str) -> None:
    assert done.status == status and done.err.count("\n") == 1, done
    assert all(word in done.err for word in words) and "Errno" not in done.err, done


@pytest.mark.parametrize("options", [(), ("-K", ":"), ("--dry-run",)])
@pytest.mark.parametrize("form", _FORMS)
def test_input_that_cannot_be_read_is_named(
    broker: odradek.Broker, form: str, options: tuple[str, ...], tmp_path: Path
) -> None:
    topic_without_records(broker)
    folder = tmp_path / "folder"
    folder.mkdir()
    words = ("-i", form, *options)
    in_one_line(run(broker, "unread", *words, str(folder)), 2, f"cannot read {folder}: Is a directory")
    in_one_line(run(broker, "unread", *words, str(tmp_path / "typo")), 2, "No such file or directory")
    in_one_line(run(broker, "unread", *words, str(_FAILING)), 1, str(_FAILING))
    assert not values(broker, "unread")


def test_damaged_parquet_is_named(broker: odradek.Broker, tmp_path: Path) -> None:
    topic_without_records(broker)
    for number, data in enumerate((b"", b"PAR1", b"PAR1" + b"\0" * 100 + b"PAR1", b"no parquet" * 100)):
        file = tmp_path / f"{number}.parquet"
        file.write_bytes(data)
        done = run(broker, "unread", str(file))
        in_one_line(done, 1, str(file))
        assert "is not Parquet, or damaged" in done.err or "cannot be read" in done.err, done


@pytest.mark.parametrize("options", [(), ("-K", ":")])
def test_second_input_that_fails_leaves_the_first_and_a_place_to_resume(
    broker: odradek.Broker, options: tuple[str, ...], tmp_path: Path
) -> None:
    topic = f"begun{len(options)}"
    broker.topic(topic).create()
    whole = tmp_path / "whole"
    whole.write_bytes(b"a:1\nb:2\n")
    done = run(broker, topic, *options, str(whole), str(_FAILING))
    assert done.status == 1 and f"{_FAILING} cannot be read" in done.err and "2 written" in done.err, done
    assert values(broker, topic).total() == 2


# ---- signals


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("options", [(), ("-K", ":"), ("-K", ":", "--transaction-size", "100")])
def test_run_after_a_signal_sends_the_rest(
    broker: odradek.Broker, number: signal.Signals, options: tuple[str, ...], tmp_path: Path
) -> None:
    topic = f"signal-{number.name}-{len(options)}"
    broker.topic(topic).create(partitions=3)
    lines = [b"%d:%d\n" % (line, line) for line in range(COUNT)]
    words = [sys.executable, "-m", "odradek", "produce", topic, *options, "-b", broker.bootstrap_servers]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0)
    guard = threading.Timer(DEADLINE_S, process.kill)
    guard.start()
    try:
        assert process.stdin is not None
        stop = random.Random(topic).randrange(200, COUNT - 100)
        process.stdin.write(b"".join(lines[:stop]))
        broker.topic(topic).wait_for(100, timeout=DEADLINE_S)
        process.send_signal(number)
        process.wait(DEADLINE_S)
        out, err = process.communicate()
    finally:
        guard.cancel()
        process.kill()
        process.wait()
    done = Done(process.returncode, out.decode(), err.decode())
    assert done.status == 128 + number and done.out == ""
    assert done.err.startswith(f"odradek: {'interrupted' if number == signal.SIGINT else 'terminated'}; "), done
    written, line = resume_of(done)
    assert written == sum(values(broker, topic).values()) and int(line) == written + 1
    file = tmp_path / "all"
    file.write_bytes(b"".join(lines))
    assert run(broker, topic, str(file), *options, "--from-line", line).status == 0
    expected = [line.strip() if not options else line.strip().partition(b":")[2] for line in lines]
    assert values(broker, topic) == Counter(expected)


# ---- brokers that do not respond


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("options", [(), ("-K", ":")])
@pytest.mark.parametrize("after", [False, True])
def test_lines_without_an_acknowledgement_are_named(
    broker: odradek.Broker, partitions: int, options: tuple[str, ...], after: bool
) -> None:
    topic = f"silent-{partitions}-{len(options)}-{after}"
    broker.topic(topic).create(partitions=partitions)
    text = b"".join(b"%d:%d\n" % (line, line) for line in range(COUNT))
    small = ("-X", "batch.num.messages=100", "-X", "linger.ms=0", "-X", "max.in.flight=1")
    fault = broker.faults.hang("Produce", after=after, topic=topic, nth=4, times=1000)
    try:
        done = run(broker, topic, *options, *small, "--timeout", "2", stdin=text)
    finally:
        fault.cancel()
    assert done.status == 4, done
    written, line = resume_of(done)
    assert 0 < written < COUNT
    found = values(broker, topic)
    unsure = parse_lines(line)
    assert all(found[_value(one, options)] == 1 for one in range(COUNT) if one + 1 not in unsure)
    if after:
        assert _NAMED.search(done.err) is not None or "repeats" in done.err
    assert run(broker, topic, *options, "--from-line", line, stdin=text).status == 0
    found = values(broker, topic)
    assert found.keys() == {_value(one, options) for one in range(COUNT)}
    assert all(found[_value(one, options)] == 1 for one in range(COUNT) if one + 1 not in unsure)
    assert max(found.values()) <= 2


def _value(line: int, options: tuple[str, ...]) -> bytes:
    return b"%d" % line if options else b"%d:%d" % (line, line)
