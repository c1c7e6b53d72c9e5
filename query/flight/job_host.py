"""The process from which the processes of jobs are forked: it has the libraries, and no thread.

`python -m odradek.query.flight.job_host FD`: FD is a socket on which each message has a job and a socket for its answer. A
fork costs milliseconds, where a new process would import for a second. The process ends with the socket's other end.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import signal
import socket
import sys

from .job_process import run_job

#: The socket of the answer comes beside this byte; the job comes on it. The host sends it when it is ready.
BEGIN = b"J"
#: What jobs import when they need it. Tables need PyIceberg, which may be missing.
_LATER = (
    "odradek.client.any_broker",
    "odradek.client.cluster",
    "odradek.client.port_security",
    "odradek.client.sasl",
    "odradek.columns.typed_rows",
    "odradek.columns.value_decoders",
    "odradek.query.tables",
    "odradek.archive.table_options",
    "pyiceberg.avro.decoder_fast",
    "pyiceberg.catalog.sql",
    "sqlalchemy.dialects.sqlite",
)


def serve(requests: socket.socket) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of the terminal: the server ends first
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # ended processes leave nothing
    for name in _LATER:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    gc.freeze()
    requests.sendall(BEGIN)
    while True:
        message, descriptors, _, _ = socket.recv_fds(requests, len(BEGIN), 1)
        if not message:
            return
        for descriptor in descriptors:
            if os.fork() == 0:
                requests.close()
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                run_job(socket.socket(fileno=descriptor))
            os.close(descriptor)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
