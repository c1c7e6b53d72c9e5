"""Verification of segments, and writing damaged or poisoned ones anew."""
