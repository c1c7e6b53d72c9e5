"""Levels of the log by logger, the values of `--log-level`."""

from __future__ import annotations

import argparse
from typing import NamedTuple

from ..client.message_text import shown
from ..client.suggestions import did_you_mean

_ROOT = "root"
#: Kafka's names of levels, and Python's for two of them.
_LEVELS = {
    "trace": 5, "debug": 10, "info": 20, "warn": 30, "warning": 30, "error": 40, "fatal": 50, "critical": 50, "off": 100,
}  # fmt: skip
#: The loggers of a broker, and what each writes.
LOGGERS = {
    "odradek.audit": "denied requests, failed logins, changes by clients",
    "odradek.authorizer": "loaded ACLs",
    "odradek.background": "background work that failed and is tried again",
    "odradek.broker": "start, stop, log directories",
    "odradek.broker_sessions": "brokers that are fenced because their process ended or sent no heartbeat",
    "odradek.cleaner": "compaction",
    "odradek.config": "unknown keys, keys without effect, dynamic changes",
    "odradek.connection": "connections that were closed because of an error",
    "odradek.damage": "damaged files and batches",
    "odradek.dispatch": "requests that failed because of a bug",
    "odradek.groups": "coordinators of groups, transactions and share groups",
    "odradek.halting": "failures that end the process",
    "odradek.late_imports": "modules that are imported while the broker runs",
    "odradek.lifecycle": "registration and controlled shutdown",
    "odradek.listener": "listeners, rejected connections",
    "odradek.maintenance": "retention",
    "odradek.metadata": "topics, partitions, leaders, configuration, brokers",
    "odradek.metrics": "the HTTP port of metrics and health",
    "odradek.mirror": "topics that follow another cluster",
    "odradek.moves": "replicas that move between directories",
    "odradek.partitions": "recovery of logs, replicas",
    "odradek.peers": "connections to other nodes",
    "odradek.policies": "policies that decide about topics and configs",
    "odradek.producer_ids": "blocks of producer ids",
    "odradek.publisher": "the publication of metadata",
    "odradek.quorum": "elections, the metadata log",
    "odradek.quotas": "client quotas",
    "odradek.remote": "tiered storage",
    "odradek.replicas": "replication between brokers",
    "odradek.security": "SASL and tokens",
    "odradek.slow": "slow requests",
    "odradek.storage": "log files",
    "odradek.tables": "the process that keeps tables of topics",
    "odradek.telemetry": "client metrics",
    "odradek.tls": "keys and certificates",
    "odradek.topics": "creation of internal topics",
    "odradek.transactions": "transactions",
    "odradek.turns": "requests that blocked the event loop",
    "odradek.waiters": "delayed responses",
}


class LoggerLevel(NamedTuple):
    """A level for a logger and those below it; the root logger's is for all."""

    logger: str
    level: int


def logger_level(text: str) -> LoggerLevel:
    """The value of `--log-level`: LEVEL or LOGGER=LEVEL."""
    logger, equals, name = text.rpartition("=")
    if equals and logger.partition(".")[0] == "odradek" and logger not in ("odradek", *LOGGERS):
        hint = did_you_mean(logger, LOGGERS)
        raise argparse.ArgumentTypeError(f"there is no logger {shown(logger)}{hint}")
    if name.lower() not in _LEVELS or (equals and not logger):
        known = ", ".join(level for level in _LEVELS if level not in ("warning", "critical"))
        raise argparse.ArgumentTypeError(f"{shown(text)} is not LEVEL or LOGGER=LEVEL; a level is one of {known}")
    return LoggerLevel(logger if equals and logger != _ROOT else "", _LEVELS[name.lower()])


def level_text(chosen: LoggerLevel) -> str:
    """The text that `logger_level` reads as this value."""
    name = next(name for name, level in _LEVELS.items() if level == chosen.level)
    return f"{chosen.logger or _ROOT}={name}"
