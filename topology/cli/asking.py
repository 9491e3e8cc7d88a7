"""Whom a command asks about dead letters: the run that has the state directory, or, where none has, its files.

Blocks. Must not know how letters are shown.
"""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from topology.cli import terminal
from topology.cli.homes import called
from topology.cli.reaching import no_run, reached
from topology.codes.loading import K171, K172
from topology.errors import WorkerError
from topology.runtime.commanding import Ended, Going, Trouble
from topology.runtime.control import DeadAnswer, DeadAsk
from topology.text import printable

if TYPE_CHECKING:
    from topology.durable.statedir import StateDir

SILENT: Final = 5  # seconds without an answer, after which that is said,
SILENT_MAX: Final = 120  # and after which nobody waits on
PLAIN: Final = re.compile(r"[A-Za-z0-9_-]{1,200}")  # what letters are called


class Asked:
    """The letters of one state directory. Call it with an act and names; `with` lets go of the directory.

    `running`: whether a run has it; its end in between is a WorkerError.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._line = reached(directory)
        self.running = self._line is not None
        self._state: StateDir | None = None
        self._number = 0

    def __enter__(self) -> "Asked":
        return self

    def __exit__(self, *_: object) -> None:
        if self._line is not None:
            self._line.__exit__()
        if self._state is not None:
            self._state.close()

    def __call__(self, act: str, names: tuple[str, ...] = (), after: str = "", limit: int = 1_000) -> DeadAnswer:
        """The answer. Raises WorkerError where there is none, StartError where the files can't be used."""
        self._number += 1
        ask = DeadAsk(self._number, act, names, after, limit)
        return self._of_run(ask) if self.running else self._of_files(ask)

    def _of_run(self, ask: DeadAsk) -> DeadAnswer:
        line = self._line or reached(self._directory)  # one connection for each question
        self._line = None
        if line is None:
            raise WorkerError("the run has ended meanwhile", code=K171)
        with line:
            line.ask(ask)
            answer = line.heard(self._silent, SILENT_MAX)
        if isinstance(answer, Trouble):
            raise WorkerError(printable(answer.text), code=K172)
        if isinstance(answer, Ended | Going):
            raise no_run("it has answered what nobody had asked")
        _check(ask, answer)
        return answer

    def _silent(self, seconds: int) -> None:
        if seconds == SILENT:
            name = printable(called(self._directory))
            terminal.say(f"{name}: the run does not answer yet; its event loop may be blocked")

    def _of_files(self, ask: DeadAsk) -> DeadAnswer:
        from topology.durable.asking import answer
        from topology.durable.statedir import StateDir

        if self._state is None:
            self._state = StateDir(self._directory, None)
            self._state.check_files()
        return answer(self._state, ask)


def _check(ask: DeadAsk, answer: DeadAnswer) -> None:
    """Raises WorkerError for an answer to another question, and for one that no run gives."""
    from topology.durable.packing import letter_of

    if answer.number != ask.number or len(answer.letters) > ask.limit:
        raise no_run("it has answered another question")
    if ask.names and not {*ask.names}.issuperset(answer.names):
        raise no_run("it has named letters that it was not asked for")
    try:
        names = [letter_of(letter).name for letter in answer.letters]
    except (ValueError, RecursionError) as error:
        raise no_run("it has sent what is no dead letter") from error
    if not all(map(PLAIN.fullmatch, (*names, *answer.names))):
        raise no_run("it has named a letter as no letter is called")
    if ask.act == "list" and names and not ask.after < names[0]:
        raise no_run("it lists the same letters again")
