"""A segment: its batches, its indexes, and what a damaged one still holds."""
