"""The recorded tour of the command line: commands and their output on a cluster of three nodes.

`recorded` runs the commands and returns the page docs/specialists/command-line-tour.md. Addresses, times and ids differ from
run to run, so they have fixed values. `python -m compat_tests.cli.tour` writes the page; test_tour.py compares it.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
import tempfile
from pathlib import Path

from compat_tests.cli.commands import odradek_command
from compat_tests.cli.recording import STEPS
from compat_tests.cli.three_node_cluster import three_nodes

PAGE = Path(__file__).resolve().parents[2] / "docs" / "specialists" / "command-line-tour.md"
HEAD = """# Tour of the command line

- This page shows commands of `odradek` and what they print, from an empty folder to a look at the files of a log.
- The commands of the first section are a recording in a shell; the others ran on a cluster of three.
- Tests run every command of this page and compare its output with the lines here.
- Times and addresses differ in each run; they stand here under fixed values.
- The commands need `pip install 'odradek[cli]'`.

<!-- Written by `python -m compat_tests.cli.tour`, which runs each command on a cluster of three. -->
"""
#: Written before the scenes. test_recording.py types its commands, and makes its picture.
RECORDING = """## From an empty folder

![Commands of odradek in a terminal](../images/command-line-tour.svg)

The picture is a recording of these commands in a shell. Below a command stands one line of its output; the tables are in
the picture. `asciinema play` plays [the same recording](../images/command-line-tour.cast) in a terminal.

```text
{steps}```

The commands of all other sections ran on a cluster of three (`odradek cluster start`).
"""
#: (heading, [(input, command)]); `{b}` is the address of the cluster.
SCENES: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = (
    (
        "A context",
        (
            ("", "odradek context add dev -b {b}"),
            ("", "odradek context list"),
            ("", "odradek context show --output json"),
        ),
    ),
    (
        "A topic",
        (
            ("", "odradek topic create orders --partitions 2 -c retention.ms=3600000 --dry-run"),
            ("", "odradek topic create orders --partitions 2 -c retention.ms=3600000"),
            ("", "odradek topic list"),
            ("", "odradek topic create orders"),
        ),
    ),
    (
        "Records",
        (
            (
                'ann:{"total": 12, "city": "Brno"}\nbob:{"total": 5, "city": "Oslo"}\ncid:{"total": 40, "city": "Riga"}\n',
                "odradek produce orders -K : -H source=web -p 0",
            ),
            ("", "odradek consume orders --from-beginning --count 2 --output jsonl -p 0"),
            ("", "odradek consume orders -o -1h --where '@.total > 10' -f '%o %k %s\\n'"),
            ("", "odradek consume orders -o -2 -p 0 --value-format json --output table"),
        ),
    ),
    (
        "A group",
        (
            ("", "odradek consume orders --group billing --from-beginning --count 1 -f '%k\\n'"),
            ("", "odradek group lag billing"),
            ("", "odradek group reset billing --to end --topic orders:0 --dry-run"),
            ("", "odradek group reset billing --to end --topic orders:0"),
            ("", "odradek group lag billing --total --output json"),
        ),
    ),
    (
        "Configs and health",
        (
            ("", "odradek config set topic orders min.insync.replicas=2"),
            ("", "odradek config get topic orders retention.ms min.insync.replicas"),
            ("", "odradek config set topic orders retention.ms=soon --dry-run"),
            ("", "odradek topic alter orders --partitions 3"),
            ("", "odradek topic list --under-replicated"),
            ("", "odradek topic delete orders"),
        ),
    ),
)


def recorded(bootstrap: str) -> str:
    """Runs the commands and returns the page. The configuration directory must be empty."""
    parts = [HEAD, recording_section()]
    for heading, commands in SCENES:
        shown = []
        for stdin, command in commands:
            words = shlex.split(command.replace("{b}", bootstrap))
            done = odradek_command(*words[1:], stdin=stdin, bootstrap=bootstrap)
            before = "".join(f"{line}\n" for line in stdin.splitlines())
            given = f" <<END\n{before}END" if stdin else ""
            output = done.out + done.err + (f"(exit status {done.status})\n" if done.status else "")
            shown.append(f"$ {command.replace('{b}', '127.0.0.1:9092')}{given}\n{masked(output, bootstrap)}")
        parts.append(f"## {heading}\n\n```text\n{''.join(shown)}```\n")
    return "\n".join(parts)


def recording_section() -> str:
    """Returns the part of the page about the recording: its picture, and each command with the line that it prints."""
    return RECORDING.format(
        steps="".join(f"$ {command}\n{line}\n" if line else f"$ {command}\n" for command, line in STEPS)
    )


def masked(text: str, bootstrap: str) -> str:
    """Returns the text with fixed values for addresses and times, without blanks at the ends of lines."""
    text = text.replace(bootstrap, "127.0.0.1:9092")
    text = re.sub(r"\b1[6-9]\d{11}\b", "1767225600000", text)
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines())


def main() -> int:
    with tempfile.TemporaryDirectory() as folder, three_nodes(Path(folder) / "three") as bootstrap:
        os.environ["XDG_CONFIG_HOME"] = str(Path(folder) / "config")
        os.environ.pop("ODRADEK_BOOTSTRAP_SERVER", None)
        PAGE.write_text(recorded(bootstrap), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
