"""The values of JSON, as a type."""

from __future__ import annotations

from typing import Union

JsonValue = Union[dict[str, "JsonValue"], list["JsonValue"], str, int, float, bool, None]
JsonObject = dict[str, JsonValue]
