"""Requirements that a client must meet before an API serves it: the declarations of the endpoints, and how they are checked.

An endpoint lists its requirements in the order of their checks. Two runners apply them, and neither has a default: the
dispatcher of the node that takes the request, and the active controller for what it decides (`check`). A requirement is
of the whole request (`denial`), of each item of a request that the controller decides (`Split`), or of each item that the
handler looks at (`Each`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, Union

from ....metadata.acls import Operation, ResourceType
from ....metadata.image import MetadataImage
from ....protocol.errors import ErrorCode
from ....protocol.schema import Message, Request, ResponseT
from .sessions import AuthorizationSession, ClientCall

log = logging.getLogger("odradek.authorizer")
#: Kafka's words for the errors.
WORDS = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "Topic authorization failed.",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Group authorization failed.",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Cluster authorization failed.",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Transactional Id authorization failed.",
}
_ERRORS = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
NONE_DENIED: frozenset[str] = frozenset()

#: The class of the requests that have a requirement; `Message` for one that any request may have.
RequestT = TypeVar("RequestT", contravariant=True)
DecidedRequest = TypeVar("DecidedRequest", bound=Request)
_Asked = TypeVar("_Asked", covariant=True)


class AskedRequest(Protocol[_Asked]):
    """A request as requirements see it; a `Call` is one."""

    @property
    def request(self) -> _Asked: ...
    @property
    def version(self) -> int: ...


class Denial(NamedTuple):
    """The error of a request that is denied as a whole. `message`: the words beside the code, where there is a place."""

    error: ErrorCode
    message: str | None = None


@dataclass(frozen=True, slots=True)
class Nothing:
    """Every client may."""

    reason: str


class Whole(Generic[RequestT]):
    """A requirement of the whole request."""

    __slots__ = ()

    def denial(self, session: AuthorizationSession, asked: AskedRequest[RequestT]) -> Denial | None:
        """Returns the error of a request that is denied."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Needs(Whole[RequestT]):
    """Requires one operation on one resource, for the whole request. `name_of` reads the resource from the request; a
    request without it (None) needs nothing.
    """

    operation: Operation
    resource_type: ResourceType
    name_of: Callable[[RequestT], str | None]
    message: str | None = None
    #: Whether a denial is written to the audit log: it is not where another requirement may be met instead.
    log_denied: bool = True

    def denial(self, session: AuthorizationSession, asked: AskedRequest[RequestT]) -> Denial | None:
        name = self.name_of(asked.request)
        if name is None or session.allows(self.operation, self.resource_type, name, log_denied=self.log_denied):
            return None
        return Denial(_ERRORS[self.resource_type], self.message)


@dataclass(frozen=True, slots=True)
class NeedsAny(Whole[RequestT]):
    """Requires one of several; the denial is that of the last."""

    needs: tuple[Whole[RequestT], ...]

    def denial(self, session: AuthorizationSession, asked: AskedRequest[RequestT]) -> Denial | None:
        denial = None
        for one in self.needs:
            denial = one.denial(session, asked)
            if denial is None:
                return None
        return denial


@dataclass(frozen=True, slots=True)
class NeedsIf(Whole[RequestT]):
    """A requirement of some requests, which `words` names."""

    words: str
    condition: Callable[[AskedRequest[RequestT]], bool]
    need: Whole[RequestT]

    def denial(self, session: AuthorizationSession, asked: AskedRequest[RequestT]) -> Denial | None:
        return self.need.denial(session, asked) if self.condition(asked) else None


@dataclass(frozen=True, slots=True)
class NeedsOn(Generic[RequestT]):
    """A requirement on one kind of listener."""

    listener_kind: str
    need: Whole[RequestT]


@dataclass(frozen=True, slots=True)
class NeedsBy(Whole[RequestT]):
    """A requirement that no data can say. `words` describes it."""

    words: str
    decide: Callable[[AuthorizationSession, RequestT], ErrorCode | None]

    def denial(self, session: AuthorizationSession, asked: AskedRequest[RequestT]) -> Denial | None:
        error = self.decide(session, asked.request)
        return None if error is None else Denial(error)


@dataclass(frozen=True, slots=True)
class Each:
    """Requires one operation on each resource that the handler looks at: denied items are left out, or have an error each.

    `by`: the function that applies it, where that is not the handler.
    """

    operation: Operation
    resource_type: ResourceType
    by: Callable[..., object] | None = None

    def denies(self, authorizer: Sessions | None, call: ClientCall, name: str, *, log_denied: bool = True) -> bool:
        """Returns whether the client may not do it. `log_denied`: whether a denial is an attempt, for the audit log."""
        return authorizer is not None and not authorizer.session(call).allows(
            self.operation, self.resource_type, name, log_denied=log_denied
        )

    def denied(
        self, authorizer: Sessions | None, call: ClientCall, names: Iterable[str], *, log_denied: bool = True
    ) -> Set[str]:
        """Returns the names on which the client may not do it. Without an authorizer it may do everything."""
        if authorizer is None:
            return NONE_DENIED
        asked = list(names)
        session = authorizer.session(call)
        return set(asked) - session.allowed_names(self.operation, self.resource_type, asked, log_denied=log_denied)


class Sessions(Protocol):
    """The node's authorization, as requirements use it."""

    def session(self, call: ClientCall) -> AuthorizationSession:
        """Returns the session of a request's client."""


class Deciding(NamedTuple):
    """The state that the active controller decides on: its image, and the value of `delete.topic.enable`."""

    image: MetadataImage
    deletes_topics: bool


class Checked(NamedTuple):
    """`request`: the part that may be decided; `finish` turns the response to that part into that to the request."""

    request: Request
    finish: Callable[[Any], Message] = lambda response: response


@dataclass(frozen=True, slots=True)
class Split(Generic[RequestT]):
    """Requirements of each item of a request that the active controller decides. `check` takes out the denied ones.

    `words`: what the requirements are.
    """

    words: str
    check: Callable[[AuthorizationSession, RequestT, Deciding], Checked]


Requirement = Union[Nothing, Whole[RequestT], NeedsOn[RequestT], Each, Split[RequestT]]


Requirements = tuple[Requirement[RequestT], ...]


def of_whole_request(
    requirements: Requirements[DecidedRequest], listener_kind: str
) -> tuple[Whole[DecidedRequest], ...]:
    """Returns the requirements that are checked before the handler, for requests of one kind of listener."""
    on_kind = (
        one.need if isinstance(one, NeedsOn) and one.listener_kind == listener_kind else one for one in requirements
    )
    return tuple(need for need in on_kind if isinstance(need, Whole))


def check(
    requirements: Requirements[DecidedRequest],
    session: AuthorizationSession,
    asked: AskedRequest[DecidedRequest],
    on: Deciding,
) -> Checked | Denial:
    """Checks a request that the active controller decides: by each requirement, and denied without any."""
    checked: Checked | None = None
    for one in requirements:
        if isinstance(one, Nothing):
            checked = checked or Checked(asked.request)
        elif isinstance(one, Split):
            checked = one.check(session, asked.request, on)
        elif isinstance(one, Whole):  # others are a handler's, and allow nothing here
            denial = one.denial(session, asked)
            if denial is not None:
                return denial
            checked = checked or Checked(asked.request)
    if checked is None:
        log.error("a bug: no requirement authorizes %s: %s is denied", session.api, session.principal)
        return Denial(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, WORDS[ErrorCode.CLUSTER_AUTHORIZATION_FAILED])
    return checked


def without(request: Any, field: str, kept: Sequence[object], finish: Callable[[ResponseT], ResponseT]) -> Checked:
    """Returns the request with the `kept` items of a field."""
    return Checked(replace(request, **{field: kept}), finish)


def adding(field: str, results: Iterable[object]) -> Callable[[Message], Message]:
    """Returns what adds the results of denied items to a response."""

    def finish(response: Message) -> Message:
        getattr(response, field).extend(results)
        return response

    return finish


class AuthorizerNotReady(Exception):
    """The rules are not known yet. Only super users are authorized by then, which is what starts a secured cluster."""
