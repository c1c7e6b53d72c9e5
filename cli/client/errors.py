"""Errors of client commands: one line with the error and the remedy, and an exit status that programs can read."""

from __future__ import annotations

from ..options import FAILED, MISUSED

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
#: COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR.
COORDINATOR_MOVES = (14, 15, 16)
#: librdkafka's own codes, which are negative.
_NOT_FOUND_LOCAL = frozenset((-188, -190))
_UNREACHABLE_LOCAL = frozenset((-195, -193, -187, -185, -192))
_DENIED_LOCAL = frozenset((-169, -181))


#: SECURITY_DISABLED.
_NO_AUTHORIZER = 54


class CommandError(Exception):
    """Ends a command with one line and an exit status."""

    def __init__(self, message: str, status: int = FAILED) -> None:
        super().__init__(message)
        self.status = status


class CoordinatorMoves(CommandError):
    """A coordinator loads, or another node becomes it: the request had no effect, and a later one may succeed."""


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
    """Returns the error of confluent-kafka, kafka-python or odradek.client as a line of ours; None for another exception."""
    library = type(error).__module__.partition(".")[0]
    if library in ("confluent_kafka", "cimpl"):
        return _from_confluent(error)
    if library == "kafka":
        return _from_kafka_python(error)
    if type(error).__module__ == "odradek.client.errors":
        return _from_own_client(error)
    return None


def _from_own_client(error: Exception) -> CommandError:
    status = DENIED if type(error).__name__ == "LoginRejected" else UNREACHABLE
    return CommandError(f"{error}{_advice(status)}", status)


def _from_confluent(error: Exception) -> CommandError:
    inner = error.args[0] if error.args else error
    code = inner.code() if hasattr(inner, "code") else 0
    text = inner.str() if hasattr(inner, "str") else str(inner)
    return CommandError(f"{text}{_advice(status_of_code(code))}", status_of_code(code))


def _from_kafka_python(error: Exception) -> CommandError:
    name = type(error).__name__
    code = getattr(error, "errno", None)
    code = code if isinstance(code, int) else -1
    if name in ("KafkaTimeoutError", "NoBrokersAvailable", "KafkaConnectionError", "NodeNotReadyError"):
        status = UNREACHABLE
    elif "Authentication" in name:
        status = DENIED
    else:
        status = status_of_code(code)
    if name == "KafkaConnectionError":
        return CommandError(f"a broker accepts no connections ({_bare(error)}){_advice(status)}", status)
    if name == "UnknownBrokerIdError":
        return CommandError(f"broker {_bare(error)} is not in the metadata{_advice(UNREACHABLE)}", UNREACHABLE)
    if name == "IncompatibleBrokerVersion":
        return CommandError(f"the broker does not support this API: {_bare(error)}")
    return CommandError(f"{_bare(error)}{advice_for(code) or _advice(status)}", status)


def _bare(error: Exception) -> str:
    """The message without the class's name and number: `[Error 3] UnknownTopicOrPartitionError: words`."""
    text = str(error)
    name = type(error).__name__
    _, found, words = text.partition(f"{name}: ")
    return words if found and words.strip() else text


def advice_for(code: int) -> str:
    """Returns the remedy for an error code that has a remedy of its own; "" for the others."""
    return "; set authorizer.class.name on the brokers" if code == _NO_AUTHORIZER else ""


def _advice(status: int) -> str:
    if status == UNREACHABLE:
        return "; check --bootstrap-server, and check that the brokers run"
    if status == DENIED:
        return "; check the security options of --command-config or the context, and the ACLs"
    return ""
