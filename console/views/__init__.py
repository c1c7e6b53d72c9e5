"""Parts of pages, and drawings: pure functions of what they show."""
