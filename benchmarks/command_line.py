"""Compares `odradek consume` and `produce` with kcat and kafka-console-consumer: `python -m benchmarks.command_line`.

Two reads: a million records as JSON, beside `kcat -J`; three records, beside kafka-console-consumer. One write: a file of a
million lines, beside `kcat -P -l`, whose acks, compression, batches and linger are the same (librdkafka's), and beside the
same kcat with an idempotent producer, as ours is. Completions of a topic and a group by the shell. Times are from the
start of each process to its end. A round runs every command in both orders (A B B A), so that a growing or shrinking load
affects both alike; ratios are of the sums of a round, and their median counts. CPU seconds are valid on a busy machine,
wall-clock seconds are not. kcat is Debian's, kafka-console-consumer Apache Kafka 4.3.1's.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Producer

from compat_tests.java.fetch import ORACLE, classpath, java
from compat_tests.odradek_process import OdradekProcess

RECORDS = 1_000_000
SMALL = 3
#: The reference for the other commands.
OURS = "odradek consume"
WRITES = "odradek produce"
KCAT_WRITES = "kcat -P -l"
#: The limit of the time of `odradek produce`, and of its CPU time, as a multiple of kcat's.
MOST_TIMES = 2
#: The limit of a completion, for which a person waits.
MOST_COMPLETION_S = 0.3
VALUE = b'{"id":%d,"name":"abcdefghijklmnopqrstuvwxyz","value":"0123456789012345678901234567890"}'
PAGE = Path(__file__).resolve().parents[1] / "docs" / "specialists" / "benchmarks" / "command-line.md"


def write(bootstrap: str, topic: str, count: int) -> None:
    settings = {"bootstrap.servers": bootstrap, "linger.ms": 20, "batch.size": 1_000_000}
    producer = Producer(settings | {"queue.buffering.max.messages": 2_000_000})
    for number in range(count):
        producer.produce(topic, VALUE % number, b"key-%d" % (number % 1000), partition=0)
        if number % 1000 == 0:
            producer.poll(0)
    assert producer.flush(120) == 0


class Completed(NamedTuple):
    """Measures what the shell waits for names: the median and the least seconds, and the median seconds of CPU."""

    seconds: float
    least: float
    cpu: float


def completions(bootstrap: str, rounds: int) -> dict[str, Completed]:
    """Completions of a topic and of a group. Other work of the machine only adds to their seconds."""
    found = {}
    for line, name in (("odradek consume bi", "big"), ("odradek group describe rea", "readers")):
        words = {"COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
        environment = {
            **os.environ,
            **words,
            "_ODRADEK_COMPLETE": "complete_bash",
            "ODRADEK_BOOTSTRAP_SERVER": bootstrap,
        }
        runs = []
        for _ in range(2 * rounds):
            before, began = os.times(), time.perf_counter()
            done = subprocess.run([sys.executable, "-m", "odradek"], env=environment, capture_output=True, check=True)
            seconds, after = time.perf_counter() - began, os.times()
            assert done.stdout.decode().split() == [name], done
            cpu = after.children_user + after.children_system - before.children_user - before.children_system
            runs.append((seconds, cpu))
        seconds, cpu = zip(*runs)
        found[line] = Completed(statistics.median(seconds), min(seconds), statistics.median(cpu))
    return found


def measured(command: list[str]) -> tuple[float, float, int]:
    """Returns seconds, CPU seconds and lines of output of a command that must succeed."""
    with tempfile.TemporaryFile() as out:
        before, began = os.times(), time.perf_counter()
        subprocess.run(command, stdout=out, stderr=subprocess.DEVNULL, check=True)
        seconds, after = time.perf_counter() - began, os.times()
        out.seek(0)
        lines = sum(piece.count(b"\n") for piece in iter(lambda: out.read(1 << 20), b""))
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return seconds, cpu, lines


@dataclass(frozen=True)
class Compared:
    """Medians over the rounds: seconds, seconds of CPU, and both as multiples of our own command in the same round; the
    least and the greatest multiple of the seconds.
    """

    seconds: float
    cpu: float
    times_seconds: float
    times_cpu: float
    spread: tuple[float, float]


def compared(
    commands: dict[str, list[str]], rounds: int, lines: int | None, reference: str = OURS
) -> dict[str, Compared]:
    """Runs all commands in both orders in each round."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
    for _ in range(rounds):
        sums = dict.fromkeys(commands, (0.0, 0.0))
        for name in (*commands, *reversed(commands)):
            seconds, cpu, written = measured(commands[name])
            assert lines is None or written == lines, (name, written)
            sums[name] = (sums[name][0] + seconds, sums[name][1] + cpu)
        for name, (seconds, cpu) in sums.items():
            found[name].append((seconds / 2, cpu / 2))
    ours = found[reference]
    return {name: _medians(runs, ours) for name, runs in found.items()}


def _medians(runs: list[tuple[float, float]], ours: list[tuple[float, float]]) -> Compared:
    times = [one[0] / own[0] for one, own in zip(runs, ours)]
    return Compared(
        statistics.median(seconds for seconds, _ in runs),
        statistics.median(cpu for _, cpu in runs),
        statistics.median(times),
        statistics.median(one[1] / own[1] for one, own in zip(runs, ours)),
        (min(times), max(times)),
    )


def commands_of(bootstrap: str) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    odradek = [
        sys.executable,
        "-m",
        "odradek",
        "consume",
        "big",
        "--from-beginning",
        "--output",
        "jsonl",
        "-b",
        bootstrap,
    ]
    kcat = ["kcat", "-b", bootstrap, "-C", "-t", "big", "-o", "beginning", "-J", "-q"]
    console = [java(), "-cp", classpath(ORACLE), "org.apache.kafka.tools.consumer.ConsoleConsumer"]
    console += ["--bootstrap-server", bootstrap, "--topic", "big", "--from-beginning", "--max-messages", str(SMALL)]
    small_kcat = {"kcat -J": [*kcat, "-c", str(SMALL)]} if shutil.which("kcat") else {}
    large = {OURS: odradek} | ({"kcat -J": [*kcat, "-e"]} if shutil.which("kcat") else {})
    small = {OURS: [*odradek, "--count", str(SMALL)], "kafka-console-consumer": console, **small_kcat}
    return large, small


def writes_of(bootstrap: str, file: Path) -> dict[str, list[str]]:
    ours = [sys.executable, "-m", "odradek", "produce", "written", "--create", str(file), "-b", bootstrap]
    kcat = ["kcat", "-b", bootstrap, "-P", "-t", "written", "-l", str(file)]
    if not shutil.which("kcat"):
        return {WRITES: ours}
    idempotent = ["-X", "enable.idempotence=true"]
    return {WRITES: ours, KCAT_WRITES: kcat, " ".join([KCAT_WRITES, *idempotent]): [*kcat, *idempotent]}


def table(results: dict[str, Compared], reference: str = OURS) -> str:
    lines = [
        f"| command | seconds | CPU seconds | times `{reference}` | times its CPU |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| `{name}` | {one.seconds:.3f} | {one.cpu:.3f} | {_with_spread(one)} | {one.times_cpu:.2f} |"
        for name, one in results.items()
    ]
    return "\n".join(lines)


def _with_spread(one: Compared) -> str:
    return f"{one.times_seconds:.2f}" + (" ({:.2f}-{:.2f})".format(*one.spread) if len(set(one.spread)) > 1 else "")


def page(
    large: dict[str, Compared],
    small: dict[str, Compared],
    written: dict[str, Compared],
    completed: dict[str, Completed],
    rounds: int,
) -> str:
    kcat = written.get(KCAT_WRITES)
    met = {
        "reads as fast as kcat": "kcat -J" in large and large["kcat -J"].times_seconds >= 1,
        "small ones 10 times as fast as Java's": small["kafka-console-consumer"].times_seconds >= 10,
        f"writes in {MOST_TIMES} times its time": kcat is not None and kcat.times_seconds >= 1 / MOST_TIMES,
        f"{MOST_TIMES} times its CPU": kcat is not None and kcat.times_cpu >= 1 / MOST_TIMES,
        f"completion in {MOST_COMPLETION_S:g} s": all(one.seconds < MOST_COMPLETION_S for one in completed.values()),
    }
    head = (
        f"- Reads and writes of one Odradek broker on {os.cpu_count()} cores, medians of {rounds} rounds.\n"
        "- A round runs each command twice, forth and back, from start to end; ratios (with ranges) are within a round.\n"
        f"- The machine's load was {os.getloadavg()[1]:.1f}, this benchmark included: above 2, CPU seconds say more.\n"
    )
    targets = "\n".join(
        f"- Targets {words}: {'; '.join(name for name, is_met in met.items() if is_met is wanted) or 'none'}."
        for words, wanted in (("met", True), ("missed", False))
    )
    why = (
        "kcat's librdkafka pauses for a second whenever its queue is full; `odradek consume` sets that pause to 5 ms. In "
        "CPU time kcat, written in C, needs less."
    )
    parts = (
        "# Reads and writes of the command line",
        head + targets,
        "<!-- Written by `python -m benchmarks.command_line`. -->",
        f"## {RECORDS:,} records of about 100 bytes as JSON",
        table(large),
        why,
        f"## {SMALL} records",
        table(small),
        f"## A file of {RECORDS:,} lines",
        table(written, WRITES),
        "Both have `acks=all`, no compression, batches of 1 MB and 5 ms of linger. `odradek produce` is idempotent.",
        "## Completion by the shell",
        "\n".join(
            ["| line | seconds | least seconds | CPU seconds |", "|---|---|---|---|"]
            + [f"| `{line}` | {one.seconds:.3f} | {one.least:.3f} | {one.cpu:.3f} |" for line, one in completed.items()]
        ),
    )
    return "\n\n".join(parts) + "\n"


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=5)
    rounds = options.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder, OdradekProcess(Path(folder)) as broker:
        write(broker.bootstrap, "big", RECORDS)
        large, small = commands_of(broker.bootstrap)
        file = Path(folder) / "lines"
        with file.open("wb") as lines:
            lines.writelines(VALUE % number + b"\n" for number in range(RECORDS))
        written = compared(writes_of(broker.bootstrap, file), rounds, None, WRITES)
        readers = [sys.executable, "-m", "odradek", "consume", "big", "--group", "readers", "--count", "1"]
        subprocess.run([*readers, "-o", "beginning", "-b", broker.bootstrap], stdout=subprocess.DEVNULL, check=True)
        completed = completions(broker.bootstrap, rounds)
        text = page(compared(large, rounds, RECORDS), compared(small, rounds, SMALL), written, completed, rounds)
    PAGE.write_text(text, encoding="utf-8")
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
