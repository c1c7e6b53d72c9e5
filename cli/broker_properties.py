"""The properties of one broker: those of its file, under `--override`, with `--port` and `--data-dir`.

The command line has precedence over the file, but no setting of a listener is dropped: a listener in the
file may be a secured one. `--port N` is short for one PLAINTEXT listener on 127.0.0.1:N, or on the address of `--host`. It
stands beside listeners of controllers and beside `advertised.listeners`, it may repeat an address that `listeners` names,
and anything else is an error.
`--data-dir D` is short for `--override log.dirs=D`.
"""

from __future__ import annotations

import argparse

from ..client.message_text import shown
from .command_parser import UsageError
from .options import DEFAULT_DATA_DIR, overrides_of

_PORT_LISTENER = "PLAINTEXT"
DEFAULT_PORT = 9092
DEFAULT_HOST = "127.0.0.1"

#: Keys that mean the same: one on the command line replaces the other in the file.
_SAME = {
    "log.dirs": ("log.dir",),
    "log.dir": ("log.dirs",),
    "node.id": ("broker.id",),
    "broker.id": ("node.id",),
    "log.retention.hours": ("log.retention.minutes", "log.retention.ms"),
    "log.retention.minutes": ("log.retention.ms",),
    "log.roll.hours": ("log.roll.ms",),
    "log.roll.jitter.hours": ("log.roll.jitter.ms",),
}


def properties_of(options: argparse.Namespace) -> dict[str, str]:
    """Raises UsageError and InvalidConfig."""
    overrides = overrides_of(options)
    _add_data_dir(options, overrides)
    found = _file(options)
    for key in overrides:
        for same in _SAME.get(key, ()):
            if same not in overrides:
                found.pop(same, None)
    found |= overrides
    if "log.dirs" not in found and "log.dir" not in found:
        found["log.dirs"] = DEFAULT_DATA_DIR
    if getattr(options, "host", None) is not None and options.port is None:
        options.port = DEFAULT_PORT
    if getattr(options, "port", None) is not None:
        _add_port(options, found)
    return found


def _file(options: argparse.Namespace) -> dict[str, str]:
    from ..client.properties_file import read_properties

    if options.properties is None:
        return {}
    try:
        return read_properties(options.properties)
    except OSError as error:
        raise UsageError(f"cannot read {options.properties}: {error.strerror or error}") from None


def _add_data_dir(options: argparse.Namespace, overrides: dict[str, str]) -> None:
    if options.data_dir is None:
        return
    directory = str(options.data_dir)
    if "," in directory:
        raise UsageError(
            f"--data-dir {shown(directory)}: give one directory without commas; for several directories, set log.dirs"
        )
    for key in ("log.dirs", "log.dir"):
        if overrides.get(key, directory) != directory:
            raise UsageError(
                f"--data-dir {directory} and --override {key}={shown(overrides[key])} name different directories: "
                "leave one of them out"
            )
    overrides.pop("log.dir", None)
    overrides["log.dirs"] = directory


def _add_port(options: argparse.Namespace, properties: dict[str, str]) -> None:
    """Adds the listener of `--port`, or finds that `listeners` has it already. Raises UsageError."""
    where = _where(options, "listeners")
    listeners = [text.strip() for text in properties.get("listeners", "").split(",") if text.strip()]
    controllers = _controller_names(properties)
    ports = {_name(text): text.rpartition(":")[2] for text in listeners if _name(text) not in controllers}
    roles = [role.strip() for role in properties.get("process.roles", "broker").split(",")]
    if "broker" not in roles:
        raise UsageError(
            f"--port {options.port} is where clients connect, and process.roles={properties['process.roles']} makes "
            "this node a controller only: leave out --port"
        )
    host = getattr(options, "host", None)
    if host is not None and _differ(host, options.port, listeners, controllers):
        raise UsageError(
            f"--host {host} and listeners={shown(properties['listeners'])} ({where}) name different addresses: "
            "leave out --host, or set the new address in listeners"
        )
    if str(options.port) in ports.values():
        return
    if ports:
        raise UsageError(
            f"--port {options.port} and listeners={shown(properties['listeners'])} ({where}) name different ports: "
            "leave out --port, or set the new port in listeners"
        )
    added = f"{_PORT_LISTENER}://{_bracketed(host or DEFAULT_HOST)}:{options.port}"
    properties["listeners"] = ",".join([added, *listeners])
    _check_advertised(options, properties, controllers)


def _differ(host: str, port: int, listeners: list[str], controllers: set[str]) -> bool:
    """Whether there are listeners for clients, and none of them has this address."""
    addresses = [text.partition("://")[2] for text in listeners if _name(text) not in controllers]
    return bool(addresses) and f"{_bracketed(host)}:{port}" not in addresses


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _check_advertised(options: argparse.Namespace, properties: dict[str, str], controllers: set[str]) -> None:
    said = properties.get("advertised.listeners", "")
    others = {_name(text) for text in said.split(",") if text.strip()} - controllers - {_PORT_LISTENER}
    if others:
        raise UsageError(
            f"--port {options.port} listens as {_PORT_LISTENER}, and advertised.listeners={shown(said)} "
            f"({_where(options, 'advertised.listeners')}) names {', '.join(sorted(others))}: set the port in listeners "
            "instead of --port"
        )


def _controller_names(properties: dict[str, str]) -> set[str]:
    names = properties.get("controller.listener.names", "CONTROLLER")
    return {name.strip().upper() for name in names.split(",")}


def _name(listener: str) -> str:
    return listener.strip().partition(":")[0].upper()


def _where(options: argparse.Namespace, key: str) -> str:
    is_override = any(name == key for name, _ in options.override)
    return "--override" if is_override else str(options.properties)
