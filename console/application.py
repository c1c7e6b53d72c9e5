"""The web application: its routes, the order of its guards, and how errors become pages.

The routes are made from two tables alone: `PAGES` and `ACTIONS`.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import anyio.to_thread
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from ..cli.client.errors import DENIED, NOT_FOUND, UNREACHABLE, CommandError
from ..cli.options import MISUSED
from .access.guard import Guard
from .access.sessions import Drafts, Sessions
from .access.single_sign_on import COOKIE, COOKIE_MAX_AGE_S, START
from .actions import Change, action, attempted
from .backend import Backend
from .login import Login
from .pages import access, brokers, clients, groups, messages, overview, topics, transactions
from .pages.lists import here
from .pages.overview import overview_of
from .parts import Field, Form, Page, Text
from .rendering import Renderer

if TYPE_CHECKING:
    from starlette.routing import BaseRoute


# ---- pages and actions

PAGES: dict[str, Callable[[Backend, Request], Page | Response]] = {
    "/": overview.overview,
    "/topics": topics.topics,
    "/topics/{topic}": topics.topic,
    "/topics/{topic}/messages": messages.messages,
    "/topics/{topic}/messages/{partition:int}/{offset:int}": messages.record,
    "/groups": groups.groups,
    "/groups/{group}": groups.group,
    "/groups/{group}/reset": groups.preview,
    "/transactions": transactions.transactions,
    "/transactions/hanging": transactions.hanging,
    "/brokers": brokers.brokers,
    "/brokers/{broker:int}": brokers.broker,
    "/quorum": brokers.quorum,
    "/share": groups.queues,
    "/share/{topic}": groups.queue,
    "/access": access.access,
    "/clients": clients.clients,
}

#: path -> the name in the audit log, and the change.
ACTIONS: dict[str, tuple[str, Change]] = {
    "/topics": ("topic.create", topics.create),
    "/topics/{topic}/config": ("topic.config", topics.set_config),
    "/topics/{topic}/alter": ("topic.alter", topics.alter),
    "/topics/{topic}/trim": ("topic.trim", topics.trim),
    "/topics/{topic}/delete": ("topic.delete", topics.delete),
    "/topics/{topic}/messages": ("record.produce", messages.produce),
    "/groups/{group}/reset": ("group.reset", groups.reset),
    "/groups/{group}/delete": ("group.delete", groups.delete),
    "/transactions/abort": ("transaction.abort", transactions.abort),
    "/transactions/abort-hanging": ("transaction.abort-hanging", transactions.abort_hanging),
    "/share/{topic}/redrive": ("dead-letters.redrive", groups.redrive_records),
    "/access/acls": ("acl.create", access.create_acl),
    "/access/acls/delete": ("acl.delete", access.delete_acl),
    "/access/users": ("user.set", access.set_user),
    "/access/users/delete": ("user.delete", access.delete_user),
    "/access/quotas": ("quota.set", access.set_quota),
    "/access/quotas/delete": ("quota.delete", access.delete_quota),
}


#: Requests that wait for the cluster at the same time; each has a thread.
_MOST_THREADS = 8
#: A view that could not reach a broker waits so long for the poll that finds out which.
_PROBE_S = 3.0
_STATUS = {NOT_FOUND: 404, UNREACHABLE: 503, DENIED: 403, MISUSED: 400}

View = Callable[[Backend, Request], "Page | Response"]


def application(backend: Backend, clusters: Mapping[str, Backend] = MappingProxyType({})) -> Starlette:
    """With `clusters` the pages of each stand below /clusters/NAME, and `backend` has the logins alone."""
    sessions, drafts = Sessions(), Drafts()
    renderer = Renderer(backend, sessions, drafts)
    served = list(clusters.values()) or [backend]

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        anyio.to_thread.current_default_thread_limiter().total_tokens = _MOST_THREADS
        for one in served:
            one.start()
        yield
        for one in served:
            await run_in_threadpool(one.stop)

    routes: list[BaseRoute] = [] if clusters else _routes_of(backend, renderer, sessions, drafts)
    for name, one in clusters.items():
        of_cluster = _routes_of(one, Renderer(one, sessions, drafts, name), sessions, drafts)
        routes.append(Mount(f"/clusters/{name}", routes=of_cluster))
    if clusters:
        routes.append(Route("/", _overview(clusters, renderer)))
    routes += [
        *Login(backend, sessions, renderer).routes(),
        Route("/health", _health),
        Mount("/static", StaticFiles(directory=Path(__file__).parent / "static")),
    ]
    around = [Middleware(Guard, settings=backend.settings, users=backend.users, sessions=sessions)]
    if backend.single_sign_on is not None:
        around.append(_login_cookie(backend))

    async def not_found(request: Request, error: Exception) -> Response:
        if getattr(request.state, "user", None) is None:
            return PlainTextResponse("Not found.\n", 404)
        page = Page("Not found", [Text("There is no such page.", "bad")])
        return renderer.page(request, page, 404, has_sections=not clusters)

    return Starlette(routes=routes, middleware=around, lifespan=lifespan, exception_handlers={404: not_found})


def _routes_of(backend: Backend, renderer: Renderer, sessions: Sessions, drafts: Drafts) -> list[BaseRoute]:
    routes: list[BaseRoute] = [Route(path, _page(backend, renderer, view)) for path, view in PAGES.items()]
    routes += [
        Route(path, action(backend, sessions, drafts, name, change), methods=["POST"])
        for path, (name, change) in ACTIONS.items()
    ]
    return routes


def _overview(clusters: Mapping[str, Backend], renderer: Renderer) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        for one in clusters.values():
            one.poller.note_viewer()
        return renderer.page(request, overview_of(clusters), has_sections=False)

    return endpoint


def _login_cookie(backend: Backend) -> Middleware:
    """Holds what a login waits for. It comes back from another site, with which browsers send no strict cookie."""
    from starlette.middleware.sessions import SessionMiddleware

    return Middleware(
        SessionMiddleware,
        secret_key=secrets.token_hex(32),
        session_cookie=COOKIE,
        max_age=COOKIE_MAX_AGE_S,
        path=START,
        same_site="lax",
        https_only=backend.settings.is_tls,
    )


async def _health(request: Request) -> Response:
    return PlainTextResponse("ok\n")


def _page(backend: Backend, renderer: Renderer, view: View) -> Callable[[Request], Awaitable[Response]]:
    """The endpoint of a page: the view runs in a thread, since it may ask the cluster."""

    async def endpoint(request: Request) -> Response:
        backend.poller.note_viewer()
        return await run_in_threadpool(drawn, request)

    def drawn(request: Request) -> Response:
        """In the thread, too: to draw hundreds of long records takes longer than other requests may wait."""
        page, status = _viewed(backend, request, view)
        return page if isinstance(page, Response) else renderer.page(request, page, status)

    return endpoint


def _viewed(backend: Backend, request: Request, view: View) -> tuple[Page | Response, int]:
    """The page, and its status. A view that asked a broker which has just died runs again, and leaves that broker out."""
    known = attempted(view, backend, request)
    if isinstance(known, CommandError) and known.status == UNREACHABLE and backend.poller.probe_now(_PROBE_S):
        known = attempted(view, backend, request)
    if isinstance(known, CommandError):
        return Page("That did not work", [Text(str(known), "bad")], below=_typed(request)), _STATUS.get(
            known.status, 502
        )
    return known, known.status if isinstance(known, Page) else 200


def _typed(request: Request) -> list[Form]:
    """A form with the fields of the page's address, to correct them."""
    fields = [Field(name, name, value) for name, value in request.query_params.multi_items() if value]
    return [Form("", here(request), fields, "Try again", method="get", folded=False)] if fields else []
