"""Answer questions about the dead letters of one worker: list, show, drop or replay them.

Changes are durable before the answer. They are made in groups, so that thousands of letters are never in memory at
once. Must not know sockets, nor how a message is replayed.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Final

from topology.runtime.checkpoints.worker_checkpoints import WorkerCheckpoints
from topology.runtime.dead_letters.letter import altered
from topology.runtime.dead_letters.letter_store import LetterStore
from topology.runtime.dead_letters.replay import LetterReplay
from topology.storage.dead_questions import DeadAnswer, DeadAsk
from topology.storage.encoding.letter_pages import Showing, problem_of
from topology.storage.encoding.packing import packed_letter
from topology.storage.store import StoreBroken
from topology.storage.values import Letter

GROUP_MAX: Final = 50  # letters in memory at once, with their records
KEPT_S: Final = 10.0  # seconds that an answer waits for an unwritable store
NO_STATE: Final = "this run keeps no state, so it keeps no dead letters; run it with a state directory"


class Answering:
    """Answers questions. `letter_replay` gets the names of letters to replay, once the request is durable."""

    def __init__(self, letter_store: LetterStore, checkpoints: WorkerCheckpoints, letter_replay: LetterReplay) -> None:
        self._burying = letter_store
        self._checkpoints = checkpoints
        self._letter_replay = letter_replay

    async def answer(self, ask: DeadAsk) -> DeadAnswer:
        """Do what is asked. Names that are not here are skipped. An error while reading becomes the answer's
        problem."""
        if self._checkpoints.store is None:
            return DeadAnswer(ask.number, problem=NO_STATE)
        try:
            match ask.act:
                case "list":
                    found = await self._checkpoints.call(partial(self._checkpoints.store.listed, ask.after, ask.limit))
                    return DeadAnswer(ask.number, tuple(map(packed_letter, found)), total=self._burying.letters)
                case "show":
                    return await self._shown(ask)
                case "drop" | "replay":
                    return await self._changed(ask)
        except (StoreBroken, ValueError) as error:
            return DeadAnswer(ask.number, problem=str(error))
        return DeadAnswer(ask.number, problem=f"nothing can be done to dead letters by {ask.act!r:.40}")

    async def _shown(self, ask: DeadAsk) -> DeadAnswer:
        showing = Showing()
        async for group in self._groups(ask.names):
            for letter in group:
                showing.add(letter)
        problem = problem_of(showing.problems)
        return DeadAnswer(ask.number, tuple(showing.letters), total=self._burying.letters, problem=problem)

    async def _changed(self, ask: DeadAsk) -> DeadAnswer:
        """Drop or replay letters, one group after the other."""
        names: list[str] = []
        problems: list[str] = []
        problem = ""
        act = self._drop if ask.act == "drop" else self._replay
        async for group in self._groups(ask.names):
            refused = {letter.name: why for letter in group if (why := act(letter))}
            problems += (f"{name}: {why}" for name, why in refused.items())
            done = [letter for letter in group if letter.name not in refused]
            if not done:
                continue
            durable = self._burying.durable()
            if ask.act == "replay":
                durable.add_done_callback(partial(self._begin, [letter.name for letter in done]))
            await asyncio.wait({durable}, timeout=KEPT_S)
            if not durable.done():
                why = self._checkpoints.why_full or f"nothing was kept within {KEPT_S:g} s"
                problem = f"this is done as soon as the state can be written again: {why}"
                break
            names += [letter.name for letter in done]
        return DeadAnswer(ask.number, (), tuple(names), self._burying.letters, problem_of([*problems, problem]))

    def _begin(self, names: Sequence[str], durable: asyncio.Future[None]) -> None:
        """Begin the replay of these letters once the request is durable, even if the caller no longer waits for the
        answer."""
        if not durable.cancelled():
            for name in names:
                self._letter_replay.add(name)

    def _drop(self, letter: Letter) -> str:
        """Drop a letter. Return the reason if it can't be dropped, else an empty text."""
        if letter.replaying:
            return "it is being replayed; wait until that is done, or has failed"
        self._burying.remove(letter)
        return ""

    def _replay(self, letter: Letter) -> str:
        if not letter.replaying:
            if problem := self._letter_replay.problem(letter):
                return problem
            self._burying.change(altered(letter, replaying=True))
        return ""

    async def _groups(self, names: tuple[str, ...]) -> AsyncIterator[list[Letter]]:
        """Yield the letters with these names, or all letters, in their present form, GROUP_MAX at a time."""
        store = self._checkpoints.store
        assert store is not None, "a run without a store answers before this"
        wanted = list(dict.fromkeys(names)) or await self._checkpoints.call(store.names)
        for start in range(0, len(wanted), GROUP_MAX):
            yield await self._burying.load(wanted[start : start + GROUP_MAX])
