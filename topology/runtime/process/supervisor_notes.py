"""What a supervisor keeps for a worker process: notes, and the incarnations that it may take next.

Asked for by the loop, which waits here, and answered by the thread that reads the control socket. Must not know either.
"""

import itertools
import threading
from collections import deque
from collections.abc import Callable

from topology.codes.startup import SOURCE_NOTE_NOT_KEPT, SUPERVISOR_NOT_ANSWERING
from topology.errors import NotesAway, StartError
from topology.runtime.control.messages import Begin, Incarnations, NeedIncarnation, Note, Noted, Word


class SupervisorNotes:
    """Satisfies `topology.components.Notes`; `renew` is what a `RootSource` wants. Any thread may call."""

    def __init__(self, begin: Begin, say: Callable[[Word], None]) -> None:
        self._say = say
        self._spare = deque(begin.incarnations[1:])
        self._notes = dict(begin.notes)
        self._numbers = itertools.count(1)
        self._asked: dict[
            int, tuple[threading.Event, list[Noted]]
        ] = {}  # number → until it is answered, and the answer

    def renew(self) -> int:
        """The next incarnation, which is durably counted already. Blocks for nothing. Raises StartError where none is
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
        """Blocks until the supervisor has made it durable. Raises NotesAway where it can't now, and
        StartError where it never can. One that is stopped, or
        whose terminal takes nothing, is waited for: what bounds that is that its process is there, as the end of the
        control socket's file ends this one (F68)."""
        number = next(self._numbers)
        event, problems = threading.Event(), list[Noted]()
        self._asked[number] = event, problems
        try:
            self._say(Note(number, name, text))
            event.wait()
        finally:
            del self._asked[number]
        if problems:
            raise (NotesAway if problems[0].away else StartError)(problems[0].problem, code=SOURCE_NOTE_NOT_KEPT)
        self._notes[name] = text

    def answered(self, order: Noted | Incarnations) -> None:
        """Takes an answer. Called by the reader's thread; never blocks."""
        if isinstance(order, Incarnations):
            self._spare.extend(order.spare)
            return
        asked = self._asked.get(order.number)
        if asked is not None:
            event, problems = asked
            if order.problem:
                problems.append(order)
            event.set()
