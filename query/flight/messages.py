"""The messages of Flight (Flight.proto) and of Flight SQL (FlightSql.proto) of Apache Arrow, as far as a server of queries
has them.

A message is a class of protobuf. Fields are (name, number, type); `*` after a type is for several, `?` for one whose absence
counts. Commands of Flight SQL come as `google.protobuf.Any`.
"""

from __future__ import annotations

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.any_pb2 import Any as Packed
from google.protobuf.message import DecodeError, Message

from ...client.user_errors import Misused

FLIGHT, FLIGHT_SQL = "arrow.flight.protocol", "arrow.flight.protocol.sql"
SERVICE = f"{FLIGHT}.FlightService"
#: FlightDescriptor.type of a command.
COMMAND = 2
_KEY = (("catalog", 1, "string?"), ("db_schema", 2, "string?"), ("table", 3, "string"))
_FLIGHT_MESSAGES = {
    "HandshakeRequest": (("protocol_version", 1, "uint64"), ("payload", 2, "bytes")),
    "HandshakeResponse": (("protocol_version", 1, "uint64"), ("payload", 2, "bytes")),
    "Empty": (),
    "ActionType": (("type", 1, "string"), ("description", 2, "string")),
    "Action": (("type", 1, "string"), ("body", 2, "bytes")),
    "Result": (("body", 1, "bytes"),),
    "Criteria": (("expression", 1, "bytes"),),
    "SchemaResult": (("schema", 1, "bytes"),),
    "FlightDescriptor": (("type", 1, "int32"), ("cmd", 2, "bytes"), ("path", 3, "string*")),
    "Ticket": (("ticket", 1, "bytes"),),
    "Location": (("uri", 1, "string"),),
    "FlightEndpoint": (("ticket", 1, "Ticket"), ("location", 2, "Location*")),
    "FlightInfo": (
        ("schema", 1, "bytes"), ("flight_descriptor", 2, "FlightDescriptor"), ("endpoint", 3, "FlightEndpoint*"),
        ("total_records", 4, "int64"), ("total_bytes", 5, "int64"), ("ordered", 6, "bool"),
    ),
    "FlightData": (
        ("flight_descriptor", 1, "FlightDescriptor"), ("data_header", 2, "bytes"), ("app_metadata", 3, "bytes"),
        ("data_body", 1000, "bytes"),
    ),
    "PutResult": (("app_metadata", 1, "bytes"),),
    "CloseSessionResult": (("status", 1, "int32"),),
}  # fmt: skip
_SQL_MESSAGES = {
    "CommandGetSqlInfo": (("info", 1, "uint32*"),),
    "CommandGetXdbcTypeInfo": (("data_type", 1, "int32?"),),
    "CommandGetCatalogs": (),
    "CommandGetDbSchemas": (("catalog", 1, "string?"), ("db_schema_filter_pattern", 2, "string?")),
    "CommandGetTables": (
        ("catalog", 1, "string?"), ("db_schema_filter_pattern", 2, "string?"),
        ("table_name_filter_pattern", 3, "string?"), ("table_types", 4, "string*"), ("include_schema", 5, "bool"),
    ),
    "CommandGetTableTypes": (),
    "CommandGetPrimaryKeys": _KEY,
    "CommandGetExportedKeys": _KEY,
    "CommandGetImportedKeys": _KEY,
    "CommandGetCrossReference": (
        ("pk_catalog", 1, "string?"), ("pk_db_schema", 2, "string?"), ("pk_table", 3, "string"),
        ("fk_catalog", 4, "string?"), ("fk_db_schema", 5, "string?"), ("fk_table", 6, "string"),
    ),
    "ActionCreatePreparedStatementRequest": (("query", 1, "string"), ("transaction_id", 2, "bytes?")),
    "ActionCreatePreparedStatementResult": (
        ("prepared_statement_handle", 1, "bytes"), ("dataset_schema", 2, "bytes"), ("parameter_schema", 3, "bytes"),
    ),
    "ActionClosePreparedStatementRequest": (("prepared_statement_handle", 1, "bytes"),),
    "CommandStatementQuery": (("query", 1, "string"), ("transaction_id", 2, "bytes?")),
    "CommandPreparedStatementQuery": (("prepared_statement_handle", 1, "bytes"),),
    "CommandStatementUpdate": (("query", 1, "string"), ("transaction_id", 2, "bytes?")),
    "CommandPreparedStatementUpdate": (("prepared_statement_handle", 1, "bytes"),),
    "TicketStatementQuery": (("statement_handle", 1, "bytes"),),
    "DoPutPreparedStatementResult": (("prepared_statement_handle", 1, "bytes?"),),
    # Of this server: what a handle of a prepared statement, and of a ticket, has. The server itself keeps nothing.
    "StatementHandle": (("query", 1, "string"), ("parameters", 2, "bytes")),
}  # fmt: skip
_Fields = tuple[tuple[str, int, str], ...]


def _file(package: str, messages: dict[str, _Fields]) -> descriptor_pb2.FileDescriptorProto:
    made = descriptor_pb2.FileDescriptorProto(name=f"{package}.proto", package=package, syntax="proto3")
    for name, fields in messages.items():
        message = made.message_type.add(name=name)
        for field_name, number, text in fields:
            kind, suffix = text.rstrip("*?"), text[-1]
            field = message.field.add(name=field_name, number=number)
            field.label = field.LABEL_REPEATED if suffix == "*" else field.LABEL_OPTIONAL
            if kind[0].isupper():
                field.type, field.type_name = field.TYPE_MESSAGE, f".{package}.{kind}"
            else:
                field.type = getattr(field, f"TYPE_{kind.upper()}")
            if suffix == "?":
                field.proto3_optional, field.oneof_index = True, len(message.oneof_decl)
                message.oneof_decl.add(name=f"_{field_name}")
    return made


def _classes() -> dict[str, type[Message]]:
    """Returns the classes of all messages, from a pool of their own."""
    pool, packages = descriptor_pool.DescriptorPool(), ((FLIGHT, _FLIGHT_MESSAGES), (FLIGHT_SQL, _SQL_MESSAGES))
    for package, messages in packages:
        pool.Add(_file(package, messages))
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}"))
        for package, messages in packages
        for name in messages
    }


_CLASSES = _classes()


def new(name: str, **fields: object) -> Message:
    return _CLASSES[name](**fields)


def decoded(name: str, body: bytes) -> Message:
    """Raises Misused for bytes that are no such message."""
    try:
        return _CLASSES[name].FromString(body)
    except DecodeError:
        raise Misused(f"the request is no message of type {name}") from None


def packed(message: Message) -> bytes:
    """The message as the bytes of an Any."""
    made = Packed()
    made.Pack(message)
    return bytes(made.SerializeToString())


def unpacked(body: bytes) -> tuple[str, Message]:
    """The name and the message in the bytes of an Any of Flight SQL. Raises Misused."""
    try:
        found = Packed.FromString(body)
    except DecodeError:
        raise Misused("the command is no command of Flight SQL") from None
    package, _, name = found.type_url.rpartition("/")[2].rpartition(".")
    if package != FLIGHT_SQL or name not in _SQL_MESSAGES:
        raise Misused(f"the command {found.type_url[:100]!r} is not one of this server")
    return name, decoded(name, found.value)
