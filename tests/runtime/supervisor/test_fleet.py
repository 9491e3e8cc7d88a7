"""Who is told what when workers come and go. The processes are puppets: real ones, that say what a test wants."""

import asyncio
import logging
import os
import signal
import time
from collections.abc import Callable

import pytest
from puppet_kit import GOOD, PATIENCE_S, planned, staged

from acker.roots import owner
from topology.errors import ConfigurationError, StartError, WorkerError
from topology.runtime.control.messages import CheckpointDecided, Drain
from topology.runtime.supervisor import fleet as fleets
from topology.runtime.supervisor.worker_handle import WorkerState


async def test_nobody_starts_before_everybody_is_linked_with_everybody(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = {"Begin": f"time.sleep(0.5); {GOOD['Begin']}"}
    async with staged(monkeypatch, 3, {1: [slow]}) as (stage, fleet):
        await stage.until(
            lambda: fleet.handles[0].state is WorkerState.LINKED and fleet.handles[2].state is WorkerState.LINKED
        )
        assert not fleet.started
        await stage.until(lambda: fleet.complete and all("Start" in stage.of(worker) for worker in range(3)))
        for worker in range(3):
            orders = stage.of(worker)
            met = [int(c) for order in orders if order.startswith("Join") for c in order if c.isdigit()]
            assert sorted(met) == sorted({0, 1, 2} - {worker})
            assert orders[-1] == "Start"
    assert stage.ends == [(worker, WorkerState.ENDED) for worker, _ in stage.ends]
    assert len(stage.ends) == 3


async def test_all_survivors_are_told_to_begin_a_generation_at_once_and_then_of_the_replacement_a14(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with staged(monkeypatch, 3) as (stage, fleet):
        await stage.until(lambda: fleet.complete)
        dead = fleet.handles[1]
        os.kill(dead.pid, signal.SIGKILL)
        await stage.until(lambda: fleet.handles[1] is not dead and fleet.complete)
        for survivor in (0, 2):
            orders = ["Start", f"Generation 2 after {dead.owner}", "Join [1]"]
            await stage.until(lambda survivor=survivor, orders=orders: stage.of(survivor)[-3:] == orders)
        await stage.until(lambda: "Start" in stage.of(1))
        assert stage.of(1) == ["Begin", "Resume 0", "Join [0, 2]", "Start"]
        assert stage.generations == [1, 1, 1, 2]
        assert "; 200 messages in flight have failed and are replayed" in stage.told[0]
        assert fleet.handles[1].owner == owner(1, 4)


async def test_a_survivor_that_does_not_answer_holds_nothing_up_but_trials_a14(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wants = {"Start": "say(TrialWanted())"}
    late = {"Generation": "does['Drain'] = f'say(Failing({order.owner}, 1))'"}
    async with staged(monkeypatch, 3, {0: [wants], 2: [late]}) as (stage, fleet):
        await stage.until(lambda: fleet.complete and "TrialTurn" in stage.of(0))
        fleet._turns.over(fleet.handles[0].owner)
        dead = fleet.handles[1]
        os.kill(dead.pid, signal.SIGKILL)
        await stage.until(lambda: fleet.handles[1] is not dead and fleet.complete)
        await stage.until(lambda: stage.of(2)[-1] == "Join [1]")
        assert not fleet._deaths.settled
        fleet.handles[2].say(Drain())
        await stage.until(lambda: fleet._deaths.settled)


async def test_a_death_while_a_decision_is_under_way_is_told_of_after_it_and_replaced_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held: list[Callable[[], None]] = []
    async with staged(monkeypatch, 2) as (stage, fleet):
        stage.before_death = lambda why, then: held.append(then)
        await stage.until(lambda: fleet.complete)
        dead = fleet.handles[1]
        os.kill(dead.pid, signal.SIGKILL)
        await stage.until(lambda: held)
        fleet.handles[0].say(CheckpointDecided(9))
        await stage.until(lambda: stage.of(0)[-1] == "CheckpointDecided 9")
        assert (stage.lives, fleet.generation, fleet.complete) == ([0, 1], 1, False)
        held.pop()()
        await stage.until(lambda: fleet.complete)
        orders = ["CheckpointDecided 9", f"Generation 2 after {dead.owner}", "Join [1]"]
        await stage.until(lambda: stage.of(0)[-3:] == orders)


async def test_a_death_while_a_replacement_is_joining_begins_a_generation_for_it_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    alone = {"Join": "", "Generation": "say(Failing(order.owner, 0), Linked(joined))"}  # welcomed in the next one only
    async with staged(monkeypatch, 3, {1: [{}, alone]}) as (stage, fleet):
        await stage.until(lambda: fleet.complete)
        first, second = fleet.handles[1], fleet.handles[2]
        os.kill(first.pid, signal.SIGKILL)
        await stage.until(lambda: fleet.handles[1] is not first and "Join [0, 2]" in stage.of(1))
        os.kill(second.pid, signal.SIGKILL)
        await stage.until(lambda: fleet.complete)
        await stage.until(lambda: f"Generation 3 after {second.owner}" in stage.of(1))
        assert f"Generation 2 after {first.owner}" not in stage.of(1), "it began in that one"
        assert fleet.generation == 3
        assert fleet.restarts.total == 2


async def test_a_replacement_that_was_made_before_a_death_joins_in_the_generation_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slow = {
        "Begin": f"time.sleep(1.0); {GOOD['Begin']}",
        "Join": "say(Log(20, f'joins in {order.generation}'), Linked(joined))",
    }
    async with staged(monkeypatch, 3, {1: [{}, slow]}) as (stage, fleet):
        await stage.until(lambda: fleet.complete)
        first, second = fleet.handles[1], fleet.handles[2]
        os.kill(first.pid, signal.SIGKILL)
        await stage.until(lambda: fleet.handles[1] is not first)
        os.kill(second.pid, signal.SIGKILL)
        await stage.until(lambda: fleet.complete and fleet.handles[2] is not second)
        await stage.until(lambda: "joins in 3" in stage.of(1))
        assert stage.generations == [1, 1, 1, 2, 3]
        assert not any("Generation" in order for order in stage.of(1)), "nobody knew it"


async def test_two_that_die_at_once_are_replaced_and_meet_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    async with staged(monkeypatch, 3) as (stage, fleet):
        await stage.until(lambda: fleet.complete)
        dead = [fleet.handles[1], fleet.handles[2]]
        for one in dead:
            os.kill(one.pid, signal.SIGKILL)
        await stage.until(lambda: fleet.complete and not {fleet.handles[1], fleet.handles[2]} & set(dead))
        await stage.until(lambda: sum("2" in order for order in stage.of(1)) == 1)
        await stage.until(lambda: sum("1" in order for order in stage.of(2)) == 1)
        told = [order.split() for order in stage.of(0) if "Generation" in order]
        assert [number for _, number, _, _ in told] == ["2", "3"]
        assert {after for _, _, _, after in told} == {str(one.owner) for one in dead}
        assert [one.joined for one in fleet.handles.values()] == [
            {other.owner for other in fleet.handles.values()} - {one.owner} for one in fleet.handles.values()
        ]


async def test_a_death_during_the_start_is_mended_before_anybody_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    dies = {"Join": "os._exit(9)"}
    async with staged(monkeypatch, 3, {2: [dies, {}]}) as (stage, fleet):
        await stage.until(lambda: fleet.complete and all("Start" in stage.of(worker) for worker in range(3)))
        assert stage.lives.count(2) == 2
        assert fleet.restarts.total == 1
        for worker in (0, 1):
            assert sum("Generation" in order for order in stage.of(worker)) <= 1
            assert stage.of(worker)[-1] == "Start", "the death came before"
    assert "ended with status 9" in stage.told[0]


async def test_a_death_of_the_replacement_is_mended_too(monkeypatch: pytest.MonkeyPatch) -> None:
    async with staged(monkeypatch, 2, {1: [{}, {"Begin": "os._exit(9)"}, {"Join": "os._exit(9)"}, {}]}) as (
        stage,
        fleet,
    ):
        await stage.until(lambda: fleet.complete)
        os.kill(fleet.handles[1].pid, signal.SIGKILL)
        await stage.until(lambda: stage.lives.count(1) == 4 and fleet.complete)
        assert fleet.restarts.total == 3
        await stage.until(lambda: any("is back as pid" in line for line in stage.told))
        told = [order for order in stage.of(0) if "Generation" in order]
        assert len(told) == 2, "of the one that never got ready nobody has heard"
        assert fleet.generation == 3


async def test_a_replacement_that_can_not_start_says_why_and_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    refuses = {"Begin": "say(CannotStart('ConfigurationError', 'the disk is full')); os._exit(3)"}
    async with staged(monkeypatch, 2, {1: [{}, refuses, {}]}) as (stage, fleet):
        await stage.until(lambda: fleet.complete)
        os.kill(fleet.handles[1].pid, signal.SIGKILL)
        await stage.until(lambda: stage.lives.count(1) == 3 and fleet.complete)
        assert fleet.failed is None
        assert any("could not start: the disk is full" in line for line in stage.told)


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("ConfigurationError", ConfigurationError),
        ("DeclarationError", ConfigurationError),
        ("StartError", StartError),
        ("SomethingElse", StartError),
    ],
)
async def test_one_that_can_not_start_at_first_fails_the_run_under_its_error(
    monkeypatch: pytest.MonkeyPatch, kind: str, error: type[Exception]
) -> None:
    refuses = {"Begin": f"say(CannotStart('{kind}', 'the disk is full')); os._exit(3)"}
    async with staged(monkeypatch, 2, {1: [refuses]}) as (_, fleet):
        await asyncio.wait_for(fleet.over.wait(), PATIENCE_S)
        assert type(fleet.failed) is error
        assert str(fleet.failed) == "the disk is full"


async def test_who_has_sent_what_never_came_is_replaced_and_who_says_so_is_not_a11(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loses = {"Start": "say(Lost(1 << 12 | 2, 'a frame from worker 1 never came'))"}  # worker 1's first owner
    async with staged(monkeypatch, 2, {0: [loses]}) as (stage, fleet):
        await stage.until(lambda: stage.lives.count(1) == 2 and fleet.complete)
        assert "was killed, as one of its links broke: a frame from worker 1 never came" in stage.told[0]
        assert stage.lives == [0, 1, 1]


async def test_what_is_said_of_an_owner_that_is_gone_harms_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    old = owner(1, 99)
    says = {
        "Start": f"say(Lost({old}, 'late'), Refused({old}, 'late'), Failing({old}, 5))\n"
        f"say(Recovered({old}, 0), Beat())"
    }
    async with staged(monkeypatch, 2, {0: [says]}) as (stage, fleet):
        await stage.until(lambda: fleet.complete and "Start" in stage.of(0))
        fleet.handles[0].say(Drain())
        await stage.until(lambda: "Drain" in stage.of(0))
        assert (fleet.restarts.total, fleet.failed, stage.told) == (0, None, [])


@pytest.mark.parametrize(("when", "error"), [("Begin", StartError), ("Start", WorkerError)])
async def test_a_hello_that_is_refused_ends_the_run_with_its_sentence_f37(
    monkeypatch: pytest.MonkeyPatch, when: str, error: type[Exception]
) -> None:
    refuses = {when: f"{GOOD.get(when, '')}\nsay(Refused(1 << 12 | 2, 'it speaks frames of version 9'))"}
    async with staged(monkeypatch, 2, {0: [refuses]}) as (_, fleet):
        await asyncio.wait_for(fleet.over.wait(), PATIENCE_S)
        assert type(fleet.failed) is error
        assert str(fleet.failed) == "it speaks frames of version 9"


async def test_a_replacement_with_another_plan_ends_the_run_f53(monkeypatch: pytest.MonkeyPatch) -> None:
    other = {"Begin": "say(Ready('here', 'another plan'))"}
    async with staged(monkeypatch, 2, {1: [{}, other]}) as (stage, fleet):
        await stage.until(lambda: fleet.complete)
        os.kill(fleet.handles[1].pid, signal.SIGKILL)
        await asyncio.wait_for(fleet.over.wait(), PATIENCE_S)
        assert isinstance(fleet.failed, WorkerError)
        assert "worker 1 has built another topology than this process: its file has changed" in str(fleet.failed)


async def test_a_replacement_whose_peer_is_busy_is_started_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleets, "RELINK_S", 0.3)
    async with staged(monkeypatch, 2, {1: [{}, {"Join": ""}]}) as (stage, fleet):
        await stage.until(lambda: fleet.complete)
        dead = fleet.handles[1]
        os.kill(dead.pid, signal.SIGKILL)
        await stage.until(lambda: fleet.handles[1] is not dead and fleet.complete)
        assert fleet.restarts.total == 1


async def test_workers_that_can_not_link_at_first_are_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleets, "LINK_S", 0.5)
    async with staged(monkeypatch, 2, {1: [{"Join": ""}]}) as (_, fleet):
        await asyncio.wait_for(fleet.over.wait(), PATIENCE_S)
        assert str(fleet.failed) == "worker 1 could not link with the others within 0.5 s"
        assert isinstance(fleet.failed, StartError)


async def test_a_death_during_the_start_leaves_the_time_for_linking_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleets, "LINK_S", 0.5)
    async with staged(monkeypatch, 3, {1: [{"Join": ""}], 2: [{"Begin": "os._exit(9)"}, {}]}) as (stage, fleet):
        await asyncio.wait_for(fleet.over.wait(), PATIENCE_S)
        assert stage.lives.count(2) == 2
        assert str(fleet.failed) == "worker 1 could not link with the others within 0.5 s"


async def test_the_time_for_linking_does_not_run_while_one_that_died_is_being_replaced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fleets, "LINK_S", 0.5)
    late = {"Begin": f"time.sleep(1.5); {GOOD['Begin']}"}
    second = owner(2, 4)  # of worker 2's lives; the first one welcomes nobody
    waits = {"Join": f"if any(peer.owner == {second} for peer in order.peers): say(Linked(joined))"}
    async with staged(monkeypatch, 3, {1: [waits], 2: [{"Join": "os._exit(9)"}, late]}) as (stage, fleet):
        await stage.until(lambda: fleet.complete or fleet.failed)
        assert fleet.failed is None


async def test_a_replacement_in_a_drain_is_told_to_drain_before_it_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    async with staged(monkeypatch, 2) as (stage, fleet):
        await stage.until(lambda: fleet.complete)
        fleet.draining = True
        dead = fleet.handles[1]
        os.kill(dead.pid, signal.SIGKILL)
        await stage.until(lambda: fleet.handles[1] is not dead and "Start" in stage.of(1))
        assert stage.of(1)[-2:] == ["Drain", "Start"]


async def test_a_word_at_the_wrong_time_ends_who_says_it(monkeypatch: pytest.MonkeyPatch) -> None:
    again = {"Start": f"say(Ready('here', '{planned(2).fingerprint}'))"}
    async with staged(monkeypatch, 2, {1: [again, {}]}) as (stage, _):
        await stage.until(lambda: stage.told)
        assert "it has said what it should not: worker 1 can't become READY as it is RUNNING" in stage.told[0]


async def test_who_does_not_close_is_killed_in_time_and_nobody_is_replaced_any_more(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with staged(monkeypatch, 2, {1: [{"Close": ""}]}) as (stage, fleet):
        await stage.until(lambda: fleet.complete)
        since = time.monotonic()
        with caplog.at_level(logging.WARNING, "kedge"):
            await fleet.close(0.5, asyncio.Event(), 0.5)
        assert 0.4 < time.monotonic() - since < 2.0
        assert sorted(stage.ends) == [(0, WorkerState.ENDED), (1, WorkerState.DEAD)]
        assert stage.lives == [0, 1]
        assert "worker 1 (pid" in caplog.text


async def test_a_close_is_hurried_by_who_will_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    async with staged(monkeypatch, 2, {1: [{"Close": ""}]}) as (stage, fleet):
        await stage.until(lambda: fleet.complete)
        hurry = asyncio.Event()
        asyncio.get_running_loop().call_later(0.3, hurry.set)
        since = time.monotonic()
        await fleet.close(60.0, hurry, 0.2)
        assert time.monotonic() - since < 5.0
