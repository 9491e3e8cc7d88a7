"""The virtual-time loop keeps asyncio's promises, ends what would hang, and gives the same run for the same seed."""

import asyncio
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from topology.testing import Deadlock, Unhandled, VirtualTimeLimit, run_virtual, spend
from topology.testing.virtual_time.loop import VirtualLoop


def order(seed: int | None) -> list[Any]:
    """The order in which tasks, callbacks and timers of one moment run."""
    told: list[Any] = []

    async def steps(name: str) -> None:
        for step in range(3):
            told.append((name, step))
            await asyncio.sleep(0)

    def callback(number: int, future: object) -> None:
        told.append(("future", number))

    async def main() -> None:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        for number in range(3):
            future.add_done_callback(partial(callback, number))
            loop.call_soon(told.append, ("soon", number))
            loop.call_at(0, told.append, ("timer", number))
        future.set_result(None)
        await asyncio.gather(*(steps(name) for name in "abc"))

    run_virtual(main(), seed=seed)
    return told


def test_waiting_takes_no_real_time_and_moves_both_clocks() -> None:
    async def main() -> tuple[float, datetime]:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        await asyncio.sleep(100.5)
        spend(50)
        return loop.time(), loop.utc()

    start = datetime(2030, 1, 1, tzinfo=UTC)
    assert run_virtual(main(), start=start) == (150.5, start + timedelta(seconds=150.5))


def test_timers_run_in_the_order_of_their_times() -> None:
    async def main() -> list[float]:
        told: list[float] = []

        async def after(seconds: float) -> None:
            await asyncio.sleep(seconds)
            told.append(seconds)

        await asyncio.gather(*(after(seconds) for seconds in (3, 1, 2, 0.5, 1.5)))
        return told

    assert run_virtual(main()) == [0.5, 1, 1.5, 2, 3]


def test_the_same_seed_gives_the_same_order_and_others_give_others() -> None:
    orders = [order(seed) for seed in range(20)]
    assert orders == [order(seed) for seed in range(20)]
    assert len({tuple(one) for one in orders}) > 10


@pytest.mark.parametrize("seed", range(20))
def test_shuffling_keeps_the_order_of_callbacks_of_one_future_of_call_soon_and_of_each_task(seed: int) -> None:
    told = order(seed)
    for name in ("future", "soon", "timer", "a", "b", "c"):
        assert [number for who, number in told if who == name] == [0, 1, 2], f"seed {seed}"


def test_without_a_seed_the_order_is_that_of_asyncio() -> None:
    assert order(None) == order(None)
    steps = [one for one in order(None) if one[0] in "abc"]
    assert steps == [(name, step) for step in range(3) for name in "abc"]


def test_a_deadlock_is_an_error_that_names_who_waits_and_where() -> None:
    async def forgotten() -> None:
        await asyncio.get_running_loop().create_future()

    async def main() -> None:
        await asyncio.create_task(forgotten(), name="the-forgotten")

    with pytest.raises(Deadlock, match=r"the-forgotten waits at .*test_virtual_time\.py:\d+"):
        run_virtual(main())


def test_time_is_bounded_and_so_is_spinning() -> None:
    async def spin() -> None:
        while True:  # noqa: ASYNC110  # this is what is tested
            await asyncio.sleep(0)

    with pytest.raises(VirtualTimeLimit, match="not done after 10 virtual seconds"):
        run_virtual(asyncio.sleep(11), limit_s=10)
    with pytest.raises(VirtualTimeLimit, match="no time passed"):
        run_virtual(spin())


def test_what_a_callback_raises_is_not_hidden() -> None:
    async def main() -> None:
        asyncio.get_running_loop().call_soon(lambda: 1 / 0)
        await asyncio.sleep(1)

    with pytest.raises(Unhandled, match="division by zero"):
        run_virtual(main())


def test_functions_for_an_executor_run_at_once_and_raise_in_the_future() -> None:
    async def main() -> list[Any]:
        loop = asyncio.get_running_loop()
        value = await loop.run_in_executor(None, lambda: 5)
        also = await asyncio.to_thread(lambda: 6)
        with pytest.raises(ZeroDivisionError):
            await loop.run_in_executor(None, lambda: 1 / 0)
        return [value, also]

    assert run_virtual(main()) == [5, 6]


def test_a_timeout_expires_and_one_that_is_not_needed_does_not() -> None:
    async def main() -> None:
        async with asyncio.timeout(5):
            await asyncio.sleep(4)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await asyncio.sleep(6)

    run_virtual(main())


def test_what_is_left_running_is_cancelled_and_what_ignores_that_is_given_up() -> None:
    ended: list[str] = []

    async def polite() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            ended.append("polite")

    async def stubborn() -> None:
        while True:
            try:
                await asyncio.get_running_loop().create_future()
            except asyncio.CancelledError:
                ended.append("stubborn")

    async def main() -> str:
        tasks = [asyncio.create_task(polite()), asyncio.create_task(stubborn())]
        await asyncio.sleep(1)
        return f"{len(tasks)} left"

    assert run_virtual(main()) == "2 left"
    assert sorted(ended) == ["polite", "stubborn"]


async def test_it_refuses_to_run_inside_another_loop() -> None:
    with pytest.raises(RuntimeError, match="call it from a plain function"):
        run_virtual(asyncio.sleep(1))
