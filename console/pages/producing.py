"""Records that viewers write: by the form of the messages page, and again from a record that they see."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...client.user_errors import Misused
from ...records.content_encoder import encoder
from ...records.formats import Coding
from ...records.formats import Form as Format
from ..actions import Done, Fields, required, whole
from ..addresses import path_to
from ..backend import Backend
from ..cluster.records import Raw, Record
from ..cluster.sending import Outgoing, send
from ..command_templates import command_of
from ..parts import Field, Form
from ..texts import drawn_text, json_text
from ..whole_numbers import MOST_INT32

if TYPE_CHECKING:
    from ...records.consumed import ProducedHeaders

#: Bytes of a record that a form edits.
_MOST_EDITED = 1_000_000
#: Formats of values that are written, of which the last two need a schema.
_TEXT, _AVRO, _PROTOBUF = "text", "avro", "protobuf"
_WRITTEN = (_TEXT, _AVRO, _PROTOBUF)
_WORDS = {
    _TEXT: "written as it is",
    _AVRO: "JSON, encoded by the newest Avro schema of TOPIC-value",
    _PROTOBUF: "JSON, encoded by the newest Protobuf schema of TOPIC-value",
}


def writing(backend: Backend, topic: str) -> Form:
    return _form(backend, topic, "Write a record", Outgoing(topic, b""), _TEXT)


def sending_again(backend: Backend, record: Record) -> Form | None:
    """The form with the record's contents; None where a form cannot hold them: they are masked, long, or no texts."""
    if record.raw is None:
        return None
    value, kind = record.raw.value, record.form.partition(",")[0]
    if backend.schemas is not None and kind in (_AVRO, _PROTOBUF):
        value = json_text(record.document).encode()
    else:
        kind = _TEXT
    raw = Raw(record.raw.key, value, record.raw.headers)
    if not _is_editable(raw):
        return None
    again = Outgoing(record.topic, value, raw.key, record.partition, [*raw.headers])
    return _form(backend, record.topic, "Edit and send again", again, kind)


def _is_editable(raw: Raw) -> bool:
    contents = [raw.key or b"", raw.value or b"", *(value or b"" for _, value in raw.headers)]
    return sum(map(len, contents)) <= _MOST_EDITED and all(drawn_text(one) is not None for one in contents)


def _form(backend: Backend, topic: str, title: str, outgoing: Outgoing, kind: str) -> Form:
    headers = "\n".join(f"{name}={_text(value)}" for name, value in outgoing.headers)
    fields = [
        Field("key", "Key", _text(outgoing.key), hint="empty: none"),
        Field("value", "Value", _text(outgoing.value), kind="area"),
        *(
            [Field("value_form", "Value is", kind, "select", _WRITTEN, labels=_WORDS)]
            if backend.schemas is not None
            else []
        ),
        Field("null", "Null value (a tombstone)", "yes" if outgoing.value is None else "", kind="check"),
        Field("headers", "Headers", headers, kind="area", hint="one NAME=VALUE per line"),
        Field(
            "partition",
            "Partition",
            str(outgoing.partition) if outgoing.partition >= 0 else "",
            "number",
            hint="empty: by the key",
        ),
    ]
    return Form(
        title,
        path_to("topics", topic, "messages"),
        fields,
        "Write record",
        words=f"One record is added to {topic}. Records cannot be changed or taken back.",
        command=_command(backend, topic),
    )


def _command(backend: Backend, topic: str) -> str:
    schema = (
        "" if backend.schemas is None else f" --value-format {{value_form}} --schema-registry {backend.schemas.url}"
    )
    words = f"[ --key {{key}}][ --partition {{partition}}][ --header {{headers}}]{schema}"
    return f"printf %s {{value}} | {command_of(backend, 'produce', topic, '-i', 'file', template=words)}"


def _text(value: str | bytes | None) -> str:
    return value.decode() if isinstance(value, bytes) else value or ""


def produce(backend: Backend, form: Fields) -> Done:
    topic = required(form, "topic")
    headers: ProducedHeaders = [*_headers(form.get("headers", ""))]
    key = form.get("key", "")
    # Browsers send line breaks of forms as CR LF.
    text = form.get("value", "").replace("\r\n", "\n").encode()
    value = None if form.get("null") else _encoded(backend, topic, text, form.get("value_form") or _TEXT)
    one = Outgoing(topic, value, key.encode() if key else None, whole(form, "partition", MOST_INT32, -1), headers)
    ((_, partition, offset),) = send(backend.connection, [one])
    return Done(
        f"Written to {topic}-{partition} at offset {offset}.", path_to("topics", topic, "messages", partition, offset)
    )


def _encoded(backend: Backend, topic: str, text: bytes, kind: str) -> bytes:
    if kind == _TEXT:
        return text
    if kind not in _WRITTEN or backend.schemas is None:
        raise Misused(f"values cannot be written as {kind[:40]}")
    encode = encoder(Coding(Format(kind), backend.schemas.given_url), backend.connection, f"{topic}-value")
    assert encode is not None  # a format with a schema has one
    return encode(text)


def _headers(text: str) -> list[tuple[str, bytes | None]]:
    headers: list[tuple[str, bytes | None]] = []
    for line in text.splitlines():
        if line.strip():
            name, equals, value = line.strip().partition("=")
            if not equals:
                raise Misused("headers: one NAME=VALUE per line")
            headers.append((name, value.encode()))
    return headers
