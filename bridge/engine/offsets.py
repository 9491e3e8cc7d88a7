"""Spark's progress in the query of a topology, from Spark's own log of offsets. All runs on a state directory share one
checkpoint, because the bolts' state is in it. Knows files and Spark's words; must not know a session."""

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from bridge.engine.counts_and_timers import CountsAndTimers
from bridge.files.consistency import ADVICE, disagreement, missing_epoch
from bridge.files.query import Ends, Epoch, QueryFolder, lowest
from bridge.spark.errors import SAID_MAX, no_room
from topology.user_frames import text_of

STATE: Final = "[CANNOT_LOAD_STATE_STORE"  # in each message of Spark about state that it could not load
# The parts of such a message that mean a damaged or missing file, so that starting Spark again would not help.
DAMAGED: Final = re.compile(
    r"(?:Checksum|FileNotFound|NoSuchFile|EOF)Exception: .+|RocksDBException: Corruption.*"
    r"|(?<=loading state\. )(?:Error reading .+? does not exist|(?:Error reading|Cannot read|Cannot find|Copied) .+)"
)
# Java raises FileNotFoundException for any failure to open a file, such as too many open files, with the reason behind.
PASSING: Final = re.compile(
    r"FileNotFoundException: .*\((?!No such file or directory\))[^()\n]*\)\s*$|EOFException: Premature EOF",
    re.MULTILINE,
)
GONE: Final = re.compile(r"(?:file:)?(/.+?) (?:does not exist|\(No such file)")  # finds the path in such a message


def checkpoint(folder: QueryFolder) -> Path:
    """Return the folder of Spark's checkpoint."""
    return folder.checkpoint(Epoch())


def offsets(folder: QueryFolder, batch: int) -> dict[str, dict[str, Any]]:
    """Return where a batch ends, by input."""
    lines = (checkpoint(folder) / "offsets" / str(batch)).read_text().splitlines()[2:]
    found = [json.loads(line) for line in lines if line.startswith("{")]
    return {offset["input"]: offset for offset in found}


def reached(read: dict[str, dict[str, Any]]) -> Ends:
    """Return input → task → the number of the segment where a batch ends."""
    return {name: lowest([offset["next"]]) for name, offset in read.items()}


def missing(folder: QueryFolder, inputs: Sequence[str], book: CountsAndTimers, *, timed: bool) -> str:
    """Return a sentence about files that were deleted. Without it the query would wait forever for them, or their
    records would silently be missing from the output. Empty if all files exist, or if nothing has begun. `timed`: some
    bolt has timers. If none has, a missing `book` holds only counts, which then start from zero."""
    problem = missing_epoch(folder) or disagreement(folder, Epoch(), inputs)
    if not problem and timed and book.is_new and any(checkpoint(folder).glob("commits/[0-9]*")):
        problem = f"{book.path} is missing, but it held the timers of the checkpoint's keys: {ADVICE}"
    return problem


def unreadable(error: BaseException) -> str:
    """Return a sentence about bolts' state in the checkpoint that Spark cannot read. Empty if the error is another.
    Blocks. A file that an executor does not find, but that exists here, may only be late in a shared folder."""
    text = text_of(error)  # this asks a JVM that may be gone
    found = DAMAGED.search(text, text.find(STATE)) if STATE in text else None
    if found is None or PASSING.search(text, text.find(STATE)) or no_room(error):
        return ""
    gone = GONE.search(found[0])
    if gone is not None and os.path.exists(gone[1]):
        return ""
    return f"the state of bolts in Spark's checkpoint can't be read: {found[0].strip()[:SAID_MAX]}; {ADVICE}"


def newest(folder: QueryFolder) -> Ends:
    """Return where the last batch that was begun ends, as `reached` does. Empty if there was no batch."""
    numbers = [int(path.name) for path in checkpoint(folder).glob("offsets/*") if path.name.isdecimal()]
    return reached(offsets(folder, max(numbers))) if numbers else {}
