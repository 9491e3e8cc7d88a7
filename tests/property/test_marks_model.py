"""Marks against a brute-force set: any order of acks, gaps, retries, epochs, and restarts at any commit (E3, E4)."""

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from acker import marks
from acker.identity import MessageId
from acker.ledger import Tree
from acker.marks import Lane, Marks, Reached

PARTITION = "p"


class Partition:
    """A source's one: its ids in each epoch, and what became of each message, told one by one."""

    def __init__(self, named: bool) -> None:
        self.named = named
        self.epoch = 0
        self.ids: list[list[MessageId]] = [[]]
        self.next_int = 0

    def grow(self, gaps: list[int]) -> None:
        for gap in gaps:
            self.next_int += gap
            self.ids[self.epoch].append(f"n{self.next_int}" if self.named else self.next_int)

    def renew(self) -> None:
        """Its ids begin again."""
        self.epoch += 1
        self.ids.append([])
        self.next_int = 0


class MarksMachine(RuleBasedStateMachine):
    """`done` and `emitted` are the model: every message, as (epoch, index), of all runs."""

    @initialize(named=st.booleans(), heeds=st.booleans(), recent=st.sampled_from([0, 4, 9, marks.RECENT_MAX]))
    def begin(self, named: bool, heeds: bool, recent: int) -> None:
        self.recent = pytest.MonkeyPatch()
        self.recent.setattr(marks, "RECENT_MAX", recent)
        self.heeds_positions = heeds or named
        self.source = Partition(named)
        self.done: set[tuple[int, int]] = set()
        self.kept: dict[tuple[str, str], Reached] = {}
        self.kept_done: set[tuple[int, int]] = set()
        self._run()

    def teardown(self) -> None:
        if hasattr(self, "recent"):
            self.recent.undo()

    def _run(self) -> None:
        """A new run begins at what was kept."""
        self.marks = Marks(self.kept)
        self.trees: dict[tuple[int, int], Tree] = {}  # emitted in this run
        self.passed: set[tuple[int, int]] = set()
        epoch, ids = self.source.epoch, self.source.ids[self.source.epoch]
        reached = self.kept.get((PARTITION, str(epoch)))
        self.index = ids.index(reached.position) if reached is not None and self.heeds_positions else 0

    @rule(gaps=st.lists(st.integers(1, 3), min_size=1, max_size=6))
    def there_is_more_to_read(self, gaps: list[int]) -> None:
        self.source.grow(gaps)

    @rule(limit=st.integers(1, 8))
    def a_poll(self, limit: int) -> None:
        epoch = self.source.epoch
        ids = self.source.ids[epoch][self.index : self.index + limit]
        if not ids:
            return
        lane = self.marks.lane(PARTITION, str(epoch))
        start = 0
        while start < len(ids):
            count = lane.new(ids, start)
            if count:
                trees = [Tree(1, 1) for _ in range(count)]
                for offset, tree in enumerate(trees):
                    at = epoch, self.index + start + offset
                    assert at not in self.trees, "emitted twice in a run"
                    assert at not in self.kept_done, f"{at} was done before the last commit, and is repeated"
                    self.trees[at] = tree
                lane.add(ids[start : start + count])
                start += count
            else:
                at = epoch, self.index + start
                assert lane.before(ids[start])
                assert at in self.done, f"{at} was never done, and is passed over"
                self.passed.add(at)
                start += 1
        self.index += len(ids)

    @precondition(lambda self: any(tree.value for tree in self.trees.values()))
    @rule(data=st.data())
    def one_is_done(self, data: st.DataObject) -> None:
        at = data.draw(st.sampled_from([at for at, tree in self.trees.items() if tree.value]))
        self.trees[at].value = 0
        self.done.add(at)

    @precondition(lambda self: any(tree.value for tree in self.trees.values()))
    @rule(data=st.data())
    def one_is_given_again_while_it_is_under_way(self, data: st.DataObject) -> None:
        """F59."""
        at = data.draw(st.sampled_from([at for at, tree in self.trees.items() if tree.value]))
        lane = self.marks.lane(PARTITION, str(at[0]))
        one = self.source.ids[at[0]][at[1]]
        assert lane.new([one]) == 0
        assert not lane.before(one)
        assert isinstance(one, str) or not lane.again(one)

    @precondition(lambda self: any(tree.value for tree in self.trees.values()))
    @rule(data=st.data())
    def one_has_another_value(self, data: st.DataObject) -> None:
        at = data.draw(st.sampled_from([at for at, tree in self.trees.items() if tree.value]))
        self.trees[at].value = data.draw(st.integers(1, 5))

    @rule()
    def a_commit(self) -> None:
        marks = self.marks.reached(self._unfinished())
        self.marks.note_stored(marks, [(PARTITION, str(self.source.epoch))])
        self.kept = {**self.kept, **marks}
        self.kept_done |= {at for at, tree in self.trees.items() if not tree.value}

    @rule()
    def everything_dies(self) -> None:
        self._run()  # what a sink has, in `done`, stays

    @precondition(lambda self: self.source.epoch < 2)
    @rule()
    def the_epoch_changes(self) -> None:
        self.source.renew()
        self.index = 0

    @invariant()
    def the_mark_is_the_oldest_that_is_not_done_and_the_spans_are_what_is_done_above_it(self) -> None:
        if not hasattr(self, "marks"):
            return
        for epoch, ids in enumerate(self.source.ids):
            given = sorted(
                [*(at for at in self.trees if at[0] == epoch), *(at for at in self.passed if at[0] == epoch)]
            )
            there = (PARTITION, str(epoch)) in self.marks._lanes
            unfinished = self._unfinished().get((PARTITION, str(epoch)), [])
            reached = self._lane(epoch).reached(unfinished) if there else None
            if reached is None:
                continue
            open_ = [at for at in given if at in self.trees and self.trees[at].value]
            oldest = open_[0] if open_ else None
            if oldest is not None:
                assert reached.position == ids[oldest[1]]
                assert len(reached.done) <= len(ids) if self.source.named else True
            begins = ids.index(reached.position)
            for index in range(begins, len(ids)):
                covered = _covers(reached, ids[index])
                if (epoch, index) in given:
                    assert covered == ((epoch, index) in self.passed or not self.trees[epoch, index].value), index
                elif covered:
                    assert (epoch, index) in self.done
            for index in range(begins):
                assert (epoch, index) in self.done

    def _unfinished(self) -> dict[tuple[str, str], list[MessageId]]:
        found: dict[tuple[str, str], list[MessageId]] = {}
        for (epoch, index), tree in self.trees.items():
            if tree.value:
                found.setdefault((PARTITION, str(epoch)), []).append(self.source.ids[epoch][index])
        return found

    def _lane(self, epoch: int) -> Lane:
        return self.marks.lane(PARTITION, str(epoch))


def _covers(reached: Reached, one: Any) -> bool:
    if isinstance(one, int):
        return any(first <= one <= last for first, last in reached.done)  # type: ignore[operator]
    return (one, one) in reached.done


MarksMachine.TestCase.settings = settings(max_examples=100, stateful_step_count=50, deadline=None)
TestMarks = MarksMachine.TestCase
