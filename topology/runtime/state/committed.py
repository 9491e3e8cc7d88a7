"""The executor of a bolt whose state, or whose outputs, survive: each input has its effect once, whatever dies.

State, the inputs that have changed it and what they have emitted become durable together, in groups: what comes while
one is being written is the next. Only then outputs leave, and inputs are acked (D1; MillWheel's strong productions,
VLDB 2013). A replay of a known input leaves the state alone and sends the same outputs, under its new roots (D2); of
one that is not kept yet it waits for that (D3). A bolt that is not deterministic has no state, and its outputs are kept
alike (B2). Must not know what a store is made of, nor when a commit is due.
"""

from collections.abc import Iterator, Sequence
from types import GeneratorType
from typing import Any, Final, TypeAlias

from acker.identity import edge
from acker.roots import NUMBER_SHIFT
from topology.components import Tuple
from topology.groupings import slot_of, slot_of_identity
from topology.records import Record
from topology.runtime.commits.group_commit import GroupCommit
from topology.runtime.current_task import entered
from topology.runtime.failures import Reason
from topology.runtime.state.dedup import ENTRY_BYTES, Memory, Pair, RememberedInput, RememberedRow
from topology.runtime.state.due_times import Due
from topology.runtime.state.journaled_outputs import NOTHING, JournaledOutputs
from topology.runtime.state.keyed_executor import SerialByKeyExecutor, messages_of
from topology.runtime.state.timers import TaskTimers
from topology.runtime.state.value import StateCodec, StateValue
from topology.runtime.tasks.executor import drive
from topology.runtime.tasks.outputs import collected, waits, yielded
from topology.storage.encoding.journal import JournalInput, OutputClass, packed_columns
from topology.storage.encoding.state import StateKeys, timers_of
from topology.storage.values import Changes, JournalRow, StateRow

FORGOTTEN_EACH: Final = 2  # inputs that are looked at for each that comes
GROUP_MAX: Final = 4_096  # inputs that may wait for the next commit; then no more are taken
GROUP_BYTES_MAX: Final = 64 << 20  # about, that those have emitted: one row of the journal has it all


# An input that was processed and is not kept yet: the tuple, its outputs, its pair, and what is remembered of it, which
# is None if the input is in no tree and can't come again. A plain tuple: the hot path makes one for each input.
Work: TypeAlias = tuple[Tuple[Any], Sequence[Record], Pair, RememberedInput | None]


class CommittedStateExecutor(SerialByKeyExecutor):
    """Drives `process(record, state)`, or where `codec` is None `process(record)`. A `CommitPart`."""

    def __init__(
        self,
        *args: Any,
        group_commit: GroupCommit,
        codec: StateCodec | None,
        known_as: str,
        lasts: bool,
        tasks: int,
        most: int,
    ) -> None:
        super().__init__(*args)
        self.known_as = known_as  # what is kept is named by it
        self.tasks = tasks
        self.memory = Memory(self.floors)
        self.keys = StateKeys(known_as)
        self.timers: TaskTimers | None = None  # set by the worker where the bolt has on_timer
        self._group_commit = group_commit
        self.codec = codec
        self._lasts = lasts  # False: it is kept in memory alone, and dies with the process
        self._most = most  # bytes that may be remembered before the sources wait (D14)
        self._open: list[Work] = []  # since the last commit was gathered
        self._open_bytes = 0  # the size of what they have emitted
        self._gathered: list[Work] = []  # being kept
        self._refiled: list[tuple[Pair, RememberedInput]] = []  # to be in the next row too
        self._next = RememberedRow()  # the one that open inputs will be in
        self._row: RememberedRow | None = None  # being kept
        self._timer_rows: list[RememberedRow] = []  # as well
        self._fired = 0  # of what was executed, timers
        self._unsent: dict[Pair, None] = {}  # timers whose outputs an earlier life may not have seen through
        self.over: dict[int, list[Pair]] = {}  # rows that are on the disk yet → timers in them that are done
        self._journaled = JournaledOutputs(self.component, self.outbox)
        group_commit.add_urgent(self)

    # -- what an earlier life has kept

    def restore_keys(self, rows: Sequence[StateRow]) -> None:
        """The keys of its slots, with their timers; those that are overdue fire once it runs."""
        self.keys.restore(rows)
        if self.timers is not None:
            for key in self.keys:
                if timers := timers_of(self.keys.content(key)):
                    self.timers.set(key, timers)

    def restore_input(self, row: RememberedRow, classes: Sequence[OutputClass], one: JournalInput) -> None:
        """An input, or a timer, of its slots; `classes` are those that its outputs are numbered by."""
        outputs = [(self._journaled.number_of(classes[number]), data) for number, data in one.outputs]
        size = ENTRY_BYTES + sum(len(data) + ENTRY_BYTES for _, data in outputs)
        entry = RememberedInput(one.slot, one.messages, row, (), outputs, loaded=True, bytes=size, counted=False)
        self.memory.restore(row, (one.origin, one.identity), entry, timer=one.timer)
        if one.timer:
            self._unsent[one.origin, one.identity] = None

    async def run(self) -> None:
        for pair in self._unsent:
            if self.timers is not None and (entry := self.memory.entries.get(pair)) is not None:
                self.timers.outputs.send(pair, entry)
        self._unsent.clear()
        await super().run()

    # -- inputs

    def put(self, tuples: Sequence[Tuple[Any]]) -> None:
        """Timers that are due, or that are due again."""
        self.queue.extend(tuples)
        self.wake()

    def work(self) -> None:
        super().work()
        if self._open and not self.queue:
            self._group_commit.commit_inline()

    def slice(self, count: int) -> int:
        return super().slice(min(count, GROUP_MAX - len(self._open))) if self._open_bytes < GROUP_BYTES_MAX else 0

    def begin(self, tup: Tuple[Any]) -> None:
        root = tup.root
        if root and (self.floors.refuses(root >> NUMBER_SHIFT) if not tup.others else self.is_stale(tup)):
            self.refuse(tup)
            return
        pair = tup.origin, tup.identity
        codec, key_of, record = self.codec, tup.source.key, tup.record
        try:
            key: Any = pair if codec is None or key_of is None else key_of(record)
            if key in self.busy:
                self.park(key, tup)
                return
            self.executed += 1
            if root and (entry := self.memory.entries.get(pair)) is not None:
                self._again(tup, entry)
                return
            if codec is None:
                state, outputs = None, self.bolt.process(record)
            else:
                state = StateValue(codec, key, self.keys.content(key))
                outputs = self._fire(record, state) if type(record) is Due else self.bolt.process(record, state)
            records: Sequence[Record] = ()
            if type(outputs) is GeneratorType:
                records = yielded(outputs)
            elif outputs is not None:
                if waits(outputs):
                    self.wait(tup, outputs, key, state)
                    return
                records = collected(outputs)
            self.done(tup, records, state)
        except BaseException as error:
            self.raised(tup, error)

    def _fire(self, record: Due, state: StateValue) -> Any:
        assert self.timers is not None, "who else has put it into the queue"
        self._fired += 1
        if state.fired(record.name, record.due):
            return self.timers.call(record, state)
        self.timers.over(record)  # it was moved, or taken away, meanwhile
        return None

    def done(self, tup: Tuple[Any], records: Sequence[Record], state: StateValue | None) -> None:
        """Encodes what is to be kept, so that what has no byte form fails this input and no other; then it counts, for
        the inputs that come, and leaves once it is kept."""
        outputs, size = self._journaled.packed(records) if records else NOTHING
        pair = tup.origin, tup.identity
        if state is None:  # it is filed by what it goes by, so that a replay finds it after a restart
            key_of = tup.source.key
            slot = slot_of_identity(tup.identity) if key_of is None else slot_of(key_of(tup.record))
        else:
            slot = slot_of(state.key)
            if state.changed:
                self.keys.put(slot, state.key, state.content())
                if state.timers_changed and self.timers is not None:
                    self.timers.set(state.key, state.timers, state.timers_gone)
        entry = None
        if tup.root:
            entry = RememberedInput(slot, messages_of(tup), self._next, records, outputs, False, size)
            self.memory.entries[pair] = entry  # as `add` does, without the call
            self.memory.bytes += size
        elif type(tup.record) is Due:
            assert self.timers is not None
            self.timers.over(tup.record)
            if records:
                entry = RememberedInput(slot, (), self._next, records, outputs, bytes=size)
                self.memory.add(pair, entry)
        self._open.append((tup, records, pair, entry))
        self._open_bytes += size
        if len(self._open) == 1:
            self._group_commit.hurry()

    def _again(self, tup: Tuple[Any], entry: RememberedInput) -> None:
        """Handle a known input that came once more: emit its outputs again, once they are kept (D2, D3)."""
        self.memory.renumbered(entry, messages_of(tup))
        if entry.row.kept:
            self._send(tup, entry)
        else:
            entry.waiting = [*(entry.waiting or ()), tup]

    def records_of(self, entry: RememberedInput) -> Sequence[Record]:
        """Return the outputs of an input. Raises RecordError for one that an earlier version of a class has encoded."""
        if entry.loaded:
            entry.records = self._journaled.unpacked(entry.outputs)
            entry.loaded = False
        return entry.records

    # -- commits (`CommitPart`)

    def gather(self, changes: Changes) -> None:
        """Add what has been done since the last time, as bytes (D11)."""
        self.memory.forget(FORGOTTEN_EACH * len(self._open), thorough=self.memory.bytes > self._most // 2)
        again = bool(self._gathered)  # the last time was in vain
        self._gathered += self._open
        self._open, self._open_bytes = [], 0
        if (change := self.keys.gather()) is not None and self._lasts:
            changes.states.append(change)
        if self.timers is not None and self._lasts:
            changes.marks += self.timers.due_times.gather()
        row, self._next = self._next, RememberedRow()
        entries = [(pair, entry) for tup, _, pair, entry in self._gathered if entry is not None and tup.root]
        if again:
            for _, entry in entries:
                entry.row = row
        entries += self._refiled
        self._row, self._timer_rows = (row if entries else None), []
        if entries:
            self._file(changes, row, entries)
        for tup, _, pair, of_timer in self._gathered:
            if of_timer is not None and not tup.root:  # a row of its own, which goes when its tree is done
                of_timer.row = RememberedRow()
                self._timer_rows.append(of_timer.row)
                self._file(changes, of_timer.row, [(pair, of_timer)], timer=True)

    def _file(
        self, changes: Changes, row: RememberedRow, entries: list[tuple[Pair, RememberedInput]], *, timer: bool = False
    ) -> None:
        """These inputs will be in this row of the journal, which is among what is kept next."""
        row.number = self._group_commit.next_row()
        row.pairs = pairs = [pair for pair, _ in entries]
        messages = [entry.messages for _, entry in entries]
        if not timer and max(map(len, messages)) == min(map(len, messages)) == 1:
            row.first, row.last = min(messages)[0], max(messages)[0]
        row.size = sum([entry.bytes for _, entry in entries])
        if self._lasts:
            slots, outputs = [entry.slot for _, entry in entries], [entry.outputs for _, entry in entries]
            content = packed_columns(self._journaled.classes, pairs, slots, messages, outputs, [0] if timer else [])
            row.stored = len(content)
            changes.journal.append(JournalRow(row.number, self.known_as, content))

    @property
    def waiting_to_be_kept(self) -> int:
        return len(self._gathered) + len(self._open) + len(self._refiled)

    def kept(self) -> None:
        """Let outputs leave and ack inputs: what was gathered is durable (D1)."""
        gathered, self._gathered = self._gathered, []
        if self._row is not None:
            self.memory.is_kept(self._row, self._refiled)
        for row in self._timer_rows:
            self.memory.is_kept(row, timer=True)
        self._row, self._timer_rows, self._refiled = None, [], []
        if self.timers is not None:
            self.timers.due_times.kept()
        if self.is_cut_off or not gathered:
            return
        with entered(self.place):
            self._let_go(gathered)
        drive(self.downstream)
        if self.queue:
            self.wake()

    def _let_go(self, gathered: Sequence[Work]) -> None:
        emit, ack = self.outbox.emit, self.home.ack
        over: list[Any] = []  # trees that this completes
        for tup, records, pair, entry in gathered:
            if not tup.root and type(tup.record) is Due:
                if entry is not None and self.timers is not None:
                    self.timers.outputs.send(pair, entry)
                continue
            try:
                sent = emit(records, tup) if records else 0
            except BaseException as error:
                self.raised(tup, error)
            else:
                if tup.others or not tup.root:
                    self.ack_input(tup, sent)
                elif (tree := ack(tup.root, edge(tup.identity, tup.source.tag) ^ sent)) is not None:
                    over.append(tree)
            if entry is not None and entry.waiting:
                waiting, entry.waiting = entry.waiting, None
                for repeated in waiting:
                    self._send(repeated, entry)
        if over:
            self.home.completed(over)

    def _send(self, tup: Tuple[Any], entry: RememberedInput) -> None:
        """Emit the outputs of an input once more, for another attempt at it."""
        try:
            self.ack_input(tup, self.outbox.emit(self.records_of(entry), tup) if entry.outputs else 0)
        except BaseException as error:
            self.raised(tup, error)

    def not_kept(self) -> None:
        """Nothing of it is on the disk, and nothing of it has left: it is a part of what is gathered next (D10)."""
        self.keys.not_kept()
        self._refiled = []

    def inputs_ended(self) -> None:
        if self.timers is not None and self.bolt.fires_at_end:
            self.timers.fire_all()

    def drain(self) -> None:
        """No timer fires any more; what has fired is seen through."""
        if self.timers is not None:
            self.timers.drain()

    # -- what is needed no more

    def forget(self, looked_at: int) -> None:
        self.memory.forget(looked_at, thorough=True)
        if self.waiting_room.futures and not self.full:
            self.waiting_room.let_in()

    def forget_timer(self, pair: Pair) -> None:
        """Take note that the outputs of this timer are processed."""
        self.over.setdefault(self.memory.drop(pair).number, []).append(pair)

    def rows_gone(self, numbers: Sequence[int]) -> None:
        """These rows are not on the disk any more."""
        self.memory.gone(numbers)
        for number in numbers:
            for pair in self.over.pop(number, ()):
                assert self.timers is not None, "whose else was it"
                self.timers.outputs.removed(pair)

    def refile(self, newest: int) -> None:
        """File what little is remembered of rows before `newest` in the next row too."""
        self._refiled = [*self.memory.sparse(newest)]

    # -- how it stands

    @property
    def full(self) -> bool:
        return super().full or self.memory.bytes > self._most

    @property
    def why_full(self) -> str:
        if self.memory.bytes <= self._most:
            return ""
        return f"{self.memory.bytes:,} bytes of inputs whose messages are not done (max_remembered_bytes)"

    @property
    def kept_now(self) -> tuple[int, int, int]:
        return len(self.keys), len(self.memory), self.memory.bytes

    @property
    def workable(self) -> bool:
        return super().workable and len(self._open) < GROUP_MAX and self._open_bytes < GROUP_BYTES_MAX

    @property
    def quiet(self) -> bool:
        ending = self.timers is not None and self.timers.ending
        return super().quiet and not self._open and not self._gathered and not ending

    @property
    def untold(self) -> bool:
        """True if timers are left that fire when all inputs have ended, and it does not know that they have."""
        return self.timers is not None and self.bolt.fires_at_end and self.timers.untold

    @property
    def inputs(self) -> int:
        return self.executed - self._fired

    @property
    def remembered(self) -> dict[Pair, RememberedInput]:
        """The inputs that are remembered, by origin and identity."""
        return self.memory.entries

    def held(self) -> list[Tuple[Any]]:
        return [*super().held(), *self._uncommitted()]

    def _uncommitted(self) -> Iterator[Tuple[Any]]:
        for tup, _, _, entry in (*self._gathered, *self._open):
            yield tup
            if entry is not None and entry.waiting:
                yield from entry.waiting

    def fail_input(self, tup: Tuple[Any], error: BaseException | None, reason: Reason, text: str = "") -> None:
        super().fail_input(tup, error, reason, text)
        if type(tup.record) is Due and self.timers is not None:
            self.timers.later(tup.record, reason)

    def cut_off(self) -> None:
        """Fail the inputs that are not kept yet. The last commit may keep them; then they are known when they come
        again."""
        super().cut_off()
        if self.timers is not None:
            self.timers.close()
        for tup in self._uncommitted():
            if tup.root:
                self.fail_input(tup, None, Reason.CUT_OFF)
