"""`odradek query`: SQL over topics, and over their tables where there are some.

| module | purpose |
|---|---|
| `command.py` | the command and its options |
| `sources.py` | the sources of a query: how options read its topics |
| `scans.py`, `tables.py` | the datasets of a query, by the names of its tables: of topics alone, of topics with tables |
| `table_reading.py` | how tables are read |
| `result.py`, `arrow_reader.py` | the rows of a query: a table for people, or a file; DuckDB's stream of them |
| `standard_output.py` | the standard output as a file that DuckDB opens |
| `explained_errors.py` | errors of a query in the words of a user |
| `statement.py`, `locked_database.py` | statements that others send: their checks, and a database that reads topics alone |
| `sql_names.py` | names of topics and fields that SQL takes for one |
| `flight/` | `odradek query --serve` |
"""
