"""What a component of a topology on Spark has raised: in which of its methods, at which record; and how that is told.

It is raised in one of Spark's Python processes, or in the driver, and told by the driver: as a sentence that names the
component, and the traceback from the user's first frame on. Between processes it goes by a note, a file, as Spark's own
words have our frames in them, and not always the user's. Knows errors and files; no Spark, no bolts.
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

RECORD_MAX: Final = 500  # characters of the record that it was raised at
WAY_ON: Final = (  # no replays: a batch of Spark's is whole, or computed again as a whole
    "on Spark no batch goes on without one of its records: mend the component, or raise Reject in it, of which a dead "
    "letter is made; the next run goes on at this batch"
)
NOTES: Final = "raised-"  # before the life that a note is of
OLD: Final = "raised"  # the one note of all lives, in earlier releases
USERS: Final = (Exception, SystemExit, asyncio.CancelledError)  # what ends a call of a user's code, and no process (F6)


class ComponentRaised(Exception):
    """`component` has raised `cause` in its method `call`; `at` says at which record, where it was given one."""

    def __init__(self, component: str, call: str, cause: BaseException, at: str = "") -> None:
        super().__init__(f"{component!r} has raised {described(cause)} in {call}")
        self.__cause__ = cause
        self.component, self.call, self.error, self.at = component, call, cause, at


def at_input(component: str, call: str, cause: BaseException, record: object) -> ComponentRaised:
    """What was raised for a record, or for a timer that is due."""
    at = f"its timer {record.name!r}" if isinstance(record, DueNow) else shown(record, RECORD_MAX)
    return ComponentRaised(component, call, cause, at)


def told_of(error: BaseException) -> tuple[str, list[str]]:
    """What to tell of an error that a user has to do something about, as a sentence, and the user's traceback; empty
    for one that may pass, or is ours."""
    if isinstance(error, WorkerError):
        return "", []  # a store that is broken, say: the next life of the process mends it
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
    """What it says, and what to do next."""
    return f"{error}; {error.next.rstrip('.')} ({error.code})" if error.code is not None else str(error)


class RaisedNotes:
    """What was raised in Spark's processes in one life of the driver, for the driver: a file, the last one counts.

    Each life has a file of its own: a process on another machine may outlive its driver, and write there still.
    """

    def __init__(self, folder: Path, life: str) -> None:
        """Makes nothing yet."""
        self._folder, self._file = folder, folder / f"{NOTES}{life}"

    def write(self, error: BaseException) -> None:
        """From any process of Spark's, several at once; of what nobody has to mend, nothing. A store that is broken is
        told too, and ends the run: only one in the driver is mended by the driver's next life."""
        said, lines = (_sentence(error), list[str]()) if isinstance(error, WorkerError) else told_of(error)
        if not said:
            return
        content = {"said": said, "lines": lines}
        place(self._file, json.dumps(content).encode(), durable=False, writer=f"-{secrets.token_hex(8)}")

    def read(self) -> tuple[str, list[str]]:
        """A sentence and a traceback; empty where there is none of this life."""
        try:
            found = json.loads(self._file.read_bytes())
        except (FileNotFoundError, ValueError):
            return "", []
        return found["said"], found["lines"]

    def forget(self) -> None:
        """A batch is whole: what was raised in it was done again by Spark, and went well."""
        self._file.unlink(missing_ok=True)

    def sweep(self) -> None:
        """This life begins: what those before it have left is over."""
        for path in (self._folder / OLD, *self._folder.glob(f"{NOTES}*")):
            path.unlink(missing_ok=True)
