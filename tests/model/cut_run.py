"""The model of checkpoints: three workers, a coordinator, and what is between them.

`a` and `b` are sources, on the first two workers. `first` is on the second worker, `second` on the third; the sink is a
store outside. A checkpoint has five steps: homes note a frontier, the coordinator sends it to all (the barrier), each
worker gathers a snapshot in one turn, each commits it, the coordinator decides. The cut is that of Chandy and Lamport
(1985), the colours are those of Lai and Yang (1987). The caller says what happens, and when.
"""

from collections import Counter
from collections.abc import Collection
from typing import Final

from cut_home import Home, Source
from cut_pairs import Pairing
from cut_task import KeyedTask
from cut_values import (
    FIRST,
    LENGTH,
    PAIRS,
    SECOND,
    SINK,
    SOURCES,
    Content,
    Disk,
    Entry,
    Frontier,
    Kind,
    Mode,
    Name,
    Note,
    Number,
    Origin,
    Rule,
    Tup,
)
from cut_worker import HOMES, PAIRING, TASKS, WORKERS, Worker

ROUNDS_MAX: Final = 40
NOWHERE: Final[Number] = "", 0, 0  # a number of no home


class Sink:
    """An idempotent store. Its rows last; `known` is what it recognises repeats by, and what it may forget."""

    def __init__(self, run: "Run") -> None:
        self.run = run
        self.rows: list[tuple[Name, Content]] = []
        self.known: dict[Name, tuple[Number, Origin, int]] = {}  # with the checkpoint that was gathered last

    def take(self, tup: Tup) -> None:
        if tup.generation != self.run.generation and self.run.broken is not Rule.NO_OLD_TUPLES:
            return
        worker = self.run.workers[TASKS[SECOND]]
        if worker.refuses(tup.number):
            return
        if tup.name not in self.known:
            self.rows.append((tup.name, tup.content))
        self.known[tup.name] = tup.number, tup.cause, worker.gathered
        self.run.ack(tup)

    def go_back(self, decided: int) -> None:
        """All go back to this checkpoint. Another message may trigger what came since then: it has no number now."""
        for name, (_, cause, gathered) in self.known.items():
            if gathered >= decided and self.run.broken is not Rule.SINK_GOES_BACK:
                self.known[name] = NOWHERE, cause, gathered

    def forget(self, frontier: Frontier, decided: int) -> None:
        """Forget what is done by its number, and was taken before this checkpoint was gathered."""
        self.known = {name: by for name, by in self.known.items() if not self._may_go(*by, frontier, decided)}

    def _may_go(self, number: Number, cause: Origin, gathered: int, frontier: Frontier, decided: int) -> bool:
        if self.run.broken is Rule.FORGOTTEN_BY_NUMBER:
            return frontier.has(number, cause)
        is_new = gathered >= decided and self.run.broken is not Rule.SINK_FORGETS_WHAT_IT_GATHERED
        return frontier.is_present(number) and frontier.has(number, cause) and not is_new


class Run:
    def __init__(self, mode: Mode, broken: Rule | None = None, kind: Kind = Kind.PLAIN) -> None:
        self.mode, self.broken, self.kind = mode, broken, kind
        self.generation = 0
        self.lives = 0
        self.sources = {name: Source(name) for name in SOURCES}
        self.disks = [Disk() for _ in range(WORKERS)]
        self.decision = (0, Frontier())  # on the coordinator's disk
        self.frontier, self.decided = Frontier(), 0  # as the coordinator knows it
        self.begun = 0  # checkpoints, with those that were given up
        self.redo_is_off = False
        self.dropped: set[Origin] = set()
        self.held: list[tuple[str, Tup]] = []  # tuples and acks that are slow
        self.sink = Sink(self)
        self._give_up()
        self.workers: list[Worker] = []
        self._begin_all()

    def _give_up(self) -> None:
        """The checkpoint that is under way is none."""
        self.current = 0
        self.notes: dict[str, Note] = {}
        self.noted: set[int] = set()
        self.barrier: Frontier | None = None
        self.committed: set[int] = set()
        self.unheard: set[int] = set()  # workers that have not heard the newest decision

    def _begin_all(self) -> None:
        self.workers = []
        for index in range(WORKERS):
            self.workers.append(self._new_worker(index))
        for worker in self.workers:
            worker.start()

    def _new_worker(self, index: int) -> Worker:
        """A worker as of the decided checkpoint: its store undoes what is undecided."""
        self.lives += 1
        disk = self.disks[index]
        if disk.prepared is not None:
            if disk.prepared.checkpoint == self.decided or self.broken is Rule.UNDECIDED_IS_UNDONE:
                disk.base = disk.prepared
            if self.broken is not Rule.RESUMED_AT_DECIDED:
                disk.prepared = None
        return Worker(self, index, self.lives, disk)

    @property
    def homes(self) -> list[Home]:
        return [worker.home for worker in self.workers if worker.home is not None]

    @property
    def tasks(self) -> list[KeyedTask]:
        return [worker.task for worker in self.workers if worker.task is not None]

    def task(self, stage: str) -> KeyedTask:
        task = self.workers[TASKS[stage]].task
        assert task is not None
        return task

    def home(self, name: str) -> Home:
        home = self.workers[HOMES[name]].home
        assert home is not None
        return home

    def stage(self, stage: str) -> KeyedTask | Pairing:
        pairing = self.workers[PAIRING].pairing
        return pairing if stage == PAIRS and pairing is not None else self.task(stage)

    @property
    def stages(self) -> tuple[str, ...]:
        return (PAIRS, FIRST, SECOND) if self.kind is Kind.PAIRS else (FIRST, SECOND)

    # -- tuples

    def emitted(self, home: Home, message: int, number: Number, attempt: int) -> None:
        cause = (home.name, message)
        colour = self.workers[HOMES[home.name]].gathered
        stage = PAIRS if self.kind is Kind.PAIRS else FIRST
        self.arrive(stage, Tup(cause, cause, number, attempt, self.generation, colour))

    def arrive(self, stage: str, tup: Tup) -> None:
        """A tuple is there. Who has not gathered the checkpoint that its sender has, gathers first."""
        if stage == SINK:
            self.sink.take(tup)
            return
        task = self.stage(stage)
        if tup.colour > task.worker.gathered and tup.colour == self.current and self.broken is not Rule.COLOURS:
            task.worker.gather(self.current)
        task.queue.append(tup)

    def ack(self, tup: Tup) -> None:
        """The tree of a message is complete: it is a chain."""
        home, life, count = tup.number
        if home in HOMES:
            self.home(home).acked(tup)
        else:
            worker = self.workers[int(home.rpartition(" ")[2])]
            if worker.life == life:
                worker.own_is_done(count)

    # -- checkpoints, step by step

    def note(self, index: int) -> None:
        """1. A home notes its frontier; the first one to do so begins a checkpoint."""
        if not self.current:
            if self.unheard:
                return
            self.begun += 1
            self.current = self.begun
        if index not in self.noted and self.barrier is None:
            self.noted.add(index)
            self.notes |= self.workers[index].note()

    def send_barrier(self) -> None:
        """2. All have noted: all of it goes to all workers."""
        if self.current and self.barrier is None and len(self.noted) == WORKERS:
            self.barrier = Frontier(dict(self.notes))

    def gather(self, index: int) -> None:
        """3. A worker takes its snapshot."""
        worker = self.workers[index]
        may = self.barrier is not None or (self.current and self.broken is Rule.FRONTIER_BEFORE_SNAPSHOTS)
        if may and worker.gathered < self.current:
            worker.gather(self.current)

    def commit(self, index: int, *, full: bool = False) -> None:
        """4. A worker writes it."""
        worker = self.workers[index]
        if self.barrier is not None and worker.gathered == self.current and worker.commit(self.barrier, full=full):
            self.committed.add(index)

    def decide(self) -> None:
        """5. The decision is made durable. A death before or after it is that of the whole run."""
        needed = 1 if self.broken is Rule.DECIDED_BY_ALL else WORKERS
        if self.barrier is None or len(self.committed) < needed:
            return
        if self.broken is not Rule.DECISION_IS_DURABLE:
            self.decision = self.current, self.barrier
        self.decided, self.frontier = self.current, self.barrier
        self._give_up()
        self.unheard = set(range(WORKERS))

    def hear(self, index: int) -> None:
        """A worker hears of the decision."""
        if index in self.unheard:
            self.unheard.discard(index)
            self.workers[index].hears_decision()
            if index == TASKS[SECOND]:
                self.sink.forget(self.frontier, self.decided)

    def checkpoint(self) -> None:
        """All of it, at once."""
        for index in range(WORKERS):
            self.hear(index)
        for step in (self.note, lambda index: self.send_barrier(), self.gather, self.commit):
            for index in range(WORKERS):
                step(index)
        self.decide()
        for index in range(WORKERS):
            self.hear(index)

    # -- deaths

    def die(self, indices: Collection[int]) -> None:
        """Workers are dead, and replaced. A new generation begins: all that is under way is nobody's."""
        for index in range(WORKERS):
            self.hear(index)  # who is alive hears of the last decision before it goes on; who is not reads it
        committed = self.committed
        self._give_up()
        if self.broken is Rule.ONE_AT_A_TIME:
            self.committed = committed
        self.generation += 1
        go_back = self.mode is Mode.CHECKPOINT and self.broken is not Rule.ALL_GO_BACK
        for index in range(WORKERS):
            if index in indices:
                self.workers[index] = self._new_worker(index)
            else:
                self.workers[index].survive(goes_back=go_back)
        if go_back:
            self.sink.go_back(self.decided)
        for index in sorted(indices):
            self.workers[index].start()

    def kill_all(self, *, power: bool, keeps: int = 0) -> None:
        """The whole run dies, and begins again. `power`: what is not synced is lost, but for so many records."""
        self.held = []
        self.decided, self.frontier = self.decision
        self.generation += 1
        self._give_up()
        for disk in self.disks:
            if power:
                del disk.log[disk.synced + keeps :]
                disk.synced = len(disk.log)
        self.redo_is_off = power and self.mode is Mode.PROCESS
        self._begin_all()
        if self.redo_is_off:  # logs are torn at different places: all go back
            for worker in self.workers:
                worker.empty_log()
            self.redo_is_off = False
        self.sink.forget(self.frontier, self.decided)

    # -- what is slow

    def hold(self, stage: str) -> None:
        """The next input of a task is slow."""
        queue = self.stage(stage).queue
        if queue:
            self.held.append((stage, queue.pop(0)))

    def release(self) -> None:
        if self.held:
            self.arrive(*self.held.pop(0))

    def flow(self, *stages: str, syncs: bool = True) -> None:
        """Everything that is ready goes as far as it can, through these stages."""
        for home in self.homes:
            home.replay()
        for stage in stages or self.stages:
            task = self.stage(stage)
            if isinstance(task, Pairing):
                while task.queue:
                    task.work()
                continue
            while task.queue:
                task.work()
            if syncs:
                task.worker.sync()
            task.send()

    # -- what must hold

    def check(self) -> None:
        for task in self.tasks:
            twice = [name for name, times in Counter(name for name, _ in task.state.history).items() if times > 1]
            assert not twice, f"{task.stage} has counted twice: {twice}"
        twice = [name for name, times in Counter(name for name, _ in self.sink.rows).items() if times > 1]
        assert not twice, f"the sink has stored twice: {twice}"

    def heal(self) -> None:
        """Nothing goes wrong any more: everything is done, once, and nothing is remembered in the end."""
        for _ in range(ROUNDS_MAX):
            self.release()
            for home in self.homes:
                for message in home.letters_to_replay():
                    home.replay_by_hand(message)
                home.fail_all()
                home.emit_next()
            for task in self.tasks:
                task.fire()
                task.send_timers_again()
            self.flow()
            self.checkpoint()
            self.check()
            if self.is_complete():
                break
        else:
            entries = {task.stage: task.state.entries for task in self.tasks}
            pending = {home.name: home.pending for home in self.homes}
            raise AssertionError(f"does not complete: {pending}, {entries}")
        first, second = (self.task(stage).state.history for stage in (FIRST, SECOND))
        names = {Kind.PLAIN: SOURCES, Kind.TIMERS: (*SOURCES, "timer"), Kind.PAIRS: ("pair",)}[self.kind]
        expected = {(name, number) for name in names for number in range(LENGTH)}
        lost = {name[1] for name in self.dropped}  # what these have begun may be done in part
        missing = {name for name in expected - {name for name, _ in first} if name[1] not in lost}
        assert not missing, f"missing in first: {missing}"
        sent = [(count, name) for count, (name, _) in enumerate(first, 1)]
        arrived = {content for _, content in second}
        late = [one for one in sent if one not in arrived and one[1][1] not in lost]
        assert not late, f"missing in second: {late}"
        assert arrived <= set(sent), f"first has sent {sent}, and second has {second}"
        stored = {content[0]: content for _, content in self.sink.rows}
        assert len(stored) == len(self.sink.rows), f"the sink has one twice: {self.sink.rows}"
        if not lost:
            assert sorted(stored) == list(range(2, len(second) + 1, 2)), f"the sink has {self.sink.rows} of {second}"
        if self.mode is Mode.DISK:
            assert all(stored[count] == (count, second[count - 1][0]) for count in stored), "another result has left"

    def is_complete(self) -> bool:
        """Return whether all is done and nothing is remembered that can go."""
        if self.held or any(home.pending or home.letters for home in self.homes):
            return False
        if any(len(home.finished) < LENGTH for home in self.homes):
            return False
        return not any(task.state.timers or any(map(self.may_go, task.state.entries.values())) for task in self.tasks)

    def may_go(self, entry: Entry) -> bool:
        """Return whether an entry has to be forgotten in the end.

        An entry under a sub-root may stay if the sub-root's worker, or the home of one of its messages, has died and it
        has not come again: only a bound ends it.
        """
        pairing = self.workers[PAIRING].pairing
        if pairing is None or entry.cause[0] != "pair":
            return True
        inputs = pairing.members.get(entry.number[2], [])
        return self.frontier.is_present(entry.number) and all(self.frontier.is_present(tup.number) for tup in inputs)
