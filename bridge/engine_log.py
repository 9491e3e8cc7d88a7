"""How far Spark is in the query of a topology, by its own log of offsets. It has one checkpoint for all runs on a state
directory, as the state of bolts is in it. Knows files; no session.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bridge.agreeing import ADVICE, disagreement, unbegun
from bridge.batches import Ends, Epoch, QueryFolder, lowest
from bridge.engine_book import Book


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


def missing(folder: QueryFolder, inputs: Sequence[str], book: Book) -> str:
    """What somebody has deleted, in a sentence: it would else be waited for without an end, or be missing from what is
    put out with nothing said. Empty where all is there, or nothing has begun."""
    problem = unbegun(folder) or disagreement(folder, Epoch(), inputs)
    if not problem and book.is_new and any(checkpoint(folder).glob("commits/[0-9]*")):
        problem = f"{book.path} is missing, and the timers of the checkpoint's keys were in it: {ADVICE}"
    return problem


def newest(folder: QueryFolder) -> Ends:
    """The same of the last batch that was begun; nothing before there was one."""
    numbers = [int(path.name) for path in checkpoint(folder).glob("offsets/*") if path.name.isdecimal()]
    return reached(offsets(folder, max(numbers))) if numbers else {}
