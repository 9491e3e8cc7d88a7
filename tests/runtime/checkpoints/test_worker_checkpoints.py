"""A worker's end of one checkpoint, step by step, with a store that keeps nothing (P1 to P6, P9, P14)."""

import asyncio
from types import SimpleNamespace

from letters_kit import until

from acker.frontier import NUMBER_BITS, Decided, Frontier, Note
from topology.runtime.checkpoints.worker_checkpoints import WorkerCheckpoints
from topology.storage.store import StoreFull
from topology.storage.values import Changes, Mark
from topology.testing.virtual_time.loop import run_virtual

OWNER = 1


class Disk:
    """A store that keeps nothing. While `is_full`, it can't be written."""

    is_owing, log_bytes = False, 0

    def __init__(self) -> None:
        self.is_full = False
        self.done: list[str] = []
        self.marks: list[object] = []

    def _write(self, what: str) -> None:
        if self.is_full:
            raise StoreFull("there is no room")
        self.done.append(what)

    def prepare(self, checkpoint: int, changes: Changes) -> None:
        self._write(f"prepare {checkpoint}")
        self.marks = [mark.position for mark in changes.marks]

    def decided(self, checkpoint: int) -> None:
        self._write(f"decided {checkpoint}")


class Part:
    """A task with a position and a state: `at` is where it is, and `calls` what it is told."""

    changed = True

    def __init__(self) -> None:
        self.at = 1
        self.calls: list[str] = []

    def gather(self, changes: Changes | None = None) -> None:
        if changes is not None:
            changes.marks.append(Mark("lines", 0, "p", "e", self.at, (), self.at))
        else:
            self.calls.append("gather")

    def pack(self, changes: Changes, frontier: Frontier) -> None:
        """Has nothing more."""

    def kept(self) -> None:
        self.calls.append("kept")

    def not_kept(self) -> None:
        self.calls.append("not kept")

    def go_back(self) -> None:
        self.calls.append("go back")


class Stand:
    """A worker, whose answers are in `said`."""

    def __init__(self) -> None:
        self.disk, self.part, self.decided = Disk(), Part(), Decided()
        self.said: list[str] = []
        made = WorkerCheckpoints(self.disk, decided=self.decided, note_of=self._note)  # type: ignore[arg-type]
        made.add(SimpleNamespace(gather=self.part.gather, kept=lambda: None, not_kept=lambda: None))
        made.add_gathered(self.part)
        made.answers.prepared = lambda checkpoint, size, seconds: self.said.append(f"prepared {checkpoint}")
        made.answers.unprepared = lambda checkpoint, why: self.said.append(f"unprepared {checkpoint}: {why}")
        made.answers.settled = lambda checkpoint: self.said.append(f"settled {checkpoint}")
        self.checkpoints = made

    def _note(self) -> Note:
        return Note((OWNER,), OWNER << NUMBER_BITS | self.part.at)

    def frontier(self, checkpoint: int) -> Frontier:
        return Frontier(checkpoint, {0: self.checkpoints.note(checkpoint)[0]})

    async def until(self, word: str) -> None:
        await until(lambda: word in self.said)


def test_the_marks_of_a_checkpoint_are_those_of_the_note_and_not_of_the_commit_P2() -> None:
    async def main() -> None:
        stand = Stand()
        frontier = stand.frontier(1)
        stand.part.at = 9
        stand.checkpoints.gather(frontier)
        await stand.until("prepared 1")
        assert stand.disk.marks == [1]

    run_virtual(main())


def test_nothing_is_refused_or_forgotten_before_the_decision_and_all_of_it_from_then_on_P4() -> None:
    async def main() -> None:
        stand, done = Stand(), OWNER << NUMBER_BITS | 1
        stand.checkpoints.gather(stand.frontier(1))
        await stand.until("prepared 1")
        assert not stand.decided.refuses(done)
        assert stand.part.calls == ["gather"]
        stand.checkpoints.decided(1)
        assert stand.decided.refuses(done)
        assert stand.part.calls == ["gather", "kept"]

    run_virtual(main())


def test_no_checkpoint_is_noted_while_the_decision_before_is_being_taken_in_P6() -> None:
    async def main() -> None:
        stand = Stand()
        stand.checkpoints.gather(stand.frontier(1))
        await stand.until("prepared 1")
        stand.disk.is_full = True
        stand.checkpoints.decided(1)
        stand.checkpoints.note(2)
        await asyncio.sleep(0.001)
        assert [one for one in stand.said if one.startswith("unprepared 2")]
        stand.disk.is_full = False
        await stand.until("settled 1")
        stand.checkpoints.gather(stand.frontier(3))
        await stand.until("prepared 3")
        assert stand.disk.done == ["prepare 1", "decided 1", "prepare 3"]

    run_virtual(main())


def test_a_snapshot_is_gathered_once_though_a_frame_came_before_the_barrier_P1() -> None:
    async def main() -> None:
        stand = Stand()
        frontier = stand.frontier(1)
        stand.checkpoints.saw(1)
        stand.checkpoints.saw(1)
        assert stand.decided.gathered == 1
        stand.checkpoints.gather(frontier)
        await stand.until("prepared 1")
        assert stand.part.calls == ["gather"]

    run_virtual(main())


def test_on_a_full_disk_the_checkpoint_is_given_up_and_the_next_one_has_all_of_it_P14() -> None:
    async def main() -> None:
        stand = Stand()
        stand.disk.is_full = True
        stand.checkpoints.gather(stand.frontier(1))
        await stand.until("unprepared 1: there is no room")
        assert stand.checkpoints.why_full == "there is no room"
        stand.checkpoints.given_up(1)
        assert stand.part.calls == ["gather", "not kept"]
        stand.disk.is_full = False
        stand.checkpoints.gather(stand.frontier(2))
        await stand.until("prepared 2")
        stand.checkpoints.decided(2)
        await stand.until("settled 2")
        assert stand.checkpoints.why_full == ""

    run_virtual(main())


def test_a_generation_gives_up_what_is_not_decided_and_not_what_is_P9() -> None:
    async def main() -> None:
        stand = Stand()
        stand.checkpoints.gather(stand.frontier(1))
        stand.checkpoints.end()
        assert stand.part.calls == ["gather", "not kept"]
        stand.checkpoints.gather(stand.frontier(2))
        await stand.until("prepared 2")
        stand.checkpoints.decided(2)
        stand.checkpoints.end()
        await stand.until("settled 2")
        assert stand.part.calls == ["gather", "not kept", "gather", "kept"]

    run_virtual(main())
