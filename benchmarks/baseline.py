"""The yardstick: the same work through bare, bounded asyncio queues in one process, nothing tracked.

Each stage is a task that awaits `queue.get`, works, and awaits `queue.put`; queues hold 1,024. Its shape is fixed: a
slower one would flatter Kedge, a faster one would mislead.
"""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

QUEUE = 1024


def sentences() -> list[str]:
    """Return a thousand sentences of six words each, out of a thousand words; the same in every run."""
    rng = random.Random(7)
    words = [f"w{n:03d}" for n in range(1000)]
    return [" ".join(rng.choices(words, k=6)) for _ in range(1000)]


async def identity(seconds: float) -> float:
    """Return records per second that reach the null stage."""
    first: asyncio.Queue[tuple[str, float, str]] = asyncio.Queue(QUEUE)
    second: asyncio.Queue[tuple[str, float, str]] = asyncio.Queue(QUEUE)
    done = 0

    async def source() -> None:
        while True:
            await first.put(("10.0.0.1", 1.0, "root"))

    async def same() -> None:
        while True:
            address, at, user = await first.get()
            await second.put((address, at, user))

    async def null() -> None:
        nonlocal done
        while True:
            await second.get()
            done += 1

    return await _rate(seconds, [source(), same(), null()], lambda: done)


async def word_count(seconds: float) -> float:
    """Return sentences per second whose six words are counted."""
    first: asyncio.Queue[str] = asyncio.Queue(QUEUE)
    second: asyncio.Queue[str] = asyncio.Queue(QUEUE)
    counts: Counter[str] = Counter()
    done = 0
    texts = sentences()

    async def source() -> None:
        while True:
            for sentence in texts:
                await first.put(sentence)

    async def split() -> None:
        while True:
            for word in (await first.get()).split():
                await second.put(word)

    async def count() -> None:
        nonlocal done
        while True:
            counts[await second.get()] += 1
            done += 1

    return await _rate(seconds, [source(), split(), count()], lambda: done) / 6


async def _rate(seconds: float, stages: list[Coroutine[Any, Any, None]], done: Callable[[], int]) -> float:
    tasks = [asyncio.create_task(stage) for stage in stages]
    await asyncio.sleep(0.5)
    started_at, before = time.perf_counter(), done()
    await asyncio.sleep(seconds)
    figure = (done() - before) / (time.perf_counter() - started_at)
    for task in tasks:
        task.cancel()
    return figure
