"""Type variables of what is generic by the messages of an API. Without arguments such a class is that of any API."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import TypeVar  # with a default, which `typing` has from Python 3.13 on

    from ...protocol.schema import Message, Request

    #: The request that a call has.
    CallRequest = TypeVar("CallRequest", bound=Request, covariant=True, default=Request)
    #: The request that an endpoint takes, and the response that it gives.
    TakenRequest = TypeVar("TakenRequest", bound=Request, contravariant=True, default=Request)
    Response = TypeVar("Response", bound=Message, covariant=True, default=Message)
    #: The request of a call that is handled.
    HandledRequest = TypeVar("HandledRequest", bound=Request, default=Request)
else:
    from typing import TypeVar

    CallRequest, TakenRequest, Response, HandledRequest = map(
        TypeVar, ("CallRequest", "TakenRequest", "Response", "HandledRequest")
    )
