"""Runs a page as a reader would: its blocks one after the other, in a directory of their own, with `kedge` on the PATH.

Python blocks run in this process, as one module a page, so that a later one knows the names of an earlier one; commands
run in a shell that knows nothing of the test's own environment.
"""

import contextlib
import io
import os
import re
import signal
import socket
import subprocess
import sys
import time
import types
from pathlib import Path

import pytest
from snippets import Block, missing

LIMIT_S = 120.0  # that one command may take on a loaded machine
# The services' own defaults.
PORTS = {"kafka": 9092, "nats": 4222, "redis": 6379, "rabbitmq": 5672, "mosquitto": 1883}
USAGE = 2  # the exit status for what one sentence is enough for


class PageRunner:
    """One page's directory, names and background process."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.here = directory  # where the last command has gone by `cd`
        self.printed: str | None = ""  # None: by the background, since
        self.module = types.ModuleType("page")
        self.background: subprocess.Popen[bytes] | None = None
        self.until = 0.0  # when the background has had time enough
        self.log = directory / ".background"
        self.closing = contextlib.ExitStack()
        bin_directory = str(Path(sys.executable).parent)
        self.environment = {
            "PATH": f"{bin_directory}:/usr/local/bin:/usr/bin:/bin",
            "HOME": str(directory),
            "LANG": "C.UTF-8",
            "COLUMNS": "120",
            "KEDGE_HINT": "1",  # pages show what a terminal shows
            "KEDGE_LOG_FORMAT": "console",
        }

    def run(self, block: Block) -> None:
        """Runs one block, or compares it with what was printed. Fails the test where it goes wrong."""
        if "not run" in block.comments or "foreign" in block.comments:
            return
        if service := block.comments.get("needs"):
            self._needs(service)
        if file := block.comments.get("file"):
            path = self.here / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text)
        elif block.language == "python":
            self._python(block)
        elif block.language == "sh":
            self._shell(block)
        elif block.language == "output":
            self._compare(block)
        else:
            pytest.fail(f"{block.place}: nobody knows how to run {block.language!r}; say why not in a comment")

    def _needs(self, service: str) -> None:
        """Has the page speak to the service of `tests/services`, in a schema of its own, or leaves the page out."""
        if service == "spark":
            pytest.importorskip("pyspark", reason="needs pip install 'kedge-streams[spark]'")
            from bridge.spark.java import missing

            if problem := missing():
                pytest.skip(problem)
            return
        if service in PORTS:
            try:
                socket.create_connection(("127.0.0.1", PORTS[service]), 3).close()
            except OSError as error:
                pytest.skip(
                    f"no {service} on port {PORTS[service]} to run the page with ({error}); see CONTRIBUTING.md"
                )
            return
        assert service == "postgres", service
        psycopg = pytest.importorskip("psycopg", reason="needs pip install 'kedge-streams[postgres]'")
        dsn = os.environ.get("KEDGE_TEST_POSTGRES") or "postgresql://postgres@127.0.0.1:5432/test"
        try:
            connection = psycopg.connect(dsn, autocommit=True, connect_timeout=3)
        except psycopg.OperationalError as error:
            pytest.skip(f"no PostgreSQL to run the page with ({' '.join(str(error).split())}); see CONTRIBUTING.md")
        schema = f"kedge_docs_{os.urandom(6).hex()}"
        self.closing.callback(connection.close)
        connection.execute(f"CREATE SCHEMA {schema}")
        self.closing.callback(connection.execute, f"DROP SCHEMA {schema} CASCADE")
        path = f"options=-csearch_path%3D{schema}"
        self.environment["ALERTS_DSN"] = f"{dsn}{'&' if '?' in dsn else '?'}{path}"

    def _python(self, block: Block) -> None:
        code = compile("\n" * (block.line - 1) + block.text, block.page, "exec")
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(code, self.module.__dict__)  # noqa: S102 - our own pages'
        self.printed = out.getvalue()

    def _shell(self, block: Block) -> None:
        text = block.text
        for number, wanted in (
            (word.split()[0], text) for word, text in block.comments.items() if word.endswith(" is")
        ):
            text = text.replace(number, self._told(wanted))
        place = self.directory / ".here"
        command = ["sh", "-e", "-c", f"{text}\npwd > '{place}'\n"]
        environment = {
            **self.environment,
            **dict(pair.split("=", 1) for pair in block.comments.get("with", "").split()),
        }
        if "background" in block.comments:
            with self.log.open("wb") as log:
                self.background = subprocess.Popen(
                    command, cwd=self.here, env=environment, stdout=log, stderr=log, start_new_session=True
                )
            self.printed, self.until = None, time.monotonic() + LIMIT_S
            return
        ran = subprocess.run(
            command,
            cwd=self.here,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=LIMIT_S,
            check=False,
        )
        self.printed = ran.stdout.decode()
        if ran.returncode != int(block.comments.get("exits", 0)):
            pytest.fail(f"{block.place}: exit status {ran.returncode} of\n{text}\n{self.printed}", pytrace=False)
        if ran.returncode == USAGE and "Traceback" in self.printed:
            pytest.fail(f"{block.place}: a mistake of use is told with a traceback:\n{self.printed}", pytrace=False)
        if place.exists():
            self.here = Path(place.read_text().strip())

    def _told(self, wanted: str) -> str:
        """What the first group of `wanted` matches in the background's output; waits for it."""
        while (match := re.search(wanted, self._log())) is None:
            self._wait(f"the background has not told {wanted!r}")
        return match[1]

    def _compare(self, block: Block) -> None:
        if "of the background" in block.comments:
            assert self.background is not None, "a block in the background"
            self.background.wait(LIMIT_S)
            self.printed = self._log()
        while self.printed is None and (line := missing(block.text, self._log())) is not None:
            self._wait(f"{block.place}: not told by the background:\n{line}")
        if self.printed is not None and (line := missing(block.text, self.printed)) is not None:
            pytest.fail(
                f"{block.place}: not printed, or not in this order:\n{line}\nbut:\n{self.printed}", pytrace=False
            )

    def _wait(self, what: str) -> None:
        """For a moment, while the background goes on; else fails with `what`."""
        assert self.background is not None, "a block in the background"
        if self.background.poll() is not None or time.monotonic() > self.until:
            pytest.fail(f"{what}\n{self._log()}", pytrace=False)
        time.sleep(0.02)

    def _log(self) -> str:
        return self.log.read_text("utf-8", "replace")

    def close(self) -> None:
        """Ends what is still running, and takes away what the page has left in a service."""
        if self.background is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.background.pid, signal.SIGKILL)
            self.background.wait()
        self.closing.close()
