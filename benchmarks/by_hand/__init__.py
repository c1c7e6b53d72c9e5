"""Codecs of the ten messages, written by hand, in the same classes and with the same checks.

Lowered code is measured against these, so they are written for speed: one `unpack_from` or `pack` for neighbours, varints of
one byte inline. Only the values of tagged fields, which the measured messages lack, are not read or written.
"""
