"""Logins, roles, CSRF tokens, masks and the audit log of the console."""
