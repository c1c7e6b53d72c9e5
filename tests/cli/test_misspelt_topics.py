"""Commands that get the name of no topic name the one that was probably meant, with the status of what does not exist."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

import odradek
import pytest

from compat_tests.cli.commands import Done, odradek_command

pytestmark = pytest.mark.usefixtures("sockets")
NOT_FOUND = 3
COMMANDS = (
    "topic describe ordres",
    "topic delete --yes ordres",
    "topic delete --dry-run ordres",
    "topic alter ordres --partitions 3",
    "topic trim ordres --before end",
    "group reset billing --create --topic ordres --to beginning",
    "consume ordres -o beginning",
    "produce ordres",
    "query 'select value from ordres'",
)


@pytest.fixture(scope="module")
def broker() -> Iterator[odradek.Broker]:
    with odradek.Broker() as running:
        for name in ("orders", "payments"):
            running.topic(name).create()
        yield running


def run(broker: odradek.Broker, command: str) -> Done:
    return odradek_command(*shlex.split(command), "-b", broker.bootstrap_servers, "--timeout", "20")


@pytest.mark.parametrize("command", COMMANDS)
def test_likely_topic_is_named(broker: odradek.Broker, command: str) -> None:
    done = run(broker, command)
    assert (done.status, done.out) == (NOT_FOUND, ""), done
    assert (
        "topic ordres" in done.err
        and "does not exist" in done.err
        and ", did you mean orders?" in done.err
        and done.err.count("\n") == 1
    ), done


@pytest.mark.parametrize("command", COMMANDS)
def test_no_topic_is_named_where_none_is_like_it(broker: odradek.Broker, command: str) -> None:
    done = run(broker, command.replace("ordres", "zzz"))
    assert done.status == NOT_FOUND and "topic zzz" in done.err and "did you mean" not in done.err, done
