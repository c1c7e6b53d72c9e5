"""The results of AlterConfigs and IncrementalAlterConfigs by resource."""

from __future__ import annotations

from ..schema import ERROR_TEXT, INT8, INT16, STRING, Message, struct, wire


@struct
class AlterConfigsResourceResponse(Message):
    error_code: int = wire(INT16)
    error_message: str | None = wire(ERROR_TEXT, nullable="0+")
    resource_type: int = wire(INT8)
    resource_name: str = wire(STRING)
