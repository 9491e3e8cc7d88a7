"""Errors that a component of a topology on Spark raised: in which method, at which record, and how they are reported.

A component raises in one of Spark's Python processes or in the driver, and the driver reports it: a sentence that names
the component, and the traceback from the user's first frame on. A note, which is a file, carries the error between
processes, because Spark's own text contains our frames, and not always the user's. Knows errors and files; must not
know Spark or bolts.
"""

import asyncio
import json
import secrets
from pathlib import Path
from typing import Final

from bridge.engine.rows import DueNow
from bridge.files.query import place
from topology.errors import KedgeError, WorkerError
from topology.runtime.failures import Failure, Reason, could_not_emit
from topology.user_frames import described, shown, text_of, users_frames

RECORD_MAX: Final = 500  # characters of the record that are shown
WAY_ON: Final = (  # there are no replays: Spark completes a batch, or computes it again as a whole
    "on Spark a batch cannot skip a record: fix the component, or raise Reject in it, which makes a dead letter; "
    "the next run resumes at this batch"
)
NOTES: Final = "raised-"  # prefix of a note's file name, before the driver's life
OLD: Final = "raised"  # file name of the only note, in earlier releases
USERS: Final = (Exception, SystemExit, asyncio.CancelledError)  # end a call of a user's code, but no process (F6)


class ComponentRaised(Exception):
    """Raised if `component` raised `cause` in its method `call`. `at`: the record at which it did; empty if it had
    none."""

    def __init__(self, component: str, call: str, cause: BaseException, at: str = "") -> None:
        super().__init__(f"{component!r} has raised {described(cause)} in {call}")
        self.__cause__ = cause
        self.component, self.call, self.error, self.at = component, call, cause, at


def at_input(component: str, call: str, cause: BaseException, record: object) -> ComponentRaised:
    """Return the error for something raised at a record, or at a timer that is due."""
    at = f"its timer {record.name!r}" if isinstance(record, DueNow) else shown(record, RECORD_MAX)
    return ComponentRaised(component, call, cause, at)


def error_lines(error: BaseException) -> tuple[str, list[str]]:
    """Return a sentence about an error that a user has to fix, and the user's traceback. Both are empty for an error
    that may pass, or that is ours."""
    if isinstance(error, WorkerError):
        return "", []  # for example a broken store: the next life of the process reopens it
    if isinstance(error, KedgeError):
        return _sentence(error), error.users_trace().splitlines()
    if not isinstance(error, ComponentRaised):
        return "", []
    cause, who = error.error, repr(error.component)
    failure = Failure(Reason.RAISED, error.component, error=cause)
    if error.call == "open":
        return f"{who} could not be opened: {described(cause)}", failure.traceback().splitlines()
    if not error.at:
        return f"raised in {who}: {error.call}: {described(cause)} ({failure.code})", failure.traceback().splitlines()
    if isinstance(cause, KedgeError) and could_not_emit(cause):
        text = f"could not emit in {who}: {text_of(cause)}; {cause.next.rstrip('.')}"
        return f"{text} ({failure.code}); at {error.at}; {WAY_ON}", users_frames(cause).splitlines()
    text = f"raised in {who}: {described(cause)} ({failure.code})"
    return f"{text}; at {error.at}; {WAY_ON}", failure.traceback().splitlines()


def _sentence(error: KedgeError) -> str:
    """Return what the error says, and what to do next."""
    return f"{error}; {error.next.rstrip('.')} ({error.code})" if error.code is not None else str(error)


class RaisedNotes:
    """A note of the last error in Spark's processes in one life of the driver, for the driver. The note is a file, and
    the last write counts.

    Each life has its own file, because a process on another machine may outlive its driver and still write there.
    """

    def __init__(self, folder: Path, life: str) -> None:
        """Does no I/O."""
        self._folder, self._file = folder, folder / f"{NOTES}{life}"

    def write(self, error: BaseException) -> None:
        """Note an error, from any process of Spark, several at once. An error that no user has to fix is not noted. A
        broken store is noted too, and ends the run: only one in the driver recovers in the driver's next life."""
        said, lines = (_sentence(error), list[str]()) if isinstance(error, WorkerError) else error_lines(error)
        if not said:
            return
        content = {"said": said, "lines": lines}
        place(self._file, json.dumps(content).encode(), durable=False, writer=f"-{secrets.token_hex(8)}")

    def read(self) -> tuple[str, list[str]]:
        """Return a sentence and a traceback, both empty if there is no note of this life."""
        try:
            found = json.loads(self._file.read_bytes())
        except (FileNotFoundError, ValueError):
            return "", []
        return found["said"], found["lines"]

    def forget(self) -> None:
        """Remove the note. Called when a batch is complete: Spark then has repeated with success what raised."""
        self._file.unlink(missing_ok=True)

    def sweep(self) -> None:
        """Remove the notes of earlier lives. Called when this life begins."""
        for path in (self._folder / OLD, *self._folder.glob(f"{NOTES}*")):
            path.unlink(missing_ok=True)
