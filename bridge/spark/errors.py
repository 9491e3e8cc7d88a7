"""What a driver does about an error that it can't go on after: whether a person has to mend something, and what.

What a person has to mend ends the run with a sentence: a query's own code, a segment that is damaged, a query that is
not the one its checkpoint is of, settings that Spark does not start with. Where there is no room it is waited for. All
else may pass, and is for the driver's next life: a JVM that is gone, a Python process that was killed. But where that
comes again and again, and nothing has come of it in between, a person has to look.

Knows errors, files and Spark's words; must not know what a query does.
"""

import contextlib
import errno
import json
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from bridge.files.process_log import last_life
from topology.codes.code import FRESH
from topology.filesystem.safe_files import write_anew
from topology.filesystem.sync import sync_file
from topology.user_frames import text_of, users_frames, users_place

SAID_MAX: Final = 1_500  # characters of what an error says
# What Spark raises of a query that is wrong, by the beginning of its SQLSTATE: starting it again would change nothing.
USERS_STATES: Final = ("0A", "22", "38", "39", "42")
RAISED: Final = "38"  # of these, what a function has raised: its traceback is there, unless its process has died
TRACEBACK: Final = "Traceback (most recent call last):"
FRAME: Final = re.compile(r'  File "(.*)", line ([0-9]+), in (.*)')
STATE: Final = re.compile(r"SQLSTATE: ([0-9A-Z]{5})")
DAMAGED: Final = re.compile(r"topology\.errors\.ConfigurationError: (.+)\n\s+next: (.+?)\s+\((K[0-9]+)")
ANOTHER: Final = re.compile(
    r"\[(STATE_STORE_\w*SCHEMA\w*|STREAMING_STATEFUL_OPERATOR_\w+)\]|sources in the checkpoint offsets"
)
LOG_BYTES: Final = 16 * 2**10  # of what was written to stderr last, that is looked at
JAVA_NOTES: Final = ("NOTE: Picked up ", "WARNING: ")
CAUSE: Final = re.compile(  # of an error of Java's, and what is around it, with all lines of what it says
    r"^(?:Caused by)?: (.+?)(?=\n\tat |\n\t\.\.\. |\n(?:Caused by)?: |\Z)", re.MULTILINE | re.DOTALL
)
DEATHS_MAX: Final = 3  # of the same query, or of Spark's start, one after the other, without any progress
LONG_S: Final = 600.0  # a life of that length is none of those
NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)
NO_ROOM_SAID: Final = re.compile("|".join(re.escape(os.strerror(one)) for one in NO_ROOM))
ROOM_BYTES: Final = 4 * 2**20  # that have to be free before Spark is started again
ROOM_LOOK_S: Final = 1.0


def users_mistake(error: BaseException, query: str, called: str = "") -> tuple[str, list[str]]:
    """What to tell of what a query's code has raised, or Spark of the query, as a sentence, and its traceback from the
    user's first frame on. An empty sentence for what may pass: a JVM that is gone, say. `called`: what people know the
    query by, where that is no name of a query."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    called = called or f"query {query!r}"
    place, lines = users_place(error), users_frames(error).splitlines()
    said = f"{type(error).__name__}: {text_of(error)[:SAID_MAX].strip()}"
    if isinstance(error, PySparkException):
        text = text_of(error)
        if found := ANOTHER.search(text):
            said = first_line(text[max(text.rfind("\n", 0, found.start()), 0) :])
            advice = f"run it as it was; or give it another name; or {FRESH}"
            return f"{called} is not the one that its checkpoint is of; {advice}; Spark says: {said}", []
        if found := DAMAGED.search(text):
            return f"{called} can't read what was handed over to it: {found[1]}; {found[2]} ({found[3]})", []
        state = _state(error) or "".join(STATE.findall(text)[:1])
        if not state.startswith(USERS_STATES) or (state.startswith(RAISED) and TRACEBACK not in text):
            return "", []
        if TRACEBACK in text:  # of a function in the query, in one of Spark's Python processes
            lines = text[text.index(TRACEBACK) :].splitlines()
            said = [line for line in lines if line and not line[0].isspace()][-1][:SAID_MAX]
            frames = FRAME.findall(text)
            place = "{}:{}, in {}".format(*frames[-1]) if frames else ""
    elif not place or isinstance(error, Py4JError | ConnectionError):
        return "", []
    return f"{called} has raised {said}{f' ({place})' if place else ''}", lines


def not_started(error: BaseException) -> str:
    """Why Spark could not be started, in a few words; empty where Java has ended by itself, which may pass."""
    from py4j.protocol import Py4JNetworkError

    text = text_of(error)
    if "JAVA_GATEWAY_EXITED" in text or isinstance(error, Py4JNetworkError | ConnectionError):
        return ""
    return java_cause(text) or f"{type(error).__name__}: {first_line(text)}"


def java_cause(text: str) -> str:
    """Of an error of Java's, the innermost cause that says anything, or else the innermost, in a line; empty where
    there is none. What is around it says in which of its own calls Java was, and not why."""
    causes = [said for cause in CAUSE.finditer(text) if first_line(said := cause[1].strip(": \n"))]
    telling = [one for one in causes if ": " in one] or causes
    if not telling:
        return ""
    lines = [line for line in telling[-1].splitlines() if line and not line[0].isspace()] or [first_line(telling[-1])]
    return lines[-1 if TRACEBACK in telling[-1] else 0][:SAID_MAX]  # an error of Python's is told last


def of_the_query(error: BaseException) -> bool:
    """Whether Spark has told of it, as the query has failed: else it is the JVM that can't be spoken to."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    return isinstance(error, PySparkException | Py4JJavaError)


def java_said(log: Path) -> str:
    """What a Java that has ended by itself has said, in a line, out of what is kept of stderr; empty where nothing."""
    try:
        with open(log, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - LOG_BYTES))
            text = file.read(LOG_BYTES).decode(errors="replace")
    except OSError:
        return ""
    before, _, _ = last_life(text).partition(TRACEBACK)
    return " ".join(line for line in before.splitlines() if line and not line.startswith(JAVA_NOTES))[:SAID_MAX]


def first_line(text: str) -> str:
    """Of what is said, without what comes before it."""
    return next((line.strip() for line in text.splitlines() if line.strip()), "")[:SAID_MAX]


def _state(error: object) -> str:
    try:
        state: str | None = error.getSqlState()  # type: ignore[attr-defined]  # of a PySparkException
    except Exception:  # it asks a JVM that may be gone
        return ""
    return state or ""


# -- no room


def no_room(error: BaseException) -> str:
    """What is said of a disk that takes nothing, by us or by Spark; empty where that is not what is wrong."""
    if isinstance(error, OSError) and error.errno in NO_ROOM:
        return f"{error.filename or ''}: {error.strerror}".lstrip(": ")
    found = NO_ROOM_SAID.search(text_of(error))  # a JVM is asked for it, which may be gone
    return found[0] if found else ""


def until_room(folder: Path, told: Callable[[], None], pause: Callable[[float], None] = time.sleep) -> bool:
    """Returns once the folder's disk takes some megabytes, or something else is wrong with it. Blocks for as long.
    Whether it had to wait: then `told` was called first."""
    probe, waited = folder / ".room", False
    while True:
        try:
            with open(probe, "wb", buffering=0) as file:
                left = ROOM_BYTES
                while left > 0:
                    left -= file.write(bytes(min(left, 2**18))) or left
                sync_file(file.fileno())
            probe.unlink()
            return waited
        except OSError as error:
            if error.errno not in NO_ROOM:
                return waited
            if not waited:
                told()
            waited = True
            with contextlib.suppress(OSError):  # read-only, as is all else there
                probe.unlink(missing_ok=True)
            pause(ROOM_LOOK_S)


# -- the same again


class DriverDeaths:
    """How often something has died one time after the other, in lives of the driver, with nothing done in between. Kept
    in a file `.deaths` of the folder of a query, or of all of them for Spark's start."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file = folder / ".deaths"

    def one_more(self, lasted_s: float) -> bool:
        """Takes note of one; whether it was one too many. `lasted_s`: how long it had lived."""
        progress = self._progress()
        try:
            kept = json.loads(self._file.read_bytes())
            before = kept["count"] if kept["progress"] == progress and lasted_s < LONG_S else 0
        except (OSError, ValueError, KeyError, TypeError):
            before = 0
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            write_anew(self._file, [json.dumps({"count": before + 1, "progress": progress}).encode()])
        except OSError:
            return False  # it has no room, say: that is found out elsewhere
        return bool(before + 1 >= DEATHS_MAX)

    def forget(self) -> None:
        """It lives."""
        with contextlib.suppress(OSError):
            self._file.unlink(missing_ok=True)

    def _progress(self) -> list[int]:
        """The newest batch that Spark has committed, and that has a result."""
        commits = [path.name for path in self._folder.glob("checkpoint/*/commits/*")]
        results = [path.stem.removeprefix("batch-") for path in self._folder.glob("results/batch-*")]
        return [max((int(one) for one in names if one.isdecimal()), default=-1) for names in (commits, results)]
