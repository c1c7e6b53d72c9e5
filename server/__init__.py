"""The room with sockets, threads and clocks: it drives all rooms below."""
