"""`odradek produce`, `consume`, `record` and `schema`: records in and out."""
