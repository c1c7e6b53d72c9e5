"""The pages of the console."""

from __future__ import annotations

#: Pages, and a text on each.
PAGES = {
    "/": "Active controller",
    "/topics": "orders",
    "/topics/orders/partitions": "Bytes of all their replicas",
    "/topics/orders/groups": "Groups that read it",
    "/topics/orders/configuration": "retention.ms",
    "/topics/orders/access": "ACLs",
    "/topics/orders/messages?limit=5": "5 shown of",
    "/topics/orders/messages/0/0": "Copy command",
    "/groups": "billing",
    "/groups/billing": "Committed",
    "/groups/billing/reset?to=beginning": "Nothing has changed yet",
    "/transactions": "Transactions of coordinators",
    "/transactions/hanging": "No open transaction",
    "/brokers": "running",
    "/brokers/1": "Log directories",
    "/brokers/balance": "Brokers before and after",
    "/schemas": "Compatibility",
    "/connect": "orders-to-s3",
    "/connect/orders-to-s3": "Tasks",
    "/pipelines": "Tiered topics",
    "/quorum": "Replicas",
    "/share": "Dead-letter queue",
    "/access": "ACLs",
    "/clients": "Members of groups",
}
