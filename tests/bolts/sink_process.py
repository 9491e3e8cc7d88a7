"""A process of its own that feeds numbered records into a sink, to be killed or starved by a test.

python sink_process.py KIND PATH crash COUNT     feeds 1 … COUNT, and prints each number when it is acked
python sink_process.py KIND PATH starve BYTES    as below, with files limited to BYTES more than at the start
python sink_process.py KIND PATH retry COUNT     feeds until all are acked; prints one JSON object at the end
"""

import asyncio
import json
import os
import resource
import sys
from pathlib import Path
from typing import Any

from sink_kit import KINDS, Alert, Recorder, alert, feed, opened

from bolts.batching import BatchingSink
from topology.components import Tuple

STARVED = 2_000  # records fed under the limit


async def crash(sink: BatchingSink, count: int) -> None:
    def tell(acked: Tuple[Any]) -> None:
        os.write(1, b"%d\n" % acked.record.failures)

    await feed(sink, (alert(number) for number in range(1, count + 1)), Recorder(tell))


async def starve(sink: BatchingSink, path: Path, room: int) -> dict[str, Any]:
    first = await feed(sink, [alert(1)])
    assert len(first.acked) == 1
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    largest = max(entry.stat().st_size for entry in path.parent.iterdir())
    resource.setrlimit(resource.RLIMIT_FSIZE, (largest + room, hard))
    tuples = [alert(number, "192.0.2.1" + "x" * 100) for number in range(2, STARVED + 1)]
    out = await feed(sink, tuples)
    while_full = {"acked": [t.record.failures for t in out.acked], "failed": sorted(set(out.failed.values()))}
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    again = await feed(sink, [t for t in tuples if id(t) in out.failed])
    return {**while_full, "failed_again": sorted(set(again.failed.values())), "stored": sink.stored}


async def retry(sink: BatchingSink, count: int) -> dict[str, Any]:
    reasons: set[str] = set()
    left = [alert(number) for number in range(1, count + 1)]
    for _ in range(10):
        out = await feed(sink, left)
        reasons |= set(out.failed.values())
        left = [t for t in left if id(t) in out.failed]
        if not left:
            break
    return {"failed": sorted(reasons), "left": len(left), "stored": sink.stored}


async def main(name: str, where: str, what: str, number: int) -> None:
    (kind,) = (kind for kind in KINDS if kind.name == name)
    path = Path(where)
    settings: dict[str, Any] = {"records": (Alert,)} if name == "sqlite" else {}
    async with opened(kind.make(path, batch=20, within_ms=1, **settings)) as sink:
        if what == "crash":
            await crash(sink, number)
        elif what == "starve":
            print(json.dumps(await starve(sink, path, number)))
        else:
            print(json.dumps(await retry(sink, number)))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])))
