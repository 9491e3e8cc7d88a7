"""A run that begins with another number of a spout's tasks: refused where state would count twice, or where what is
read again would have other identities. Rules D18, B14."""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from runtime_kit import Number, Same

from topology import Bolt, ConfigurationError, Message, Positions, Spout, State, Task, Topology
from topology.errors import StartError
from topology.runtime.embedded.run import EmbeddedRun
from topology.runtime.run.lifecycle import Takeover
from topology.runtime.run.report import Report
from topology.runtime.run.startup import Terms
from topology.storage.directory.state_dir import StateDir
from topology.storage.offline.savepoints import keep
from topology.testing import Captured, ScriptedSpout, Watch, run_topology, run_virtual

COUNT = 40


class Counts(Bolt):
    def process(self, item: Number, state: State[int]) -> None:
        state.set(state.get(0) + 1)


class Parts(Spout):
    """Six partitions, dealt to the tasks, each read from its position on; as a consumer of a log with partitions."""

    shared_ids = True

    def open(self, task: Task, positions: Positions) -> None:
        self.at: dict[str, Any] = {
            f"p{p}": positions.get(f"p{p}", -1) for p in range(6) if p % task.tasks == task.index
        }
        self.names = dict.fromkeys(self.at, "")

    async def poll(self, limit: int) -> Sequence[Message[Number]]:
        for name, at in self.at.items():
            if at < 9:
                self.at[name] = 9
                return [Message(Number(100 * int(name[1]) + i), i, partition=name) for i in range(max(at, 0), 10)]
        return []

    def partitions(self) -> Mapping[str, str]:
        return self.names


class Own(Spout):
    """Divides numbers among its tasks, and does not say so."""

    def open(self, task: Task, positions: Positions) -> None:
        if task.tasks == 5:
            raise ConfigurationError("not five")
        self.left = [n for n in range(COUNT) if n % task.tasks == task.index and n >= positions.get("", 0)]  # type: ignore[operator]  # ints

    async def poll(self, limit: int) -> Sequence[Message[Number]]:
        given, self.left = self.left[:limit], self.left[limit:]
        return [Message(Number(n), n) for n in given]


SPOUTS = {
    "ints": lambda: ScriptedSpout([Message(Number(n), n) for n in range(COUNT)]),
    "names": lambda: ScriptedSpout([Message(Number(n), f"m{n:03}") for n in range(COUNT)]),
    "partitions": Parts,
}


def made(spout: Any, tasks: int, *, state: bool = True, beside: bool = False) -> tuple[Topology, Captured[Number]]:
    """`beside`: the bolt with state has a source of its own."""
    topology, seen = Topology("rescaled"), Captured[Number]()
    numbers = topology.spout("numbers", spout, tasks=tasks)
    topology.bolt("seen", seen, topology.bolt("same", Same(), numbers.shuffle()).shuffle())
    if state:
        other = topology.spout("other", SPOUTS["ints"]()) if beside else numbers
        topology.bolt("counts", Counts(), other.fields("n"))
    return topology, seen


def run(path: Path, spout: Any, tasks: int, **settings: Any) -> tuple[Report, Counter[Any], Captured[Number]]:
    topology, seen = made(spout, tasks, **settings)
    watch = Watch()
    report = run_topology(topology, state_dir=path, watch=watch)
    return report, Counter(watch.state("counts").values()) if settings.get("state", True) else Counter(), seen


def refusal(path: Path, spout: Any, tasks: int, **settings: Any) -> StartError:
    with pytest.raises(StartError) as refused:
        run(path, spout, tasks, **settings)
    return refused.value


def run_on(terms: Terms, path: Path, spout: Any, tasks: int, **settings: Any) -> tuple[Report, Captured[Number]]:
    topology, seen = made(spout, tasks, **settings)

    async def begun() -> Report:
        return await EmbeddedRun(topology, state_dir=path, takeover=Takeover(terms), companions=False).finish()

    return run_virtual(begun()), seen


@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 1), (2, 3), (3, 2)])
@pytest.mark.parametrize("kind", SPOUTS)
def test_where_state_would_count_twice_another_number_of_tasks_is_refused_D18(
    tmp_path: Path, kind: str, before: int, after: int
) -> None:
    report, first, _ = run(tmp_path, SPOUTS[kind](), before)
    assert report.clean
    refused = refusal(tmp_path, SPOUTS[kind](), after)
    tasks = f"{after} task{'s' * (after != 1)}"
    assert str(refused) == (
        f"spout 'numbers' has {tasks} now, and had {before}: records that it reads again would count twice in the "
        "state of 'counts'"
    )
    assert refused.next == (
        f"give it tasks={before} again; or give up all positions and all state and read every source from its start, "
        "by --fresh"
    )
    _, again, _ = run(tmp_path, SPOUTS[kind](), before)
    assert set(first) == set(again) == {1}, "what was refused has changed nothing"


def test_that_is_refused_even_where_duplicates_are_accepted_and_fresh_is_the_way_on_D18(tmp_path: Path) -> None:
    run(tmp_path, SPOUTS["ints"](), 1)
    with pytest.raises(StartError, match="would count twice"):
        run_on(Terms(accept_duplicates=True), tmp_path, SPOUTS["ints"](), 2)
    run_on(Terms(fresh=True), tmp_path, SPOUTS["ints"](), 2)
    _, counts, _ = run(tmp_path, SPOUTS["ints"](), 2)
    assert counts == {1: COUNT}


def test_state_that_is_of_another_source_or_that_begins_now_is_no_reason_D18(tmp_path: Path) -> None:
    run(tmp_path / "beside", SPOUTS["ints"](), 1, beside=True)
    _, counts, _ = run(tmp_path / "beside", SPOUTS["ints"](), 2, beside=True)
    assert counts == {1: COUNT}
    run(tmp_path / "new", SPOUTS["names"](), 2, state=False)
    _, counts, _ = run(tmp_path / "new", SPOUTS["names"](), 3)
    assert set(counts) == {1}


def test_a_spout_that_has_given_nothing_yet_may_have_any_number_of_tasks_D18(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError):
        run(tmp_path, Own(), 5)
    _, counts, _ = run(tmp_path, Own(), 1)
    assert counts == {1: COUNT}


def test_where_each_task_has_ids_of_its_own_another_number_is_refused_without_state_too_B14(tmp_path: Path) -> None:
    run(tmp_path, Own(), 2, state=False)
    refused = refusal(tmp_path, Own(), 3, state=False)
    assert str(refused) == (
        "spout 'numbers' has 3 tasks now, and had 2; each task has message ids of its own, so all would be read and "
        "stored again"
    )
    assert "give it tasks=2 again; if its tasks share one set of ids, write shared_ids = True" in refused.next


def test_where_that_is_accepted_everything_is_read_again_and_nothing_passed_over_B14(tmp_path: Path) -> None:
    run(tmp_path, Own(), 2, state=False)
    report, seen = run_on(Terms(accept_duplicates=True), tmp_path, Own(), 3, state=False)
    assert report.clean
    assert sorted(one.n for one in seen.records) == list(range(COUNT))


def test_a_spout_of_one_task_that_says_that_its_tasks_share_ids_may_have_more_B14(tmp_path: Path) -> None:
    class Says(Own):
        shared_ids = True

    run(tmp_path, Own(), 1, state=False)
    _, _, seen = run(tmp_path, Says(), 2, state=False)
    assert seen.records == []


def test_a_refusal_leaves_the_directory_as_it_was_D18(tmp_path: Path) -> None:
    run(tmp_path, SPOUTS["ints"](), 2)
    before = {one: one.read_bytes() for one in tmp_path.iterdir() if one.name == "state.json"}
    refusal(tmp_path, SPOUTS["ints"](), 1)
    assert before == {one: one.read_bytes() for one in before}
    directory = StateDir(tmp_path, "rescaled")
    assert directory.clean
    directory.close()


def test_a_spout_that_had_nothing_to_give_may_have_any_number_of_tasks_D18(tmp_path: Path) -> None:
    run(tmp_path, ScriptedSpout([], emits=[Number]), 1)
    _, counts, _ = run(tmp_path, SPOUTS["ints"](), 2)
    assert counts == {1: COUNT}


def test_a_run_from_a_checkpoint_with_other_tasks_is_refused_before_anything_is_replaced_D18(tmp_path: Path) -> None:
    run(tmp_path, SPOUTS["ints"](), 1)
    with closing(StateDir(tmp_path, "rescaled")) as state:
        source = keep(state, "early", datetime(2026, 1, 1, tzinfo=UTC)).path
    before = [path.name for path in (tmp_path / "checkpoints").iterdir()]
    with pytest.raises(StartError, match="would count twice") as told:
        run_on(Terms(source=source), tmp_path, SPOUTS["ints"](), 2)
    assert told.value.next == "give it tasks=1 again"
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == before
