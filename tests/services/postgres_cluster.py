"""A PostgreSQL server of the tests' own, in a temporary directory and on a free port: started, stopped and killed at
will, without anybody else noticing. Made with `initdb` from Debian's packages; runs as the user postgres where the
tests run as root, who may not run it.
"""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
from postgres_kit import Database

WITHIN_S = 30.0  # that a server has for starting or stopping
PASSWORD = "kanarienvogel-7f3a@/:%"  # of the role `guarded`: everything in it has to be quoted in a URI


def found_initdb() -> Path | None:
    """The newest installed one."""
    named = shutil.which("initdb")
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: float(path.parts[-3]))
    return Path(named) if named else installed[-1] if installed else None


class Cluster:
    def __init__(self, directory: Path, programs: Path) -> None:
        self.directory = directory
        self._programs = programs
        self._user = _unprivileged()
        self._process: subprocess.Popen[bytes] | None = None
        self._settings: dict[str, str] = {}
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = int(free.getsockname()[1])

    @classmethod
    @contextmanager
    def made(cls) -> Iterator["Cluster"]:
        initdb = found_initdb()
        assert initdb is not None
        directory = Path(tempfile.mkdtemp(prefix="kedge-postgres-"))
        cluster = cls(directory, initdb.parent)
        try:
            if cluster._user is not None:
                os.chown(directory, *cluster._ids())
            cluster._run("initdb", "-D", str(directory / "data"), "-A", "trust", "-U", "postgres", "-N", "-E", "UTF8")
            hba = directory / "data" / "pg_hba.conf"
            hba.write_text("host all guarded 127.0.0.1/32 scram-sha-256\n" + hba.read_text())
            cluster.start()
            cluster.database.do("CREATE SCHEMA public_too")
            cluster.database.do(f"CREATE ROLE guarded LOGIN PASSWORD '{PASSWORD}'")
            cluster.database.do("GRANT ALL ON SCHEMA public TO guarded")
            yield cluster
        finally:
            cluster.kill()
            shutil.rmtree(directory, ignore_errors=True)

    @property
    def dsn(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    @property
    def database(self) -> Database:
        return Database(self.dsn, "public")

    def start(self, **settings: str) -> None:
        """Starts it, unless it runs with these settings, and returns when it answers."""
        if self._process is not None and self._process.poll() is None and settings == self._settings:
            return
        self.stop()
        self._settings = settings
        until = time.monotonic() + WITHIN_S
        while time.monotonic() < until:  # what a killed server has left in memory is in its way for a moment
            self._process = self._started(settings)
            while self._process.poll() is None and time.monotonic() < until:
                try:
                    psycopg.connect(self.dsn, connect_timeout=2).close()
                    return
                except psycopg.OperationalError:
                    time.sleep(0.05)
            time.sleep(0.1)
        raise TimeoutError(f"the server did not start: {(self.directory / 'log').read_text()[-2000:]}")

    def stop(self, mode: signal.Signals = signal.SIGINT) -> None:
        """Ends it in order: SIGINT ends sessions at once ('fast'), SIGQUIT without a checkpoint ('immediate')."""
        process, self._process = self._process, None
        if process is not None and process.poll() is None:
            process.send_signal(mode)
            process.wait(WITHIN_S)

    def set(self, **settings: str) -> None:
        """Changes settings of the server as it runs; returns when a new session has them."""
        for name, value in settings.items():
            self.database.do(f"ALTER SYSTEM SET {name} = '{value}'")
            self.database.do("SELECT pg_reload_conf()")
            until = time.monotonic() + WITHIN_S
            while self.database.do(f"SHOW {name}") != [{name: value}]:
                assert time.monotonic() < until, f"{name} was not changed"
                time.sleep(0.02)

    def kill(self) -> None:
        """SIGKILL to the server and all of its processes, as when a machine runs out of memory."""
        process, self._process = self._process, None
        if process is None:
            return
        own = _children(process.pid)
        process.kill()
        process.wait()
        for pid in own:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue

    def settle(self) -> None:
        """As it was made, for the next test: tables dropped."""
        self.start()
        for row in self.database.do("SELECT tablename FROM pg_tables WHERE schemaname = 'public'"):
            self.database.do(f'DROP TABLE "{row["tablename"]}" CASCADE')

    def _started(self, settings: dict[str, str]) -> "subprocess.Popen[bytes]":
        given = [f"-c{name}={value}" for name, value in settings.items()]
        with open(self.directory / "log", "ab") as log:
            return subprocess.Popen(
                [
                    *(str(self._programs / "postgres"), "-D", str(self.directory / "data"), "-p", str(self.port)),
                    *("-k", str(self.directory), "-h", "127.0.0.1", "-clog_statement=none", *given),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                **self._as_user(),
            )

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [str(self._programs / program), *arguments], capture_output=True, cwd=self.directory, **self._as_user()
        )
        assert done.returncode == 0, done.stderr.decode()

    def _as_user(self) -> dict[str, Any]:
        return {} if self._user is None else {"user": self._user, "group": self._ids()[1], "extra_groups": []}

    def _ids(self) -> tuple[int, int]:
        assert self._user is not None
        entry = pwd.getpwnam(self._user)
        return entry.pw_uid, entry.pw_gid


def _unprivileged() -> str | None:
    """Who the server runs as; None for the user of the tests."""
    return "postgres" if os.geteuid() == 0 else None


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
