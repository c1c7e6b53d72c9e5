"""Exceptions that an authorizer raises."""

from __future__ import annotations


class AuthorizerNotReady(Exception):
    """The rules are not known yet. Only super users are authorized by then, which is what starts a secured cluster."""
