"""The version of Odradek."""

__version__ = "0.1.0"
