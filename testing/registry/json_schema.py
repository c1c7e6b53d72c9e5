"""JSON Schemas, checked by `jsonschema` against the draft that they name."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
from jsonschema.validators import validator_for

from .errors import invalid_schema
from .json_compatibility import differences
from .parsed import Parsed, SchemaText


class JsonSchema:
    """A JSON Schema. Its references, texts by the name that `$ref` has, count in comparisons."""

    def __init__(self, schema: SchemaText) -> None:
        try:
            self.content: Any = json.loads(schema.text)
            self._inner = {name: json.loads(text) for name, text in schema.inner.items()}
            if not isinstance(self.content, dict | bool):
                raise ValueError("a JSON Schema must be an object, true or false")
            validator_for(self.content, jsonschema.Draft7Validator).check_schema(self.content)
        except (ValueError, RecursionError) as error:
            raise invalid_schema(error) from None
        except jsonschema.SchemaError as error:
            raise invalid_schema(error.message) from None
        self.text = json.dumps(self.content, separators=(",", ":"), ensure_ascii=False)
        self.identity = json.dumps([self.content, self._inner], sort_keys=True)

    def cannot_read(self, writer: Parsed) -> list[str]:
        assert isinstance(writer, JsonSchema)
        return differences(self.content, writer.content, self._inner, writer._inner)

    def formatted(self, form: str) -> str:
        return self.text
