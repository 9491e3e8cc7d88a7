"""SSH alerts: failed logins are found, counted by address, and bursts go into a JSON Lines file.

python -m benchmarks.peers.asyncio_queues.ssh_alerts LINES OUT
"""

import asyncio
import sys
from collections import defaultdict
from collections.abc import Iterable
from typing import IO

from benchmarks.peers.work import Attempts, BruteForce, Failure, failure, to_json

QUEUE = 1024


async def pipeline(lines: Iterable[str], out: IO[bytes]) -> None:
    read: asyncio.Queue[str | None] = asyncio.Queue(QUEUE)
    failures: asyncio.Queue[Failure | None] = asyncio.Queue(QUEUE)
    alerts: asyncio.Queue[BruteForce | None] = asyncio.Queue(QUEUE)

    async def source() -> None:
        for line in lines:
            await read.put(line)
        await read.put(None)

    async def parse() -> None:
        while (line := await read.get()) is not None:
            if found := failure(line):
                await failures.put(found)
        await failures.put(None)

    async def detect() -> None:
        attempts: defaultdict[str, Attempts] = defaultdict(Attempts)
        while (found := await failures.get()) is not None:
            if alert := attempts[found.source_ip].add(found):
                await alerts.put(alert)
        await alerts.put(None)

    async def sink() -> None:
        while (alert := await alerts.get()) is not None:
            out.write(to_json(alert) + b"\n")
            out.flush()  # an alert must not wait

    async with asyncio.TaskGroup() as stages:
        for stage in (source(), parse(), detect(), sink()):
            stages.create_task(stage)


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as lines, open(sys.argv[2], "wb") as out:
        asyncio.run(pipeline(lines, out))
