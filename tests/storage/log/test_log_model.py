"""A log against a list, through any order of appends, syncs, marks, decisions, kills, power cuts and full disks."""

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from log_kit import SIZES, Machine

from topology.storage.store import StoreBroken, StoreFull

lengths = st.lists(st.integers(0, 900) | st.integers(0, 40), min_size=0, max_size=4)


class LogAndList(RuleBasedStateMachine):
    """`marked` is the last checkpoint that this process has marked; it is decided, or given up, by the next one."""

    @initialize(seed=st.integers(0, 2**32))
    def begin(self, seed: int) -> None:
        self.machine = Machine(seed)
        self.machine.open()
        self.marked = self.tried = 0

    def reopened(self) -> None:
        self.marked = self.tried = self.machine.decided
        self.machine.open()

    def next_mark(self, step: int) -> int:
        """The number of the next mark: a higher one than the last one's, and no lower one than a mark without room."""
        self.tried = max(self.marked + step, self.tried)
        return self.tried

    @rule(sizes=lengths)
    def append(self, sizes: list[int]) -> None:
        self.machine.append(*sizes)

    @rule()
    def sync(self) -> None:
        self.machine.sync()
        assert self.machine.log.synced == self.machine.log.position

    @rule(step=st.integers(1, 2))
    def mark(self, step: int) -> None:
        self.marked = self.next_mark(step)
        self.machine.mark(self.marked)

    @precondition(lambda self: self.marked > self.machine.decided)
    @rule()
    def decide(self) -> None:
        self.machine.decide(self.marked)

    @precondition(lambda self: self.marked > self.machine.decided)
    @rule()
    def decide_and_lose_power_before_the_log_hears_of_it(self) -> None:
        self.machine.decided = self.marked
        self.machine.lose_power()
        self.reopened()

    @rule(sizes=lengths, kept=st.integers(0, 700), pressed=st.booleans())
    def full(self, sizes: list[int], kept: int, pressed: bool) -> None:
        """The same records are appended again when there is room, or are not."""
        machine = self.machine
        group = machine.made([*sizes, 3_000])
        machine.disk.short = kept
        position = machine.log.position
        with pytest.raises(StoreFull):
            machine.log.append(group)
        assert machine.log.position == position
        if pressed:
            machine.log.append(group)
            machine.records += group

    @rule(step=st.integers(1, 2))
    def mark_without_room(self, step: int) -> None:
        self.machine.disk.short = 0
        with pytest.raises(StoreFull):
            self.machine.log.mark(self.next_mark(step))

    @rule(step=st.integers(1, 2))
    def mark_whose_file_header_finds_no_room(self, step: int) -> None:
        """The second write of a turn fails: the file has the mark, and half a header."""
        machine = self.machine
        write, count = machine.disk.write, [0]

        def second(node: Any, offset: int, data: bytes) -> None:
            count[0] += 1
            if count[0] == 2:
                machine.disk.short = 512
            write(node, offset, data)

        machine.disk.write = second  # type: ignore[method-assign]
        try:
            machine.log.mark(self.next_mark(step))
        except StoreFull:
            return
        finally:
            machine.disk.write = write  # type: ignore[method-assign]
        self.marked = self.tried
        machine.marks[self.marked] = len(machine.records)

    @rule()
    def close_in_order(self) -> None:
        self.machine.close()
        self.reopened()

    @rule()
    def kill(self) -> None:
        self.machine.kill()
        self.reopened()

    @rule()
    def lose_power(self) -> None:
        self.machine.lose_power()
        self.reopened()

    @rule()
    def sync_that_fails(self) -> None:
        """The process ends; in the next one, what was not synced may be there or not, and what is read is durable."""
        log = self.machine.log
        if log.position > log.synced:
            self.machine.disk.failing_syncs = 1
            with pytest.raises(StoreBroken, match="K537"):
                log.sync()
            for call in (log.sync, lambda: log.append([b"x"]), lambda: log.mark(self.marked + 1)):
                with pytest.raises(StoreBroken):
                    call()
            log.close()
            self.reopened()
            self.machine.lose_power()
            self.reopened()

    @invariant()
    def bounded(self) -> None:
        machine = self.machine
        kept = machine.records[min(machine.marks.values()) :]
        assert machine.log.size <= 2 * SIZES.keep + 4 * SIZES.step + 8 * sum(map(len, kept)) + 200 * len(kept) + 20_000

    def teardown(self) -> None:
        if hasattr(self, "machine"):
            self.machine.kill()
            self.machine.files.close()


TestLogAndList = LogAndList.TestCase
TestLogAndList.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
