"""The marks of what a link has made here: read from the metadata, and written by the active controller."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...metadata.image import BROKER_RESOURCE
from ...protocol.errors import ErrorCode
from ...protocol.messages.incremental_alter_configs import AlterConfigsResource
from ...replication.mirror.made import MadeKind, changed_configs, read_marks
from .here import changed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .here import Here

_ALL_BROKERS = ""


class LinkMarks:
    """The marks of one kind of things."""

    def __init__(self, link: str, kind: MadeKind, here: Here) -> None:
        self._link = link
        self._kind = kind
        self._here = here
        #: The marks that were written last: this broker's metadata may not have it yet.
        self._written: frozenset[str] = frozenset()

    def read(self) -> frozenset[str]:
        return read_marks(self._configs, self._link, self._kind) | self._written

    async def write(self, marks: frozenset[str]) -> str:
        """Leaves these marks. Returns the reason where that failed, "" for success."""
        self._written = marks
        changes = changed_configs(self._configs, self._link, self._kind, marks)
        if not changes:
            return ""
        resource = AlterConfigsResource(
            resource_type=BROKER_RESOURCE,
            resource_name=_ALL_BROKERS,
            configs=[changed(*change) for change in sorted(changes.items())],
        )
        responses = await self._here.alter_configs(resource)
        errors = [one.error_message or ErrorCode(one.error_code).name for one in responses if one.error_code]
        return errors[0] if errors else ""

    def forget(self) -> None:
        """Forgets what was written: another broker writes now."""
        self._written = frozenset()

    @property
    def _configs(self) -> Mapping[str, str]:
        return self._here.node.metadata.image.config(BROKER_RESOURCE, _ALL_BROKERS)
