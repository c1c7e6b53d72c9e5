"""The calls of Arrow Flight, as commands of Flight SQL. A call is answered by the thread that has it.

The server keeps nothing between calls but sessions: a ticket, and the handle of a prepared statement, have the statement
itself. So a query is as of the call that reads its rows (DoGet), and may be read again.
"""

from __future__ import annotations

import contextlib
import logging
import struct
import threading
from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING

import grpc
import pyarrow as pa

from ...client.error_kinds import ErrorKind
from ...client.user_errors import Misused, UserError
from ..sources import QuerySources
from . import answers
from .job_answers import PARAMETERS
from .job_runner import JobDied, JobRunner
from .jobs import Job, JobLimits, Rows, Topics
from .messages import COMMAND, SERVICE, decoded, new, packed, unpacked
from .sessions import NotLoggedIn, Session, Sessions
from .slots import Busy, Slots

if TYPE_CHECKING:
    from google.protobuf.message import Message

#: Bytes of a request, with the parameters of a statement.
MOST_REQUEST_BYTES = 1 << 20
_MOST_STATEMENT = 64 << 10
#: A client that does not take its rows has so much time beyond that of the query.
_GRACE_S = 5.0
#: Longest wait for a place.
_WAIT_S = 30.0
#: The text of an error comes in a header, of which a client takes 8 KiB in all.
_MOST_WORDS = 1_000
_CONTINUATION = struct.Struct("<Ii")
_END_OF_STREAM = _CONTINUATION.pack(0xFFFFFFFF, 0)
_STATUS = {
    ErrorKind.FAILED: grpc.StatusCode.FAILED_PRECONDITION,
    ErrorKind.MISUSED: grpc.StatusCode.INVALID_ARGUMENT,
    ErrorKind.NOT_FOUND: grpc.StatusCode.NOT_FOUND,
    ErrorKind.UNREACHABLE: grpc.StatusCode.UNAVAILABLE,
    ErrorKind.DENIED: grpc.StatusCode.PERMISSION_DENIED,
}
_CREATE, _CLOSE, _CLOSE_SESSION = "CreatePreparedStatement", "ClosePreparedStatement", "CloseSession"
_ACTIONS = {
    _CREATE: "prepare a statement",
    _CLOSE: "end a prepared statement",
    _CLOSE_SESSION: "end the session",
}
_logger = logging.getLogger(__name__)


class FlightService:
    """The handlers of the calls. Each takes the bytes of a request, and gives those of responses."""

    def __init__(self, sessions: Sessions, sources: QuerySources, limits: JobLimits, most_queries: int) -> None:
        self._sessions = sessions
        self._sources = sources
        self._limits = limits
        self._slots = Slots(most_queries, of_users=sessions.has_logins)
        self._jobs = JobRunner()

    def handlers(self) -> grpc.GenericRpcHandler:
        """Calls that are left out are answered with UNIMPLEMENTED by gRPC."""
        one, many = grpc.unary_unary_rpc_method_handler, grpc.unary_stream_rpc_method_handler
        both = grpc.stream_stream_rpc_method_handler
        return grpc.method_handlers_generic_handler(
            SERVICE,
            {
                "Handshake": both(_streamed(self._handshake)),
                "GetFlightInfo": one(_single(self._flight_info)),
                "GetSchema": one(_single(self._schema_result)),
                "DoGet": many(_streamed(self._do_get)),
                "DoPut": both(_streamed(self._do_put)),
                "DoAction": many(_streamed(self._do_action)),
                "ListActions": many(_streamed(self._list_actions)),
                "ListFlights": many(_streamed(self._list_flights)),
            },
        )

    def close(self) -> None:
        self._jobs.close()

    def _session(self, context: grpc.ServicerContext) -> Session:
        session = self._sessions.find(*_caller(context))
        _send_token(session, context)
        return session

    def _handshake(self, requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        _send_token(self._sessions.begin(*_caller(context)), context)
        return iter(())

    def _flight_info(self, request: bytes, context: grpc.ServicerContext) -> Message:
        session = self._session(context)
        name, command, body = _command(decoded("FlightDescriptor", request))
        schema, statement = self._schema(name, command, session, context)
        ticket = body if statement is None else packed(new("TicketStatementQuery", statement_handle=statement))
        return new(
            "FlightInfo",
            schema=schema,
            flight_descriptor=new("FlightDescriptor", type=COMMAND, cmd=body),
            endpoint=[new("FlightEndpoint", ticket=new("Ticket", ticket=ticket))],
            total_records=-1,
            total_bytes=-1,
        )

    def _schema_result(self, request: bytes, context: grpc.ServicerContext) -> Message:
        session = self._session(context)
        name, command, _ = _command(decoded("FlightDescriptor", request))
        return new("SchemaResult", schema=self._schema(name, command, session, context)[0])

    def _schema(
        self, name: str, command: Message, session: Session, context: grpc.ServicerContext
    ) -> tuple[bytes, bytes | None]:
        """The schema of a command's answer, and the handle of its statement, if it has one."""
        known = answers.schema_of(name, command)
        if known is not None:
            return bytes(known.serialize()), None
        if name == "CommandStatementQuery":
            handle = _new_handle(command)
        elif name == "CommandPreparedStatementQuery":
            handle = bytes(command.prepared_statement_handle)
        else:
            raise Misused(f"{name} is not a command of this server")
        task = _task(handle, only_schema=True)
        return self._first(task, session, context), handle

    def _do_get(self, request: bytes, context: grpc.ServicerContext) -> Iterator[Message]:
        session = self._session(context)
        name, command = unpacked(decoded("Ticket", request).ticket)
        task: Rows | Topics
        if name == "TicketStatementQuery":
            task = _task(command.statement_handle)
        elif name == "CommandGetTables" and answers.has_topics(command):
            pattern = command.table_name_filter_pattern if command.HasField("table_name_filter_pattern") else None
            task = Topics(pattern, command.include_schema)
        elif answers.schema_of(name, command) is not None:
            yield from map(_flight_data, answers.messages_of(answers.table_of(name, command)))
            return
        else:
            raise Misused(f"{name} is not a ticket of this server")
        yield from map(_flight_data, self._messages(task, session, context))

    def _messages(self, task: Rows | Topics, session: Session, context: grpc.ServicerContext) -> Generator[bytes]:
        """The messages of a job, which ends with the call: also where the client has left it, or takes nothing."""
        job = Job(task, self._sources, session.properties, min(_WAIT_S, self._limits.time_s), self._limits)
        with self._slots.taken(session.user, _WAIT_S):
            running = self._jobs.begin(job)
            late = threading.Timer(self._limits.time_s + _GRACE_S, context.cancel)
            late.daemon = True
            late.start()
            try:
                if not context.add_callback(running.end):
                    return
                yield from running.messages()
            finally:
                late.cancel()
                running.close()

    def _first(self, task: Rows, session: Session, context: grpc.ServicerContext) -> bytes:
        """The schema of the answer of a job."""
        with contextlib.closing(self._messages(task, session, context)) as messages:
            return next(messages)

    def _do_put(self, requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[Message]:
        """Takes the parameters of a prepared statement, and gives its handle with them."""
        self._session(context)
        handle, stream, size = None, [], 0
        for request in requests:
            data = decoded("FlightData", request)
            if handle is None:
                name, command, _ = _command(data.flight_descriptor)
                if name != "CommandPreparedStatementQuery":
                    raise Misused("this server reads only: it takes no updates")
                handle = decoded("StatementHandle", command.prepared_statement_handle)
            size += len(request)
            if size > MOST_REQUEST_BYTES:
                raise Misused(f"parameters take {MOST_REQUEST_BYTES >> 20} MiB at most")
            stream.append(_message_of(data))
        if handle is None:
            raise Misused("parameters came without their statement")
        handle.parameters = b"".join(stream) + _END_OF_STREAM
        result = new("DoPutPreparedStatementResult", prepared_statement_handle=handle.SerializeToString())
        yield new("PutResult", app_metadata=result.SerializeToString())

    def _do_action(self, request: bytes, context: grpc.ServicerContext) -> Iterator[Message]:
        session = self._session(context)
        action = decoded("Action", request)
        if action.type == _CREATE:
            yield new("Result", body=packed(self._prepared(action.body, session, context)))
        elif action.type == _CLOSE_SESSION:
            self._sessions.end(session)
            yield new("Result", body=new("CloseSessionResult", status=1).SerializeToString())
        elif action.type != _CLOSE:
            context.abort(grpc.StatusCode.UNIMPLEMENTED, f"the actions are {', '.join(_ACTIONS)}")

    def _prepared(self, body: bytes, session: Session, context: grpc.ServicerContext) -> Message:
        name, command = unpacked(body)
        if name != "ActionCreatePreparedStatementRequest":
            raise Misused(f"{name} is not the request of this action")
        handle = _new_handle(command)
        schema = self._first(_task(handle, only_schema=True), session, context)
        count = int((pa.ipc.read_schema(pa.py_buffer(schema)).metadata or {}).get(PARAMETERS, b"0"))
        parameters = pa.schema([pa.field(f"parameter_{number}", pa.string()) for number in range(1, count + 1)])
        return new(
            "ActionCreatePreparedStatementResult",
            prepared_statement_handle=handle,
            dataset_schema=schema,
            parameter_schema=bytes(parameters.serialize()) if count else b"",
        )

    def _list_actions(self, request: bytes, context: grpc.ServicerContext) -> Iterator[Message]:
        self._session(context)
        return (new("ActionType", type=name, description=words) for name, words in _ACTIONS.items())

    def _list_flights(self, request: bytes, context: grpc.ServicerContext) -> Iterator[Message]:
        self._session(context)
        return iter(())


def _send_token(session: Session, context: grpc.ServicerContext) -> None:
    if session.token:
        context.send_initial_metadata((("authorization", f"Bearer {session.token}"),))


def _new_handle(command: Message) -> bytes:
    if command.HasField("transaction_id"):
        raise Misused("this server has no transactions")
    return bytes(new("StatementHandle", query=command.query).SerializeToString())


def _task(handle: bytes, *, only_schema: bool = False) -> Rows:
    statement = decoded("StatementHandle", handle)
    if not statement.query.strip() or len(statement.query) > _MOST_STATEMENT:
        raise Misused(f"a statement has 1 to {_MOST_STATEMENT:,} characters")
    return Rows(statement.query, statement.parameters, only_schema)


def _command(descriptor: Message) -> tuple[str, Message, bytes]:
    if descriptor.type != COMMAND:
        raise Misused("a request needs a command of Flight SQL, not a path")
    body = bytes(descriptor.cmd)
    return *unpacked(body), body


def _flight_data(message: bytes) -> Message:
    """A message of the IPC format as Flight sends it: header and body apart."""
    _, length = _CONTINUATION.unpack_from(message)
    end = _CONTINUATION.size + length
    view = memoryview(message)
    return new("FlightData", data_header=bytes(view[_CONTINUATION.size : end]), data_body=bytes(view[end:]))


def _message_of(data: Message) -> bytes:
    header = bytes(data.data_header)
    if not header:
        return b""
    header += bytes(-len(header) % 8)
    return _CONTINUATION.pack(0xFFFFFFFF, len(header)) + header + bytes(data.data_body)


def _caller(context: grpc.ServicerContext) -> tuple[str | None, str]:
    """The header with the login, and the address without its port."""
    headers = dict(context.invocation_metadata())
    authorization = headers.get("authorization")
    return None if authorization is None else str(authorization), context.peer().rpartition(":")[0]


def _single(
    handler: Callable[[bytes, grpc.ServicerContext], Message],
) -> Callable[[bytes, grpc.ServicerContext], bytes]:
    def answered(request: bytes, context: grpc.ServicerContext) -> bytes:
        try:
            return bytes(handler(request, context).SerializeToString())
        except Exception as error:
            _end(context, error)
            raise

    return answered


def _streamed(
    handler: Callable[..., Iterator[Message]],
) -> Callable[..., Iterator[bytes]]:
    def answered(request: bytes | Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        try:
            for message in handler(request, context):
                yield bytes(message.SerializeToString())
        except Exception as error:
            _end(context, error)
            raise

    return answered


def _end(context: grpc.ServicerContext, error: Exception) -> None:
    """Ends a call with the status and the words of an error. Of one that is a defect the client learns nothing."""
    if not context.is_active() or context.code() is not None:  # the client has left, or the call has its status
        return
    if not isinstance(error, UserError):
        _logger.error("a call failed", exc_info=error)
        context.abort(grpc.StatusCode.INTERNAL, "the server failed: its log has the reason")
        return
    status = _STATUS[error.kind]
    if isinstance(error, NotLoggedIn):
        status = grpc.StatusCode.UNAUTHENTICATED
    elif isinstance(error, Busy | JobDied):
        status = grpc.StatusCode.RESOURCE_EXHAUSTED
    context.abort(status, str(error)[:_MOST_WORDS])
