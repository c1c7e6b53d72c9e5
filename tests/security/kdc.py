"""A key distribution center of MIT Kerberos on the loopback (Debian: krb5-kdc, krb5-admin-server, krb5-user)."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from pathlib import Path

from compat_tests.broker_process import free_port
from compat_tests.needed_tools import needed

REALM = "ODRADEK.TEST"
_DEADLINE_S = 60


class Kdc:
    """Runs krb5kdc for a realm. `environment` has the variables with which clients find it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.port = free_port()
        self.config = directory / "krb5.conf"
        self.environment = {**os.environ, "KRB5_CONFIG": str(self.config), "KRB5RCACHEDIR": str(directory)}
        self._environment = {**self.environment, "KRB5_KDC_PROFILE": str(directory / "kdc.conf")}
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Kdc:
        # `udp_preference_limit`: clients use TCP only, which resends lost packets.
        self.config.write_text(
            f"[libdefaults]\n default_realm = {REALM}\n dns_lookup_kdc = false\n dns_lookup_realm = false\n"
            " dns_canonicalize_hostname = false\n rdns = false\n udp_preference_limit = 1\n"
            f"[realms]\n {REALM} = {{\n  kdc = 127.0.0.1:{self.port}\n }}\n"
            f"[domain_realm]\n localhost = {REALM}\n"
        )
        (self.directory / "kdc.conf").write_text(
            f"[kdcdefaults]\n kdc_listen = 127.0.0.1:{self.port}\n kdc_tcp_listen = 127.0.0.1:{self.port}\n"
            f"[realms]\n {REALM} = {{\n  database_name = {self.directory}/principals\n"
            f"  key_stash_file = {self.directory}/stash\n  acl_file = {self.directory}/acl\n"
            f"  max_life = 1h\n  supported_enctypes = aes256-cts-hmac-sha1-96:normal\n }}\n"
            f"[logging]\n kdc = FILE:{self.directory}/kdc.log\n"
        )
        self._run("kdb5_util", "create", "-s", "-r", REALM, "-P", "master-key-of-the-test")
        with (self.directory / "kdc.out").open("wb") as output:
            command = [needed("krb5kdc"), "-n", "-P", str(self.directory / "pid")]
            self._process = subprocess.Popen(command, env=self._environment, stdout=output, stderr=output)
        try:
            self._await()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def keytab(self, *principals: str) -> Path:
        """Adds principals with random keys, and returns the file with all their keys."""
        path = self.directory / f"{principals[0].replace('/', '-')}.keytab"
        for principal in principals:
            self.administer(f"addprinc -randkey {principal}")
            self.administer(f"ktadd -k {path} {principal}")
        return path

    def administer(self, query: str) -> None:
        """Runs a query of `kadmin` as the realm's administrator."""
        self._run("kadmin.local", "-r", REALM, "-q", query)

    def key_numbers(self, keytab: Path) -> list[int]:
        """Returns the numbers of the keys in a keytab."""
        shown = self._run("klist", "-k", str(keytab))
        return [int(line.split()[0]) for line in shown.splitlines() if line.split()[:1] and line.split()[0].isdigit()]

    def tickets(self, principal: str, keytab: Path) -> Path:
        """Logs in by keytab as `kinit` does, and returns the file with the ticket."""
        path = self.directory / f"{principal}.tickets"
        self._run("kinit", "-c", f"FILE:{path}", "-k", "-t", str(keytab), principal)
        return path

    def _run(self, program: str, *words: str) -> str:
        """Returns the standard output."""
        command = [needed(program), *words]
        done = subprocess.run(command, env=self._environment, capture_output=True, text=True, timeout=_DEADLINE_S)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def _await(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + _DEADLINE_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 5).close()
                return
            except OSError:
                assert self._process.poll() is None, (self.directory / "kdc.out").read_text()
                assert time.monotonic() < deadline, "krb5kdc does not listen"
                time.sleep(0.02)
