"""Decide what a driver does about an error that it cannot continue after: whether a user has to fix something, and
what.

If a user has to fix something, the run ends with a sentence. Examples are a query's own code, a damaged segment, a
query that does not belong to its checkpoint, and settings that Spark does not start with. If the disk has no room, the
driver waits. Every other error may pass, and is left to the driver's next life: for example a JVM that is gone, or a
Python process that was killed. If such an error repeats without progress in between, the run ends too.

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

SAID_MAX: Final = 1_500  # characters of an error's text that are printed
# Beginnings of the SQLSTATE of errors in a query itself: starting it again would not help.
USERS_STATES: Final = ("0A", "22", "38", "39", "42")
RAISED: Final = "38"  # of these, errors raised by a function: with a traceback, unless the function's process died
TRACEBACK: Final = "Traceback (most recent call last):"
FRAME: Final = re.compile(r'  File "(.*)", line ([0-9]+), in (.*)')
STATE: Final = re.compile(r"SQLSTATE: ([0-9A-Z]{5})")
DAMAGED: Final = re.compile(r"topology\.errors\.ConfigurationError: (.+)\n\s+next: (.+?)\s+\((K[0-9]+)")
ANOTHER: Final = re.compile(
    r"\[(STATE_STORE_\w*SCHEMA\w*|STREAMING_STATEFUL_OPERATOR_\w+)\]|sources in the checkpoint offsets"
)
LOG_BYTES: Final = 16 * 2**10  # bytes at the end of the log that are searched
JAVA_NOTES: Final = ("NOTE: Picked up ", "WARNING: ")
UNCAUGHT: Final = re.compile(r'^Exception in thread "main" (.+)$', re.MULTILINE)  # ends Spark's launcher
CAUSE: Final = re.compile(  # one error in a chain of Java errors, with all lines of its text
    r"^(?:Caused by)?: (.+?)(?=\n\tat |\n\t\.\.\. |\n(?:Caused by)?: |\Z)", re.MULTILINE | re.DOTALL
)
DEATHS_MAX: Final = 3  # deaths of a query or of Spark's start, in a row and without progress, that end the run
LONG_S: Final = 600.0  # seconds: a life that lasted this long does not count
NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)
NO_ROOM_SAID: Final = re.compile("|".join(re.escape(os.strerror(number)) for number in NO_ROOM))
ROOM_BYTES: Final = 4 * 2**20  # bytes that must be free before Spark is started again
ROOM_LOOK_S: Final = 1.0  # seconds between two checks for room


def users_mistake(error: BaseException, query: str, called: str = "") -> tuple[str, list[str]]:
    """Return a sentence about an error in a query's code or in the query itself, and its traceback from the user's
    first frame on. Return an empty sentence for an error that may pass, such as a JVM that is gone. `called`: the name
    to print, if it is not the query's."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    called = called or f"query {query!r}"
    place, lines = users_place(error), users_frames(error).splitlines()
    said = f"{type(error).__name__}: {text_of(error)[:SAID_MAX].strip()}"
    if isinstance(error, PySparkException):
        text = text_of(error)
        if found := ANOTHER.search(text):
            said = first_line(text[max(text.rfind("\n", 0, found.start()), 0) :])
            advice = f"restore it as it was; or give it another name; or {FRESH}"
            return f"{called} does not match its checkpoint; {advice}; Spark says: {said}", []
        if found := DAMAGED.search(text):
            return f"{called} cannot read its input: {found[1]}; {found[2]} ({found[3]})", []
        state = _state(error) or "".join(STATE.findall(text)[:1])
        if not state.startswith(USERS_STATES) or (state.startswith(RAISED) and TRACEBACK not in text):
            return "", []
        if TRACEBACK in text:  # raised by a function of the query, in one of Spark's Python processes
            lines = text[text.index(TRACEBACK) :].splitlines()
            said = [line for line in lines if line and not line[0].isspace()][-1][:SAID_MAX]
            frames = FRAME.findall(text)
            place = "{}:{}, in {}".format(*frames[-1]) if frames else ""
    elif not place or isinstance(error, Py4JError | ConnectionError):
        return "", []
    return f"{called} has raised {said}{f' ({place})' if place else ''}", lines


def not_started(error: BaseException) -> str:
    """Return why Spark did not start, in a few words. Empty if Java exited by itself, which may pass."""
    from py4j.protocol import Py4JNetworkError

    text = text_of(error)
    if "JAVA_GATEWAY_EXITED" in text or isinstance(error, Py4JNetworkError | ConnectionError):
        return ""
    return java_cause(text) or f"{type(error).__name__}: {first_line(text)}"


def java_cause(text: str) -> str:
    """Return the innermost cause of a Java error that says anything, or otherwise the innermost cause, in one line.
    Empty if there is none. The causes around it only name Java's own calls, not the reason."""
    causes = [said for cause in CAUSE.finditer(text) if first_line(said := cause[1].strip(": \n"))]
    telling = [words for words in causes if ": " in words] or causes
    if not telling:
        return ""
    lines = [line for line in telling[-1].splitlines() if line and not line[0].isspace()] or [first_line(telling[-1])]
    return lines[-1 if TRACEBACK in telling[-1] else 0][:SAID_MAX]  # a Python error stands in the last line


def of_the_query(error: BaseException) -> bool:
    """Return True if Spark reported the error, so the query failed. Otherwise the JVM does not answer."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    return isinstance(error, PySparkException | Py4JJavaError)


def java_said(log: Path) -> str:
    """Return what a Java that exited by itself printed, in one line, from the log of stderr. Empty if it printed
    nothing."""
    try:
        with open(log, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - LOG_BYTES))
            text = file.read(LOG_BYTES).decode(errors="replace")
    except OSError:
        return ""
    before, _, _ = last_life(text).partition(TRACEBACK)
    if uncaught := UNCAUGHT.search(before):
        return uncaught[1].strip()[:SAID_MAX]
    return " ".join(line for line in before.splitlines() if line and not line.startswith(JAVA_NOTES))[:SAID_MAX]


def first_line(text: str) -> str:
    """Return the first line that is not empty."""
    return next((line.strip() for line in text.splitlines() if line.strip()), "")[:SAID_MAX]


def _state(error: object) -> str:
    try:
        state: str | None = error.getSqlState()  # type: ignore[attr-defined]  # of a PySparkException
    except Exception:  # this asks a JVM that may be gone
        return ""
    return state or ""


# -- no room


def no_room(error: BaseException) -> str:
    """Return the text of an error about a full or read-only disk, from us or from Spark. Empty for any other error."""
    if isinstance(error, OSError) and error.errno in NO_ROOM:
        return f"{error.filename or ''}: {error.strerror}".lstrip(": ")
    found = NO_ROOM_SAID.search(text_of(error))  # this asks a JVM that may be gone
    return found[0] if found else ""


def until_room(folder: Path, on_full: Callable[[], None], pause: Callable[[float], None] = time.sleep) -> bool:
    """Block until the folder's disk takes some megabytes or fails in another way. Return True if that needed waiting;
    `on_full` is called once before."""
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
                on_full()
            waited = True
            with contextlib.suppress(OSError):  # the folder may be read-only
                probe.unlink(missing_ok=True)
            pause(ROOM_LOOK_S)


# -- repeated deaths


class DriverDeaths:
    """The number of deaths in a row, over the driver's lives, without progress in between. Stored in a file `.deaths`
    in the folder of a query, or in the folder of all queries for Spark's start."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file = folder / ".deaths"

    def one_more(self, lasted_s: float) -> bool:
        """Count a death. Return True if it was one too many. `lasted_s`: how long the life had lasted, in seconds."""
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
            return False  # for example no room, which other code reports
        return bool(before + 1 >= DEATHS_MAX)

    def forget(self) -> None:
        """Reset the count, because the query or Spark lives."""
        with contextlib.suppress(OSError):
            self._file.unlink(missing_ok=True)

    def _progress(self) -> list[int]:
        """Return the newest batch that Spark has committed, and the newest one that has a result."""
        commits = [path.name for path in self._folder.glob("checkpoint/*/commits/*")]
        results = [path.stem.removeprefix("batch-") for path in self._folder.glob("results/batch-*")]
        return [max((int(name) for name in names if name.isdecimal()), default=-1) for names in (commits, results)]
