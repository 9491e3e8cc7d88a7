"""The executor of a bolt whose state, or whose outputs, survive: each input has its effect once, whatever dies.

An input that has changed something is known, with its outputs, until a decided frontier has its message. If it
comes again, it leaves the state alone and sends the same outputs, under its new roots (D2). State and known inputs are
gathered in one turn, as a snapshot of the run's checkpoint (D1; Chandy and Lamport, 1985). Where there is a log,
outputs leave and inputs are acked once the log has their records (P8; MillWheel's strong productions, VLDB 2013); else
at once. A bolt that is not deterministic has no state, and its outputs are known alike (B2). Must not know what a store
is made of, nor when a checkpoint is due.
"""

from collections.abc import Hashable, Sequence
from typing import Any

from acker.frontier import Frontier
from topology.core.tuples import Tuple
from topology.records import Record, encoded
from topology.runtime.checkpoints.log_commit import LogCommit
from topology.runtime.current_task import entered
from topology.runtime.failures import Reason
from topology.runtime.state.due_times import Due
from topology.runtime.state.key_values import KeyValues, timers_in
from topology.runtime.state.keyed_executor import SerialByKeyExecutor, messages_of
from topology.runtime.state.keyed_work import KeyedWork
from topology.runtime.state.known_input import KnownInput
from topology.runtime.state.known_inputs import KnownInputs, packed_groups
from topology.runtime.state.logged_work import LoggedWork, Work
from topology.runtime.state.packed_outputs import PackedOutputs
from topology.runtime.state.state_value import StateValue
from topology.runtime.state.timers import TaskTimers
from topology.runtime.state.value import StateCodec
from topology.runtime.tasks.executor import drive
from topology.storage.encoding.entries import KnownEntry, OutputClass
from topology.storage.values import Changes, EntryRow, Mark, StateRow


class StateExecutor(SerialByKeyExecutor):
    """Drives `process(record, state)`, or where `codec` is None `process(record)`. A `GatheredPart`.

    `lasts`: it is kept in the store; else it dies with the process. `by_count`: outputs of a key are named by their
    count, those of its timers apart. `most`: bytes that may be remembered before the sources wait (D14).
    """

    def __init__(
        self,
        *args: Any,
        codec: StateCodec | None,
        known_as: str,
        lasts: bool,
        tasks: int,
        most: int,
        log: LogCommit | None = None,
        by_count: bool = False,
    ) -> None:
        super().__init__(*args)
        self.known_as = known_as  # what is kept is named by it
        self.tasks = tasks
        self.codec = codec
        self.known = KnownInputs(self.component)
        self.keys = KeyValues(known_as, encoded)
        self._lasts, self._most = lasts, most
        self._outputs = PackedOutputs(self.component, self.outbox)
        self._fired = 0  # of what was executed, timers
        self._fired_marks: list[Mark] = []  # of the snapshot under way
        self._logged: LoggedWork | None = None  # where there is a log
        if log is not None and lasts:
            self._logged = LoggedWork(log, self.component, known_as, self._outputs, self.keys, self._let_go)
        self._inputs = KeyedWork(self, self._outputs, by_count=by_count and codec is not None)
        self._inputs.logged = self._logged

    @property
    def timers(self) -> TaskTimers | None:
        """Those of a bolt that has on_timer; the worker sets them."""
        timers: TaskTimers | None = self._inputs.timers
        return timers

    @timers.setter
    def timers(self, timers: TaskTimers) -> None:
        self._inputs.timers = timers

    # -- what an earlier life has left

    def restore_keys(self, rows: Sequence[StateRow]) -> None:
        """The keys of its slots, with their timers; those that are overdue fire once it runs."""
        self.keys.restore(rows)
        if self.timers is not None:
            for key in self.keys:
                if timers := timers_in(self.keys.get(key)):
                    self.timers.set(key, timers)

    def restore_input(self, classes: Sequence[OutputClass], one: KnownEntry, *, lives_on: bool) -> None:
        """An input, or a timer, of its slots; `classes` are those that its outputs are numbered by. `lives_on`: the run
        goes on in which it came, and so may the life that its message is of."""
        outputs = [(self._outputs.number_of(classes[number]), data) for number, data in one.outputs]
        key = one.key if one.first >= 0 else None
        messages = one.messages if lives_on and not one.timer else ()
        one_or_all = messages[0] if len(messages) == 1 else messages
        entry = KnownInput(one_or_all, key, (), outputs, True, one.first, timer=one.timer, slot=one.slot)
        self.known.restore((one.origin, one.identity), entry)

    async def run(self) -> None:
        self.send_timers()
        await super().run()

    def send_timers(self) -> None:
        """Send the outputs of timers that are not known to be processed."""
        if self.timers is not None:
            for pair, entry in [*self.known]:
                if entry.timer and entry.out:
                    self.timers.outputs.send(pair, entry)

    # -- inputs

    def put(self, tuples: Sequence[Tuple[Any]]) -> None:
        """Timers that are due, or that are due again."""
        self.queue.extend(tuples)
        self.wake()

    def work(self) -> None:
        super().work()
        if self._logged is not None and self._logged.open:
            self._logged.log.worked(is_much=self._logged.is_much)

    def slice(self, count: int) -> int:
        return self._inputs.slice(count if self._logged is None else self._logged.room(count))

    def finish(self, tup: Tuple[Any], outputs: Sequence[Record], error: BaseException | None) -> None:
        super().finish(tup, outputs, error)
        if self._logged is not None and self._logged.open:
            self._logged.log.soon()

    def _free(self, key: Hashable) -> None:
        super()._free(key)
        self._inputs.complete()

    def begin(self, tup: Tuple[Any]) -> None:
        self._inputs.take(tup)

    def done(self, tup: Tuple[Any], records: Sequence[Record], state: StateValue | None) -> None:
        self._inputs.done(tup, records, state)

    def fire(self, record: Due, state: StateValue) -> Any:
        """A timer has its turn. Return what `on_timer` returns."""
        assert self.timers is not None, "who else has put it into the queue"
        self._fired += 1
        if state.fired(record.name, record.due):
            return self.timers.call(record, state)
        self.timers.over(record)  # it was moved, or taken away, meanwhile
        return None

    def again(self, tup: Tuple[Any], entry: KnownInput) -> None:
        """Handle a known input that came once more: it changes nothing, and sends what it sent, once that is in the log
        (P7, D2, D3). It is known under its new number from now on. The log has that too before it is acked: else a
        death could leave it under a number that never comes again."""
        messages = messages_of(tup)
        if entry.messages != messages:
            if not entry.messages:
                self.known.bytes += entry.size
            entry.messages = messages
            if self._logged is not None and self._logged.takes_number(entry):
                self._logged.keep_number(tup, self.records_of(entry), entry)
                self._logged.log.soon()
                return
        if entry.out:
            self._send(tup, entry)
        else:
            entry.waiting = [*(entry.waiting or ()), tup]

    def _send(self, tup: Tuple[Any], entry: KnownInput) -> None:
        try:
            sent = self._inputs.emit(tup, self.records_of(entry), entry) if entry.outputs or entry.records else 0
            self.ack_input(tup, sent)
        except BaseException as error:
            self.raised(tup, error)

    def records_of(self, entry: KnownInput) -> Sequence[Record]:
        """Return the outputs of an input. Raises RecordError for one that an earlier version of a class has encoded."""
        if entry.loaded:
            entry.records = self._outputs.unpacked(entry.outputs)
            entry.loaded = False
        return entry.records

    # -- the log has it

    def _let_go(self, gone: Sequence[Work]) -> None:
        """The log has the records of this work: its outputs leave."""
        if self.is_cut_off:
            return
        with entered(self.place):
            for tup, records, entry, _ in gone:
                if tup is not None:
                    try:
                        sent = self._inputs.emit(tup, records, entry) if records and type(tup.record) is not Due else 0
                    except BaseException as error:
                        self.raised(tup, error)
                    else:
                        self._inputs.leaves(tup, entry, sent)
                if entry is not None:
                    entry.out = True
                    if entry.waiting:
                        waiting, entry.waiting = entry.waiting, None
                        for again in waiting:
                            self._send(again, entry)
        self._inputs.complete()
        drive(self.downstream)
        if self.queue:
            self.wake()

    # -- checkpoints (`GatheredPart`)

    @property
    def changed(self) -> bool:
        return self.keys.changed or bool(self.known.now or self.known.gathered)

    def gather(self) -> None:
        self.keys.gather()
        self.known.gather()
        self._fired_marks = self.timers.due_times.gather() if self.timers is not None else []

    def pack(self, changes: Changes, frontier: Frontier) -> None:
        self.keys.empty_trash()
        found = self.known.pack(frontier)
        if not self._lasts:
            return
        changes.marks += self._fired_marks
        if (change := self.keys.pack()) is not None:
            changes.states.append(change)
        groups = packed_groups(self._outputs.classes, found, frontier.lost)
        changes.entries.extend([EntryRow(self.known_as, row) for row in groups])

    def kept(self) -> None:
        self.keys.kept()
        self.known.kept(self.decided.frontier)
        if lost := self.decided.frontier.lost:
            self.known.lives_end(-1, lost)
        if self.timers is not None:
            self.timers.due_times.kept()
        if self.waiting_room.futures and not self.full:
            self.waiting_room.let_in()

    def not_kept(self) -> None:
        self.keys.not_kept()
        self.known.not_kept()

    def go_back(self) -> None:
        """Be as in the last decided checkpoint. The outputs of timers, from since then or before, are sent again."""
        changed = self.keys.go_back()
        self.known.go_back()
        if self.timers is not None:
            self.timers.go_back({key: timers_in(self.keys.get(key)) for key in changed})
            self.send_timers()

    def begin_generation(self) -> None:
        """Nothing that is under way counts any more: inputs come again, and known ones send again."""
        super().begin_generation()
        if self._logged is not None:
            self._logged.begin_generation()
        for _, entry in self.known:
            entry.waiting = None
        if self.timers is not None:
            self.timers.begin_generation()

    # -- the end of inputs

    def inputs_ended(self) -> None:
        if self.timers is not None and self.bolt.fires_at_end:
            self.timers.fire_all()

    def drain(self) -> None:
        """No timer fires any more; what has fired is seen through."""
        if self.timers is not None:
            self.timers.drain()

    # -- how it stands

    @property
    def full(self) -> bool:
        return super().full or self.known.bytes > self._most

    @property
    def why_full(self) -> str:
        if self.known.bytes <= self._most:
            return ""
        return f"{self.known.bytes:,} bytes of inputs whose messages are not done (max_remembered_bytes)"

    @property
    def kept_now(self) -> tuple[int, int, int]:
        return len(self.keys), len(self.known), self.known.bytes

    @property
    def workable(self) -> bool:
        return super().workable and (self._logged is None or not self._logged.full)

    @property
    def quiet(self) -> bool:
        ending = self.timers is not None and self.timers.ending
        return super().quiet and (self._logged is None or not self._logged.count) and not ending

    @property
    def untold(self) -> bool:
        """True if timers are left that fire when all inputs have ended, and it does not know that they have."""
        return self.timers is not None and self.bolt.fires_at_end and self.timers.untold

    @property
    def inputs(self) -> int:
        return self.executed - self._fired

    def held(self) -> list[Tuple[Any]]:
        return super().held() if self._logged is None else [*super().held(), *self._logged.tuples()]

    def fail_input(self, tup: Tuple[Any], error: BaseException | None, reason: Reason, text: str = "") -> None:
        super().fail_input(tup, error, reason, text)
        if type(tup.record) is Due and self.timers is not None:
            self.timers.later(tup.record, reason)

    def cut_off(self) -> None:
        """Fail the inputs whose outputs wait for the log. They are known when they come again."""
        super().cut_off()
        if self.timers is not None:
            self.timers.close()
        for tup in [*self._logged.tuples()] if self._logged is not None else ():
            if tup.root:
                self.fail_input(tup, None, Reason.CUT_OFF)
