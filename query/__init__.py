"""`odradek query`: SQL over topics, and over their tables where there are some.

| module | purpose |
|---|---|
| `command.py` | the command and its options |
| `scans.py`, `tables.py` | the datasets of a query, by the names of its tables: of topics alone, of topics with tables |
| `table_reading.py` | how tables are read |
| `result.py` | the rows of a query: a table for people, or a file |
"""
