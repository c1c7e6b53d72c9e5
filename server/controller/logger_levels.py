"""The process's loggers, by Kafka's names of levels: what the BROKER_LOGGER resource shows and changes (KIP-412).

They are Python's. A change lasts as long as the process, and holds for every broker in it.
"""

from __future__ import annotations

import logging

ROOT_LOGGER = "root"
_LEVELS = {"TRACE": 5, "DEBUG": 10, "INFO": 20, "WARN": 30, "ERROR": 40, "FATAL": 50, "OFF": 100}
LEVEL_NAMES = tuple(sorted(set(_LEVELS) - {"OFF"}))


def logger_levels() -> dict[str, str]:
    """The level at which each logger works, its own or inherited."""
    known = logging.root.manager.loggerDict
    found = {
        name: _level_name(logger.getEffectiveLevel())
        for name, logger in known.items()
        if isinstance(logger, logging.Logger)
    }
    return {**found, ROOT_LOGGER: _level_name(logging.root.level)}


def logger_exists(name: str) -> bool:
    return name == ROOT_LOGGER or isinstance(logging.root.manager.loggerDict.get(name), logging.Logger)


def set_logger_level(name: str, level: str) -> None:
    """`level` is one of LEVEL_NAMES."""
    _logger(name).setLevel(_LEVELS[level])


def unset_logger_level(name: str) -> None:
    """The logger works at its parent's level again."""
    _logger(name).setLevel(logging.NOTSET)


def _logger(name: str) -> logging.Logger:
    return logging.root if name == ROOT_LOGGER else logging.getLogger(name)


def _level_name(number: int) -> str:
    """The lowest of Kafka's levels that this one reaches."""
    return next((name for name, limit in _LEVELS.items() if number <= limit), "OFF")
