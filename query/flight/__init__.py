"""`odradek query --serve`: queries of any client on the network, by Arrow Flight SQL.

The server has no part of a query in its own process. Each statement is a job in a process of its own, with a limit of memory
and of time, which logs in at the brokers as the user who sent it. Its answer is a stream of Arrow that the server passes on.

| module | purpose |
|---|---|
| `server.py` | the listener, its options and its end |
| `service.py` | the calls of Flight, each answered by a command |
| `messages.py` | the messages of Flight and Flight SQL |
| `answers.py` | answers that need no cluster: what the server can do, and keys, which topics lack |
| `sessions.py` | logins of users, and the tokens for them |
| `slots.py` | places of queries that run at the same time |
| `jobs.py`, `job_runner.py` | a job and its frames; jobs begun, read and ended by the server |
| `job_host.py`, `job_process.py` | the process from which those of jobs are forked; one of a job |
| `job_answers.py` | the Arrow that a job answers with: rows of a statement, topics |
"""
