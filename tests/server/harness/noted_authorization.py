"""The authorization of a node by rules that a test sets, with an audit log that notes its lines."""

from __future__ import annotations

from odradek.metadata.image import AclImage
from odradek.protocol.schema import Message
from odradek.server.access.authorization.authorization import CLASS_KEY, STANDARD_CLASS, Authorization

from tests.server.harness.noted_audit import NotedAudit


class NotedAuthorization(Authorization):
    """`changes`: the changes of the cluster by clients: the principal, the host and the request."""

    def __init__(self, *rules: AclImage, super_users: str = "") -> None:
        self.audit = NotedAudit()
        super().__init__({CLASS_KEY: STANDARD_CLASS, "super.users": super_users}, self.audit)
        self.changes: list[tuple[str, str, Message]] = []
        self._by_id: dict[bytes, AclImage] = {}
        self.change(*rules)

    def change(self, *rules: AclImage) -> None:
        """Publishes these rules as the only ones."""
        after = {bytes([number]): rule for number, rule in enumerate(rules, 1)}
        gone: dict[bytes, AclImage | None] = {key: None for key in self._by_id if key not in after}
        before, self._by_id = self._by_id, after
        for _ in self.steps(before, {**gone, **after}, is_first=not before):
            pass

    def note_change(self, principal: str, client_host: str, request: Message) -> None:
        super().note_change(principal, client_host, request)
        self.changes.append((principal, client_host, request))
