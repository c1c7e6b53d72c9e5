"""UnregisterController (key 94): removes the registration of a controller that is gone.

Its features count no longer when features are raised. For one that was stopped for good: a live one registers again.
The active controller refuses to remove itself (INVALID_REQUEST); CONTROLLER_ID_NOT_REGISTERED where there is none.

Version 0, flexible.
"""

from __future__ import annotations

from ..schema import ERROR_TEXT, INT16, INT32, Message, Request, message, wire


@message("0", flexible="0+", key=94)
class UnregisterControllerRequest(Request["UnregisterControllerResponse"]):
    controller_id: int = wire(INT32)


@message("0", flexible="0+", key=94)
class UnregisterControllerResponse(Message):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(ERROR_TEXT, nullable="0+")
