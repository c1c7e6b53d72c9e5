"""Codecs of the ten messages as one would write them by hand, in the same classes and with the same checks.

This is what lowered code is measured against, so it is written for speed: one `unpack_from` or `pack` for neighbours,
varints of one byte in line. Only tagged fields, which the messages measured do not have, are left unread or unwritten.
"""
