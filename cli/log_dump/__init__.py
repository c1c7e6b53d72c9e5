"""`odradek log dump`: the files of a data directory, in words. Offline: no broker is asked."""
