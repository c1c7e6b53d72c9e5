"""The schema of values, as users name it: a format with a file, an Arrow schema or a registry."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

if TYPE_CHECKING:
    from ..admin.connection import Connection

FORMATS = ("json", "avro", "protobuf")
#: In place of a schema of JSON: the type follows from the values, in a table, too.
INFER = "infer"


class ValueSchema(NamedTuple):
    """Names the schema of values. `format`: json, avro or protobuf. `schema`: an Arrow schema or a file; `registry`: a URL.

    `message`: of Protobuf, the first one of the file otherwise. `subject`: of the registry, TOPIC-value otherwise; its
    newest schema has the columns, and each value is decoded by the schema whose id it has.

    JSON without a schema: a scan infers the type from a sample (inference.py). A table has JSON text, unless `schema` is
    INFER.
    """

    format: str
    schema: pa.Schema | pa.DataType | str | Path | None = None
    registry: str | None = None
    message: str | None = None
    subject: str | None = None
    user_info: str | None = None

    @classmethod
    def of_options(
        cls, connection: Connection, form: str, schema: str | Path | None, registry: str | None, message: str | None
    ) -> ValueSchema:
        """Returns the schema that a command's options name. For JSON, only an option names a registry."""
        if form != "json":
            registry = connection.registry_url(registry, None if schema is None else Path(schema))
        return cls(form, schema, registry, message, user_info=connection.registry_user_info)

    @property
    def is_free_json(self) -> bool:
        """Returns whether neither a file nor a registry has the schema."""
        return self.format == "json" and self.registry is None and (self.schema is None or self.is_inferred)

    @property
    def is_inferred(self) -> bool:
        """Returns whether the type is to follow from the values, in a table, too."""
        return self.format == "json" and isinstance(self.schema, str | Path) and str(self.schema) == INFER
