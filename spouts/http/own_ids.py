"""Ids for messages without a name, which no other task, run or process has; and ids of fields as texts.

Knows a task's notes, clock and chance; must not know where messages come from.
"""

import itertools
from base64 import b64encode
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final

from typing_extensions import TypeVar

from spouts.lines import Line
from spouts.payload.decoder import Decoded, PayloadDecoder
from spouts.payload.formats import Payload
from topology.clients.errors import not_yet
from topology.components import Task
from topology.errors import NotesAway
from topology.records import Record

R = TypeVar("R", bound=Record, default=Line)

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND: Final = timedelta(microseconds=1)


class OwnIds:
    """Names such as "/18f2a9c41b3-5f0e11aa.0.17": the time of the start, a random number, the task, and a count.

    The time of the start is kept in the task's notes, so that a later start has a later one even if the clock was set
    back. The constructor blocks for a note's fsync. Raises NotYet if the note cannot be written now. `needed_by` is the
    source's class.
    """

    def __init__(self, task: Task, needed_by: str) -> None:
        name = f"start of {task.known_as or task.component} {task.index}"
        start = (task.clock.utc() - EPOCH) // MICROSECOND
        if (before := task.notes.get(name)) is not None:
            start = max(start, int(before) + 1)
        try:
            task.notes.set(name, str(start))
        except NotesAway as error:
            raise not_yet(f"{needed_by}: a note can't be stored: {error}") from error
        # A run with a fixed seed has the same random numbers each time, and a run without notes may have the same time
        self._begin = f"/{start:x}-{task.random.getrandbits(32):08x}.{task.index}."
        self._numbers = itertools.count(1)

    def next(self) -> str:
        """Return a name that was never returned before."""
        return f"{self._begin}{next(self._numbers)}"


class TextIdDecoder(PayloadDecoder[R]):
    """A `PayloadDecoder` whose ids are texts: ints would have to grow within a partition, and outsiders' may not. Bytes
    are base64, as they are in JSON."""

    def decode(self, payload: Payload) -> Decoded[R]:
        """Decode one payload, as `PayloadDecoder` does."""
        decoded = super().decode(payload)
        if type(decoded.id) is int:
            return replace(decoded, id=str(decoded.id))
        if type(decoded.id) is bytes:
            return replace(decoded, id=b64encode(decoded.id).decode())
        return decoded
