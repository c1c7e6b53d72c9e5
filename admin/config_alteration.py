"""Changes of configs by commands and pages: errors name the command that lists the keys."""

from __future__ import annotations

from ..client.error_kinds import ErrorKind, kind_of_code
from . import config_changes
from .errors import ResponseError
from .session import Admin


def alter_configs(admin: Admin, kind: str, name: str, changes: config_changes.Changes, *, dry_run: bool) -> None:
    """Sets, deletes, appends to or subtracts from configs: name -> (SET, DELETE, APPEND or SUBTRACT, value)."""
    try:
        config_changes.alter_configs(admin, kind, name, changes, dry_run=dry_run)
    except ResponseError as error:
        if kind_of_code(error.code) != ErrorKind.FAILED:
            raise
        hint = f"; `odradek config get {kind} {name or 'default'} --all` lists the keys"
        raise ResponseError(error.subject, error.code, error.message, hint) from None
