"""Values of one schema of Avro, read by fastavro within bounds."""

from __future__ import annotations

import io

from .avro_bounds import AvroBounds
from .avro_logical import AvroType, AvroValue
from .avro_marked import marked, named_types


class AvroReader:
    """`schema`: the one that values are written with, as fastavro has parsed it. `as_text`: values are texts and numbers of
    JSON; otherwise logical values are as `avro_logical` has them. `is_exact`: an integer that another schema reads as
    `float` or `double` is an error where these would round it.
    """

    def __init__(self, schema: AvroType, *, as_text: bool = False, is_exact: bool = False) -> None:
        self.schema = marked(schema, as_text=as_text, is_exact=is_exact)
        self._bounds = AvroBounds(schema, named_types(schema))

    def read(self, data: bytes, shown: AvroType | None = None, *, named: bool = False) -> AvroValue:
        """The value of the bytes, which are all of its bytes. `shown`: reads it as that marked schema has it. `named`:
        values of named types in unions are pairs of the name and the value. Raises ValueError, EOFError for a value that
        ends within a field, and what fastavro raises.
        """
        import fastavro

        self._bounds.check(data)
        source = io.BytesIO(data)
        found = fastavro.schemaless_reader(source, self.schema, shown, return_named_type=named)
        if source.tell() != len(data):
            raise ValueError(f"{len(data) - source.tell()} bytes are left after the value")
        return found
