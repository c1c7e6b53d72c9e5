"""The client commands: their words, the module that has each and what each is for.

A module is imported when its command runs. The table alone is what `odradek --help` needs, so the base install shows the
commands and explains how to install them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

#: The extra that these commands need.
EXTRA = "cli"


class ClientCommand(NamedTuple):
    """`module` is relative to `odradek.cli`, with a dot before it to `odradek`. It has `app`, or the name after a colon, a
    `typer.Typer`. `meaning` is the line in the help.
    """

    module: str
    meaning: str


COMMANDS: dict[tuple[str, ...], ClientCommand] = {
    ("topic",): ClientCommand("topic_command", "list, describe, create, alter and delete topics"),
    ("consume",): ClientCommand("records.consume_command", "read records"),
    ("query",): ClientCommand(".query.command", "query topics with SQL"),
    ("archive",): ClientCommand(".archive.command", "keep topics as Iceberg tables or Parquet files"),
    ("table",): ClientCommand(".archive.table_command", "show, maintain and rebuild the tables of `odradek archive`"),
    ("replay",): ClientCommand(".archive.replay_command", "write a table back into a topic"),
    ("record",): ClientCommand("records.record_command", "copy records into a file for tests, with fields masked"),
    ("produce",): ClientCommand("records.produce_command", "write records"),
    ("group",): ClientCommand("groups.command", "show members, offsets and lag of groups; set offsets; delete groups"),
    ("config",): ClientCommand("configs", "show and change configs of topics, brokers, groups and client metrics"),
    ("txn",): ClientCommand("transaction_command", "list, describe and abort transactions, also hanging ones"),
    ("cluster", "describe"): ClientCommand("clusters:describe_app", "show brokers and replicas of any cluster"),
    ("cluster", "quorum"): ClientCommand("clusters:quorum_app", "show the metadata quorum of any cluster"),
    ("cluster", "features"): ClientCommand("clusters:features_app", "show features and their levels"),
    ("cluster", "set-feature"): ClientCommand("cluster_changes:set_feature_app", "upgrade and downgrade features"),
    ("cluster", "elect-leaders"): ClientCommand(
        "cluster_changes:elect_leaders_app", "make preferred replicas leaders again"
    ),
    ("cluster", "log-dirs"): ClientCommand("clusters:log_dirs_app", "show log directories and their disk space"),
    ("reassign",): ClientCommand("reassign_command", "move replicas between brokers, by a plan that balances them"),
    ("tier",): ClientCommand("tier", "show, check and repair what topics have in the remote store"),
    ("backup",): ClientCommand("backup.command", "back up topics and group offsets"),
    ("restore",): ClientCommand("backup.command:restore_app", "restore a backup to a cluster"),
    ("doctor",): ClientCommand("doctor.command", "check a data directory or a running cluster"),
    ("migrate",): ClientCommand("migrate.command", "plan and watch the way from Apache Kafka to Odradek, and back"),
    ("mirror",): ClientCommand("mirrors", "mirror another cluster's topics at the same offsets, and switch to them"),
    ("bench",): ClientCommand("bench_command", "measure the throughput and latency of a cluster"),
    ("top",): ClientCommand("top_command", "show live metrics of a cluster"),
    ("acl",): ClientCommand("security.acls", "list, create and delete ACLs"),
    ("user",): ClientCommand("security.users", "list, create and delete users with SCRAM credentials"),
    ("quota",): ClientCommand("security.quotas", "list and set quotas of users, client ids and IP addresses"),
    ("token",): ClientCommand("security.tokens", "create, list, renew and expire delegation tokens"),
    ("schema",): ClientCommand("records.schema_command", "list, get, register, check and delete schemas of a registry"),
    ("console",): ClientCommand(".console.command", "serve the web console"),
    ("context",): ClientCommand("client.context_command", "manage named clusters: addresses and client properties"),
    ("completion",): ClientCommand("client.completion_command", "print the shell's completion script"),
}


def command_of(words: Sequence[str]) -> tuple[tuple[str, ...], ClientCommand] | None:
    """Returns the command that the first one or two words name, and these words. None for the others."""
    for count in (2, 1):
        found = COMMANDS.get(tuple(words[:count]))
        if found is not None and len(words) >= count:
            return tuple(words[:count]), found
    return None


def second_words(first: str) -> dict[str, str]:
    """Returns the client commands below a command of argparse, as `cluster`, with their meanings."""
    return {words[1]: command.meaning for words, command in COMMANDS.items() if len(words) == 2 and words[0] == first}
