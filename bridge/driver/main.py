"""The driver: `python -m bridge.driver.main`, a companion of a run with Spark. It runs all of the topology's queries.

It reads its specification (`driver_spec`) from stdin, and writes a companion's messages to stdout: `ready`, `status …`,
`failed …`. Everything else that this process or Spark's processes write goes to stderr. It exits with status 1 if
starting it again may help. It need not know what died: Spark's checkpoint and the files of `batch` say where to resume.
"""

import os
import queue
import secrets
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any, Final, TextIO

from bridge.queries.driver_spec import Spec, function_of
from bridge.spark.errors import (
    DEATHS_MAX,
    DriverDeaths,
    first_line,
    java_cause,
    java_said,
    no_room,
    not_started,
    until_room,
    users_mistake,
)
from topology.errors import ConfigurationError
from topology.text import escaped
from topology.user_frames import text_of

ELSEWHERE: Final = "name another place by --spark, local[2] or spark://HOST:PORT"


class DriverVoice:
    """The messages to the run, one line each."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._lock = threading.Lock()

    def say(self, line: str) -> None:
        with self._lock:
            self._out.write(escaped(line) + "\n")
            self._out.flush()

    def status(self, text: str) -> None:
        self.say(f"status {text}")

    def failed(self, text: str) -> None:
        self.say(f"failed {text}")


def main() -> int:
    """Run until the process is killed. Return 1 if the driver cannot continue."""
    voice = DriverVoice(own_stdout())
    spec = Spec.of_bytes(sys.stdin.buffer.read())
    try:
        import pyspark  # noqa: F401  # an extra
    except ImportError as error:
        voice.failed(f"Spark cannot be imported ({error}): {sys.executable} -m pip install 'kedge-streams[spark]'")
        return 1
    return drive(spec, voice)


def drive(spec: Spec, voice: DriverVoice) -> int:
    """Start Spark and all queries, and wait for the first query that cannot continue."""
    from bridge.driver.job import HistoryRunning
    from bridge.driver.source import SegmentSource
    from bridge.driver.stream_query import Running
    from bridge.errors import UserError
    from bridge.spark.class_archive import begin_to_make
    from bridge.spark.session import parallelism, start
    from bridge.spark.shared_folder import check

    folder, life = Path(spec.folder), secrets.token_hex(4)
    voice.status("Spark starts")
    doing, started_at = "", time.monotonic()
    try:
        if spec.master.startswith("sc://"):
            from bridge.driver.connect import start_remote

            session = start_remote(spec.topology, spec.master, spec.settings)
        else:
            session = start(spec.topology, spec.master, folder, spec.settings)
        session.dataSource.register(SegmentSource)
        if not spec.master.startswith("local"):
            check(session, folder, parallelism(session))
        DriverDeaths(folder).forget()
        queries: list[Any] = []
        for query in spec.queries:
            doing = query.name
            function = function_of(query.function)
            make = HistoryRunning if hasattr(function, "keeping") else Running
            if make is HistoryRunning and spec.master.startswith("sc://"):
                raise UserError(f"query {doing!r} is a batch_joined, which cannot run over Spark Connect: {ELSEWHERE}")
            running = make(session, query, function, folder / query.name, life, voice.status)
            running.begin()
            queries.append(running)
        voice.say("ready")
        if not spec.master.startswith("sc://"):
            begin_to_make()
        doing, error = first_end(queries)
        raise error
    except UserError as error:
        voice.failed(named(str(error), doing))
    except Exception as error:
        traceback.print_exception(error, file=sys.stderr)
        ended_by(error, doing, folder, time.monotonic() - started_at, voice)
    return 1


def first_end(queries: list[Any]) -> tuple[str, BaseException]:
    """Run each query in a thread. Return the name of the first query that raised, and its exception."""
    ended: queue.SimpleQueue[tuple[str, BaseException]] = queue.SimpleQueue()

    def run(one: Any) -> None:
        try:
            one.run()
        except BaseException as error:
            ended.put((one.spec.name, error))

    for query in queries:
        threading.Thread(target=run, args=(query,), daemon=True, name=query.spec.name).start()
    return ended.get()


def named(problem: str, query: str) -> str:
    """Return the sentence with the name of its query in front, if it is about a query and does not name it."""
    return problem if not query or repr(query) in problem else f"query {query!r}: {problem}"


def ended_by(
    error: BaseException, query: str, folder: Path, lasted_s: float, voice: DriverVoice, *, called: str = ""
) -> None:
    """Report what a user has to fix, or wait for room on the disk. Reports nothing if the driver's next life may
    succeed.

    query     The query that raised the error; empty if no query was started.
    lasted_s  How long the query had run, in seconds.
    called    The name to print for the query, if it is not `query`.
    """
    called = called or f"query {query!r}"
    if isinstance(error, ConfigurationError) and error.code is not None:  # one of our files is damaged
        which = f"{called} cannot resume: " if query else ""
        voice.failed(f"{which}{error}; {error.next} ({error.code})")
        return
    log = folder.parent / "companions" / "spark.log"
    words = no_room(error)
    waits = f"the disk has no room ({words}); Spark resumes once it has, and nothing is lost"
    if words and until_room(folder, lambda: voice.status(waits)):
        return
    problem, lines = users_mistake(error, query, called) if query else ("", list[str]())
    if not query and (why := not_started(error)):
        problem = f"Spark could not be started: {why}; check its settings and its log {log}"
    for line in lines if problem else ():
        voice.status(f"| {line}")
    if not problem and DriverDeaths(folder / query).one_more(lasted_s):
        which = called if query else "Spark"
        text = text_of(error)
        why = ("" if query else java_said(log)) or java_cause(text) or first_line(text) or type(error).__name__
        problem = f"{which} has died {DEATHS_MAX} times without progress in between: {why.rstrip('.')}; see {log}"
    if problem:
        voice.failed(problem)


def own_stdout() -> TextIO:
    """Return the run's end of stdout, for this module only. All other output of the process goes to stderr."""
    ours = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return ours


if __name__ == "__main__":
    sys.stdout.flush()
    status = main()
    os._exit(status)  # Spark's threads may wait for a JVM that is gone
