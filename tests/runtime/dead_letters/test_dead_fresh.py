"""Dead letters from before a --fresh, which leaves them where they are, and reads their messages again (E1)."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

from letters_kit import asked, dead_of, letters_in, run_kept, store_at, until
from runtime_kit import Number

from topology import Bolt, Config, State, Topology
from topology.filesystem.files import DiskFiles
from topology.runtime.embedded.run import EmbeddedRun
from topology.storage.sqlite.store import SqliteStore
from topology.testing import ScriptedSpout, Wait, Watch


class Totals(Bolt):
    def process(self, number: Number, state: State[int]) -> Iterator[Number]:
        state.set(state.get(0) + 1)
        yield number


class Bad(Bolt):
    """Raises for one number, unless it is `mended`."""

    def __init__(self, *, mended: bool) -> None:
        self.mended = mended

    def process(self, number: Number) -> None:
        if number.n == 3 and not self.mended:
            raise ValueError("three is bad")


def numbers(*, mended: bool) -> Topology:
    """numbers, which never end → totals by number → bad."""
    topology = Topology("mending", Config(max_replays=1))
    stream = topology.spout("numbers", ScriptedSpout[Number]([*[Number(n) for n in range(6)], Wait()]))
    topology.bolt("bad", Bad(mended=mended), topology.bolt("totals", Totals(), stream.fields("n")).shuffle())
    return topology


def test_a_letter_whose_message_was_read_and_done_again_after_fresh_is_not_counted_twice_E1(tmp_path: Path) -> None:
    watch = Watch()
    counts: list[list[int]] = []

    async def dying(run: EmbeddedRun) -> None:
        await dead_of(run, 1)
        run.drain()

    run_kept(numbers(mended=False), store_at(tmp_path), during=dying)
    assert len(letters_in(tmp_path)) == 1
    store = SqliteStore(DiskFiles(), tmp_path / "worker-0.db")
    store.forget()  # as --fresh does: letters stay
    store.close()

    async def during(run: EmbeddedRun) -> None:
        await until(lambda: len(watch.state("totals")) == 6)
        await asyncio.sleep(5)  # all is done, and what nobody needs is forgotten
        counts.append([*watch.state("totals").values()])
        await asked(run, "replay", "0-1")
        await until(lambda: (snapshot := run.snapshot()) is not None and snapshot.spouts["numbers"].acked == 7)
        counts.append([*watch.state("totals").values()])
        run.drain()

    run_kept(numbers(mended=True), store_at(tmp_path), during=during, watch=watch)
    assert counts == [[1] * 6, [1] * 6]
    assert letters_in(tmp_path) == []
