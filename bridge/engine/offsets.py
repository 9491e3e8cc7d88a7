"""How far Spark is in the query of a topology, by its own log of offsets. It has one checkpoint for all runs on a state
directory, as the state of bolts is in it. Knows files, and Spark's words; no session.
"""

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from bridge.engine.counts_and_timers import CountsAndTimers
from bridge.files.consistency import ADVICE, disagreement, unbegun
from bridge.files.query import Ends, Epoch, QueryFolder, lowest
from bridge.spark.errors import SAID_MAX, no_room
from topology.user_frames import text_of

STATE: Final = "[CANNOT_LOAD_STATE_STORE"  # in what Spark says, of whatever kept it from that
# Of that, what starting Spark again would find once more: a file that is damaged, or gone.
DAMAGED: Final = re.compile(
    r"(?:Checksum|FileNotFound|NoSuchFile|EOF)Exception: .+|RocksDBException: Corruption.*"
    r"|(?<=loading state\. )(?:Error reading .+? does not exist|(?:Error reading|Cannot read|Cannot find|Copied) .+)"
)
# Java says FileNotFoundException of whatever keeps it from opening a file, with the reason behind: too many are open.
PASSING: Final = re.compile(
    r"FileNotFoundException: .*\((?!No such file or directory\))[^()\n]*\)\s*$|EOFException: Premature EOF",
    re.MULTILINE,
)
GONE: Final = re.compile(r"(?:file:)?(/.+?) (?:does not exist|\(No such file)")  # of what was found, the path


def checkpoint(folder: QueryFolder) -> Path:
    """Where it is."""
    return folder.checkpoint(Epoch())


def offsets(folder: QueryFolder, batch: int) -> dict[str, dict[str, Any]]:
    """Where a batch ends, by input."""
    lines = (checkpoint(folder) / "offsets" / str(batch)).read_text().splitlines()[2:]
    found = [json.loads(line) for line in lines if line.startswith("{")]
    return {one["input"]: one for one in found}


def reached(read: dict[str, dict[str, Any]]) -> Ends:
    """Input → task → the number of the segment where a batch ends."""
    return {name: lowest([one["next"]]) for name, one in read.items()}


def missing(folder: QueryFolder, inputs: Sequence[str], book: CountsAndTimers, *, timed: bool) -> str:
    """What somebody has deleted, in a sentence: it would else be waited for without an end, or be missing from what is
    put out with nothing said. Empty where all is there, or nothing has begun. `timed`: whether any bolt has timers;
    where none has, counts are all that is gone with the book, and those begin anew."""
    problem = unbegun(folder) or disagreement(folder, Epoch(), inputs)
    if not problem and timed and book.is_new and any(checkpoint(folder).glob("commits/[0-9]*")):
        problem = f"{book.path} is missing, and the timers of the checkpoint's keys were in it: {ADVICE}"
    return problem


def unreadable(error: BaseException) -> str:
    """What Spark can't read of the state of bolts, which is in its checkpoint, in a sentence; empty where that is not
    what is wrong. Blocks: a file that is gone for an executor, and is here, may only be late in a folder they share."""
    text = text_of(error)  # a JVM is asked for it, which may be gone
    found = DAMAGED.search(text, text.find(STATE)) if STATE in text else None
    if found is None or PASSING.search(text, text.find(STATE)) or no_room(error):
        return ""
    gone = GONE.search(found[0])
    if gone is not None and os.path.exists(gone[1]):
        return ""
    return f"the state of bolts in Spark's checkpoint can't be read: {found[0].strip()[:SAID_MAX]}; {ADVICE}"


def newest(folder: QueryFolder) -> Ends:
    """The same of the last batch that was begun; nothing before there was one."""
    numbers = [int(path.name) for path in checkpoint(folder).glob("offsets/*") if path.name.isdecimal()]
    return reached(offsets(folder, max(numbers))) if numbers else {}
