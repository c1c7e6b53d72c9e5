"""Errors of client commands: one line with the error and the remedy, and an exit status that programs can read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...client.errors import InvalidOptions, LoginRejected, NoToken, NotSupported, RequestFailed
from ..messages import FAILED, MISUSED

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

#: A topic, partition, group, transaction or context that does not exist.
NOT_FOUND = 3
#: No broker responds, or not in time.
UNREACHABLE = 4
#: Authentication failed, or the authorizer denied the operation.
DENIED = 5

#: Kafka's error codes, by the exit status that they lead to.
_NOT_FOUND_CODES = frozenset((3, 69, 91, 100, 105))
_DENIED_CODES = frozenset((29, 30, 31, 33, 34, 53, 58, 65))
_UNREACHABLE_CODES = frozenset((7, 8, 13))
#: librdkafka's own codes, which are negative.
_NOT_FOUND_LOCAL = frozenset((-188, -190))
_UNREACHABLE_LOCAL = frozenset((-195, -193, -187, -185, -192))
_DENIED_LOCAL = frozenset((-169, -181))


_LOGIN_ADVICE = "; check the security options of --command-config or the context"
#: SECURITY_DISABLED.
_NO_AUTHORIZER = 54


class CommandError(Exception):
    """Ends a command with one line and an exit status."""

    def __init__(self, message: str, status: int = FAILED) -> None:
        super().__init__(message)
        self.status = status


class Misused(CommandError):
    """Options or values that cannot be meant."""

    def __init__(self, message: str) -> None:
        super().__init__(message, MISUSED)


def status_of_code(code: int) -> int:
    """Returns the exit status for an error code of Kafka or librdkafka."""
    if code in _NOT_FOUND_CODES or code in _NOT_FOUND_LOCAL:
        return NOT_FOUND
    if code in _DENIED_CODES or code in _DENIED_LOCAL:
        return DENIED
    if code in _UNREACHABLE_CODES or code in _UNREACHABLE_LOCAL:
        return UNREACHABLE
    return FAILED


def from_library(error: Exception) -> CommandError | None:
    """Returns the error of confluent-kafka or of our own client as a line of ours; None for another exception."""
    if type(error).__module__.partition(".")[0] in ("confluent_kafka", "cimpl"):
        return _from_confluent(error)
    if isinstance(error, RequestFailed):
        return _from_own_client(error)
    return None


def from_library_at(error: Exception, bootstrap: str) -> CommandError | None:
    """Returns an error as `from_library` does, with the addresses that do not respond: librdkafka names none."""
    known = from_library(error)
    if known is None or known.status != UNREACHABLE or bootstrap in str(known):
        return known
    return CommandError(f"no response from {bootstrap}{_advice(UNREACHABLE)}", UNREACHABLE)


def _from_own_client(error: RequestFailed) -> CommandError:
    code = getattr(error, "code", None)
    if code is not None:
        status = status_of_code(code)
        advice = advice_for(code) or (_advice(status) if status == UNREACHABLE else "")
        return CommandError(f"{error}{advice}", status)
    if isinstance(error, InvalidOptions):
        return Misused(str(error))
    if isinstance(error, NoToken):
        return CommandError(str(error), DENIED)
    if isinstance(error, LoginRejected):
        is_advised = "security.protocol" in str(error)
        return CommandError(f"{error}{'' if is_advised else _LOGIN_ADVICE}", DENIED)
    if isinstance(error, NotSupported):
        return CommandError(f"the brokers do not support {error}: use a newer version")
    return CommandError(f"{error}{_advice(UNREACHABLE)}", UNREACHABLE)


def _from_confluent(error: Exception) -> CommandError:
    inner: Any = error.args[0] if error.args else error
    return of_librdkafka(inner) if hasattr(inner, "code") else CommandError(str(inner))


def of_librdkafka(error: KafkaError) -> CommandError:
    """Returns an error of librdkafka, which its callbacks get, as a line of ours."""
    status = status_of_code(error.code())
    return CommandError(f"{error.str()}{_advice(status)}", status)


def advice_for(code: int) -> str:
    """Returns the remedy for an error code that has a remedy of its own; "" for the others."""
    return "; set authorizer.class.name on the brokers" if code == _NO_AUTHORIZER else ""


def _advice(status: int) -> str:
    if status == UNREACHABLE:
        return "; check --bootstrap-server, and check that the brokers run"
    if status == DENIED:
        return "; check the security options of --command-config or the context, and the ACLs"
    return ""
