"""Errors of confluent-kafka and of requests, explained to a user: the words of the broker or the library, and the remedy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .error_kinds import ErrorKind, kind_of_code
from .errors import InvalidOptions, LoginRejected, NoSuchNode, NoToken, NotSupported, RequestFailed
from .user_errors import Misused, UserError

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

_LOGIN_ADVICE = "; check the security options of --command-config or the context"
#: SECURITY_DISABLED.
_NO_AUTHORIZER = 54


def from_library(error: Exception) -> UserError | None:
    """Returns the error of confluent-kafka or of our own client as a line of ours; None for another exception."""
    if type(error).__module__.partition(".")[0] in ("confluent_kafka", "cimpl"):
        return _from_confluent(error)
    if isinstance(error, RequestFailed):
        return _from_own_client(error)
    return None


def from_library_at(error: Exception, bootstrap: str) -> UserError | None:
    """Returns an error as `from_library` does, with the addresses that do not respond: librdkafka names none."""
    known = from_library(error)
    if known is None or known.kind != ErrorKind.UNREACHABLE or bootstrap in str(known):
        return known
    return UserError(f"no response from {bootstrap}{_advice(ErrorKind.UNREACHABLE)}", ErrorKind.UNREACHABLE)


def _from_own_client(error: RequestFailed) -> UserError:
    code = getattr(error, "code", None)
    if code is not None:
        kind = kind_of_code(code)
        advice = advice_for(code) or (_advice(kind) if kind == ErrorKind.UNREACHABLE else "")
        return UserError(f"{error}{advice}", kind)
    if isinstance(error, InvalidOptions):
        return Misused(str(error))
    if isinstance(error, NoSuchNode):
        return UserError(str(error), ErrorKind.NOT_FOUND)
    if isinstance(error, NoToken):
        return UserError(str(error), ErrorKind.DENIED)
    if isinstance(error, LoginRejected):
        is_advised = "security.protocol" in str(error)
        return UserError(f"{error}{'' if is_advised else _LOGIN_ADVICE}", ErrorKind.DENIED)
    if isinstance(error, NotSupported):
        return UserError(f"the brokers do not support {error}: use a newer version")
    return UserError(f"{error}{_advice(ErrorKind.UNREACHABLE)}", ErrorKind.UNREACHABLE)


def _from_confluent(error: Exception) -> UserError:
    inner: Any = error.args[0] if error.args else error
    return of_librdkafka(inner) if hasattr(inner, "code") else UserError(str(inner))


def of_librdkafka(error: KafkaError) -> UserError:
    """Returns an error of librdkafka, which its callbacks get, as a line of ours."""
    kind = kind_of_code(error.code())
    return UserError(f"{error.str()}{_advice(kind)}", kind)


def advice_for(code: int) -> str:
    """Returns the remedy for an error code that has a remedy of its own; "" for the others."""
    return "; set authorizer.class.name on the brokers" if code == _NO_AUTHORIZER else ""


def _advice(kind: ErrorKind) -> str:
    if kind == ErrorKind.UNREACHABLE:
        return "; check --bootstrap-server, and check that the brokers run"
    if kind == ErrorKind.DENIED:
        return "; check the security options of --command-config or the context, and the ACLs"
    return ""
