"""Tables that follow topics: this broker has a process that keeps the tables of topics whose partition 0 it leads.

`subsystem.py` follows the configs and the leaders of topics. `table_process.py` starts the process with the first such
topic, starts it again when it ends by itself, and ends it with the last one: `odradek.archive.table_process`.
"""
