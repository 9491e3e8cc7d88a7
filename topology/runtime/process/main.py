"""A worker process, from its first line to its last: build the topology again, run its tasks, and obey the supervisor.

`worker_command.command` starts it. `heartbeat` brings the supervisor's orders and sends messages to it. This module has
the order of start-up and of every way to end. Must not know how a supervisor decides.
"""

import asyncio
import contextlib
import importlib
import io
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Final, NoReturn

from topology.codes.runtime import RUNTIME_FAILED
from topology.codes.startup import WORKER_TOPOLOGY_RAISED
from topology.errors import KedgeError, StartError, WorkerError
from topology.plan import Plan, plan
from topology.runtime.asyncio_tools import asyncio_run
from topology.runtime.control.messages import (
    OUTSIDE,
    Begin,
    CannotStart,
    Closed,
    Incarnations,
    Log,
    Noted,
    packed_entry,
)
from topology.runtime.failures import Failure, Reason
from topology.runtime.process.heartbeat import Heartbeat, safe
from topology.runtime.process.orders import WorkerLoop
from topology.runtime.process.supervisor_notes import SupervisorNotes
from topology.runtime.run import run_dir
from topology.runtime.telemetry.log_capture import listen
from topology.runtime.telemetry.log_entries import as_text, cut, entry_of
from topology.runtime.thread_limit import OF_A_WORKER, check_threads, no_room
from topology.runtime.worker import blocked_loop
from topology.storage.store import StoreBroken
from topology.text import open_standard_streams, write_line
from topology.user_frames import described, text_of

GONE_S: Final = 2.0  # seconds that a worker whose supervisor is gone may take to close
SWITCH_S: Final = 0.0005  # seconds: threads of sinks get their turn beside a busy loop
END_S: Final = 2.0  # seconds that the interpreter may take to end: threads of the user may be left
DONE, GONE, NO_START, DIED = 0, 1, 3, 70  # exit statuses
_BROKEN: Final = (StoreBroken, WorkerError)  # failures around a process, not in our code

logger = logging.getLogger("kedge")


def main(fd: int) -> NoReturn:
    """Live the whole life of a worker. Ends the process."""
    _leave_signals_to_the_supervisor()
    open_standard_streams()
    sys.setswitchinterval(SWITCH_S)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Several processes share it: none breaks into another's line, even with PYTHONUNBUFFERED.
            stream.reconfigure(line_buffering=True, write_through=False)
    connection = socket.socket(fileno=fd)
    connection.set_inheritable(False)  # a bolt's children must not read keys, nor keep the socket open (S15)
    sys.exit(WorkerProcess(connection).run())


def _leave_signals_to_the_supervisor() -> None:
    """Ignore the signals that end a run: they reach the whole process group, and have been blocked so far.

    The handlers do nothing. They are not SIG_IGN, which programs that bolts start would inherit; instead of a handler
    such programs get the default. A fork of this process gets the default here.
    """
    both = (signal.SIGINT, signal.SIGTERM)
    for number in both:
        signal.signal(number, lambda *_: None)
    os.register_at_fork(after_in_child=_take_signals_back)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, both)


def _take_signals_back() -> None:
    """Restore the default handlers in a fork of this process, for example by `multiprocessing`. Its maker may want to
    end it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _end_soon(status: int) -> None:
    """Let the interpreter end in its usual way, so that what users have registered runs. End the process after END_S,
    because the user's tasks and threads may be left."""
    last = threading.Timer(END_S, os._exit, (status,))
    last.daemon = True
    last.start()


class WorkerProcess:
    """One life. Everything runs in the main thread, except `_supervisor_gone` and the threads that `Heartbeat`
    describes.

    The socket's end of file shows that the supervisor is gone, however it died. PR_SET_PDEATHSIG would not do: it fires
    when the *thread* that has started this process ends, and on Linux only.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._life: WorkerLoop | None = None
        self._over = False  # True if the end of file means nothing any more
        self._thread = threading.get_ident()
        self.pulse = Heartbeat(
            connection,
            clock=time.monotonic,
            where=lambda: blocked_loop.where(self._thread, self._loop),
            answered=self._answered,
            gone=self._supervisor_gone,
        )

    def run(self) -> int:
        """Return the exit status. Ends the process itself if there is nothing to wait for."""
        begin = self.pulse.begin()
        if begin is None:
            os._exit(GONE)
        self._begin = begin
        self.notes = SupervisorNotes(begin, self.pulse.say)
        try:
            check_threads(OF_A_WORKER)
            self.pulse.start()
        except (StartError, RuntimeError) as error:
            self._no_threads(error)
        listen_to_others = listen(_Heard(self.pulse), begin.log_level)
        try:
            planned = planned_from(begin)
            listen_to_others()
        except BaseException as error:
            return self._cannot_start(error)
        try:
            return asyncio_run(self._live(begin, planned))
        except BaseException as error:
            self.die(error)

    async def _live(self, begin: Begin, planned: Plan) -> int:
        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(self._callback_raised)
        try:
            self._life = life = WorkerLoop(begin, planned, self.pulse, self.notes, self.die)
        except BaseException as error:
            return self._cannot_start(error)
        problem: BaseException | None = None
        try:
            await life.live()
        except BaseException as error:
            problem = error
        life.unlink()
        life.closed.set()
        if life.abandoned:
            life.leave()
            return GONE
        if problem is not None:
            return self._cannot_start(problem) if not life.ready else self.die(problem)
        self._last_word(life.last_word())
        _end_soon(DONE)
        return DONE

    def _last_word(self, word: Closed | CannotStart) -> None:
        self._over = True
        self.pulse.say(word)
        self.pulse.sent(END_S)

    def _cannot_start(self, error: BaseException) -> int:
        """Report the error, with the traceback of what user code raised."""
        if not isinstance(error, KedgeError):
            made = StartError(f"the topology could not be made: {described(error)}", code=WORKER_TOPOLOGY_RAISED)
            made.trace = Failure(Reason.RAISED, "", "", error).traceback()
            error = made
        kind = next(cls.__name__ for cls in type(error).__mro__ if cls.__module__ == KedgeError.__module__)
        code = str(error.code or "")
        self._last_word(CannotStart(kind, safe(text_of(error)), code, safe(error.next), safe(error.users_trace())))
        _end_soon(NO_START)
        return NO_START

    def _no_threads(self, error: Exception) -> NoReturn:
        """Report the error from here, because no thread can, and end the process: libzmq would abort it."""
        refused = error if isinstance(error, StartError) else no_room(described(error))
        self.pulse.say_alone(CannotStart("StartError", safe(text_of(refused)), str(refused.code), safe(refused.next)))
        os._exit(NO_START)

    def _answered(self, order: Noted | Incarnations) -> None:
        self.notes.answered(order)

    def _supervisor_gone(self, why: str) -> None:
        """Close what can be closed, and end the process, whatever the loop does. The reader's thread calls this.

        It does not work while an extension in C keeps the interpreter's lock.
        """
        if self._over:
            return
        life = self._life
        if life is None:
            run_dir.leave(self._begin.directory, "")
        else:
            with contextlib.suppress(RuntimeError):  # the loop is closed, so nothing is left to do
                life.loop.call_soon_threadsafe(life.abandon)
            life.closed.wait(GONE_S)
            life.leave()
        os._exit(GONE)

    def _callback_raised(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Treat a callback of the runtime that raises like a task that dies (A14). Other callbacks are the user's."""
        error = context.get("exception")
        callback = getattr(context.get("handle"), "_callback", None)
        module = getattr(getattr(callback, "func", callback), "__module__", None) or ""
        if isinstance(error, BaseException) and module.startswith("topology.runtime."):
            self.die(error)
        loop.default_exception_handler(context)

    def die(self, error: BaseException) -> NoReturn:
        """End the process at once, because something in the runtime is wrong. What it had is lost, and the other
        workers replay (A14, F7). Reports the reason first, if the socket accepts it."""
        frames = Failure(Reason.RAISED, "", "", error).traceback()
        text = f"a part of the runtime has died: {described(error)} ({RUNTIME_FAILED})"
        # user code depends on it, and it is no part of ours
        if isinstance(error, WorkerError) and error.code is not None:
            text = f"{error} ({error.code})"
        reported = self._life is not None and error is self._life.worker.broken and isinstance(error, _BROKEN)
        if not reported:
            self.pulse.say(Log(logging.ERROR, cut(text), cut(frames.rstrip())))
        self.pulse.sent(END_S / 2)
        if self._life is not None:
            self._life.unlink()
        os._exit(OUTSIDE if isinstance(error, _BROKEN) else DIED)


def planned_from(begin: Begin) -> Plan:
    """Return the plan of the topology that the loader builds. Raises what its code raises, and DeclarationError."""
    sys.path[:] = begin.sys_path
    module, _, function = begin.loader.partition(":")
    load: Callable[..., Any] = getattr(importlib.import_module(module), function)
    topology = load(**begin.arguments)
    topology.validate()
    return plan(topology, begin.workers)


class _Heard(logging.Handler):
    """A log handler that sends entries to the supervisor, which shows them. Never blocks and never raises.

    A fork of this process, for example by `multiprocessing`, has no thread that would send them. There, entries go to
    stderr as text.
    """

    def __init__(self, pulse: Heartbeat) -> None:
        super().__init__()
        self._pulse = pulse
        self._process = os.getpid()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            entry = entry_of(record)
            if os.getpid() == self._process:
                self._pulse.say(packed_entry(entry))
            else:
                write_line(sys.stderr, as_text(entry))
        except Exception:
            self.handleError(record)
