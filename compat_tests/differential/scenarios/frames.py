"""ApiVersions, and malformed requests: those that close the connection and those that get a response."""

from __future__ import annotations

import struct

from ..scenario import Step, ask, scenario, send_bytes


def frame(key: int, version: int, body: bytes = b"", *, header: int = 1) -> Step:
    """A request of any key and version, with a client id of one letter."""
    start = struct.pack(">hhi", key, version, 77) + struct.pack(">h", 1) + b"c" + (b"\0" if header == 2 else b"")
    return send_bytes(struct.pack(">i", len(start + body)) + start + body)


def rejected(name: str, *steps: Step) -> object:
    return scenario("ApiVersions", name, *steps, versions="3")


SCENARIOS = [
    scenario(
        "ApiVersions",
        "features and keys",
        ask("ApiVersions", client_software_name="a", client_software_version="1"),
    ),
    scenario(
        "ApiVersions",
        "a software name that may not be",
        ask("ApiVersions", client_software_name="a b", client_software_version="1"),
        ask("ApiVersions", client_software_name="", client_software_version=""),
        versions="3+",
    ),
    rejected(
        "an unknown version of ApiVersions is answered in version 0",
        frame(18, 99, header=2),
        frame(18, 6, b"\1\1\0", header=2),
    ),
    rejected("an unknown version of ApiVersions with an old header closes the connection", frame(18, 99)),
    rejected("an unknown key closes the connection", frame(999, 0)),
    rejected("a negative key closes the connection", frame(-1, 0)),
    rejected("keys that were removed close the connection", *(frame(key, 0) for key in (4, 5, 6, 7))),
    rejected(
        "unknown versions close the connection",
        *(
            frame(key, version)
            for key, version in ((0, 2), (0, 99), (1, 3), (3, 99), (8, 1), (11, 99), (19, 1), (32, 0))
        ),
    ),
    rejected("a request of a controller's API closes the connection", frame(52, 0, header=2), frame(62, 0, header=2)),
    rejected("a body that ends too soon closes the connection", frame(3, 1, b"\0\0\0\5"), frame(11, 0, b"\0\3ab")),
    rejected(
        "a length that is no length closes the connection",
        send_bytes(struct.pack(">i", -1)),
        send_bytes(struct.pack(">i", 2_000_000_000)),
    ),
    rejected(
        "a frame too short for a header closes the connection",
        send_bytes(struct.pack(">i", 2) + b"\0\3"),
        send_bytes(struct.pack(">i", 0)),
    ),
    rejected("bytes after a request are let pass", frame(12, 0, b"\0\1g\0\0\0\1\0\1m" + b"more")),
    rejected("an array longer than the frame closes the connection", frame(3, 1, b"\x7f\xff\xff\xff")),
    rejected("a null where none may be closes the connection", frame(12, 0, b"\xff\xff\0\0\0\1\0\1m")),
]
