"""A worker in the model of checkpoints: its parts, its log, its store. Must not know when a checkpoint is decided."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from cut_home import Home
from cut_pairs import Pairing
from cut_task import KeyedTask
from cut_values import FIRST, SECOND, Disk, Frontier, Kind, Mode, Name, Note, Number, Record, Rule, Snapshot, State

if TYPE_CHECKING:
    from cut_run import Run

HOMES: Final = {"a": 0, "b": 1}  # the worker of each
TASKS: Final = {FIRST: 1, SECOND: 2}
PAIRING: Final = 1
WORKERS: Final = 3


class Worker:
    """A process: a home or none, a keyed task or none, and the timers' trees that it has begun."""

    def __init__(self, run: "Run", index: int, life: int, disk: Disk) -> None:
        self.run, self.index, self.life, self.disk = run, index, life, disk
        self.decided = run.frontier  # what it refuses and forgets by
        self.gathered = run.decided  # the newest checkpoint that it has gathered
        self.snapshot: Snapshot | None = None  # gathered, not committed
        self.buffer: list[Record] = []  # of the log: not written
        self.cut_records = 0
        self.own = 0  # trees that it has begun: of timers, and sub-trees
        self.sub_done: set[int] = set()  # sub-trees that are done
        self.fired: dict[Name, tuple[int, ...]] = {}  # timers whose outputs are not done: the counts of all attempts
        base = disk.base
        self.home = self._new_home(base)
        self.pairing = Pairing(run, self) if run.kind is Kind.PAIRS and index == PAIRING else None
        self.task: KeyedTask | None = None
        for stage, place in TASKS.items():
            if place == index:
                self.task = KeyedTask(run, self, stage, without(self._redone(stage, base), run.frontier))

    def _new_home(self, base: Snapshot) -> Home | None:
        for name, place in HOMES.items():
            if place == self.index:
                note = base.frontier.notes.get(name, Note())
                if self.run.broken is Rule.RESUMED_AT_DECIDED and self.disk.prepared is not None:
                    note = self.disk.prepared.frontier.notes[name]
                return Home(self.run, self.run.sources[name], self.life, note)
        return None

    def _redone(self, stage: str, base: Snapshot) -> State:
        """The state of the base, and after it what the log has."""
        state = base.states.get(stage, State())
        after = self.run.mode is not Mode.CHECKPOINT and base.checkpoint == 0
        for record in self.disk.log:
            if record.checkpoint:
                after = after or record.checkpoint == base.checkpoint
            elif after and record.task == stage and not self.run.redo_is_off:
                state = state.after(record)
        return state

    # -- the log

    @property
    def logged(self) -> int:
        """How many records there are, with those that are not written."""
        return self.cut_records + len(self.disk.log) + len(self.buffer)

    @property
    def logged_and_kept(self) -> int:
        """How many of them are kept well enough for outputs to leave."""
        if self.run.broken is Rule.LOGGED_BEFORE_SENT or self.run.mode is Mode.CHECKPOINT:
            return self.logged
        return self.cut_records + (self.disk.synced if self.run.mode is Mode.DISK else len(self.disk.log))

    def write(self) -> None:
        self.disk.log += self.buffer
        self.buffer = []

    def sync(self) -> None:
        self.write()
        self.disk.synced = len(self.disk.log)

    # -- trees of timers, and sub-trees

    def own_number(self, timer: Name = (), earlier: Sequence[Number] = ()) -> Number:
        """Begin a tree: a sub-tree, or an attempt of a timer that had these before."""
        self.own += 1
        if timer:
            self.fired[timer] = (*(number[2] for number in earlier), self.own)
        return f"own {self.index}", self.life, self.own

    def own_is_done(self, count: int) -> None:
        """A tree is complete. Of a timer's attempts only the newest one can be."""
        if self.pairing is not None:
            self.sub_done.add(count)
            self.pairing.is_done(count)
        self.fired = {name: counts for name, counts in self.fired.items() if counts[-1] != count}
        if self.run.broken is Rule.TIMER_UNTIL_DECIDED and self.task is not None:
            entries = {
                name: one
                for name, one in self.task.state.entries.items()
                if not (one.is_timer and one.number[1:] == (self.life, count))
            }
            self.task.state = replace(self.task.state, entries=entries)

    # -- checkpoints

    def note(self) -> dict[str, Note]:
        """Return what this worker's home and its timers' trees have done."""
        if self.pairing is not None:
            own = self.pairing.over(self.sub_done)
        else:
            own = set(range(1, self.own + 1)).difference(*self.fired.values())
        notes = {f"own {self.index}": Note(self.life, frozenset(own))}
        if self.home is not None:
            notes[self.home.name] = self.home.note()
        return notes

    def gather(self, checkpoint: int) -> None:
        """One turn: the state as it is, and a mark in the log."""
        states = {self.task.stage: self.task.state} if self.task is not None else {}
        self.snapshot, self.gathered = Snapshot(checkpoint, states), checkpoint
        if self.run.mode is not Mode.CHECKPOINT:
            self.buffer.append(Record(checkpoint=checkpoint))

    def commit(self, frontier: Frontier, *, full: bool) -> bool:
        """Write the snapshot, with the frontier and without entries that are in it. Return whether it is kept."""
        if self.snapshot is None:
            return False
        if full:
            return self.run.broken is Rule.FULL_IS_NOT_COMMITTED
        if self.home is not None and self.run.broken is Rule.MARKS_OF_THE_FRONTIER:
            frontier = Frontier({**frontier.notes, self.home.name: self.home.note()})
        states = {stage: without(state, frontier) for stage, state in self.snapshot.states.items()}
        if self.run.broken is Rule.UNDO_OF_THE_DECIDED and self.disk.prepared is not None:
            self.disk.base = self.disk.prepared
        self.disk.prepared = Snapshot(self.snapshot.checkpoint, states, frontier)
        self.sync()  # one fsync of all that a checkpoint stands on
        if self.run.broken is Rule.CUT_WHEN_DECIDED:
            self._cut(self.snapshot.checkpoint)
        if self.run.broken is Rule.KEPT_UNTIL_DECIDED and self.task is not None:
            self.task.state = without(self.task.state, frontier)
        self.snapshot = None
        return True

    def hears_decision(self) -> None:
        """The coordinator has said that a checkpoint is decided."""
        checkpoint, frontier = self.run.decided, self.run.frontier
        prepared = self.disk.prepared
        if prepared is not None and prepared.checkpoint == checkpoint:
            self.disk.base, self.disk.prepared = prepared, None
        self._cut(checkpoint)
        if self.run.broken is not Rule.REFUSED_AT_ONCE:
            self.decided = frontier
        if self.task is not None:
            self.task.state = without(self.task.state, frontier)
        if self.pairing is not None:
            self.pairing.decided(frontier)
        if self.home is not None:
            self.home.settled(frontier.notes[self.home.name])

    def _cut(self, checkpoint: int) -> None:
        marks = [place for place, record in enumerate(self.disk.log) if record.checkpoint == checkpoint]
        if marks:
            self.cut_records += marks[0]
            del self.disk.log[: marks[0]]
            self.disk.synced = max(0, self.disk.synced - marks[0])

    def refuses(self, number: Number) -> bool:
        return self.decided.is_present(number) and number[2] in self.decided.notes[number[0]].done

    # -- generations

    def start(self) -> None:
        """Begin to work, once all workers are there."""
        if self.task is not None:
            self.task.send_timers()

    def survive(self, *, goes_back: bool) -> None:
        """Another worker is dead: nothing that is under way counts any more. `goes_back`: be as in the decided
        checkpoint, in the same life. What was done since then is not done."""
        self.snapshot = None
        if self.home is not None:
            self.home.fail_all()
            if goes_back:
                self.home.go_back()
        if self.pairing is not None:
            self.pairing.empty()
        if self.task is None:
            return
        self.task.empty()
        if goes_back:
            base = self.disk.base.states.get(self.task.stage, State())
            self.task.go_back(without(base, self.run.frontier))
            self.fired = {}
            self.task.send_timers()
        else:
            self.task.send_timers_again()

    def empty_log(self) -> None:
        """The log begins anew at the checkpoint that the store has."""
        self.disk.log, self.disk.synced, self.cut_records = [Record(checkpoint=self.disk.base.checkpoint)], 1, 0


def without(state: State, frontier: Frontier) -> State:
    """The state without the entries whose message this frontier has."""
    entries = {
        name: one
        for name, one in state.entries.items()
        if not all(frontier.has(number, one.cause) for number in one.numbers)
    }
    return replace(state, entries=entries)
