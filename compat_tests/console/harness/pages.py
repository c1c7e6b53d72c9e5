"""The pages of the console."""

from __future__ import annotations

#: Pages, and a text on each.
PAGES = {
    "/": "Active controller",
    "/topics": "orders",
    "/topics/orders": "retention.ms",
    "/topics/orders/messages?limit=5": "5 shown of",
    "/topics/orders/messages/0/0": "On the command line",
    "/groups": "billing",
    "/groups/billing": "Committed",
    "/groups/billing/reset?to=beginning": "Nothing has changed yet",
    "/transactions": "Transactions of coordinators",
    "/transactions/hanging": "No open transaction",
    "/brokers": "running",
    "/brokers/1": "Log directories",
    "/quorum": "Replicas",
    "/share": "Dead-letter queue",
    "/access": "ACLs",
    "/clients": "Members of groups",
}
