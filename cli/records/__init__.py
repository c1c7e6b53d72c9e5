"""`odradek produce` and `odradek consume`: records in and out, in many forms."""
