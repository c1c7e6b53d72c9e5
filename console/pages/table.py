"""The one table of pages and the one of actions: paths, and the function for each. Routes are made from these alone."""

from __future__ import annotations

from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import Response

from ..actions import Change
from ..backend import Backend
from ..views.parts import Page
from . import access, brokers, clients, groups, messages, overview, record, share, topics, transactions

PAGES: dict[str, Callable[[Backend, Request], Page | Response]] = {
    "/": overview.overview,
    "/topics": topics.topics,
    "/topics/{topic}": topics.topic,
    "/topics/{topic}/messages": messages.messages,
    "/topics/{topic}/messages/{partition:int}/{offset:int}": record.record,
    "/groups": groups.groups,
    "/groups/{group}": groups.group,
    "/groups/{group}/reset": groups.preview,
    "/transactions": transactions.transactions,
    "/transactions/hanging": transactions.hanging,
    "/brokers": brokers.brokers,
    "/brokers/{broker:int}": brokers.broker,
    "/quorum": brokers.quorum,
    "/share": share.queues,
    "/share/{topic}": share.queue,
    "/access": access.access,
    "/clients": clients.clients,
}

#: path -> the name in the audit log, and the change.
ACTIONS: dict[str, tuple[str, Change]] = {
    "/topics": ("topic.create", topics.create),
    "/topics/{topic}/config": ("topic.config", topics.set_config),
    "/topics/{topic}/alter": ("topic.alter", topics.alter),
    "/topics/{topic}/trim": ("topic.trim", topics.trim),
    "/topics/{topic}/delete": ("topic.delete", topics.delete),
    "/topics/{topic}/messages": ("record.produce", messages.produce),
    "/groups/{group}/reset": ("group.reset", groups.reset),
    "/groups/{group}/delete": ("group.delete", groups.delete),
    "/transactions/abort": ("transaction.abort", transactions.abort),
    "/transactions/abort-hanging": ("transaction.abort-hanging", transactions.abort_hanging),
    "/share/{topic}/redrive": ("dead-letters.redrive", share.redrive_records),
    "/access/acls": ("acl.create", access.create_acl),
    "/access/acls/delete": ("acl.delete", access.delete_acl),
    "/access/users": ("user.set", access.set_user),
    "/access/users/delete": ("user.delete", access.delete_user),
    "/access/quotas": ("quota.set", access.set_quota),
    "/access/quotas/delete": ("quota.delete", access.delete_quota),
}
