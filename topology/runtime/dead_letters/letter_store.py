"""Store dead messages, within a bound: each letter is in the same commit as the mark that passes its message (E2).

Until that commit is stored, the message stays pending and not done (E3), and no reader gets the letter. At the bound,
further dead messages wait, still pending, and the spouts pause: nothing is ever dropped (F16). Other parts report here
when a letter is replayed, dropped or served; the change is durable before anything acts on it.

A run without a state directory buries at once. It keeps only letters that some bolt reads, in memory, until they are
processed. Must not know spouts, nor how a letter is served or replayed.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from acker.ledger import Tree
from topology.runtime.checkpoints.worker_checkpoints import WorkerCheckpoints
from topology.runtime.dead_letters.letter import altered, size_of
from topology.storage.values import Changes, Letter

BYTES_MAX: Final = 256 << 20  # of the letters of one worker
# of letters that become durable in one commit; further letters are in the next commit
GROUP_BYTES_MAX: Final = 32 << 20


@dataclass
class _Delivered:
    """A delivery that no decided checkpoint has: the letter as it became, what delivers it once more, and the numbers
    of the messages that were sent."""

    letter: Letter
    again: Callable[[], None]
    numbers: frozenset[int]


_Sent: TypeAlias = tuple[
    int,
    dict[str, Letter],
    dict[str, int],
    list[asyncio.Future[None]],
    dict[tuple[str, bool], _Delivered],
]


@dataclass
class Burial:
    """A message that is dead and not yet buried. `numbers` are the message's numbers. `over` is called with the letter
    once it is stored."""

    letter: Letter
    tree: Tree
    numbers: frozenset[int]
    over: Callable[[Letter], None]

    @property
    def is_new(self) -> bool:
        """Return True if the message has no letter yet. Otherwise it was replayed by hand, and its letter is
        replaced."""
        return not self.letter.name


class LetterStore:
    """The letters of one worker; a `NotedPart` that must gather before the marks do.

    `serve` is called with the names of letters that some bolt reads. Spouts wait while the store is `full`, and `why`
    is the reason that they show. `has_room` is called when they may resume.
    """

    def __init__(
        self, worker: int, checkpoints: WorkerCheckpoints, max_dead: int, serve: Callable[[str], None]
    ) -> None:
        self.keeps = checkpoints.store is not None
        self._worker = worker
        self._checkpoints = checkpoints
        self._max = max_dead
        self._serve = serve
        loaded = checkpoints.store.loaded if checkpoints.store is not None else None
        self.letters = loaded.letters if loaded else 0  # letters that are stored or about to be
        self._bytes = loaded.letter_bytes if loaded else 0
        self._next = loaded.next_letter if loaded else 1
        self._waiting: deque[Burial] = deque()
        self._taken: list[Burial] = []  # there is room for them; gathered, or about to be
        self._changed: dict[str, Letter] = {}  # letters to be stored as they are now, including those of `_taken`
        self._gone: dict[str, int] = {}  # name → the bytes that its letter had
        self._waiters: list[asyncio.Future[None]] = []
        self._sent: _Sent = 0, {}, {}, [], {}  # the share of all these in the commit in progress
        # of messages that died in this life, while their letters are there (E1)
        self._numbers: dict[str, frozenset[int]] = {}
        # letters in flight as they are now, and the number of their users
        self._live: dict[str, tuple[Letter | None, int]] = {}
        self._memory: dict[str, Letter] = {}  # for a run that stores nothing
        self.has_room: Callable[[], None] = lambda: None  # called when there is room again
        # letters of earlier lives that are not finished
        self.left = {*loaded.unserved, *loaded.replaying} if loaded else set[str]()
        self._origins = Counter[int](loaded.dead_origins if loaded else ())  # of the letters that are stored
        # origins of letters of earlier lives → the messages that their sources have given again, as after --fresh
        self._given_again: dict[int, frozenset[int]] = dict.fromkeys(self._origins, frozenset())
        self._removed: dict[str, int] = {}  # letters that are being removed → their origins
        # the name of a letter, and whether its delivery has removed it → that delivery
        self._undecided: dict[tuple[str, bool], _Delivered] = {}

    # -- dead messages

    def bury(self, burial: Burial, *, read: bool) -> None:
        """Store the letter of a dead message as soon as there is room. `read` is True if some bolt reads its spout's
        letters."""
        if not self.keeps and not read:
            burial.over(burial.letter)
            return
        burial.letter = altered(burial.letter, served=not read)
        if burial.is_new:
            self._waiting.append(burial)
        else:  # it needs no room, and does not wait
            self._bytes += size_of(burial.letter) - self._replaced(burial.letter)
            self._changed[burial.letter.name] = burial.letter
            self._update(burial.letter.name, burial.letter)
            self._taken.append(burial)
        if self.keeps:
            self._checkpoints.want()
        else:
            self._remember()

    def _remember(self) -> None:
        """Without a store: bury at once what there is room for, and serve it from memory."""
        self._take()
        taken, self._taken = self._taken, []
        for burial in taken:
            self._memory[burial.letter.name] = burial.letter
            self._over(burial)

    def _take(self) -> None:
        """Name letters that there is room for, as many as one commit should have."""
        size = sum(size_of(burial.letter) for burial in self._taken)
        while self._waiting and size < GROUP_BYTES_MAX:
            if self.full:
                break
            burial = self._waiting.popleft()
            burial.letter = altered(burial.letter, name=f"{self._worker}-{self._next}")
            if self.keeps:
                self._changed[burial.letter.name] = burial.letter
                self._origins[burial.letter.origin] += 1
            self._taken.append(burial)
            self._next += 1
            self.letters += 1
            self._bytes += size_of(burial.letter)
            size += size_of(burial.letter)

    def _replaced(self, letter: Letter) -> int:
        before, _ = self._live.get(letter.name, (None, 0))
        return size_of(before) if before is not None else 0

    def _over(self, burial: Burial) -> None:
        letter = burial.letter
        if self.keeps:
            self._numbers[letter.name] = self._numbers.get(letter.name, frozenset()) | burial.numbers
        burial.over(letter)
        if not letter.served:
            self._serve(letter.name)

    @property
    def may_be_given_again(self) -> Collection[int]:
        """Return the origins of the letters of earlier lives."""
        return self._given_again.keys()

    def given_again(self, origin: int, numbers: frozenset[int]) -> None:
        """A message that has a letter of an earlier life was given again by its source, and is done. Nothing of it may
        be forgotten as long as the letter may be replayed (E1)."""
        self._given_again[origin] |= numbers

    # -- changed letters

    def change(
        self, letter: Letter, *, done: frozenset[int] = frozenset(), again: Callable[[], None] | None = None
    ) -> None:
        """Store the letter as it is now. `done` are numbers of messages that are done with the checkpoint that stores
        it. `again` is called if the run goes back to one before that: the letter is to be delivered once more."""
        if not self.keeps:
            if letter.served:
                self._forget(letter.name, size_of(letter))
            return
        self._changed[letter.name] = letter
        self._update(letter.name, letter)
        if again is not None:
            self._undecided[letter.name, False] = _Delivered(letter, again, done)
        self._checkpoints.want()

    def remove(
        self, letter: Letter, *, done: frozenset[int] = frozenset(), again: Callable[[], None] | None = None
    ) -> None:
        """Remove a letter that was replayed or dropped. `done` are numbers of messages that are done with the
        checkpoint that lacks it, and so is its own message; `again` as for `change`."""
        if again is not None:
            self._undecided[letter.name, True] = _Delivered(letter, again, done)
        self._gone[letter.name] = size_of(letter)
        self._removed[letter.name] = letter.origin
        self._update(letter.name, None)
        self._checkpoints.want()

    def durable(self) -> asyncio.Future[None]:
        """Return a future that is done once all changes so far are stored. A caller that no longer waits need not
        cancel it."""
        self._waiters.append(future := asyncio.get_running_loop().create_future())
        self._checkpoints.want()
        return future

    def now(self, letter: Letter) -> Letter | None:
        """Return the present form of a letter that was read from the store, or None if it is gone."""
        _, changed, gone, _, _ = self._sent
        name = letter.name
        if name in self._gone or name in gone:
            return None
        return self._changed.get(name) or changed.get(name) or letter

    # -- letters in flight: the one place where two parts that change a letter meet

    def take(self, letter: Letter) -> None:
        """Note that a part works on this letter, until `release`. Meanwhile `current` returns its present form."""
        now, count = self._live.get(letter.name, (letter, 0))
        self._live[letter.name] = now, count + 1

    def current(self, name: str) -> Letter | None:
        """Return the present form of a letter that was taken, or None if it is gone."""
        return self._live[name][0]

    def release(self, name: str) -> None:
        """Note that a part that took the letter has finished with it."""
        letter, count = self._live.pop(name)
        if count > 1:
            self._live[name] = letter, count - 1

    def _update(self, name: str, letter: Letter | None) -> None:
        if name in self._live:
            self._live[name] = letter, self._live[name][1]

    async def load(self, names: Sequence[str]) -> list[Letter]:
        """Return the present form of the letters with these names that exist. Raises StoreBroken."""
        if self._checkpoints.store is None:
            return [self._memory[name] for name in names if name in self._memory]
        store = self._checkpoints.store
        found = await self._checkpoints.call(lambda: store.letters(names, limit=len(names)))
        return [now for letter in found if (now := self.now(letter)) is not None]

    # -- checkpoints (`NotedPart`)

    def gather(self, changes: Changes) -> None:
        if not self.keeps:
            return
        self._take()
        changes.letters += (letter for name, letter in self._changed.items() if name not in self._gone)
        for burial in self._taken:
            burial.tree.value = 0  # done in this very commit: the marks are gathered next (E2)
        changes.gone += self._gone
        self._sent = len(self._taken), self._changed, self._gone, self._waiters, self._undecided
        self._changed, self._gone, self._waiters = {}, {}, []
        self._undecided = {}

    def kept(self) -> None:
        if not self.keeps:
            return
        count, changed, gone, waiters, _ = self._sent
        self._sent = 0, {}, {}, [], {}
        buried, self._taken = self._taken[:count], self._taken[count:]
        for burial in buried:
            self._over(burial)
        self.left -= {letter.name for letter in changed.values() if letter.served and not letter.replaying}
        for name, size in gone.items():
            self._numbers.pop(name, None)
            self.left.discard(name)
            origin = self._removed.pop(name)
            self._origins[origin] -= 1
            if self._origins[origin] <= 0:
                del self._origins[origin]
                self._given_again.pop(origin, None)
            self._forget(name, size)
        for future in waiters:
            if not future.done():
                future.set_result(None)
        if self._waiting and not self.full:
            self._checkpoints.want()

    def not_kept(self) -> None:
        _, changed, gone, waiters, undecided = self._sent
        self._sent = 0, {}, {}, [], {}
        self._changed = {**changed, **self._changed}
        self._gone = {**gone, **self._gone}
        self._waiters = [*waiters, *self._waiters]
        self._undecided = {**undecided, **self._undecided}

    def go_back(self) -> None:
        """The run is as in the last decided checkpoint: letters that were delivered since then are delivered again.
        Other changes of them stay: a person has dropped one, or its message has died once more."""
        undecided, self._undecided = self._undecided, {}
        for (name, is_removed), delivered in undecided.items():
            if is_removed:
                del self._gone[name], self._removed[name]
                self._update(name, delivered.letter)
        for (name, is_removed), delivered in undecided.items():
            # bolts below know the messages that were sent
            self._numbers[name] = self._numbers.get(name, frozenset()) | delivered.numbers
            if name in self._gone:
                continue
            if not is_removed:
                self._changed[name] = letter = altered(self._changed[name], served=False, unheard="")
                self._update(name, letter)
            delivered.again()

    def _forget(self, name: str, size: int) -> None:
        self._memory.pop(name, None)
        self.letters -= 1
        self._bytes = max(0, self._bytes - size)
        if not self.full:
            if not self.keeps and self._waiting:
                self._remember()
            self.has_room()

    # -- queries

    @property
    def full(self) -> bool:
        """Return True if the letters are at their bound; spouts pause then."""
        return self.letters >= self._max or self._bytes >= BYTES_MAX

    @property
    def why(self) -> str:
        """Return what spouts wait for, for people."""
        held = f"{self.letters:,}" if self.letters >= self._max else f"{self._bytes >> 20:,} MiB"
        if self.keeps:
            return f"the dead letters are full ({held}): `kedge dead list`, replay or drop some"
        return f"the dead letters that no bolt has processed yet are at their bound ({held})"

    def trees(self) -> list[Any]:
        """Return the trees of dead messages whose letters are not stored yet."""
        return [burial.tree for burial in (*self._waiting, *self._taken)]

    @property
    def waiting(self) -> int:
        """Return the number of dead messages whose letters are not stored yet."""
        return len(self._waiting) + len(self._taken)

    @property
    def dead(self) -> frozenset[int]:
        """The origins of all messages here that may be replayed by hand (E1)."""
        return frozenset(self._origins)

    @property
    def dropped(self) -> frozenset[int]:
        """Return the origins of letters that are being removed: they will not be replayed any more (P10)."""
        return frozenset(self._removed.values())

    def unfinished(self) -> set[int]:
        """Return the numbers of messages that count as not done. Nothing of them may be forgotten (E1, D17). One whose
        letter goes is done in the checkpoint that lacks the letter: a later one would be too late, if this life ends
        before it."""
        burials: Iterable[Burial] = (*self._waiting, *self._taken)
        gone = Counter(self._removed.values())
        return set().union(
            *(numbers for name, numbers in self._numbers.items() if name not in self._removed),
            *(numbers for origin, numbers in self._given_again.items() if gone[origin] < self._origins[origin]),
            *(burial.numbers for burial in burials),
        )
