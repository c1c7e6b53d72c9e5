"""The error of columns and values that a format or a schema cannot hold."""

from __future__ import annotations


class Misfit(ValueError):
    """A column, or a value of it, that a format or a schema cannot hold. The words name the column."""
