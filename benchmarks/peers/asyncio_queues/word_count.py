"""Word count: lines are split, words are counted, and the counts are written at the end.

python -m benchmarks.peers.asyncio_queues.word_count LINES OUT
"""

import asyncio
import sys
from collections import Counter
from collections.abc import Iterable
from typing import IO

from benchmarks.peers.work import Count, to_json, words

QUEUE = 1024


async def pipeline(lines: Iterable[str], out: IO[bytes]) -> None:
    read: asyncio.Queue[str | None] = asyncio.Queue(QUEUE)
    said: asyncio.Queue[str | None] = asyncio.Queue(QUEUE)

    async def source() -> None:
        for line in lines:
            await read.put(line)
        await read.put(None)

    async def split() -> None:
        while (line := await read.get()) is not None:
            for word in words(line):
                await said.put(word)
        await said.put(None)

    async def count() -> None:
        counts: Counter[str] = Counter()
        while (word := await said.get()) is not None:
            counts[word] += 1
        for word, times in counts.items():
            out.write(to_json(Count(word, times)) + b"\n")

    async with asyncio.TaskGroup() as stages:
        for stage in (source(), split(), count()):
            stages.create_task(stage)


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as lines, open(sys.argv[2], "wb") as out:
        asyncio.run(pipeline(lines, out))
