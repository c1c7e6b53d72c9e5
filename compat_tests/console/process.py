"""The console as a process, and a visitor without a browser, with cookies and forms only."""

from __future__ import annotations

import html
import http.cookiejar
import re
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

_SERVING = re.compile(r"^odradek: console of (?P<bootstrap>\S+) on (?P<address>\S+)/$")
DEADLINE_S = 60
POLL_S = 0.2


class ConsoleProcess:
    """`odradek console` on a free port. `address` is its URL without the last slash."""

    def __init__(self, bootstrap: str, directory: Path, *options: str) -> None:
        self.bootstrap = bootstrap
        self.audit_file = directory / "audit.jsonl"
        self._errors = (directory / "console.err").open("w")
        command = [sys.executable, "-m", "odradek", "console", "-b", bootstrap, "--port", "0"]
        history = () if "--history" in options else ("--history", str(directory / "history"))
        self.process = subprocess.Popen(
            [*command, "--audit-log", str(self.audit_file), *history, *options],
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline().strip()
        found = _SERVING.match(line)
        assert found, (line, (directory / "console.err").read_text())
        self.address = found["address"]

    def resident_bytes(self) -> int:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) * 1024  # type: ignore[index]

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(DEADLINE_S)
        self._errors.close()


class Visitor:
    """Loads pages and sends their forms. `status` is that of the last response; redirects are followed."""

    def __init__(self, address: str, context: ssl.SSLContext | None = None) -> None:
        self.address = address
        self.status = 0
        self._opener = urllib.request.build_opener(
            urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()),
            urllib.request.ProxyHandler({}),
            urllib.request.HTTPSHandler(context=context),
        )

    def get(self, path: str, **headers: str) -> str:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self._respond(urllib.request.Request(self.address + path, headers=named))

    def post(self, path: str, _page: str = "/access", _token: str | None = None, **fields: str) -> str:
        """Sends a form with the token of a page."""
        given = {name.replace("client_id", "client-id"): value for name, value in fields.items()}
        given["csrf"] = self.token(_page) if _token is None else _token
        return self._respond(urllib.request.Request(self.address + path, urllib.parse.urlencode(given).encode()))

    def token(self, page: str) -> str:
        found = re.search(r'name="csrf" value="([^"]+)"', self.get(page))
        return found[1] if found else ""

    def await_text(self, path: str, text: str) -> str:
        """Loads the page until it has the text."""
        deadline = time.monotonic() + DEADLINE_S
        while text not in (page := self.get(path)):
            assert time.monotonic() < deadline, (path, text, page)
            time.sleep(POLL_S)
        return page

    def _respond(self, request: urllib.request.Request) -> str:
        try:
            with self._opener.open(request, timeout=DEADLINE_S) as response:
                self.status, self.headers = response.status, response.headers
                return shown(response.read())
        except urllib.error.HTTPError as error:
            self.status, self.headers = error.code, error.headers
            return shown(error.read())


def shown(page: bytes) -> str:
    """The page without its escapes, and without the places where long names may break."""
    return html.unescape(page.decode()).replace("<wbr>", "")
