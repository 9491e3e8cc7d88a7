"""The life of a source whose messages come once: a name that no other life has, for the epoch of its ids.

Such a source counts its messages from 1. In another epoch the same numbers are other messages. Must not know the
source.
"""

import json

from xxhash import xxh3_64_hexdigest

from topology.clients.errors import not_yet
from topology.components import Task
from topology.errors import NotesAway


def new_life(task: Task, source: str) -> str:
    """Return the name of this life of a task. Blocks for a note's fsync. Raises NotYet if the note cannot be stored.

    The task's notes count the lives. A run without a state directory has no notes of earlier runs, so the time and the
    task's random numbers are a part of the name. Each of the three may be the same in two lives.
    """
    note = f"lives of {task.known_as or task.component}, task {task.index}"
    before = task.notes.get(note) or ""
    number = int(before) + 1 if before.isdecimal() else 1
    try:
        task.notes.set(note, str(number))
    except NotesAway as error:
        raise not_yet(f"{source}: a note can't be stored now: {error}") from error
    seed = [number, task.random.getrandbits(64), task.clock.utc().isoformat()]
    return f"{number}-{xxh3_64_hexdigest(json.dumps(seed).encode())}"
