"""Announces which messages of a home are done, so that others may forget what they remember of them (D4, D5, D17).

Must not know who remembers what, nor when it is announced.
"""

from collections.abc import Collection, Sequence
from typing import Any

from acker.agreed_floors import AgreedFloors
from acker.progress import NUMBER_BITS, Progress
from acker.roots import message_of, precedes
from topology.runtime.links.columns import bounded
from topology.runtime.worker.interfaces import HousekeepingHost
from topology.runtime.worker.subtrees import SubTree


class ProgressAnnouncer:
    """Of one home. `gather` gives what holds at that moment; to be announced once the marks of that moment are kept."""

    def __init__(self, home: HousekeepingHost) -> None:
        self._home = home
        self._caught_up = False
        self._given: int | None = None  # the newest message when all was given again that earlier lives had emitted
        self._lines: dict[int, int] = {}  # owner of another home → the newest message here when that was known first,
        self._settled: frozenset[int] = frozenset()  # and those of which all up to there is done
        self._said: Progress | None = None  # last, without what was heard

    def gather(self, trees: Sequence[Any], unfinished: set[int]) -> Progress:
        """`trees`: all that are open here, or will be again; `unfinished`: the messages that are not done."""
        home, newest = self._home, message_of(self._home.roots.latest)
        lines = self._open_lines(newest)
        if lines or not self._caught_up:
            self._look_back(newest, lines, trees)
        said = self._said
        number = said.number if said is not None else 0
        says = Progress(
            newest,
            frozenset(unfinished),
            first=home.owner,
            caught_up=self._caught_up,
            dead=home.dead_letters.letter_store.dead,
            settled=self._settled,
            number=number,
            refused=home.subtrees.stale(),
        )
        if said is None or says != said:
            said = self._said = says._replace(number=number + 1)
        return bounded(said._replace(heard=self._heard()))  # what others hear is what is taken here

    def _heard(self) -> frozenset[int]:
        """Return what this worker refuses from now on, for homes that wait for that. All of it was heard before
        `gather` looked at what is stale here."""
        floors = self._home.floors
        return floors.known() if isinstance(floors, AgreedFloors) else frozenset()

    def _open_lines(self, newest: int) -> dict[int, int]:
        """The lines that are not passed; those of homes that are gone are forgotten."""
        there = {peer.owner for peer in self._home.peers.by_worker.values() if peer.owner is not None}
        if there != self._lines.keys():
            self._lines = {owner: self._lines.get(owner, newest) for owner in there}
            self._settled &= there
        return {owner: line for owner, line in self._lines.items() if owner not in self._settled}

    def _look_back(self, newest: int, lines: dict[int, int], trees: Sequence[Any]) -> None:
        """Note up to which lines all that was emitted is done.

        Sub-trees don't count: what they are begun for does, wherever that is. Of those that are over and may come
        again, some wait for just this. Nor do dead letters count: they are announced by their origins."""
        emitted = [tree for tree in trees if not isinstance(tree, SubTree)]
        numbers = {message_of(tree.root) for tree in emitted}.union(*(tree.renamed for tree in emitted if tree.renamed))
        numbers.update(self._home.dead_letters.under_way_numbers(), self._home.fired.not_done)
        self._settled |= {owner for owner, line in lines.items() if _is_done_up_to(line, numbers)}
        if not self._caught_up:
            if self._given is None and self._is_given():
                self._given = newest
            self._caught_up = self._given is not None and _is_done_up_to(self._given, numbers)

    def _is_given(self) -> bool:
        """Return whether all that earlier lives had emitted was emitted again: by sources, and for dead letters that a
        bolt reads, or whose replay was asked for."""
        given = [task.marking.has_caught_up(ended=task.reader.exhausted) for task in self._home.spout_tasks.values()]
        return all(given) and not self._home.dead_letters.letter_store.left


def _is_done_up_to(line: int, unfinished: Collection[int]) -> bool:
    if not unfinished:
        return True
    lowest, highest = min(unfinished), max(unfinished)
    if lowest >> NUMBER_BITS == highest >> NUMBER_BITS == line >> NUMBER_BITS:  # nearly always, and there may be many
        return lowest > line
    return not any(message == line or precedes(message, line) for message in unfinished)
