"""The threads of a store: writes are done one after the other, whatever becomes of who asked for them."""

import asyncio
import threading

import pytest
from letters_kit import until

from topology.runtime.checkpoints.store_threads import StoreThreads


async def test_a_write_whose_caller_is_cancelled_is_over_before_the_next_one_begins() -> None:
    """Both would be in one transaction of the store, and one would roll the other one back."""
    threads, may, happened = StoreThreads(), threading.Event(), list[str]()

    def first() -> None:
        happened.append("first begins")
        assert may.wait(20)
        happened.append("first ends")

    asked = asyncio.ensure_future(threads.write(first))
    await until(lambda: bool(happened))
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    second = asyncio.ensure_future(threads.close(lambda: happened.append("second")))
    third = asyncio.ensure_future(threads.write(lambda: happened.append("third")))
    await asyncio.sleep(0.05)  # enough for a thread that is free
    assert happened == ["first begins"]
    may.set()
    await asyncio.gather(second, third)
    assert happened[:2] == ["first begins", "first ends"]
    assert sorted(happened[2:]) == ["second", "third"]


async def test_a_sync_does_not_wait_for_a_write() -> None:
    threads, may = StoreThreads(), threading.Event()
    writing = asyncio.ensure_future(threads.write(lambda: may.wait(20)))
    assert await threads.sync_soon(lambda: 7) == 7
    may.set()
    assert await writing
    await threads.close(lambda: None)
