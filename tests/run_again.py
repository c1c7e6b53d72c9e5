"""`python -m tests.run_again STATUSES JOURNALS RESULT`: runs failed tests again, alone, at the end of a run.

STATUSES has the exit status of each process of tests/run in a file of its name, JOURNALS a folder of its journals
(tests/plugins/run_journal.py). A test that fails again fails the run. A test that passes is unsteady: the run passes, and
ends with a list of the unsteady tests with the text of their first failures, which is kept in `.tools/unsteady`, too. An
unsteady test is a defect. More than five of them fail the run.

The program corrects the statuses, and writes the list and the sums to RESULT. Tests of one file run in one process, with
the interpreter, the options and the variables of their first process. A process that died has its other tests run here.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.plugins.run_journal import AGAIN, FOLDER

KEPT = Path(__file__).resolve().parents[1] / ".tools" / "unsteady"
#: More unsteady tests are no accident of a busy machine.
MOST_UNSTEADY = 5
#: A run with more fails in any case: to run them again only delays its end.
MOST_CAUSES = 20
#: Seconds for all tests that run again; those that have not ended fail.
DEADLINE_S = 900.0
#: Seconds in which pytest ends its fixtures when it is interrupted.
GRACE_S = 30.0
#: Lines and characters of the error of one failed test at the end of a run.
_MOST_LINES, _MOST_CHARACTERS = 8, 300
_TESTS_FAILED = 1


@dataclass(frozen=True)
class Failure:
    """The failure of a test. Errors of one shared fixture have the same `cause`."""

    test: str
    when: str
    cause: str
    text: str

    def lines(self) -> list[str]:
        """Returns the lines of the error in pytest's report, and its last line, with file and line."""
        lines = self.text.splitlines()
        errors = [line for line in lines if line.startswith("E ")][: _MOST_LINES - 1] or lines[1 - _MOST_LINES : -1]
        return [line[:_MOST_CHARACTERS] for line in [*errors, *lines[-1:]]]


@dataclass
class Session:
    """A pytest process, by its journal. `status` is None if the process died."""

    python: str
    options: list[str]
    folder: str
    variables: dict[str, str | None]
    status: int | None = None
    collected: list[str] = field(default_factory=list)
    outcomes: dict[str, str] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    #: The test that ran last.
    started: str | None = None

    @property
    def is_explained(self) -> bool:
        """Whether failed tests are the only reason of the status, so that it is 0 if they pass."""
        if self.status is None:
            return bool(self.collected)
        return self.status == 0 or (self.status == _TESTS_FAILED and bool(self.failures))

    def failed_tests(self) -> list[str]:
        return list(dict.fromkeys(failure.test for failure in self.failures))

    def left_tests(self) -> list[str]:
        """Returns the tests that a process that died has not finished."""
        return [test for test in self.collected if test not in self.outcomes] if self.status is None else []


@dataclass
class Process:
    """A process of tests/run, which may have had several sessions, as one for each other Python."""

    name: str
    status: int
    sessions: list[Session]

    @property
    def is_explained(self) -> bool:
        statuses = [session.status for session in self.sessions]
        if not self.sessions or not all(session.is_explained for session in self.sessions):
            return self.status == 0
        return None in statuses or self.status in statuses

    def failures(self) -> list[Failure]:
        found = [failure for session in self.sessions for failure in session.failures]
        for session in self.sessions:
            if session.status is None:
                running = session.started if session.started in session.left_tests() else "between tests"
                text = f"the process {self.name} died with status {self.status}: {running}"
                found.append(Failure(running or "", "died", f"{self.name} died", text))
        return found


def read_session(file: Path) -> Session | None:
    """Returns None for a process that died before it began."""
    session = None
    for line in file.read_text(encoding="utf-8").splitlines():
        try:
            entry = json.loads(line)
        except ValueError:  # the last line of a process that was killed
            continue
        kind = entry.pop("kind")
        if kind == "began":
            session = Session(**entry)
        elif session is not None:
            _note(session, kind, entry)
    return session


def _note(session: Session, kind: str, entry: dict[str, Any]) -> None:
    match kind:
        case "collected":
            session.collected = entry["tests"]
        case "started":
            session.started = entry["test"]
        case "failed":
            session.failures.append(Failure(**entry))
            session.outcomes[entry["test"]] = "failed"
        case "passed" | "skipped" if session.outcomes.get(entry["test"]) != "failed":
            session.outcomes[entry["test"]] = kind
        case "not collected":
            session.failures.append(Failure(entry["test"], "collection", entry["test"], entry["text"]))
        case "ended":
            session.status = entry["status"]


def read_processes(statuses: Path, journals: Path) -> list[Process]:
    """Returns the processes by name."""
    found = []
    for file in sorted(statuses.iterdir()):
        folder = journals / file.name
        read = [read_session(journal) for journal in sorted(folder.glob("*.jsonl"), key=_began)]
        status = int(file.read_text(encoding="utf-8"))
        found.append(Process(file.name, status, [session for session in read if session is not None]))
    return found


def _began(journal: Path) -> float:
    return journal.stat().st_mtime


class Runner:
    """Runs tests again until the deadline."""

    def __init__(self, deadline_s: float = DEADLINE_S) -> None:
        self._deadline = time.monotonic() + deadline_s

    def run(self, session: Session, tests: Iterable[str]) -> dict[str, str]:
        """Returns the outcomes of the tests, each file in a process of its own."""
        files: dict[str, list[str]] = {}
        for test in tests:
            files.setdefault(test.partition("::")[0], []).append(test)
        outcomes: dict[str, str] = {}
        for file, chosen in files.items():
            print(f"\n-- {file}", flush=True)
            outcomes.update(self._run_file(session, chosen))
        return outcomes

    def _run_file(self, session: Session, tests: list[str]) -> dict[str, str]:
        command = [session.python, "-m", "pytest", *session.options, *tests]
        with tempfile.TemporaryDirectory() as folder:
            variables = {**os.environ, **session.variables, FOLDER: folder, AGAIN: "1", "ODRADEK_TEST_TIMES": None}
            present = {name: value for name, value in variables.items() if value is not None}
            with subprocess.Popen(command, cwd=session.folder, env=present, start_new_session=True) as running:
                try:
                    running.wait(max(self._deadline - time.monotonic(), 0))
                except subprocess.TimeoutExpired:
                    print("no time is left: these tests fail", flush=True)
                finally:
                    _end(running)
            read = [read_session(journal) for journal in Path(folder).glob("*.jsonl")]
        return read[0].outcomes if read and read[0] is not None else {}


def _end(running: subprocess.Popen[bytes]) -> None:
    """Interrupts a process that still runs, and kills what it leaves."""
    if running.poll() is None:
        running.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            running.wait(GRACE_S)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(running.pid, signal.SIGKILL)


@dataclass
class Verdict:
    """The result of a run. `failed` and `unsteady` have the first failure of each test and of each cause."""

    passed: int = 0
    skipped: int = 0
    failed: list[Failure] = field(default_factory=list)
    unsteady: list[Failure] = field(default_factory=list)

    def summary(self) -> str:
        parts = [f"{self.passed} passed", f"{len(self.failed)} failed", f"{self.skipped} skipped"]
        return ", ".join([*parts, f"{len(self.unsteady)} unsteady"])


def judge(processes: list[Process], runner: Runner) -> Verdict:
    """Runs what failed again, and sets the status of each process to 0 if only unsteady tests failed in it."""
    verdict = Verdict()
    causes = {failure.cause for process in processes for failure in process.failures()}
    if len(causes) > MOST_CAUSES:
        print(f"{len(causes)} failures are too many to run them again", flush=True)
    for process in processes:
        is_run = len(causes) <= MOST_CAUSES and process.is_explained
        outcomes = [_final_outcomes(session, runner if is_run else None) for session in process.sessions]
        _count(verdict, process, outcomes)
    return verdict


def _final_outcomes(session: Session, runner: Runner | None) -> dict[str, str]:
    chosen = list(dict.fromkeys([*session.failed_tests(), *session.left_tests()]))
    if not chosen:
        return session.outcomes
    again = runner.run(session, chosen) if runner else {}
    return {**session.outcomes, **{test: again.get(test, "failed") for test in chosen}}


def _count(verdict: Verdict, process: Process, outcomes: list[dict[str, str]]) -> None:
    causes: dict[str, Failure] = {}
    for failure in process.failures():
        causes.setdefault(failure.cause, failure)
    is_left = False
    for session, final in zip(process.sessions, outcomes, strict=True):
        failed = _failed_tests(session, final)
        is_left = is_left or bool(failed)
        passed_or_skipped = [final[test] for test in final.keys() - set(failed)]
        verdict.passed += passed_or_skipped.count("passed")
        verdict.skipped += passed_or_skipped.count("skipped")
        first = {failure.test: failure for failure in reversed(session.failures)}
        verdict.failed += [first.get(test, Failure(test, "call", test, "It did not end.")) for test in failed]
        for cause in [failure.cause for failure in session.failures if failure.test in failed]:
            causes.pop(cause, None)
    if process.is_explained:
        verdict.unsteady += causes.values()
        process.status = process.status if is_left else 0


def _failed_tests(session: Session, final: dict[str, str]) -> list[str]:
    """Returns the tests without a success. One that fails first and is skipped then has not passed."""
    failed_first = set(session.failed_tests())
    return [
        test for test, outcome in final.items() if outcome == "failed" or (test in failed_first and outcome != "passed")
    ]


def kept_text(verdict: Verdict) -> str:
    parts = [f"{failure.test} ({failure.when})\n\n{failure.text}\n" for failure in verdict.unsteady]
    return f"\n{'=' * 80}\n".join(parts)


def keep(verdict: Verdict, folder: Path) -> Path:
    """Writes the first failures of the unsteady tests to a file, and returns it."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{datetime.now(UTC):%Y-%m-%dT%H-%M-%S}.txt"
    file.write_text(kept_text(verdict), encoding="utf-8")
    return file


def result_lines(verdict: Verdict, file: Path | None) -> Iterator[str]:
    for failure in verdict.failed:
        yield f"failed: {failure.test} ({failure.when})"
        yield from (f"  {line}" for line in failure.lines())
    if verdict.unsteady:
        yield f"unsteady: these failed first and passed alone; each is a defect ({file})"
    for failure in verdict.unsteady:
        yield f"unsteady: {failure.test} ({failure.when})"
        yield from (f"  {line}" for line in failure.lines())
    if len(verdict.unsteady) > MOST_UNSTEADY:
        yield f"{len(verdict.unsteady)} unsteady tests fail the run: at most {MOST_UNSTEADY} may be"
    yield verdict.summary()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.run_again", description=__doc__)
    for name in ("statuses", "journals", "result"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--kept", type=Path, default=KEPT)
    options = parser.parse_args()
    processes = read_processes(options.statuses, options.journals)
    if any(process.failures() for process in processes):
        print("\n== run again, alone, what failed", flush=True)
    verdict = judge(processes, Runner())
    for process in processes:
        (options.statuses / process.name).write_text(f"{process.status}\n", encoding="utf-8")
    file = keep(verdict, options.kept) if verdict.unsteady else None
    options.result.write_text("".join(f"{line}\n" for line in result_lines(verdict, file)), encoding="utf-8")
    return 1 if len(verdict.unsteady) > MOST_UNSTEADY else 0


if __name__ == "__main__":
    sys.exit(main())
