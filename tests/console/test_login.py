"""Logins of the console: guesses at once, sessions after a logout, and names of hosts that look like this machine's."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlencode

import pytest
from odradek.client import login_limit
from odradek.client.login_limit import LoginLimit
from odradek.console.access import sessions as access_sessions
from odradek.console.access.guard import Guard
from odradek.console.access.sessions import Sessions
from odradek.console.access.users import VIEWER, User
from odradek.console.login import Login
from odradek.console.settings import Settings
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

GUESSES = 40


class Users:
    """Counts the passwords that are checked, and how many at the same time."""

    def __init__(self) -> None:
        self.checked: list[str] = []
        self.most_at_once = self._now = 0
        self._lock = threading.Lock()

    def check(self, name: str, password: str) -> User | None:
        with self._lock:
            self.checked.append(password)
            self._now += 1
            self.most_at_once = max(self.most_at_once, self._now)
        threading.Event().wait(0.01)
        with self._lock:
            self._now -= 1
        return User(name, VIEWER) if password == "right" else None

    def find(self, name: str) -> User | None:
        return User(name, VIEWER)


class Renderer:
    def __init__(self, sessions: Sessions) -> None:
        self.sessions = sessions
        self.kept: list[str] = []

    def login(self, token: str, words: str, status: int, has_left: bool) -> Response:
        return PlainTextResponse(words, status)

    def keep(self, response: Response, session: Any) -> None:
        self.kept.append(self.sessions.written(session))


class Console:
    def __init__(self) -> None:
        self.sessions, self.users = Sessions(), Users()
        self.renderer = Renderer(self.sessions)
        backend: Any = SimpleNamespace(users=self.users, single_sign_on=None)
        renderer: Any = self.renderer
        self.login = Login(backend, self.sessions, renderer)

    def request(self, address: str, session: Any, **form: str) -> Request:
        body = urlencode({**form, "csrf": session.token}).encode()
        headers = [
            (b"content-type", b"application/x-www-form-urlencoded"),
            (b"content-length", str(len(body)).encode()),
            (b"host", b"console"),
        ]
        scope = {"type": "http", "method": "POST", "headers": headers, "client": (address, 1), "path": "/login"}

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        made = Request(scope, receive)
        made.state.session = session
        return made

    async def enter(self, address: str, password: str) -> Response:
        return await self.login.enter(self.request(address, self.sessions.begin(""), name="alice", password=password))


async def test_address_has_five_of_many_guesses_at_once() -> None:
    console = Console()
    responses = await asyncio.gather(*(console.enter("10.0.0.1", f"guess-{n}") for n in range(GUESSES)))
    statuses = [response.status_code for response in responses]
    assert statuses.count(401) == len(console.users.checked) == 5
    assert statuses.count(429) == GUESSES - 5
    assert (await console.enter("10.0.0.1", "right")).status_code == 429
    assert (await console.enter("10.0.0.2", "right")).status_code == 303, "another address is let in"


async def test_passwords_are_hashed_one_at_a_time_and_few_wait() -> None:
    console = Console()
    responses = await asyncio.gather(*(console.enter(f"10.0.0.{n}", f"guess-{n}") for n in range(100)))
    assert console.users.most_at_once == 1
    assert {response.status_code for response in responses} == {401, 429}
    assert len(console.users.checked) < 50


async def test_successful_logins_do_not_count() -> None:
    console = Console()
    for _ in range(12):
        assert (await console.enter("10.0.0.1", "right")).status_code == 303


async def test_cookie_is_worth_nothing_after_logout() -> None:
    console = Console()
    await console.enter("10.0.0.1", "right")
    cookie = console.renderer.kept[-1]
    session = console.sessions.read(cookie)
    assert session is not None and session.user == "alice"
    response = await console.login.leave(console.request("10.0.0.1", session))
    assert response.status_code == 303
    assert console.sessions.read(cookie) is None


def test_sessions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access_sessions, "_MOST_SESSIONS", 3)
    sessions = Sessions()
    made = [sessions.begin("alice") for _ in range(5)]
    alive = [sessions.read(sessions.written(one)) is not None for one in made]
    assert alive == [False, False, True, True, True]


def test_window_of_failures_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    limit, now_s = LoginLimit(), [100.0]
    monkeypatch.setattr(login_limit.time, "monotonic", lambda: now_s[0])
    assert [limit.begin("a") for _ in range(7)] == [True] * 5 + [False] * 2
    now_s[0] += 61
    assert limit.begin("a")


@pytest.mark.parametrize(
    ("host", "is_served"),
    [
        ("localhost", True),
        ("LOCALHOST:8080", True),
        ("127.0.0.1:8080", True),
        ("[::1]", True),
        ("[::1]:8080", True),
        ("[::1].evil.com", False),
        ("[::1]evil.com:80", False),
        ("[::1]:80.evil.com", False),
        ("127.0.0.1:evil.com", False),
        ("localhost:80:evil.com", False),
        ("localhost.evil.com", False),
        ("evil.com", False),
        ("[]", False),
        ("", False),
    ],
)
async def test_only_names_of_this_machine_are_served_without_logins(host: str, is_served: bool) -> None:
    sent: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await PlainTextResponse("a page")(scope, receive, send)

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    guard = Guard(app, Settings(), None, Sessions())
    scope = {"type": "http", "method": "GET", "path": "/", "headers": [(b"host", host.encode())], "query_string": b""}
    await guard(scope, receive, send)
    assert (sent[0]["status"] == 200) is is_served
    assert sent[0]["status"] in (200, 421)
