"""Notes and incarnations that a supervisor keeps for a worker process.

The loop asks for them and waits here; the thread that reads the control socket answers. Must not know either.
"""

import itertools
import threading
from collections import deque
from collections.abc import Callable

from topology.codes.startup import SOURCE_NOTE_NOT_KEPT, SUPERVISOR_NOT_ANSWERING
from topology.errors import NotesAway, StartError
from topology.runtime.control.messages import Begin, Incarnations, KeepNote, NeedIncarnation, Noted, Word


class SupervisorNotes:
    """A `topology.components.Notes`. `renew` fits a `RootSource`. Any thread may call."""

    def __init__(self, begin: Begin, say: Callable[[Word], None]) -> None:
        self._say = say
        self._spare = deque(begin.incarnations[1:])
        self._notes = dict(begin.notes)
        self._numbers = itertools.count(1)
        # Number → the event of the answer, and the answer if it is a problem.
        self._asked: dict[int, tuple[threading.Event, list[Noted]]] = {}

    def renew(self) -> int:
        """Return the next incarnation, which is already durably counted. Does not block. Raises StartError if none is
        left."""
        try:
            incarnation = self._spare.popleft()
        except IndexError:
            raise StartError("the supervisor has not sent a new incarnation", code=SUPERVISOR_NOT_ANSWERING) from None
        self._say(NeedIncarnation())
        return incarnation

    def get(self, name: str) -> str | None:
        return self._notes.get(name)

    def set(self, name: str, text: str) -> None:
        """Store a note. Blocks until the supervisor has made it durable.

        Raises NotesAway if the supervisor can't store it now, and StartError if it never can. Waits for a supervisor
        that is stopped, or whose terminal accepts nothing. The wait ends with the supervisor's process, because the end
        of the control socket's file ends this process too (F68).
        """
        number = next(self._numbers)
        event, problems = threading.Event(), list[Noted]()
        self._asked[number] = event, problems
        try:
            self._say(KeepNote(number, name, text))
            event.wait()
        finally:
            del self._asked[number]
        if problems:
            raise (NotesAway if problems[0].away else StartError)(problems[0].problem, code=SOURCE_NOTE_NOT_KEPT)
        self._notes[name] = text

    def answered(self, order: Noted | Incarnations) -> None:
        """Take an answer. The reader's thread calls this; never blocks."""
        if isinstance(order, Incarnations):
            self._spare.extend(order.spare)
            return
        asked = self._asked.get(order.number)
        if asked is not None:
            event, problems = asked
            if order.problem:
                problems.append(order)
            event.set()
