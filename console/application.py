"""The web application: its routes, the order of its guards, and how errors become pages.

The routes are made from four tables alone: `PAGES`, `RECORD_PAGES`, `FIGURES` and `ACTIONS`.
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

from ..client.error_kinds import ErrorKind
from ..client.user_errors import UserError
from .access.drafts import Drafts
from .access.guard import HEALTH, START, Guard
from .access.sessions import Sessions
from .access.single_sign_on import COOKIE, COOKIE_MAX_AGE_S
from .actions import Change, action, attempted
from .addresses import here
from .backend import Backend
from .budgets import DOWNLOAD_CPU_S, PAGE_CPU_S, Budget, Budgets, Busy, Stopped
from .login import Login
from .pages import (
    access,
    access_changes,
    balance,
    brokers,
    clients,
    connectors,
    dead_letters,
    group_reset,
    groups,
    history,
    messages,
    overview,
    pipelines,
    producing,
    record,
    schemas,
    topic,
    topic_changes,
    topic_configs,
    topics,
    transactions,
)
from .pages.clusters import overview_of
from .parts import Field, Form, Page, Text
from .rendering import Renderer

if TYPE_CHECKING:
    from starlette.routing import BaseRoute


PAGES: dict[str, Callable[[Backend, Request], Page | Response]] = {
    "/": overview.overview,
    "/topics": topics.topics,
    "/topics/{topic}": topic.topic,
    "/topics/{topic}/partitions": topic.partitions,
    "/topics/{topic}/groups": topic.groups,
    "/topics/{topic}/configuration": topic_configs.configuration,
    "/topics/{topic}/access": topic.rules,
    "/groups": groups.groups,
    "/groups/{group}": groups.group,
    "/groups/{group}/reset": group_reset.preview,
    "/transactions": transactions.transactions,
    "/transactions/hanging": transactions.hanging,
    "/schemas": schemas.schemas,
    "/schemas/{subject}": schemas.schema,
    "/connect": connectors.connectors,
    "/connect/{connector}": connectors.connector,
    "/pipelines": pipelines.pipelines,
    "/pipelines/{kind}/{name}": pipelines.pipeline,
    "/brokers": brokers.brokers,
    "/brokers/balance": balance.balance,
    "/brokers/{broker}": brokers.broker,
    "/quorum": brokers.quorum,
    "/share": dead_letters.queues,
    "/access": access.access,
    "/clients": clients.clients,
}

#: Pages that read records: they have threads of their own, and end when their viewer leaves.
RECORD_PAGES: dict[str, Callable[[Backend, Request, Budget], Page | Response]] = {
    "/topics/{topic}/messages": messages.messages,
    "/topics/{topic}/messages/{partition}/{offset}": record.record,
    "/share/{topic}": dead_letters.queue,
}

#: Figures that the browser requests for a part of a page.
FIGURES: dict[str, Callable[[Backend, Request], Page | Response]] = {"/history": history.history}

#: path -> the name in the audit log, and the change.
ACTIONS: dict[str, tuple[str, Change]] = {
    "/topics": ("topic.create", topics.create),
    "/topics/{topic}/config": ("topic.config", topic_configs.set_config),
    "/topics/{topic}/alter": ("topic.alter", topic_changes.alter),
    "/topics/{topic}/trim": ("topic.trim", topic_changes.trim),
    "/topics/{topic}/delete": ("topic.delete", topic_changes.delete),
    "/topics/{topic}/messages": ("record.produce", producing.produce),
    "/groups/{group}/reset": ("group.reset", group_reset.reset),
    "/groups/{group}/delete": ("group.delete", groups.delete),
    "/schemas": ("schema.register", schemas.register),
    "/schemas/{subject}/compatibility": ("schema.compatibility", schemas.set_level),
    "/connect/{connector}/{word}": ("connector.act", connectors.act),
    "/brokers/balance": ("brokers.balance", balance.start),
    "/brokers/balance/cancel": ("brokers.cancel", balance.cancel),
    "/transactions/abort": ("transaction.abort", transactions.abort),
    "/transactions/abort-hanging": ("transaction.abort-hanging", transactions.abort_hanging),
    "/share/{topic}/redrive": ("dead-letters.redrive", dead_letters.redrive_records),
    "/access/acls": ("acl.create", access_changes.create_acl),
    "/access/acls/delete": ("acl.delete", access_changes.delete_acl),
    "/access/users": ("user.set", access_changes.set_user),
    "/access/users/delete": ("user.delete", access_changes.delete_user),
    "/access/quotas": ("quota.set", access_changes.set_quota),
    "/access/quotas/delete": ("quota.delete", access_changes.delete_quota),
}


#: Changes that wait for the cluster at the same time; each has a thread.
_MOST_THREADS = 8
#: A view that could not reach a broker waits so long for the poll that finds out which.
_PROBE_S = 3.0
_STATUS = {
    ErrorKind.FAILED: 502,
    ErrorKind.MISUSED: 400,
    ErrorKind.NOT_FOUND: 404,
    ErrorKind.UNREACHABLE: 503,
    ErrorKind.DENIED: 403,
}
#: The status of a response to a user who is to try again later.
_BUSY_STATUS = 429

#: The status of a response without a viewer (nginx has it).
_READER_LEFT = 499

View = Callable[[Backend, Request], "Page | Response"]
RecordView = Callable[[Backend, Request, Budget], "Page | Response"]
Endpoint = Callable[[Request], Awaitable[Response]]


def application(backend: Backend, clusters: Mapping[str, Backend] = MappingProxyType({})) -> Starlette:
    """With `clusters` the pages of each stand below /clusters/NAME, and `backend` has the logins alone."""
    sessions, drafts = Sessions(), Drafts()
    renderer = Renderer(backend, sessions, drafts)
    budgets = Budgets()
    served = list(clusters.values()) or [backend]

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        anyio.to_thread.current_default_thread_limiter().total_tokens = _MOST_THREADS
        for one in served:
            one.start()
        yield
        for one in served:
            await run_in_threadpool(one.stop)

    routes: list[BaseRoute] = [] if clusters else _routes_of(backend, renderer, sessions, drafts, budgets)
    for name, one in clusters.items():
        of_cluster = _routes_of(one, Renderer(one, sessions, drafts, name, list(clusters)), sessions, drafts, budgets)
        routes.append(Mount(f"/clusters/{name}", routes=of_cluster))
    if clusters:
        routes.append(Route("/", _overview(clusters, renderer)))
    routes += [
        *Login(backend, sessions, renderer).routes(),
        Route(HEALTH, _health),
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


def _routes_of(
    backend: Backend, renderer: Renderer, sessions: Sessions, drafts: Drafts, budgets: Budgets
) -> list[BaseRoute]:
    drawer = _Drawer(backend, renderer, budgets)
    routes: list[BaseRoute] = [Route(path, drawer.page(view)) for path, view in (PAGES | FIGURES).items()]
    routes += [Route(path, drawer.record_page(view)) for path, view in RECORD_PAGES.items()]
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


class _Drawer:
    """The endpoints of pages. Views run in threads, since they may ask the cluster. So does drawing: hundreds of long
    records take longer than other requests may wait.
    """

    def __init__(self, backend: Backend, renderer: Renderer, budgets: Budgets) -> None:
        self._backend = backend
        self._renderer = renderer
        self._budgets = budgets

    def page(self, view: View) -> Endpoint:
        async def endpoint(request: Request) -> Response:
            self._backend.poller.note_viewer()
            return await self._budgets.run_page(lambda budget: self._drawn(request, view))

        return endpoint

    def record_page(self, view: RecordView) -> Endpoint:
        async def endpoint(request: Request) -> Response:
            self._backend.poller.note_viewer()
            cpu_s = DOWNLOAD_CPU_S if "download" in request.query_params else PAGE_CPU_S

            def drawn(budget: Budget) -> Response:
                return self._drawn(request, lambda backend, request: view(backend, request, budget))

            try:
                response = await self._budgets.run_records(request, request.state.user.name, cpu_s, drawn)
            except Busy as error:
                return PlainTextResponse(f"{error}\n", _BUSY_STATUS)
            return response if response is not None else PlainTextResponse("", _READER_LEFT)

        return endpoint

    def _drawn(self, request: Request, view: View) -> Response:
        page, status = _viewed(self._backend, request, view)
        return page if isinstance(page, Response) else self._renderer.page(request, page, status)


def _viewed(backend: Backend, request: Request, view: View) -> tuple[Page | Response, int]:
    """The page, and its status. A view that asked a broker which has just died runs again, and leaves that broker out."""
    known = attempted(view, backend, request)
    if isinstance(known, UserError) and known.kind == ErrorKind.UNREACHABLE and backend.poller.probe_now(_PROBE_S):
        known = attempted(view, backend, request)
    if isinstance(known, UserError):
        status = _BUSY_STATUS if isinstance(known, Busy | Stopped) else _STATUS[known.kind]
        return Page("That did not work", [Text(str(known), "bad")], below=_typed(request)), status
    return known, known.status if isinstance(known, Page) else 200


def _typed(request: Request) -> list[Form]:
    """A form with the fields of the page's address, to correct them."""
    fields = [Field(name, name, value) for name, value in request.query_params.multi_items() if value]
    return [Form("", here(request), fields, "Try again", method="get", folded=False)] if fields else []
