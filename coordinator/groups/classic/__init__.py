"""Classic groups."""
