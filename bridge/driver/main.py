"""The driver: `python -m bridge.driver.main`, a companion of a run with Spark, and all of its topology's queries.

It is told what to do on stdin (`spec`), and says what a companion does on stdout: `ready`, `status …`, `failed …`. All
else that anybody in this process or in Spark's writes goes to stderr. It ends with status 1 where starting it again may
help, so it never asks what has died: Spark's checkpoint and the files of `batches` say where to go on.
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
    """What the run is told, a line each."""

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
    """Runs until it is killed, or can't go on: 1."""
    voice = DriverVoice(own_stdout())
    spec = Spec.of_bytes(sys.stdin.buffer.read())
    try:
        import pyspark  # noqa: F401  # an extra
    except ImportError as error:
        voice.failed(f"Spark can't be imported ({error}): {sys.executable} -m pip install 'kedge-streams[spark]'")
        return 1
    return drive(spec, voice)


def drive(spec: Spec, voice: DriverVoice) -> int:
    """Starts Spark and all queries, and waits for the first that can't go on."""
    from bridge.driver.job import HistoryRunning
    from bridge.driver.source import SegmentSource
    from bridge.driver.stream_query import Running
    from bridge.errors import UserError
    from bridge.spark.class_archive import begin_to_make
    from bridge.spark.session import parallelism, start
    from bridge.spark.shared_folder import check

    folder, life = Path(spec.folder), secrets.token_hex(4)
    voice.status("Spark starts")
    doing, begun = "", time.monotonic()
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
        for one in spec.queries:
            doing = one.name
            function = function_of(one.function)
            make = HistoryRunning if hasattr(function, "keeping") else Running
            if make is HistoryRunning and spec.master.startswith("sc://"):
                raise UserError(
                    f"query {doing!r} is a batch_joined, which does not run over Spark Connect: {ELSEWHERE}"
                )
            running = make(session, one, function, folder / one.name, life, voice.status)
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
        ended_by(error, doing, folder, time.monotonic() - begun, voice)
    return 1


def first_end(queries: list[Any]) -> tuple[str, BaseException]:
    """Runs each in a thread; the name of the first that has raised, and what."""
    ended: queue.SimpleQueue[tuple[str, BaseException]] = queue.SimpleQueue()

    def run(one: Any) -> None:
        try:
            one.run()
        except BaseException as error:
            ended.put((one.spec.name, error))

    for one in queries:
        threading.Thread(target=run, args=(one,), daemon=True, name=one.spec.name).start()
    return ended.get()


def named(problem: str, query: str) -> str:
    """A sentence that says which query it is about, where it is about one."""
    return problem if not query or repr(query) in problem else f"query {query!r}: {problem}"


def ended_by(
    error: BaseException, query: str, folder: Path, lasted_s: float, voice: DriverVoice, *, called: str = ""
) -> None:
    """Says what a person has to mend, or waits for room; nothing where the next life may have more luck. `query`: whose
    error it is, empty before there was one, and `called` what people know it by, where that is another word;
    `lasted_s`: how long it had run."""
    called = called or f"query {query!r}"
    if isinstance(error, ConfigurationError) and error.code is not None:  # a file of ours that is damaged
        which = f"{called} can't go on: " if query else ""
        voice.failed(f"{which}{error}; {error.next} ({error.code})")
        return
    log = folder.parent / "companions" / "spark.log"
    words = no_room(error)
    waits = f"there is no room ({words}); Spark goes on once there is, and nothing is lost"
    if words and until_room(folder, lambda: voice.status(waits)):
        return
    problem, lines = users_mistake(error, query, called) if query else ("", list[str]())
    if not query and (why := not_started(error)):
        problem = f"Spark could not be started: {why}; see its settings, and what it wrote in {log}"
    for line in lines if problem else ():
        voice.status(f"| {line}")
    if not problem and DriverDeaths(folder / query).one_more(lasted_s):
        which = called if query else "Spark"
        text = text_of(error)
        why = ("" if query else java_said(log)) or java_cause(text) or first_line(text) or type(error).__name__
        problem = (
            f"{which} has died {DEATHS_MAX} times, and nothing came of it in between: {why.rstrip('.')}; see {log}"
        )
    if problem:
        voice.failed(problem)


def own_stdout() -> TextIO:
    """The run's end of stdout for us alone: what others print goes to stderr."""
    ours = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return ours


if __name__ == "__main__":
    sys.stdout.flush()
    status = main()
    os._exit(status)  # threads of Spark's may wait for a JVM that is gone
