"""A keyed task in the model of checkpoints: it counts its inputs, in order, and remembers each one until it is over.

`first` sends what it has counted to `second`; `second` sends every other count to the sink. So what a task sends
depends on the order of its inputs. Must not know when a checkpoint is taken.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

from cut_values import FIRST, SECOND, Content, Entry, Kind, Mode, Name, Number, Record, Rule, State, Tup

if TYPE_CHECKING:
    from cut_run import Run, Worker


class KeyedTask:
    def __init__(self, run: "Run", worker: "Worker", stage: str, state: State) -> None:
        self.run, self.worker, self.stage = run, worker, stage
        self.state = state
        self.queue: list[Tup] = []
        self.staged: list[tuple[int, Tup]] = []  # outputs and acks, each with the length of the log that it waits for

    def work(self) -> None:
        tup, broken = self.queue.pop(0), self.run.broken
        if tup.generation != self.run.generation and broken is not Rule.NO_OLD_TUPLES:
            return
        if self.worker.refuses(tup.number):
            return
        state = self.state
        known = state.entries.get(tup.name)
        if known is not None:
            content = tup.content if broken is Rule.KNOWN_CHANGES_NOTHING else None
            output = None if broken is Rule.KNOWN_SENDS_AGAIN else known.output
            entry = replace(known, number=tup.number, cause=tup.cause)
            self._keep(Record(self.stage, tup.name, content, entry, state.timers))
        else:
            history = (*state.history, (tup.name, tup.content))
            output = self._output(tup.name, history)
            entry = Entry(tup.number, tup.cause, output)
            timers = state.timers | {tup.cause[1]} if self._has_timers(tup) else state.timers
            self._keep(Record(self.stage, tup.name, tup.content, entry, timers))
        self._send(tup, output)

    def _has_timers(self, tup: Tup) -> bool:
        return self.run.kind is Kind.TIMERS and self.stage == FIRST and tup.cause[0] == "a"

    def _output(self, name: Name, history: tuple[tuple[Name, Content], ...]) -> tuple[Name, Content] | None:
        """What the last input of this history emits: its name, and a content that depends on all before it."""
        count = len(history)
        if self.stage == SECOND and count % 2:
            return None
        by_count = self.run.mode is not Mode.DISK and self.run.broken is not Rule.NAMED_BY_COUNT
        return ((self.stage, count) if by_count else (self.stage, *name)), (count, name)

    def fire(self) -> None:
        """A timer is due: it counts as an input of no message; what it emits is a tree of this worker."""
        if self.state.timers:
            message = min(self.state.timers)
            name: Name = ("timer", message)
            history = (*self.state.history, (name, ()))
            output = self._output(name, history)
            entry = Entry(self.worker.own_number(name), ("timer", message), output, is_timer=True)
            timers = self.state.timers - {message}
            self._keep(Record(self.stage, name, (), entry, timers))
            self._send_timer(entry)

    def _send_timer(self, entry: Entry) -> None:
        tup = Tup((), entry.cause, entry.number, 0, self.run.generation, 0)
        self._send(tup, entry.output)

    def send_timers_again(self) -> None:
        """Send again what timers have emitted whose trees are not done: each attempt is a tree of its own."""
        for name in list(self.worker.fired):
            entry = self.state.entries[name]
            self._send_attempt(name, entry, entry.numbers)

    def send_timers(self) -> None:
        """Send what timers have emitted, of all that the state has: it was just restored, or has gone back."""
        for name, entry in list(self.state.entries.items()):
            if entry.is_timer:
                is_kept = self.run.broken is not Rule.TIMER_GOES_BACK_WITH_NUMBERS
                mine = [number for number in entry.numbers if number[1] == self.worker.life]
                self._send_attempt(name, entry, tuple(mine) if is_kept else ())

    def _send_attempt(self, name: Name, entry: Entry, earlier: tuple[Number, ...]) -> None:
        """Begin another tree for what a timer has emitted. In the log it stays as it was: a later life begins anew."""
        if self.run.broken is Rule.TIMER_UNDER_ALL_NUMBERS:
            earlier = ()
        number = self.worker.own_number(name, earlier)
        entry = replace(entry, number=number, earlier=earlier)
        self.state = replace(self.state, entries={**self.state.entries, name: entry})
        self._send_timer(entry)

    # -- generations

    def empty(self) -> None:
        """Another worker is dead: nothing that is under way counts any more."""
        self.queue, self.staged = [], []

    def go_back(self, state: State) -> None:
        """Be as in this state. What is known goes by the numbers that it has by now."""
        now = self.state.entries
        entries = {
            name: replace(one, number=now[name].number, earlier=now[name].earlier) if name in now else one
            for name, one in state.entries.items()
        }
        self.state = replace(state, entries=entries)

    # -- the log

    def _keep(self, record: Record) -> None:
        self.state = self.state.after(record)
        is_logged = self.run.mode is not Mode.CHECKPOINT
        if self.run.broken is Rule.RENUMBERING_IS_LOGGED and record.content is None:
            is_logged = False
        if is_logged:
            self.worker.buffer.append(record)

    def _send(self, tup: Tup, output: tuple[Name, Content] | None) -> None:
        name, content = output or ((), ())  # no name: an ack
        self.staged.append((self.worker.logged, replace(tup, name=name, content=content)))

    def send(self) -> None:
        """Let go of what is logged."""
        kept = self.worker.logged_and_kept
        ready = [sent for length, sent in self.staged if length <= kept]
        self.staged = [(length, sent) for length, sent in self.staged if length > kept]
        for sent in ready:
            sent = replace(sent, colour=self.worker.gathered)
            if sent.name == ():
                self.run.ack(sent)
            else:
                self.run.arrive(SECOND if self.stage == FIRST else "sink", sent)
