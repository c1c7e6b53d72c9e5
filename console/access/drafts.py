"""Drafts: fields of refused forms, of which the viewer corrects one, and types none twice."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Mapping
from dataclasses import dataclass

from ...client.properties import is_secret

#: Forms that are kept, the oldest goes first; and the characters of one: a longer one has to be typed again.
_MOST_DRAFTS, _MOST_CHARACTERS = 100, 256 << 10
_LEFT_OUT = ("csrf",)


@dataclass(frozen=True, slots=True)
class Draft:
    """`action`: the path that the form was sent to."""

    action: str
    fields: dict[str, str]


class Drafts:
    """A draft is read once, by the session that sent it. Passwords are not kept."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], Draft] = {}
        self._lock = threading.Lock()

    def keep(self, session: str, action: str, form: Mapping[str, str]) -> str:
        """Returns the draft's name; "" for a form that is too long."""
        fields = {name: value for name, value in form.items() if name not in _LEFT_OUT and not is_secret(name)}
        if sum(map(len, fields.values())) > _MOST_CHARACTERS:
            return ""
        name = secrets.token_urlsafe(12)
        with self._lock:
            self._known[session, name] = Draft(action, fields)
            while len(self._known) > _MOST_DRAFTS:
                self._known.pop(next(iter(self._known)))
        return name

    def take(self, session: str, name: str) -> Draft | None:
        with self._lock:
            return self._known.pop((session, name), None)
