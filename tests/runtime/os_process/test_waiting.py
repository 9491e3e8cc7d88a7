"""Waits of a process that was stopped meanwhile: that time counts for nobody (F68)."""

import asyncio
import time

import pytest

from topology.runtime import pausable_wait
from topology.runtime.pausable_wait import first_of


async def test_time_in_which_the_process_stood_still_does_not_count_f68() -> None:
    """The loop can't turn for twice the time that is allowed, and what is waited for comes a little later."""
    loop = asyncio.get_running_loop()
    end: asyncio.Future[None] = loop.create_future()
    loop.call_soon(time.sleep, 4.0)
    loop.call_soon(lambda: loop.call_later(0.2, end.set_result, None))
    assert await first_of({end}, 2.0)


async def test_time_that_has_really_passed_ends_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pausable_wait, "STEP_S", 0.05)
    loop = asyncio.get_running_loop()
    never: asyncio.Future[None] = loop.create_future()
    began = loop.time()
    assert not await first_of({never}, 0.2)
    assert loop.time() - began >= 0.19
    assert not never.done()


async def test_nothing_bounds_a_wait_that_has_no_bound() -> None:
    loop = asyncio.get_running_loop()
    end: asyncio.Future[None] = loop.create_future()
    loop.call_later(0.1, end.set_result, None)
    assert await first_of({end}, None)
