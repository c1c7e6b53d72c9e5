"""Requests without a login under forged Host headers: no route of the console but the login's own is served.

Starlette builds a request's address from the Host header. Releases before 1.0.1 take it as it comes, so that a path in it
stands before the path that is routed; `as_comes` has any release do so.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from odradek.admin.connection import Connection
from odradek.console.access.guard import CALLBACK, END, HEALTH, LOGIN, START
from odradek.console.access.users import VIEWER, add_user
from odradek.console.application import application
from odradek.console.backend import Backend
from odradek.console.settings import Settings
from starlette.applications import Starlette
from starlette.datastructures import URL
from starlette.requests import Request
from starlette.routing import BaseRoute, Mount, Route

from tests.hostile.harness.console_requests import ask

SEED, HOSTS = 20, 25
OPEN = {HEALTH, LOGIN, START, CALLBACK, END}
_NAMES = ("x", "127.0.0.1", "localhost:80", "[::1]", "console.example", "")
_PATHS = ("/login", "/login/", "/static/", "/health", "/login/oidc", "//login/", "\\login/", "/%6cogin/", "@x/login/")
_ENDS = ("", "?", "#", "?x=", ";", "/..", "#/", "?/static/", "%3f", "[", "]", " ", ":99999999")


def forged_hosts() -> list[str]:
    """Hosts of the reported kind, those that no URL can have, and random ones."""
    rng = random.Random(SEED)
    fixed = ["x/login/?", "x/static/#", "x/health?", "[", "]", "[::1", "x:port", "\xff", "a b", "//login/"]
    while len(fixed) < HOSTS:
        one = rng.choice(_NAMES) + rng.choice(_PATHS) + rng.choice(_ENDS)
        fixed += [one] if one not in fixed else []
    return fixed


@pytest.fixture(scope="module")
def users(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("forged") / "users"
    add_user(made, "bob", VIEWER, "staple battery")
    return made


@pytest.fixture(scope="module")
def console(users: Path) -> Starlette:
    """The console with logins; its cluster is not read."""
    return application(Backend(Connection({"bootstrap.servers": "127.0.0.1:1"}), Settings(users=users)))


@pytest.fixture(params=["installed", "as_comes"])
def app(request: pytest.FixtureRequest, console: Starlette, monkeypatch: pytest.MonkeyPatch) -> Starlette:
    if request.param == "as_comes":

        def url(self: Request) -> URL:
            query = self.scope["query_string"].decode()
            return URL(f"http://{self.headers.get('host', '')}{self.scope['path']}{f'?{query}' if query else ''}")

        monkeypatch.setattr(Request, "url", property(url))
    return console


def paths_of(routes: list[BaseRoute], before: str = "") -> Iterator[tuple[str, str]]:
    """The method and a path of each route."""
    for route in routes:
        if isinstance(route, Mount) and route.routes:
            yield from paths_of(route.routes, before + route.path)
        elif isinstance(route, Route):
            names = dict.fromkeys(route.param_convertors, "7")
            path = before + route.path
            for name, value in names.items():
                path = path.replace(f"{{{name}:int}}", value).replace(f"{{{name}}}", value)
            for method in sorted((route.methods or set()) - {"HEAD"}):
                yield method, path


def test_no_route_is_served_without_a_login_under_any_host(app: Starlette) -> None:
    walked = sorted(set(paths_of(app.routes)))
    assert len(walked) > 30 and ("GET", "/topics/7/messages") in walked and ("POST", "/access/users") in walked

    async def walk() -> list[object]:
        let_in: list[object] = []
        for host in forged_hosts():
            for method, path in walked:
                if path in OPEN:
                    continue
                for in_place in (False, True):
                    headers = {"hx_request": "true"} if in_place else {}
                    reply = await ask(app, method, path, host=host, **headers)
                    redirects = method == "GET" and not in_place
                    if (reply.status, reply.location) != ((303, "/login") if redirects else (401, "")):
                        let_in.append((host, method, path, reply))
        return let_in

    assert len(forged_hosts()) == HOSTS
    assert asyncio.run(walk()) == []


@pytest.mark.parametrize(
    "path", ["/login/", "/login/x", "/static", "/healthy", "/login/oidc/end/x", "/LOGIN", "//topics"]
)
def test_path_beside_an_open_one_needs_a_login(app: Starlette, path: str) -> None:
    assert asyncio.run(ask(app, "GET", path, host="127.0.0.1")).status == 303


@pytest.mark.parametrize("path", ["/login", "/health", "/static/console.css"])
def test_open_paths_are_served_under_any_host(app: Starlette, path: str) -> None:
    assert {asyncio.run(ask(app, "GET", path, host=host)).status for host in forged_hosts()} == {200}
