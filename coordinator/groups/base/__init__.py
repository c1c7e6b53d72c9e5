"""State and rules that all kinds of groups share."""
