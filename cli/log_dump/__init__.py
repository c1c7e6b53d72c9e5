"""`odradek log dump`: prints the files of a data directory as text. Offline: it connects to no broker."""
