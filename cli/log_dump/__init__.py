"""Files of a data directory as rows, for `odradek log dump`."""
