"""Runs the steps of a guide in sequence in one Spark session: a JVM takes 5 s to start, and a guide has ten steps.

    python one_session.py BOOTSTRAP STEPS.json

A step is a list of words, or the text of a Python program. `python FILE ...` runs in this process, with BOOTSTRAP for the
default address; `spark.stop()` does nothing before the end. A command whose last word is `&` runs in parallel, in its own
process. An endless stream gets SIGINT, as from Ctrl-C, when it has committed to both sinks, and the parallel commands after
it: later steps read a topic that does not grow.
"""

from __future__ import annotations

import json
import os
import runpy
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from pyspark.sql import SparkSession

EXAMPLES = Path(__file__).resolve().parents[1]
LOOK_EVERY_S = 0.1
#: The option of endless streams, which names the checkpoint.
CHECKPOINT = "--checkpoint"


def interrupt_when_committed(checkpoint: Path) -> None:
    """Sends SIGINT to this process when the stream has written to both sinks: to Parquet with its second batch."""
    while not all((checkpoint / batch).exists() for batch in ("kafka/commits/0", "parquet/commits/1")):
        time.sleep(LOOK_EVERY_S)
    os.kill(os.getpid(), signal.SIGINT)


def is_endless(words: list[str]) -> bool:
    return CHECKPOINT in words and "--available-now" not in words


def run_program(words: list[str]) -> None:
    if is_endless(words):
        checkpoint = Path(words[words.index(CHECKPOINT) + 1])
        threading.Thread(target=interrupt_when_committed, args=(checkpoint,), daemon=True).start()
    sys.argv = words
    try:
        runpy.run_path(str(EXAMPLES.parent / words[0]), run_name="__main__")
    except SystemExit as ended:
        if ended.code:
            raise


def main(bootstrap: str, steps: list[list[str] | str]) -> None:
    stop = SparkSession.stop
    SparkSession.stop = lambda self: None  # type: ignore[method-assign]
    sys.path.append(str(EXAMPLES))
    beside: list[subprocess.Popen[bytes]] = []
    try:
        for step in steps:
            began = time.monotonic()
            run_step(step, bootstrap, beside)
            print(f"== {time.monotonic() - began:.1f} s: {step}", flush=True)
    finally:
        interrupt(beside)
    stop(SparkSession.builder.getOrCreate())


def interrupt(beside: list[subprocess.Popen[bytes]]) -> None:
    for process in beside:
        process.send_signal(signal.SIGINT)
        process.wait()
    beside.clear()


def run_step(step: list[str] | str, bootstrap: str, beside: list[subprocess.Popen[bytes]]) -> None:
    """Runs a step, or adds the process of a parallel one to `beside`."""
    if isinstance(step, str):
        exec(compile(step.replace("127.0.0.1:9092", bootstrap), "the guide", "exec"), {"__name__": "guide"})
        return
    python, *words = step
    assert python == "python", step
    runs_beside = words[-1] == "&"
    if not words[0].endswith("jars.py"):
        words = [*words[: len(words) - runs_beside], "--bootstrap", bootstrap]
    if runs_beside:
        beside.append(subprocess.Popen([sys.executable, str(EXAMPLES.parent / words[0]), *words[1:]]))
    else:
        run_program(words)
        if is_endless(words):
            interrupt(beside)


if __name__ == "__main__":
    main(sys.argv[1], json.loads(Path(sys.argv[2]).read_text(encoding="utf-8")))
