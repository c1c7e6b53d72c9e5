"""Sessions in signed cookies (itsdangerous), CSRF tokens that belong to them, and what a session keeps for its next page:
messages, and the fields of refused forms.
"""

from __future__ import annotations

import hmac
import secrets
import threading
import time
from dataclasses import dataclass

from itsdangerous import BadSignature, URLSafeTimedSerializer

SESSION_COOKIE, FLASH_COOKIE = "odradek_console", "odradek_console_flash"
SESSION_MAX_AGE_S = 12 * 3600
#: Characters of a message for the next page, which a cookie holds.
_MOST_FLASH = 800
#: Sessions of users at the same time; another one ends the oldest.
_MOST_SESSIONS = 10_000


@dataclass(frozen=True, slots=True)
class Session:
    """`user` is "" before a login. The token is drawn anew at each login. `role` is the issuer's, "" after a password."""

    user: str
    token: str
    role: str = ""


class Sessions:
    """Sessions end with a logout, after SESSION_MAX_AGE_S, and with the process: their key is never stored."""

    def __init__(self) -> None:
        #: The tokens of sessions of users, with the time at which they end, the oldest first.
        self._active: dict[str, float] = {}
        self._lock = threading.Lock()
        key = secrets.token_hex(32)
        self._sessions = URLSafeTimedSerializer(key, salt="session")
        self._flashes = URLSafeTimedSerializer(key, salt="flash")

    def read(self, cookie: str | None) -> Session | None:
        found = _loaded(self._sessions, cookie, SESSION_MAX_AGE_S)
        if not isinstance(found, list) or len(found) != 3:
            return None
        session = Session(*map(str, found))
        return session if not session.user or session.token in self._active else None

    def begin(self, user: str, role: str = "") -> Session:
        session = Session(user, secrets.token_urlsafe(24), role)
        if user:
            with self._lock:
                self._forget_old(time.monotonic())
                self._active[session.token] = time.monotonic() + SESSION_MAX_AGE_S
        return session

    def end(self, session: Session | None) -> None:
        """Ends a session: its cookie is worth nothing from now on."""
        if session is not None:
            with self._lock:
                self._active.pop(session.token, None)

    def _forget_old(self, now_s: float) -> None:
        while self._active:
            oldest = next(iter(self._active))
            if self._active[oldest] > now_s and len(self._active) < _MOST_SESSIONS:
                return
            del self._active[oldest]

    def written(self, session: Session) -> str:
        return str(self._sessions.dumps([session.user, session.token, session.role]))

    def flash(self, text: str, tone: str, draft: str = "") -> str:
        """`draft`: the name of the refused form that the next page shows again."""
        return str(self._flashes.dumps([_shortened(text), tone, draft]))

    def read_flash(self, cookie: str | None) -> tuple[str, str, str] | None:
        found = _loaded(self._flashes, cookie, 60)
        if not isinstance(found, list) or len(found) != 3:
            return None
        text, tone, draft = map(str, found)
        return text, tone, draft


def _shortened(text: str) -> str:
    """A long text without its middle, where names are: the reason is at its end."""
    half = _MOST_FLASH // 2
    return text if len(text) <= _MOST_FLASH else f"{text[:half]} … {text[-half:]}"


def _loaded(serializer: URLSafeTimedSerializer, cookie: str | None, max_age_s: int) -> object:
    if not cookie:
        return None
    try:
        return serializer.loads(cookie, max_age=max_age_s)
    except BadSignature:
        return None


def is_token_of(session: Session | None, token: str) -> bool:
    return session is not None and hmac.compare_digest(session.token.encode(), token.encode())
