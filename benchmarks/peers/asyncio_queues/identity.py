"""Identity: each line goes through two queues into a JSON Lines file.

python -m benchmarks.peers.asyncio_queues.identity LINES OUT
"""

import asyncio
import sys
from collections.abc import Iterable
from typing import IO

from benchmarks.peers.work import Text, to_json

QUEUE = 1024


async def pipeline(lines: Iterable[str], out: IO[bytes]) -> None:
    read: asyncio.Queue[Text | None] = asyncio.Queue(QUEUE)
    passed: asyncio.Queue[Text | None] = asyncio.Queue(QUEUE)

    async def source() -> None:
        for line in lines:
            await read.put(Text(line.removesuffix("\n")))
        await read.put(None)

    async def same() -> None:
        while (record := await read.get()) is not None:
            await passed.put(Text(record.text))
        await passed.put(None)

    async def sink() -> None:
        while (record := await passed.get()) is not None:
            out.write(to_json(record) + b"\n")

    async with asyncio.TaskGroup() as stages:
        for stage in (source(), same(), sink()):
            stages.create_task(stage)


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as lines, open(sys.argv[2], "wb") as out:
        asyncio.run(pipeline(lines, out))
