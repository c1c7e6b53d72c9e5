"""Runs invalid command lines and property files by seed, for as long as you like:

    python -m tests.hostile.command_lines --seed 7 --minutes 10

Every command must end with status 0, 1 or 2, without a traceback, and with one line on standard error besides a bounded
number of warnings about properties. The status must be 2 where an option or a file is wrong. No command shows a secret.
Brokers are built and not started. The program's exit status is 1 if a condition failed.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import logging
import random
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

from odradek.cli.main import main as odradek
from odradek.metadata.configs import ConfigType, broker_key
from odradek.metadata.configs.resources import BROKER, OWN

SECRET = "s3cr3t-of-nobody"
#: One for each unknown property up to their limit, one for the rest, some for keys without effect, one for the failure.
MOST_LINES = 25
MOST_CHARACTERS = 1200
LONGEST_S = 2.0

ODD_TEXTS = (
    "", " ", "-1", "0", "1", "65536", "99999", "9" * 5000, "0" * 5000 + "1", "1e400", "NaN", "-Infinity", "true", "²", "٣",
    "x" * 100_000, "\x1b[2J", "a\nb", ",", ",,", "a,,b", ":", "://:", "[", "*", "%s", "{}", "${env:HOME}", "${" * 1000,
    " " * 20_000 + "x", "PLAINTEXT://:0", "PLAINTEXT://a..b:1", "SSL://:0", "SASL_PLAINTEXT://127.0.0.1:0", "1@h:99999",
    "h:" + "9" * 5000, "\udcff", "\0", "../..", "/dev/null", "localhost:0",
)  # fmt: skip

FOLDER, MISSING = "folder", "missing.properties"

#: Options with the values that may be valid and the values that never are.
OPTIONS: dict[str, list[tuple[str, list[str], list[str]]]] = {
    "start": [
        ("--port", ["0", "9092"], ["", "-1", "65536", "x", "1.5", "²", "9" * 5000]),
        ("--data-dir", ["data", "a b"], ["", " ", "a\0b", "a,b"]),
        ("--override", ["num.partitions=2", "ab.cd=1", "log.retention.hours=1"], ["x", "=", "=1", ""]),
    ],
    "format": [
        ("--cluster-id", ["MkU3OEVBNTcwNTJENDM2Qg"], ["xyz", "", "a b", "M" * 23, "M" * 21 + "+", "é" * 22]),
        ("--data-dir", ["data", "a b"], ["", " ", "a\0b", "a,b", "file"]),
        ("--feature", ["share.version=1"], ["x", "x=", "=1", "x=-1", "x=" + "9" * 5000, "nothing.version=1"]),
        ("--initial-controllers", [], ["", "1", "1@h:0:JEXY6aqzQY-32P5TStzaFg", "1@h:99999:JEXY6aqzQY-32P5TStzaFg"]),
    ],
    "log check": [("--data-dir", [FOLDER], ["", " ", "a\0b"]), ("--partition", [], ["x", "9" * 5000])],
    "log skip": [("--data-dir", [], ["", " "]), ("--partition", [], ["x"])],
    "cluster start": [
        ("--brokers", ["1"], ["0", "-1", "101", "", "²", "9" * 5000]),
        ("--port", ["0"], ["-1", "65536", "x", ""]),
        ("--data-dir", [], ["", " ", "a\0b", "a,b"]),
        ("--override", [], ["x", "=1", "node.id=3", "log.dirs=/tmp/x", "num.partitions=many"]),
    ],
    "cluster status": [("--data-dir", ["nothing-here"], ["", " ", "a\0b"]), ("--broker", [], ["1"])],
    "cluster stop": [("--data-dir", ["nothing-here"], ["", " ", "a\0b"]), ("-x", [], [""])],
    "strat": [("--port", [], ["1"])],
}

#: Content of a properties file, and whether every command rejects it.
FILES: dict[str, tuple[bytes, bool]] = {
    "empty.properties": (b"", False),
    "bom.properties": (b"\xef\xbb\xbfnum.partitions=2\n", False),
    "latin1.properties": (b"a.b=\xe9\xff\n", False),
    "unknown.properties": (b"".join(b"no.such.%d=1\n" % n for n in range(500)), False),
    "terminal.properties": (b"\x1b[2Jnum.partition=1\n", False),
    "secret.properties": (
        f"ssl.key.password={SECRET}\nlistener.name.x.plain.sasl.jaas.config={SECRET}\n".encode(),
        False,
    ),
    "escape.properties": (f"ssl.key.password={SECRET}\\u00zz\n".encode(), True),
    "nul.properties": (b"num.partitions=1\0\n", True),
    "utf16.properties": ("num.partitions=1\n".encode("utf-16"), True),
    "random.properties": (random.Random(1).randbytes(20_000) + b"\0", True),
    "long.properties": (b"#" * (5 << 20), True),
    "listeners.properties": (b"listeners=SASL_PLAINTEXT://:9092\n", True),
    "provider.properties": (b"config.providers=x\nconfig.providers.x.class=no.such.Class\n", True),
}


@dataclass
class Outcome:
    words: list[str]
    status: int | None = None
    out: str = ""
    err: str = ""
    warnings: list[str] = field(default_factory=list)
    fault: str = ""
    seconds: float = 0.0

    def violations(self, *, is_wrong: bool) -> Iterator[str]:
        if self.fault:
            yield f"a traceback:\n{self.fault}"
            return
        lines = self.err.splitlines()
        if is_wrong and self.status != 2:
            yield f"status {self.status} for something wrong"
        if self.status not in (0, 1, 2):
            yield f"status {self.status}"
        if self.status and (len(lines) - self._known(lines) != 1 or not lines[-1].startswith("odradek: ")):
            yield f"status {self.status} is explained in {len(lines)} lines"
        if len(lines) + len(self.warnings) > MOST_LINES:
            yield f"{len(lines)} lines and {len(self.warnings)} warnings"
        texts = [*lines, *self.warnings]
        if any(len(text) > MOST_CHARACTERS or not text.isprintable() for text in texts):
            yield "a line that is too long, or has control characters"
        if any(SECRET in text for text in [self.out, *texts]):
            yield "a secret is shown"
        if self.seconds > LONGEST_S:
            yield f"it took {self.seconds:.1f} s"

    def _known(self, lines: list[str]) -> int:
        return sum("not a known property" in line for line in lines)


class Warnings(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def run(words: list[str]) -> Outcome:
    """Runs a command in this process. Returns its output and its log."""
    outcome = Outcome(words)
    out, err, warnings = io.StringIO(), io.StringIO(), Warnings()
    logger = logging.getLogger("odradek")
    logger.addHandler(warnings)
    began = time.process_time()
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        mock.patch("odradek.cli.foreground.run_until_stopped", lambda config, options, starting: 0),
        mock.patch("odradek.cli.logs.log_to_standard_error", lambda **options: None),
        mock.patch("odradek.server.network.descriptors.raise_limit"),
    ):
        try:
            outcome.status = odradek(words)
        except SystemExit as end:
            outcome.status = end.code if isinstance(end.code, int) else None
        except Exception:  # the test reports the traceback
            outcome.fault = traceback.format_exc()
    outcome.seconds = time.process_time() - began
    logger.removeHandler(warnings)
    outcome.out, outcome.err, outcome.warnings = out.getvalue(), err.getvalue(), warnings.lines
    return outcome


def prepare(folder: Path) -> None:
    """Makes the files that command lines name, in the current folder."""
    for name, (content, _) in FILES.items():
        (folder / name).write_bytes(content)
    (folder / FOLDER).mkdir()
    (folder / "file").touch()


def command_line(rng: random.Random) -> tuple[list[str], bool]:
    """Returns a command with options, and whether it is certainly wrong."""
    command = rng.choice(list(OPTIONS))
    words, is_wrong = command.split(), command == "strat"
    for option, fine, wrong in rng.choices(OPTIONS[command], k=rng.randrange(3)):
        if option in words:
            continue  # argparse uses the last of two
        picks_wrong = bool(wrong) and (not fine or rng.random() < 0.5)
        is_wrong |= picks_wrong
        words += [option, rng.choice(wrong if picks_wrong else fine)] if fine or wrong else []
    if command in ("start", "format") and rng.random() < 0.5:
        file = rng.choice([*FILES, FOLDER, MISSING])
        words.append(file)
        is_wrong |= FILES.get(file, (b"", True))[1]
    # The program does not start a whole cluster.
    if command == "cluster start" and not is_wrong:
        words, is_wrong = [*words, "--brokers", "0"], True
    return words, is_wrong


def odd_property(rng: random.Random) -> tuple[list[str], str]:
    """Returns `odradek start` with an override that gives one key an odd value, and the key."""
    name = rng.choice([*BROKER, *OWN])
    value = SECRET if _is_secret(name) else rng.choice(ODD_TEXTS)
    return ["start", "--override", f"{name}={value}"], name


def _is_secret(name: str) -> bool:
    key = broker_key(name)
    return key is not None and key.type is ConfigType.PASSWORD


def violations_of_property(words: list[str], name: str) -> tuple[Outcome, list[str]]:
    outcome = run(words)
    found = list(outcome.violations(is_wrong=False))
    if outcome.status == 1:
        found.append("status 1 for a property")
    return outcome, found


def execute(rng: random.Random) -> tuple[Outcome, list[str]]:
    """Runs a command line. Returns the conditions that failed."""
    if rng.random() < 0.3:
        return violations_of_property(*odd_property(rng))
    words, is_wrong = command_line(rng)
    outcome = run(words)
    return outcome, list(outcome.violations(is_wrong=is_wrong))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.hostile.command_lines",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=1)
    options: Any = parser.parse_args(arguments)
    rng, executed, failed = random.Random(options.seed), 0, 0
    deadline = time.monotonic() + options.minutes * 60
    with tempfile.TemporaryDirectory(prefix="odradek-words-") as folder, contextlib.chdir(folder):
        prepare(Path(folder))
        while time.monotonic() < deadline:
            outcome, violations = execute(rng)
            executed += 1
            failed += bool(violations)
            for violation in violations:
                print(f"{[word[:80] for word in outcome.words]}: {violation}", flush=True)
    print(f"{executed} commands, {failed} did not hold")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
