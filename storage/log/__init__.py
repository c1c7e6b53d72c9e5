"""A partition's log: its segments, its producers, its epochs, and opening it after a crash."""
