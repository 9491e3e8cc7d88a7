"""What a supervisor asks all workers about a run that stands still. They are puppets, but for the last test."""

import asyncio
from pathlib import Path

import pytest
from puppet_kit import PATIENCE_S, Stage, staged
from supervised_kit import children, holding

from topology.runtime.control.messages import Looked, Word
from topology.runtime.supervisor import queries as crews
from topology.runtime.supervisor.queries import WorkerQueries
from topology.runtime.supervisor.supervisor import SupervisedRun
from topology.runtime.supervisor.worker_handle import WorkerHandle
from topology.runtime.telemetry.stall import BoltFacts, RunFacts


def looked(*bolts: str, oldest_s: float = 0.0, root: int = 0, of: int = 0, later: int = 0) -> dict[str, str]:
    """A puppet with these bolts, which have the tree `of`, and whose oldest tree is `root`; `later` by the second
    question."""
    facts = [f"BoltFacts({name!r}, 0, 1)" for name in bolts]
    return {
        "Look": "from topology.runtime.telemetry.stall import BoltFacts, RunFacts\n"
        f"have, oldest = {list(bolts)} if order.root == {of} else [], {later or root} if order.root else {root}\n"
        f"say(Looked(order.number, RunFacts(0.0, [], [{', '.join(facts)}], {oldest_s}, have, oldest)))"
    }


async def found(
    monkeypatch: pytest.MonkeyPatch, does: dict[int, dict[str, str]], last: RunFacts | None = None
) -> tuple[RunFacts, Stage]:
    """The facts that a crew of such workers finds."""
    async with staged(monkeypatch, len(does), {worker: [one] for worker, one in does.items()}) as (stage, fleet):
        crew = WorkerQueries(stage.plan, fleet)

        def heard(handle: WorkerHandle, word: Word) -> None:
            if isinstance(word, Looked):
                crew.answered(handle, word)

        stage.answered = heard
        await stage.until(lambda: fleet.complete)
        return await crew.facts(lambda worker: last or RunFacts(0.0, (), ())), stage


async def test_the_bolt_that_has_the_oldest_message_of_all_is_named_on_whichever_worker_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    facts, _ = await found(
        monkeypatch,
        {
            0: looked("here", oldest_s=9.0, root=77),
            1: looked("there", oldest_s=3.0, root=88, of=77),
            2: looked("elsewhere", of=88),
        },
    )
    assert (facts.oldest_s, facts.oldest_root, facts.oldest_in) == (9.0, 77, ["there"])
    assert sorted(one.name for one in facts.bolts) == ["elsewhere", "here", "there"]


@pytest.mark.parametrize("does", [{0: looked("here", oldest_s=9.0, root=77)}, {0: looked(), 1: looked()}])
async def test_one_worker_alone_or_all_without_a_message_are_asked_once(
    monkeypatch: pytest.MonkeyPatch, does: dict[int, dict[str, str]]
) -> None:
    facts, stage = await found(monkeypatch, does)
    assert facts.oldest_in == (["here"] if len(does) == 1 else [])
    assert all(orders.count("Look") == 1 for orders in stage.orders.values())


async def test_an_oldest_message_that_was_done_between_two_questions_is_in_no_bolt_and_not_told_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    facts, _ = await found(monkeypatch, {0: looked(oldest_s=9.0, root=77, later=88), 1: looked("there", of=88)})
    assert (facts.oldest_s, facts.oldest_root, facts.oldest_in) == (0.0, 0, ())


@pytest.mark.parametrize(("silent", "oldest_s"), [(False, 9.0), (True, 0.0)])
async def test_nobody_says_that_the_oldest_message_is_nowhere_while_a_silent_worker_may_have_it(
    monkeypatch: pytest.MonkeyPatch, silent: bool, oldest_s: float
) -> None:
    monkeypatch.setattr(crews, "LOOK_ANSWER_S", 0.3)
    last = RunFacts(0.0, (), [BoltFacts("there", 4, 0)])
    there = {"Look": ""} if silent else looked("there", of=88)
    facts, _ = await found(monkeypatch, {0: looked(oldest_s=9.0, root=77), 1: there}, last)
    assert (facts.oldest_s, list(facts.oldest_in)) == (oldest_s, [])
    assert facts.bolts == [BoltFacts("there", *((4, 0) if silent else (0, 1)))]


async def test_the_stall_line_of_a_run_names_the_bolt_on_another_worker_that_holds_the_oldest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    for module in ("telemetry.stall", "supervisor.monitor"):
        monkeypatch.setattr(f"topology.runtime.{module}.SILENT_S", 2.0)
    run = SupervisedRun(holding(), workers=2, loader="supervised_kit:holding", arguments={})
    ending = asyncio.ensure_future(run.finish())
    try:
        async with asyncio.timeout(PATIENCE_S):
            while (snapshot := run.snapshot()) is None or "pending" not in snapshot.limit:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert "'keeps' has the oldest, for " in snapshot.limit
        assert {worker: one.total("pending") for worker, one in run.by_worker().items()} == {0: 3, 1: 0}
    finally:
        run.abort()
        await ending
    assert not children()
