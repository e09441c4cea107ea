"""A server of PostgreSQL for tests, from Debian's package, on the loopback alone and in a folder of its own."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import uuid
from pathlib import Path
from typing import Any

import psycopg

PASSWORD = "tiger"
#: The server does not run as root.
_USER = "postgres" if os.geteuid() == 0 else None


def _binaries() -> Path:
    """Where the newest server is."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    initdb = str(found[-1]) if found else shutil.which("initdb")
    assert initdb, "install PostgreSQL first, as in apt-get install postgresql, or make test-postgres"
    return Path(initdb).parent


class Server:
    """A server; a database of it is made for each test."""

    def __init__(self) -> None:
        self._bin = _binaries()
        self.folder = Path(tempfile.mkdtemp(prefix="slackwater-postgres-"))
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        (self.folder / "password").write_text(PASSWORD)
        if _USER is not None:
            for path in (self.folder, self.folder / "password"):
                shutil.chown(path, _USER)
        data = str(self.folder / "data")
        how = ["--username=scott", "--auth=scram-sha-256", f"--pwfile={self.folder}/password", "--no-sync"]
        self._run("initdb", "-D", data, *how)
        self.start()

    def _run(self, program: str, *words: str) -> None:
        command = [str(self._bin / program), *words]
        log = self.folder / "log"
        with log.open("ab") as output:
            done = subprocess.run(
                command, user=_USER, cwd=self.folder, stdout=output, stderr=output, timeout=60, check=False
            )
        assert done.returncode == 0, log.read_text()[-3000:]

    def start(self) -> None:
        """Start it, and wait until it answers."""
        options = f"-p {self.port} -k {self.folder} -c listen_addresses=127.0.0.1 -c fsync=off"
        self._run(
            "pg_ctl", "-D", f"{self.folder}/data", "-w", "-o", options, "-l", f"{self.folder}/server.log", "start"
        )

    def stop(self) -> None:
        """Stop it at once; connections are lost."""
        self._run("pg_ctl", "-D", f"{self.folder}/data", "-m", "immediate", "-w", "stop")

    def close(self) -> None:
        """Stop it, and drop its folder."""
        self.stop()
        shutil.rmtree(self.folder)

    def database(self) -> str:
        """The address of a new database."""
        name = f"d{uuid.uuid4().hex[:8]}"
        ask(self.address("postgres"), f"CREATE DATABASE {name}")
        return self.address(name)

    def address(self, database: str) -> str:
        """The address of a database, with the password."""
        return f"postgresql://scott:{PASSWORD}@127.0.0.1:{self.port}/{database}"


def ask(address: str, statement: str) -> list[tuple[Any, ...]]:
    """What a statement gives."""
    with psycopg.connect(address, autocommit=True) as connection:
        cursor = connection.execute(statement)
        return cursor.fetchall() if cursor.description else []
