"""`odradek topic`: list, describe, create, alter and delete topics."""
